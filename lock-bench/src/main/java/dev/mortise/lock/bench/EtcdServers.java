package dev.mortise.lock.bench;

import dev.mortise.lock.etcd.EtcdServer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** One etcd, with elections as they are by default: every change is on the disk before it is answered. */
final class EtcdServers implements Servers {
    /** Those of a stream count too. */
    private static final Pattern MESSAGES =
            Pattern.compile("(?m)^grpc_server_msg_received_total\\{grpc_method=\"(\\w+)\".*\\} (\\S+)");

    private static final Pattern CPU = Pattern.compile("(?m)^process_cpu_seconds_total (\\S+)");
    private static final Pattern VERSION =
            Pattern.compile("(?m)^etcd_server_version\\{server_version=\"([^\"]+)\"\\} 1");

    private final EtcdServer server = new EtcdServer(EtcdServer.DEFAULT_ELECTIONS.toArray(String[]::new));

    @Override
    public List<Integer> ports() {
        return List.of(server.port());
    }

    @Override
    public String version() {
        Matcher version = VERSION.matcher(server.metrics());
        return "etcd " + (version.find() ? version.group(1) : "of an unknown version");
    }

    @Override
    public Counts counts() {
        String metrics = server.metrics();
        Map<String, Long> calls = new TreeMap<>();
        Matcher messages = MESSAGES.matcher(metrics);
        while (messages.find()) {
            calls.merge(messages.group(1), (long) Double.parseDouble(messages.group(2)), Long::sum);
        }
        Matcher cpu = CPU.matcher(metrics);
        // What is asked for them is no message.
        return new Counts(
                calls,
                calls.values().stream().mapToLong(Long::longValue).sum(),
                0,
                cpu.find() ? Double.parseDouble(cpu.group(1)) : 0);
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
