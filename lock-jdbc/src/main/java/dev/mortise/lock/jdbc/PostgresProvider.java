package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.util.List;
import java.util.Map;

/**
 * Opens locks in a PostgreSQL database: {@code jdbc:postgresql://host/database} with {@code strategy=table}. Found by its
 * scheme; not for users.
 */
public final class PostgresProvider implements BackendProvider {
    private static final String SCHEME = "jdbc:postgresql";

    /** Without a default: what it will be one day, advisory, excludes nobody who locks by a table. */
    private static final Option<String> STRATEGY = Option.choice(
            "strategy",
            "",
            List.of(Dialect.STRATEGY),
            "How a lock is kept; to be given: table, a row with its end by the database's clock.");

    private static final Option<String> SCHEMA =
            Option.text("schema", "public", "The schema of the table; the same for all who shall exclude each other.");

    private static final Option<String> USER = Option.text("user", "", "The role at the server.");

    private static final Option<String> PASSWORD = Option.secret("password", "Its password.");

    /** For {@link java.util.ServiceLoader}. */
    public PostgresProvider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        return Map.of(SCHEME, PostgresDialect.GUARANTEES);
    }

    @Override
    public List<Option<?>> options() {
        return List.of(STRATEGY, SCHEMA, USER, PASSWORD);
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        if (!uri.scheme().equals(SCHEME)) {
            throw new IllegalArgumentException("scheme " + uri.scheme() + " is not served; " + SCHEME + " is");
        }
        if (!uri.options().containsKey(STRATEGY.name())) {
            throw new IllegalArgumentException("option strategy must be given for " + SCHEME
                    + ": strategy=table, the only one now. The default to come, advisory, will not exclude those who"
                    + " lock by the table");
        }
        String strategy = uri.get(STRATEGY);
        if (!strategy.equals(Dialect.STRATEGY)) {
            throw new IllegalArgumentException("strategy " + strategy + " is not offered by " + SCHEME);
        }
        return TableBackend.open(
                new PostgresDialect(new PostgresUrl(uri, context.callTimeout()), uri.get(SCHEMA)), context);
    }
}
