import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.Semaphore;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * Apache Curator's LeaderLatch and InterProcessMutex, measured in turns with `simba bench` by scripts/bench.
 *
 * <p>CuratorPeer latch|mutex HOST:PORT reads lines from standard input, "cycle COUNT" or "handover COUNT", and
 * answers each with a line of so many measurements in microseconds. Owner and waiter are two clients with a session
 * each in one process, which spares them the start of a second virtual machine.
 */
public final class CuratorPeer {
    private static final long REST_MS = 20;

    private interface Lock {
        /** Returns when it is held. */
        void acquire() throws Exception;

        void release() throws Exception;
    }

    private static CuratorFramework connect(String host) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(host, 30000, 10000, new RetryOneTime(100));

        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static final class Latch implements Lock {
        private final CuratorFramework client;
        private final Semaphore leads = new Semaphore(0);
        private LeaderLatch latch;

        Latch(CuratorFramework client) {
            this.client = client;
        }

        @Override
        public void acquire() throws Exception {
            latch = new LeaderLatch(client, "/bench-peer/latch");
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    leads.release();
                }

                @Override
                public void notLeader() {
                }
            });
            latch.start();
            leads.acquire();
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }
    }

    private static final class Mutex implements Lock {
        private final InterProcessMutex mutex;

        Mutex(CuratorFramework client) {
            mutex = new InterProcessMutex(client, "/bench-peer/mutex");
        }

        @Override
        public void acquire() throws Exception {
            mutex.acquire();
        }

        @Override
        public void release() throws Exception {
            mutex.release();
        }
    }

    private static Lock create(String recipe, String host) throws Exception {
        return recipe.equals("latch") ? new Latch(connect(host)) : new Mutex(connect(host));
    }

    /** Acquires when it may, tells when it had the lock, and releases when it may. */
    private static final class Waiter extends Thread {
        final Semaphore mayWait = new Semaphore(0);
        final Semaphore hasIt = new Semaphore(0);
        final Semaphore mayRelease = new Semaphore(0);
        final Semaphore released = new Semaphore(0);
        volatile long heldAt;
        private final Lock lock;

        Waiter(Lock lock) {
            this.lock = lock;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                while (true) {
                    mayWait.acquire();
                    lock.acquire();
                    heldAt = System.nanoTime();
                    hasIt.release();
                    mayRelease.acquire();
                    lock.release();
                    released.release();
                }
            } catch (Exception failure) {
                failure.printStackTrace();
                System.exit(1);
            }
        }
    }

    private static double cycle(Lock lock) throws Exception {
        long begin = System.nanoTime();

        lock.acquire();
        lock.release();
        return (System.nanoTime() - begin) / 1000.0;
    }

    private static double handOver(Lock lock, Waiter waiter) throws Exception {
        lock.acquire();
        waiter.mayWait.release();
        Thread.sleep(REST_MS + (long) (Math.random() * REST_MS));
        long begin = System.nanoTime();
        lock.release();
        waiter.hasIt.acquire();
        double took = (waiter.heldAt - begin) / 1000.0;
        waiter.mayRelease.release();
        waiter.released.acquire();
        return took;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Lock lock = create(arguments[0], arguments[1]);
        Waiter waiter = new Waiter(create(arguments[0], arguments[1]));
        String line;

        waiter.start();
        while ((line = input.readLine()) != null) {
            String[] words = line.split(" ");
            StringBuilder answer = new StringBuilder();

            for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                double took = words[0].equals("cycle") ? cycle(lock) : handOver(lock, waiter);
                answer.append(String.format("%.1f ", took));
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0);
    }
}
