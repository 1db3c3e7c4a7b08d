package dev.mortise.lock.bench;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The servers of one tier, on the loopback. Any thread may close them. */
interface Servers extends AutoCloseable {
    /** What clients are told of where they are. */
    List<Integer> ports();

    /** The name of the program, and its version. */
    String version();

    /** What they have counted so far, over all of them. */
    Counts counts();

    /** What they have used of the processors. */
    Duration cpu();

    /**
     * What servers have counted.
     *
     * @param calls by the store's own name for a request
     * @param reads how often they read from a socket, or where that is not counted, how many messages came
     * @param ownReads those of {@code reads} that were for the counting, between two of these
     */
    record Counts(Map<String, Long> calls, long reads, long ownReads, double cpuSeconds) {
        Counts since(Counts before) {
            Map<String, Long> more = new TreeMap<>();
            calls.forEach((name, count) -> {
                long difference = count - before.calls.getOrDefault(name, 0L);
                if (difference > 0) {
                    more.put(name, difference);
                }
            });
            return new Counts(more, reads - before.reads - ownReads, 0, cpuSeconds - before.cpuSeconds);
        }

        /** EVAL, EVALSHA, FCALL and their kin. */
        long scripts() {
            return calls.entrySet().stream()
                    .filter(each ->
                            each.getKey().startsWith("eval") || each.getKey().startsWith("fcall"))
                    .mapToLong(Map.Entry::getValue)
                    .sum();
        }

        long commands() {
            return calls.values().stream().mapToLong(Long::longValue).sum();
        }
    }

    /** What these processes have used. */
    static Duration cpu(List<Long> pids) {
        return pids.stream()
                .flatMap(pid -> ProcessHandle.of(pid).stream())
                .flatMap(process -> process.info().totalCpuDuration().stream())
                .reduce(Duration.ZERO, Duration::plus);
    }
}
