package dev.mortise.lock.jdbc;

import static org.awaitility.Awaitility.await;

import dev.mortise.lock.spi.LockBackend;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** One of PostgreSQL, in a schema of its own. */
final class Scene extends AdvisoryScene {
    final PostgresServer server;
    final PostgresStore store;

    Scene(PostgresServer server) {
        this.server = server;
        store = new PostgresStore(server, "advisory");
    }

    @Override
    TestStore store() {
        return store;
    }

    @Override
    int port() {
        return server.port();
    }

    /** A schema for what must not meet the rest. */
    String schema() {
        String schema = store.schema + "x";
        server.sql("CREATE SCHEMA IF NOT EXISTS " + schema);
        return schema;
    }

    @Override
    String url(int port, String client) {
        return "jdbc:postgresql://127.0.0.1:" + port + "/postgres?ApplicationName=" + client;
    }

    @Override
    Map<String, String> options(String client) {
        return new TreeMap<>(Map.of("strategy", "advisory", "schema", store.schema, "user", "test"));
    }

    LockBackend open(String url, Duration callTimeout) {
        return open(url, options(""), callTimeout);
    }

    @Override
    List<Integer> sessions(String client, boolean granted) {
        List<Integer> pids = new ArrayList<>();
        try (Connection connection = server.connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sessionsQuery(client, granted))) {
            while (rows.next()) {
                pids.add(rows.getInt(1));
            }
        } catch (SQLException e) {
            throw new AssertionError(e);
        }
        return pids;
    }

    private static String sessionsQuery(String client, boolean granted) {
        return "SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND "
                + (granted ? "" : "NOT ") + "l.granted AND a.application_name = '" + client + "'";
    }

    /** How many advisory locks there are on the server, whoever has them. */
    int advisoryLocks() {
        return Integer.parseInt(server.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"));
    }

    @Override
    void terminate(String client) {
        server.sql("SELECT pg_terminate_backend(pid) FROM (" + sessionsQuery(client, true) + ") s");
    }

    /** The server then ends all sessions, and forgets what is not on the disk; when it was started is as before. */
    @Override
    void killProcess(String client) {
        List<Integer> sessions = sessions(client, true);
        if (sessions.isEmpty()) {
            return;
        }
        int killed = sessions.get(0);
        server.killBackend(killed);
        await().atMost(Duration.ofSeconds(60))
                .pollInterval(Duration.ofMillis(10))
                .ignoreExceptionsMatching(e -> true)
                .until(() -> {
                    try (Connection connection = server.connect();
                            Statement statement = connection.createStatement()) {
                        return !statement
                                .executeQuery("SELECT 1 FROM pg_stat_activity WHERE pid = " + killed)
                                .next();
                    }
                });
    }

    @Override
    void restart() {
        server.stop();
        server.start();
    }

    @Override
    void crash() {
        server.kill();
        server.start();
    }

    @Override
    void sound() {
        super.sound();
        // The server warns who unlocks what he does not have.
        if (server.log().contains("you don't own a lock")) {
            throw new AssertionError("unlocked twice: " + server.log());
        }
    }
}
