package dev.mortise.lock.bench;

import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.redlock.RedlockLocks;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The servers of one tier, without persistence, on the loopback. Any thread may close them. */
final class Servers implements AutoCloseable {
    private final List<RedisServer> servers = new ArrayList<>();

    Servers(int count) {
        for (int i = 0; i < count; i++) {
            servers.add(new RedisServer());
        }
        if (count > 1) {
            // Else the first client of lock-redlock waits a longest lease, in which servers may not vote that are new.
            List<String> unused = RedlockLocks.initialise(redlock(ports()), Map.of());
        }
    }

    static String redlock(List<Integer> ports) {
        return "redlock://127.0.0.1:"
                + String.join(",127.0.0.1:", ports.stream().map(String::valueOf).toList());
    }

    List<Integer> ports() {
        return servers.stream().map(RedisServer::port).toList();
    }

    String version() {
        return "redis-server " + servers.get(0).info("server").get("redis_version");
    }

    /** What they have counted so far, over all of them. */
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

    Counts counts() {
        Map<String, Long> calls = new TreeMap<>();
        long reads = 0;
        double cpuSeconds = 0;
        for (RedisServer server : servers) {
            for (Map.Entry<String, String> line : server.info("all").entrySet()) {
                String value = line.getValue();
                if (line.getKey().startsWith("cmdstat_")) {
                    calls.merge(
                            line.getKey().substring("cmdstat_".length()),
                            Long.valueOf(value.substring("calls=".length(), value.indexOf(','))),
                            Long::sum);
                } else if (line.getKey().equals("total_reads_processed")) {
                    reads += Long.parseLong(value);
                } else if (line.getKey().equals("used_cpu_sys") || line.getKey().equals("used_cpu_user")) {
                    cpuSeconds += Double.parseDouble(value);
                }
            }
        }
        calls.remove("info");
        // Ours, between two of these: the end of the connection of the first, the question of the second.
        return new Counts(calls, reads, 2L * servers.size(), cpuSeconds);
    }

    /** What they have used of the processors. */
    Duration cpu() {
        return servers.stream()
                .flatMap(server -> ProcessHandle.of(server.pid()).stream())
                .flatMap(process -> process.info().totalCpuDuration().stream())
                .reduce(Duration.ZERO, Duration::plus);
    }

    @Override
    public void close() {
        servers.forEach(RedisServer::close);
    }
}
