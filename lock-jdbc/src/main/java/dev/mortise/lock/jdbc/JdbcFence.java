package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Claim;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Statement;
import java.util.Objects;

/**
 * Turns away whoever comes to a database with an old fencing token. A lease can end while its holder is stopped, and
 * no check at the holder helps then: he may be stopped between the check and the write. So the database checks.
 *
 * <pre>{@code
 * locks.lock("invoice-42").run(lease -> {
 *     try (Connection c = dataSource.getConnection()) {
 *         c.setAutoCommit(false);
 *         fence.check(c, "invoice-42", lease.token()); // first, in every transaction that reads or writes it
 *         ...                                          // read, compute, write
 *         c.commit();
 *     }
 * });
 * }</pre>
 *
 * <p>The largest token that a resource has seen is a row in the table {@code mortise_fence} of that very database,
 * raised inside the caller's transaction: it counts if and when that transaction commits, and two transactions on one
 * resource come one after the other from the check on. So a transaction that has passed cannot be overtaken by a newer
 * holder before it ends. The lock itself may live in any store.
 *
 * <p>Check reads as well: an old holder who reads what the new one wrote, and writes somewhere else what follows from
 * it, does the same harm.
 *
 * <p>Keeps no state, and may be used by any thread; a connection is used by the calling thread only, within the call.
 * Works with SQLite.
 */
public final class JdbcFence {

    /** A fence over the table {@code mortise_fence}. */
    public JdbcFence() {}

    /**
     * Lets the transaction go on if its token is not older than any that this resource has seen, and remembers the
     * token. Call it as the first statement of every transaction that reads or writes the resource; roll back when it
     * throws.
     *
     * <p>The table is made on first use, inside this transaction, so that it is undone with it. Where the program may
     * not create tables, run the {@code CREATE TABLE} statement of the shipped {@code sqlite.sql} before.
     *
     * <p>On SQLite it takes the database's one write lock for the rest of the transaction, also when the transaction
     * then only reads. How long it waits for that is the caller's {@code busy_timeout}. A transaction that has read
     * something before the check can fail with {@code SQLITE_BUSY_SNAPSHOT}: roll back, and begin with the check.
     *
     * @param transaction the caller's connection, with auto-commit off; neither committed nor closed here
     * @param resource what is protected, as a rule the lock's name; the same rules
     * @param token the lease's token
     * @throws StaleTokenException if the resource has seen a newer token; nothing was changed
     * @throws IllegalStateException if auto-commit is on: then the check would protect nothing that follows
     * @throws IllegalArgumentException if the resource's name or the token is none
     * @throws SQLFeatureNotSupportedException if the database is not SQLite
     * @throws SQLException as the database throws it
     */
    public void check(Connection transaction, String resource, long token) throws SQLException {
        Objects.requireNonNull(transaction, "transaction");
        String name = Names.encode(Claim.requireName(resource));
        if (token <= 0) {
            throw new IllegalArgumentException("token must be positive: " + token);
        }
        if (transaction.getAutoCommit()) {
            throw new IllegalStateException("auto-commit is on: call setAutoCommit(false) before the check, so that"
                    + " what follows is in one transaction with it");
        }
        String database = transaction.getMetaData().getDatabaseProductName();
        if (!database.equals("SQLite")) {
            throw new SQLFeatureNotSupportedException("JdbcFence works with SQLite, not with " + database);
        }
        boolean passed;
        try {
            passed = raise(transaction, name, token);
        } catch (SQLException e) {
            if (!SqliteDialect.isMissingTable(e)) {
                throw e;
            }
            // Not before the check: CREATE TABLE IF NOT EXISTS reads, and after a read SQLite may refuse the write.
            try (Statement statement = transaction.createStatement()) {
                statement.execute(Dialect.ddl(SqliteDialect.DDL, "mortise_fence"));
            }
            passed = raise(transaction, name, token);
        }
        if (!passed) {
            throw new StaleTokenException(resource, name, token, newest(transaction, name));
        }
    }

    private static boolean raise(Connection transaction, String name, long token) throws SQLException {
        try (PreparedStatement statement = transaction.prepareStatement(SqliteDialect.RAISE)) {
            statement.setString(1, name);
            statement.setLong(2, token);
            try (ResultSet rows = statement.executeQuery()) {
                boolean passed = false;
                while (rows.next()) {
                    passed = true;
                }
                return passed;
            }
        }
    }

    private static long newest(Connection transaction, String name) throws SQLException {
        try (PreparedStatement statement = transaction.prepareStatement(SqliteDialect.NEWEST)) {
            statement.setString(1, name);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? rows.getLong(1) : 0;
            }
        }
    }
}
