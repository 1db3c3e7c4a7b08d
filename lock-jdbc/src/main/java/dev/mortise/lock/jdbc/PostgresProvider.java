package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.util.List;
import java.util.Map;

/** Opens locks in a PostgreSQL database: {@code jdbc:postgresql://host/database}. Found by its scheme; not for users. */
public final class PostgresProvider implements BackendProvider {
    private static final String SCHEME = "jdbc:postgresql";

    private static final Option<String> STRATEGY = Option.choice(
            "strategy",
            Dialect.ADVISORY,
            List.of(Dialect.ADVISORY, Dialect.TABLE),
            "How a lock is kept: advisory, a row and in front of it the server's own lock of a session, with its queue; or"
                    + " table, a row alone, which needs no session for each lock.");

    private static final Option<Integer> SESSIONS = Option.number(
            "sessions",
            50,
            1,
            10_000,
            "How many sessions this client may have at the server with strategy=advisory: one for each lock held or"
                    + " waited for; two more may be open for a moment.");

    private static final Option<String> SCHEMA =
            Option.text("schema", "public", "The schema of the table; the same for all who shall exclude each other.");

    private static final Option<String> USER = Option.text("user", "", "The role at the server.");

    private static final Option<String> PASSWORD = Option.secret("password", "Its password.");

    /** For {@link java.util.ServiceLoader}. */
    public PostgresProvider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        return Map.of(SCHEME, PostgresAdvisory.GUARANTEES);
    }

    @Override
    public List<Option<?>> options() {
        return List.of(STRATEGY, SCHEMA, SESSIONS, USER, PASSWORD);
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        if (!uri.scheme().equals(SCHEME)) {
            throw new IllegalArgumentException("scheme " + uri.scheme() + " is not served; " + SCHEME + " is");
        }
        PostgresUrl url = new PostgresUrl(uri, context.callTimeout());
        if (uri.get(STRATEGY).equals(Dialect.ADVISORY)) {
            return AdvisoryBackend.open(
                    new PostgresAdvisory(url, uri.get(SCHEMA), context.callTimeout()), context, uri.get(SESSIONS));
        }
        if (uri.options().containsKey(SESSIONS.name())) {
            throw new IllegalArgumentException("option sessions means nothing to strategy=table: leave it out");
        }
        return TableBackend.open(new PostgresDialect(url, uri.get(SCHEMA)), context);
    }
}
