package dev.mortise.lock.bench;

import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.redlock.RedlockLocks;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Redis without persistence. */
final class RedisServers implements Servers {
    private final List<RedisServer> servers = new ArrayList<>();

    RedisServers(int count) {
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

    @Override
    public List<Integer> ports() {
        return servers.stream().map(RedisServer::port).toList();
    }

    @Override
    public String version() {
        return "redis-server " + servers.get(0).info("server").get("redis_version");
    }

    @Override
    public Counts counts() {
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

    @Override
    public Duration cpu() {
        return Servers.cpu(servers.stream().map(RedisServer::pid).toList());
    }

    @Override
    public void close() {
        servers.forEach(RedisServer::close);
    }
}
