package dev.mortise.lock.bench;

import com.sun.management.OperatingSystemMXBean;
import dev.mortise.lock.bench.Session.Door;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;

/**
 * The process in which one peer is measured. Told what to do by lines on its input: {@code ready SCENARIO NAME} opens the
 * locks, {@code go NANOS START} does it, from a moment of the machine's monotonic clock on. Each is answered by one line:
 * {@code done …}, or {@code failed …}. Ends with its input, and so with the process that started it.
 */
final class Worker {
    private static final long HOLD_NANOS = TimeUnit.MILLISECONDS.toNanos(2);
    private static final OperatingSystemMXBean SYSTEM =
            ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);

    private final Session session;
    private final int threadsBefore;
    private final List<Door> doors = new ArrayList<>();
    private @Nullable Scenario scenario;

    private Worker(Session session, int threadsBefore) {
        this.session = session;
        this.threadsBefore = threadsBefore;
    }

    /** Arguments: the peer, and the ports of its servers. */
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        // Whatever a library prints is no answer.
        System.setOut(System.err);
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(lines), "reader");
        reader.setDaemon(true);
        reader.start();
        int threadsBefore = liveThreads();
        Worker worker;
        try {
            Session session = Peer.valueOf(args[0])
                    .open(Arrays.stream(args).skip(1).map(Integer::valueOf).toList());
            worker = new Worker(session, threadsBefore);
            answers.println("done " + System.nanoTime());
        } catch (Exception | LinkageError e) {
            answers.println(failed(e));
            return;
        }
        while (true) {
            String answer;
            try {
                answer = worker.obey(lines.take().split(" ", -1));
            } catch (Exception | LinkageError e) {
                answer = failed(e);
            }
            answers.println(answer);
        }
    }

    private static void read(BlockingQueue<String> lines) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                lines.add(line);
            }
        } catch (IOException e) {
            System.err.println(e);
        }
        System.exit(0);
    }

    private static String failed(Throwable e) {
        return "failed " + e.toString().replaceAll("\\s+", " ");
    }

    private String obey(String[] words) throws Exception {
        if (words[0].equals("ready")) {
            ready(Scenario.valueOf(words[1]), words[2]);
            return "done";
        }
        return go(Long.parseLong(words[1]), Long.parseLong(words[2]));
    }

    private void ready(Scenario scenario, String name) throws Exception {
        for (Door door : doors) {
            door.close();
        }
        doors.clear();
        this.scenario = scenario;
        switch (scenario) {
            case ALONE, HAND_OFF -> doors.add(session.door(name));
            case ONE_NAME -> {
                for (int i = 0; i < Scenario.ONE_NAME_THREADS; i++) {
                    doors.add(session.door(name));
                }
            }
            case DISTINCT -> {
                for (int i = 0; i < Scenario.DISTINCT_THREADS; i++) {
                    doors.add(session.door(name + "-" + i));
                }
            }
            case IDLE -> {
                if (session instanceof Libraries.Renewable renewable) {
                    renewable.renew();
                }
                for (int i = 0; i < Scenario.IDLE_LEASES; i++) {
                    Door door = session.door(name + "-" + i);
                    door.acquire();
                    doors.add(door);
                }
            }
        }
    }

    private String go(long nanos, long start) throws Exception {
        if (scenario == null) {
            throw new IllegalStateException("go before ready");
        }
        Map<Measure, Double> results = new EnumMap<>(Measure.class);
        StringBuilder holds = new StringBuilder();
        switch (scenario) {
            case ALONE, DISTINCT, ONE_NAME -> play(nanos, start, results);
            case HAND_OFF -> {
                for (long[] hold : handOff(nanos, start)) {
                    holds.append(" hold:").append(hold[0]).append(':').append(hold[1]);
                }
            }
            case IDLE -> idle(nanos, results);
        }
        StringBuilder answer = new StringBuilder("done");
        results.forEach((measure, value) ->
                answer.append(' ').append(measure.name()).append(':').append(value));
        return answer.append(holds).toString();
    }

    /** What one thread saw. */
    private static final class Seen {
        final Histogram pairs = new Histogram(TimeUnit.MINUTES.toNanos(10), 3);
        final Histogram acquires = new Histogram(TimeUnit.MINUTES.toNanos(10), 3);
        long inTime;
        long overlaps;
    }

    private void play(long nanos, long start, Map<Measure, Double> results) throws Exception {
        long end = start + nanos;
        AtomicInteger holders = new AtomicInteger();
        boolean exclusive = scenario != Scenario.DISTINCT;
        List<Seen> all = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(doors.size());
        // Not at the start: on a busy machine this thread could come after all is done.
        long cpu = SYSTEM.getProcessCpuTime();
        try {
            List<Future<Seen>> futures = new ArrayList<>();
            for (Door door : doors) {
                futures.add(threads.submit(loop(door, start, end, exclusive ? holders : null)));
            }
            for (Future<Seen> future : futures) {
                all.add(future.get());
            }
            cpu = SYSTEM.getProcessCpuTime() - cpu;
            Seen sum = new Seen();
            for (Seen each : all) {
                sum.pairs.add(each.pairs);
                sum.acquires.add(each.acquires);
                sum.inTime += each.inTime;
                sum.overlaps += each.overlaps;
            }
            results.put(Measure.P50, micros(sum.pairs, 50));
            results.put(Measure.P90, micros(sum.pairs, 90));
            results.put(Measure.P99, micros(sum.pairs, 99));
            results.put(Measure.ACQUIRE_P50, micros(sum.acquires, 50));
            results.put(Measure.ACQUIRE_P99, micros(sum.acquires, 99));
            results.put(Measure.RATE, sum.inTime / (nanos / 1e9));
            results.put(Measure.CPU, cpu / 1e3 / sum.pairs.getTotalCount());
            results.put(Measure.COUNT, (double) sum.pairs.getTotalCount());
            results.put(Measure.OVERLAPS, (double) sum.overlaps);
            Shares.of(all.stream().mapToLong(each -> each.inTime).toArray()).into(results);
        } finally {
            threads.shutdownNow();
        }
    }

    private static Callable<Seen> loop(Door door, long start, long end, @Nullable AtomicInteger holders) {
        return () -> {
            Seen seen = new Seen();
            waitUntil(start);
            long begin = System.nanoTime();
            // Once at least: on a busy machine the time can be over before it begins.
            do {
                door.acquire();
                long got = System.nanoTime();
                if (holders != null && holders.incrementAndGet() != 1) {
                    seen.overlaps++;
                }
                if (holders != null) {
                    holders.decrementAndGet();
                }
                door.release();
                long done = System.nanoTime();
                seen.acquires.recordValue(got - begin);
                seen.pairs.recordValue(done - begin);
                if (got < end) {
                    seen.inTime++;
                }
                begin = done;
            } while (begin < end);
            return seen;
        };
    }

    /** When each hold began, after the acquire returned, and ended, before the release was called. */
    private List<long[]> handOff(long nanos, long start) throws Exception {
        Door door = doors.get(0);
        List<long[]> holds = new ArrayList<>();
        waitUntil(start);
        do {
            door.acquire();
            long got = System.nanoTime();
            TimeUnit.NANOSECONDS.sleep(HOLD_NANOS);
            holds.add(new long[] {got, System.nanoTime()});
            door.release();
        } while (System.nanoTime() < start + nanos);
        return holds;
    }

    private void idle(long nanos, Map<Measure, Double> results) throws InterruptedException {
        long cpu = SYSTEM.getProcessCpuTime();
        TimeUnit.NANOSECONDS.sleep(nanos);
        results.put(Measure.CPU_RATE, (SYSTEM.getProcessCpuTime() - cpu) / 1e6 / (nanos / 1e9));
        results.put(Measure.ALL_THREADS, (double) liveThreads());
        results.put(Measure.THREADS, (double) liveThreads() - threadsBefore);
    }

    private static int liveThreads() {
        return ManagementFactory.getThreadMXBean().getThreadCount();
    }

    private static void waitUntil(long start) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(start - System.nanoTime());
    }

    private static double micros(Histogram histogram, double percentile) {
        return histogram.getValueAtPercentile(percentile) / 1e3;
    }
}
