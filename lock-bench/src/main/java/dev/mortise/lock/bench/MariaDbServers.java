package dev.mortise.lock.bench;

import dev.mortise.lock.jdbc.MariaDbServer;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** One MariaDB, which flushes what it commits to the disk, with the tables that the peers want to find. */
final class MariaDbServers implements Servers {
    private final MariaDbServer server = new MariaDbServer("--max-connections=500");

    MariaDbServers() {
        server.sql(JdbcPeers.TABLES);
        server.sql("CREATE DATABASE row_locks");
    }

    /** As the driver has it without options. */
    static String database(List<Integer> ports, String name) {
        return "jdbc:mariadb://127.0.0.1:" + ports.get(0) + "/" + name;
    }

    static String url(List<Integer> ports) {
        return database(ports, "test") + "?user=test";
    }

    @Override
    public List<Integer> ports() {
        return List.of(server.port());
    }

    @Override
    public String version() {
        return "MariaDB " + server.text("SELECT version()").replaceAll("-.*", "");
    }

    /** Statements by their kind, and all questions as requests. */
    @Override
    public Counts counts() {
        Map<String, Long> calls = new TreeMap<>();
        long[] questions = new long[1];
        server.rows("SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Com\\_%' OR Variable_name = 'Questions'")
                .forEach(row -> {
                    String name = row.get(0).toLowerCase(Locale.ROOT);
                    if (name.equals("questions")) {
                        questions[0] = Long.parseLong(row.get(1));
                    } else if (!name.startsWith("com_show") && !name.startsWith("com_stmt")) {
                        calls.put(name.substring("com_".length()), Long.valueOf(row.get(1)));
                    }
                });
        // Ours is the question of the second of two; and what its connection asks when it is made.
        return new Counts(calls, questions[0], 1, cpu().toNanos() / 1e9);
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
