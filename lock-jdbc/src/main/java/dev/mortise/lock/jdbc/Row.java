package dev.mortise.lock.jdbc;

import dev.mortise.lock.LockStoreException;
import java.sql.ResultSet;
import java.sql.SQLException;
import org.jspecify.annotations.Nullable;

/** A name's row, as {@link Dialect.Statements#look} answers it. */
final class Row {
    private final int format;
    private final @Nullable String strategy;
    final @Nullable String owner;
    final long token;

    /** In milliseconds, as is what is left of it. */
    final long lease;

    final long rest;

    Row(ResultSet row) throws SQLException {
        format = row.getInt(1);
        strategy = row.getString(2);
        owner = row.getString(3);
        token = row.getLong(4);
        lease = row.getLong(5);
        rest = row.getLong(6);
    }

    boolean live() {
        return owner != null && rest > 0;
    }

    /** Refuses a row of another format or strategy, with both named. */
    void requireOurs(Dialect dialect, String tried) {
        if (format != Dialect.FORMAT || !dialect.strategy().equals(strategy)) {
            throw new LockStoreException(
                    dialect.store(),
                    tried + ": its row has format " + format + " and strategy " + strategy
                            + ", and this client knows format " + Dialect.FORMAT + " and strategy "
                            + dialect.strategy(),
                    "let all users of this store have the same version of Mortise and the same strategy",
                    false,
                    null);
        }
    }
}
