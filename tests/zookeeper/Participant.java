import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryOneTime;

/**
 * A participant of Apache Curator's LeaderLatch that is told by lines on its standard input what to do, and
 * answers with lines: start, close, leads, leader, participants.
 *
 *     java Participant HOST:PORT PATH ID
 */
public final class Participant {
    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static LeaderLatch start(CuratorFramework client, String path, String id)
            throws Exception {
        LeaderLatch latch = new LeaderLatch(client, path, id);

        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                say("leader");
            }

            @Override
            public void notLeader() {
                say("follower");
            }
        });
        latch.start();
        return latch;
    }

    public static void main(String[] arguments) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(arguments[0], 10000, 10000, new RetryOneTime(100));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        LeaderLatch latch = null;
        String line;

        client.start();
        client.blockUntilConnected();
        say("ready");
        while ((line = input.readLine()) != null) {
            if (line.equals("start")) {
                latch = start(client, arguments[1], arguments[2]);
                say("started");
            } else if (line.equals("close")) {
                latch.close(LeaderLatch.CloseMode.SILENT);
                say("closed");
            } else if (line.equals("leads")) {
                say(latch.hasLeadership() ? "yes" : "no");
            } else if (line.equals("id")) {
                say(latch.getLeader().getId());
            } else if (line.equals("participants")) {
                say(String.valueOf(latch.getParticipants().size()));
            }
        }
        client.close();
    }
}
