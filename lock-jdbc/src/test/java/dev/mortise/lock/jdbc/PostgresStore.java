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

/** A schema of its own in a PostgreSQL server. */
final class PostgresStore extends TestStore {
    private static final AtomicInteger SCHEMAS = new AtomicInteger();
    private static final AtomicInteger ROLES = new AtomicInteger();

    final PostgresServer server;
    final String schema;
    private final String strategy;

    /** Where clients go. */
    private final int port;

    PostgresStore() {
        this(PostgresServer.shared());
    }

    PostgresStore(PostgresServer server) {
        this(server, "table");
    }

    PostgresStore(PostgresServer server, String strategy) {
        this(server, server.port(), strategy);
    }

    /** With another way to the server for clients: the port of a proxy. */
    PostgresStore(PostgresServer server, int port, String strategy) {
        this.server = server;
        this.port = port;
        this.strategy = strategy;
        schema = "s" + SCHEMAS.incrementAndGet();
        server.sql("CREATE SCHEMA " + schema);
    }

    @Override
    BackendProvider provider() {
        return new PostgresProvider();
    }

    @Override
    StoreUri uri() {
        return uri(Map.of("user", "test"));
    }

    private String url() {
        return "jdbc:postgresql://127.0.0.1:" + port + "/postgres";
    }

    StoreUri uri(Map<String, String> more) {
        Map<String, String> options = new TreeMap<>(Map.of("strategy", strategy, "schema", schema));
        options.putAll(more);
        return StoreUri.parse(url(), options);
    }

    /** A role that may use the schema, with these settings of its own; its password is its name. */
    String role(boolean mayCreate, String... settings) {
        String role = "r" + ROLES.incrementAndGet();
        server.sql(
                "CREATE ROLE " + role + " LOGIN PASSWORD '" + role + "'",
                "GRANT USAGE" + (mayCreate ? ", CREATE" : "") + " ON SCHEMA " + schema + " TO " + role);
        for (String setting : settings) {
            server.sql("ALTER ROLE " + role + " SET " + setting);
        }
        return role;
    }

    StoreUri uri(String role) {
        return uri(Map.of("user", role, "password", role));
    }

    LockBackend client(String role, Duration callTimeout) {
        return opened(provider().open(uri(role), context(callTimeout)));
    }

    @Override
    List<String> arguments() {
        return List.of(url(), "strategy=" + strategy, "schema=" + schema, "user=test");
    }

    @Override
    String adminUrl() {
        return server.url() + "?user=test&currentSchema=" + schema;
    }

    @Override
    String now() {
        return "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    }

    /**
     * Not a row, which a renewal skips when it is locked. A statement that waits for the table has begun as well, and so
     * has its transaction. It gives up after a quarter of a second, and comes again.
     */
    @Override
    String standstill() {
        return "BEGIN; LOCK TABLE mortise_lock IN ACCESS EXCLUSIVE MODE";
    }

    @Override
    Dialect dialect(Duration callTimeout, UnaryOperator<Connection> wrapping) {
        return new PostgresDialect(source(callTimeout, wrapping), schema);
    }

    @Override
    LockBackend open(BackendContext context, UnaryOperator<Connection> wrapping) {
        return strategy.equals("table") ? super.open(context, wrapping) : advisory(context, 50, wrapping);
    }

    /** With so many sessions for claims. */
    LockBackend advisory(BackendContext context, int sessions, UnaryOperator<Connection> wrapping) {
        return opened(AdvisoryBackend.open(
                new PostgresAdvisory(source(context.callTimeout(), wrapping), schema, context.callTimeout()),
                context,
                sessions));
    }

    /** Connections of our own, wrapped. */
    ServerDialect.Source source(Duration callTimeout, UnaryOperator<Connection> wrapping) {
        PostgresUrl url = new PostgresUrl(uri(), callTimeout);
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
