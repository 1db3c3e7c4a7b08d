package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.util.List;
import java.util.Map;

/** Opens locks in a table of a database: {@code jdbc:sqlite:/folder/file.db}. Found by its scheme; not for users. */
public final class JdbcProvider implements BackendProvider {
    private static final String SQLITE = "jdbc:sqlite";

    private static final Option<String> STRATEGY = Option.choice(
            "strategy",
            Dialect.TABLE,
            List.of(Dialect.TABLE),
            "How a lock is kept: table, a row with its end by the database's clock.");

    /** For {@link java.util.ServiceLoader}. */
    public JdbcProvider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        return Map.of(SQLITE, SqliteDialect.GUARANTEES);
    }

    @Override
    public List<Option<?>> options() {
        return List.of(STRATEGY);
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        if (!uri.scheme().equals(SQLITE)) {
            throw new IllegalArgumentException("scheme " + uri.scheme() + " is not served; " + SQLITE + " is");
        }
        if (uri.user().isPresent() || uri.password().isPresent()) {
            // Without their values: one of them is a secret.
            throw new IllegalArgumentException("user and password mean nothing to " + SQLITE
                    + ": leave them out; who may lock is who may write the file");
        }
        String strategy = uri.get(STRATEGY);
        if (!strategy.equals(Dialect.TABLE)) {
            throw new IllegalArgumentException("strategy " + strategy + " is not offered by " + SQLITE);
        }
        return TableBackend.open(new SqliteDialect(uri), context);
    }
}
