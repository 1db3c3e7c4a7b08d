package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.util.List;
import java.util.Map;

/** Opens locks in a MariaDB database: {@code jdbc:mariadb://host/database}. Found by its scheme; not for users. */
public final class MariaDbProvider implements BackendProvider {
    private static final String SCHEME = "jdbc:mariadb";

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

    private static final Option<String> USER = Option.text("user", "", "The user at the server.");

    private static final Option<String> PASSWORD = Option.secret("password", "Its password.");

    /** For {@link java.util.ServiceLoader}. */
    public MariaDbProvider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        return Map.of(SCHEME, MariaDbAdvisory.GUARANTEES);
    }

    @Override
    public List<Option<?>> options() {
        return List.of(STRATEGY, SESSIONS, USER, PASSWORD);
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        if (!uri.scheme().equals(SCHEME)) {
            throw new IllegalArgumentException("scheme " + uri.scheme() + " is not served; " + SCHEME + " is");
        }
        boolean advisory = uri.get(STRATEGY).equals(Dialect.ADVISORY);
        if (!advisory && uri.options().containsKey(SESSIONS.name())) {
            throw new IllegalArgumentException("option sessions means nothing to strategy=table: leave it out");
        }
        MariaDbUrl source = new MariaDbUrl(uri, context.callTimeout(), advisory);
        return advisory
                ? AdvisoryBackend.open(new MariaDbAdvisory(source), context, uri.get(SESSIONS))
                : TableBackend.open(new MariaDbDialect(source, null), context);
    }
}
