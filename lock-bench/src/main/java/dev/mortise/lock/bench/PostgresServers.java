package dev.mortise.lock.bench;

import dev.mortise.lock.jdbc.PostgresServer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** One PostgreSQL, which flushes what it commits to the disk, with the tables that the peers want to find. */
final class PostgresServers implements Servers {
    private final PostgresServer server = new PostgresServer("max_connections=500");

    PostgresServers() {
        server.sql(JdbcPeers.TABLES);
        server.sql("CREATE SCHEMA rows");
    }

    /** As the driver has it without options. */
    static String database(List<Integer> ports) {
        return "jdbc:postgresql://127.0.0.1:" + ports.get(0) + "/postgres";
    }

    static String url(List<Integer> ports) {
        return database(ports) + "?user=test";
    }

    @Override
    public List<Integer> ports() {
        return List.of(server.port());
    }

    @Override
    public String version() {
        return "PostgreSQL " + server.text("SHOW server_version").replaceAll(" .*", "");
    }

    /** Statements by their first word. */
    @Override
    public Counts counts() {
        Map<String, Long> calls = new TreeMap<>();
        server.rows("SELECT upper(substring(query FROM '^\\s*(\\w+)')), sum(calls) FROM pg_stat_statements"
                        + " WHERE query NOT LIKE '%pg_stat_statements%' GROUP BY 1")
                .forEach(row -> calls.put(row.get(0), Long.valueOf(row.get(1))));
        return new Counts(
                calls, calls.values().stream().mapToLong(Long::longValue).sum(), 0, cpu().toNanos() / 1e9);
    }

    @Override
    public Duration cpu() {
        return Servers.cpu(server.pids());
    }

    @Override
    public void close() {
        server.close();
    }
}
