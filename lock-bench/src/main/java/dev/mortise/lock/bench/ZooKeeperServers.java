package dev.mortise.lock.bench;

import dev.mortise.lock.zookeeper.ZooKeeperServer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** One ZooKeeper, with the settings that it has if none are given: it flushes its log to the disk before it answers. */
final class ZooKeeperServers implements Servers {
    private final ZooKeeperServer server = new ZooKeeperServer("tickTime=2000");

    @Override
    public List<Integer> ports() {
        return List.of(server.port());
    }

    @Override
    public String version() {
        return "ZooKeeper " + server.metrics().getOrDefault("version", "").replaceAll("-.*", "");
    }

    private static long count(Map<String, String> values, String name) {
        return (long) Double.parseDouble(values.getOrDefault(name, "0"));
    }

    @Override
    public Counts counts() {
        Map<String, String> values = server.metrics();
        // What has gone through the log, and the rest: reads, and the pings of clients.
        Map<String, Long> calls = new TreeMap<>();
        calls.put("reads", count(values, "cnt_readlatency"));
        calls.put("writes", count(values, "cnt_updatelatency"));
        // Ours is the question of the second of two.
        return new Counts(calls, count(values, "packets_received"), 1, cpu().toNanos() / 1e9);
    }

    @Override
    public Duration cpu() {
        return Servers.cpu(List.of(server.pid()));
    }

    @Override
    public void close() {
        server.close();
    }
}
