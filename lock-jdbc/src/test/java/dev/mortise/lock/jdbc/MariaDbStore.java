package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;

/** A database of its own in a MariaDB server. */
final class MariaDbStore extends TestStore {
    private static final AtomicInteger DATABASES = new AtomicInteger();
    private static final AtomicInteger USERS = new AtomicInteger();

    final MariaDbServer server;
    final String database;
    private final String strategy;

    /** Where clients go. */
    private final int port;

    MariaDbStore() {
        this(MariaDbServer.shared(), "table");
    }

    MariaDbStore(MariaDbServer server, String strategy) {
        this(server, server.port(), strategy);
    }

    /** With another way to the server for clients: the port of a proxy. */
    MariaDbStore(MariaDbServer server, int port, String strategy) {
        this.server = server;
        this.port = port;
        this.strategy = strategy;
        database = "d" + DATABASES.incrementAndGet();
        server.sql("CREATE DATABASE " + database);
    }

    @Override
    BackendProvider provider() {
        return new MariaDbProvider();
    }

    @Override
    StoreUri uri() {
        return uri(Map.of("user", "test"));
    }

    private String url() {
        return "jdbc:mariadb://127.0.0.1:" + port + "/" + database;
    }

    StoreUri uri(Map<String, String> more) {
        Map<String, String> options = new TreeMap<>(Map.of("strategy", strategy));
        options.putAll(more);
        return StoreUri.parse(url(), options);
    }

    /** A user with these rights on the table; its password is its name. */
    String user(String rights) {
        String user = "u" + USERS.incrementAndGet();
        server.sql("CREATE USER " + user + "@'%' IDENTIFIED BY '" + user + "'");
        if (!rights.isEmpty()) {
            server.sql("GRANT " + rights + " ON " + database + ".mortise_lock TO " + user + "@'%'");
        }
        return user;
    }

    StoreUri uri(String user) {
        return uri(Map.of("user", user, "password", user));
    }

    LockBackend client(String user, Duration callTimeout) {
        return opened(provider().open(uri(user), context(callTimeout)));
    }

    @Override
    List<String> arguments() {
        return List.of(url(), "strategy=" + strategy, "user=test");
    }

    @Override
    String adminUrl() {
        return server.url(database) + "?user=test";
    }

    @Override
    String now() {
        return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000";
    }

    /** Not the rows, which a renewal skips when they are locked, and a look does not wait for. */
    @Override
    String standstill() {
        return "LOCK TABLES mortise_lock WRITE";
    }

    @Override
    String resume() {
        return "UNLOCK TABLES";
    }

    @Override
    Dialect dialect(Duration callTimeout, UnaryOperator<Connection> wrapping) {
        return new MariaDbDialect(source(callTimeout, wrapping), null);
    }

    @Override
    LockBackend open(BackendContext context, UnaryOperator<Connection> wrapping) {
        return strategy.equals("table") ? super.open(context, wrapping) : advisory(context, 50, wrapping);
    }

    /** With so many sessions for claims. */
    LockBackend advisory(BackendContext context, int sessions, UnaryOperator<Connection> wrapping) {
        return opened(
                AdvisoryBackend.open(new MariaDbAdvisory(source(context.callTimeout(), wrapping)), context, sessions));
    }

    /** Connections of our own, wrapped. */
    ServerDialect.Source source(Duration callTimeout, UnaryOperator<Connection> wrapping) {
        MariaDbUrl url = new MariaDbUrl(uri(), callTimeout, strategy.equals("advisory"));
        return new ServerDialect.Source() {
            @Override
            public String store() {
                return url.store();
            }

            @Override
            public boolean own() {
                return true;
            }

            @Override
            public Connection connect(long nanos) throws SQLException {
                return wrapping.apply(url.connect(nanos));
            }
        };
    }
}
