package dev.mortise.lock.jdbc;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** One of MariaDB, in a database of its own; each client is a user. */
final class MariaDbScene extends AdvisoryScene {
    private final MariaDbServer server;
    private final MariaDbStore store;

    MariaDbScene(MariaDbServer server) {
        this.server = server;
        store = new MariaDbStore(server, "advisory");
        // Shows who has which lock.
        server.sql("INSTALL PLUGIN IF NOT EXISTS metadata_lock_info SONAME 'metadata_lock_info'");
    }

    @Override
    TestStore store() {
        return store;
    }

    @Override
    int port() {
        return server.port();
    }

    @Override
    String url(int port, String client) {
        return "jdbc:mariadb://127.0.0.1:" + port + "/" + store.database;
    }

    @Override
    Map<String, String> options(String client) {
        server.sql(
                "CREATE USER IF NOT EXISTS " + client + "@'%' IDENTIFIED BY '" + client + "'",
                "GRANT SELECT, INSERT, UPDATE, CREATE ON " + store.database + ".* TO " + client + "@'%'");
        return new TreeMap<>(Map.of("strategy", "advisory", "user", client, "password", client));
    }

    @Override
    List<Integer> sessions(String client, boolean granted) {
        return server
                .rows(
                        granted
                                ? "SELECT p.ID FROM information_schema.PROCESSLIST p"
                                        + " JOIN information_schema.METADATA_LOCK_INFO m ON m.THREAD_ID = p.ID"
                                        + " WHERE m.LOCK_TYPE = 'User lock' AND p.USER = '" + client + "'"
                                : "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND USER = '"
                                        + client + "'")
                .stream()
                .map(row -> Integer.parseInt(row.get(0)))
                .toList();
    }

    @Override
    void terminate(String client) {
        for (int session : sessions(client, true)) {
            // One that has ended meanwhile is none to fail for.
            server.sql("BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; KILL HARD " + session + "; END");
        }
    }

    /** It has only one. */
    @Override
    void killProcess(String client) {
        crash();
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
}
