import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
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
 * answers each with a line of so many measurements in microseconds. The waiter of a hand-over is a virtual machine of
 * its own, which the program starts as CuratorPeer latch|mutex HOST:PORT wait. A machine whose standard input ends is
 * gone at once, even where it waits for a lock, so none outlives the one that gave it work.
 *
 * <p>Times are System.nanoTime(), which on Linux is CLOCK_MONOTONIC: one clock for all processes of a computer.
 */
public final class CuratorPeer {
    private static final long REST_MS = 20;
    /* Of each machine, in each role, before anything is told: from there on times fell no more when it was tried. */
    private static final int WARM_CYCLES = 3000;
    private static final int WARM_HANDOVERS = 500;
    private static final long WARM_REST_MS = 5;

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

    /** The lines of standard input. A thread reads them, to see their end while the others wait for a lock. */
    private static BlockingQueue<String> readLines() {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
                String line;

                while ((line = input.readLine()) != null) {
                    lines.add(line);
                }
                Runtime.getRuntime().halt(0);
            } catch (IOException failure) {
                failure.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });

        reader.setDaemon(true);
        reader.start();
        return lines;
    }

    private static void rest(long ms) throws InterruptedException {
        Thread.sleep(ms + (long) (Math.random() * ms));
    }

    private static double cycle(Lock lock) throws Exception {
        long begin = System.nanoTime();

        lock.acquire();
        lock.release();
        return (System.nanoTime() - begin) / 1000.0;
    }

    /* ---- The waiter's machine -------------------------------------------------------------------- */

    /** Does what a line says. Returns when the lock was had, where the line is about that. */
    private static long obey(Lock lock, String order) throws Exception {
        switch (order) {
            case "acquire":
                lock.acquire();
                return System.nanoTime();
            case "release":
                lock.release();
                return 0;
            case "rest":
                rest(WARM_REST_MS);
                return 0;
            case "cycle":
                cycle(lock);
                return 0;
            default:
                throw new IllegalArgumentException(order);
        }
    }

    private static void obeyAll(Lock lock, BlockingQueue<String> orders) throws Exception {
        while (true) {
            System.out.println(obey(lock, orders.take()));
        }
    }

    /* ---- The owner's machine --------------------------------------------------------------------- */

    /** The other machine, as seen from this one. */
    private static final class Waiter {
        private final PrintStream orders;
        private final BufferedReader answers;

        Waiter(String recipe, String host) throws IOException {
            Process process = new ProcessBuilder(
                    System.getProperty("java.home") + "/bin/java", "-cp", System.getProperty("java.class.path"),
                    CuratorPeer.class.getName(), recipe, host, "wait")
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();

            orders = new PrintStream(process.getOutputStream(), true);
            answers = new BufferedReader(new InputStreamReader(process.getInputStream()));
        }

        void order(String what) {
            orders.println(what);
        }

        long answer() throws IOException {
            String line = answers.readLine();

            if (line == null) {
                throw new IOException("the waiter is gone");
            }
            return Long.parseLong(line);
        }
    }

    /** From this machine to the other. */
    private static double handOver(Lock lock, Waiter waiter, long restMs) throws Exception {
        lock.acquire();
        waiter.order("acquire");
        rest(restMs); // it waits by then
        long begin = System.nanoTime();
        lock.release();
        double took = (waiter.answer() - begin) / 1000.0;
        waiter.order("release");
        waiter.answer();
        return took;
    }

    /** From the other machine to this one. */
    private static void takeOver(Lock lock, Waiter waiter) throws Exception {
        waiter.order("acquire");
        waiter.answer();
        waiter.order("rest");
        waiter.order("release");
        lock.acquire();
        waiter.answer();
        waiter.answer();
        lock.release();
    }

    /** Each machine does all that either of them has to do later. */
    private static void warm(Lock lock, Waiter waiter) throws Exception {
        for (int i = 0; i < WARM_CYCLES; i++) {
            cycle(lock);
            waiter.order("cycle");
            waiter.answer();
        }
        for (int i = 0; i < WARM_HANDOVERS; i++) {
            handOver(lock, waiter, WARM_REST_MS);
            takeOver(lock, waiter);
        }
    }

    private static void answerAll(Lock lock, Waiter waiter, BlockingQueue<String> questions) throws Exception {
        while (true) {
            String[] words = questions.take().split(" ");
            StringBuilder answer = new StringBuilder();

            for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                double took = words[0].equals("cycle") ? cycle(lock) : handOver(lock, waiter, REST_MS);
                answer.append(String.format("%.1f ", took));
            }
            System.out.println(answer);
        }
    }

    private static void run(String[] arguments) throws Exception {
        BlockingQueue<String> lines = readLines();

        if (arguments.length > 2) {
            obeyAll(create(arguments[0], arguments[1]), lines);
        }
        Waiter waiter = new Waiter(arguments[0], arguments[1]);
        Lock lock = create(arguments[0], arguments[1]);
        warm(lock, waiter);
        answerAll(lock, waiter, lines);
    }

    public static void main(String[] arguments) {
        try {
            run(arguments);
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1); // threads of the client would go on
        }
    }
}
