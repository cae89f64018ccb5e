import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryOneTime;

/**
 * Apache Curator's LeaderLatch, measured in turns with bench-zookeeper, which starts this program and tells it by
 * lines on its standard input when: "handover COUNT" and "many COUNT".
 */
public final class CuratorLatches {
    private static final class Side {
        final CuratorFramework client;
        final Semaphore leads = new Semaphore(0);
        volatile long ledAt;
        LeaderLatch latch;

        Side(String host) throws Exception {
            client = connect(host);
        }

        void join() throws Exception {
            latch = new LeaderLatch(client, "/bench/curator");
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    ledAt = System.nanoTime();
                    leads.release();
                }

                @Override
                public void notLeader() {
                }
            });
            latch.start();
        }
    }

    private static CuratorFramework connect(String host) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(host, 30000, 10000, new RetryOneTime(100));

        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static void handOver(Side[] sides, int count) throws Exception {
        StringBuilder line = new StringBuilder();

        sides[0].join();
        sides[0].leads.acquire();
        for (int i = 0; i < count; i++) {
            Side from = sides[i % 2];
            Side to = sides[1 - i % 2];
            long begin;

            to.join();
            while (to.latch.getParticipants().size() < 2) {
                Thread.sleep(1);
            }
            Thread.sleep(3);
            begin = System.nanoTime();
            from.latch.close(LeaderLatch.CloseMode.SILENT);
            to.leads.acquire();
            line.append((to.ledAt - begin) / 1000.0).append(' ');
        }
        sides[count % 2].latch.close();
        System.out.println(line);
    }

    private static String status(String name) throws Exception {
        for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
            if (line.startsWith(name + ":")) {
                return line.substring(name.length() + 1).replaceAll("[^0-9]", "");
            }
        }
        return "0";
    }

    private static void leadMany(String host, int count) throws Exception {
        CuratorFramework client = connect(host);
        CountDownLatch all = new CountDownLatch(count);
        List<LeaderLatch> latches = new ArrayList<>();
        long begin = System.nanoTime();
        int peak = 0;

        for (int i = 0; i < count; i++) {
            LeaderLatch latch = new LeaderLatch(client, "/bench/curator-" + i);

            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    all.countDown();
                }

                @Override
                public void notLeader() {
                }
            });
            latch.start();
            latches.add(latch);
            if (i % 50 == 0) {
                peak = Math.max(peak, Integer.parseInt(status("Threads")));
            }
        }
        all.await();
        peak = Math.max(peak, Integer.parseInt(status("Threads")));
        System.out.println((System.nanoTime() - begin) / 1000000 + " " + peak + " "
                + Integer.parseInt(status("VmRSS")) / 1024);
        client.close();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Side[] sides = {new Side(arguments[0]), new Side(arguments[0])};
        String line;

        while ((line = input.readLine()) != null) {
            String[] words = line.split(" ");
            int count = Integer.parseInt(words[1]);

            if (words[0].equals("handover")) {
                handOver(sides, count);
            } else {
                leadMany(arguments[0], count);
            }
            System.out.flush();
        }
        System.exit(0);
    }
}
