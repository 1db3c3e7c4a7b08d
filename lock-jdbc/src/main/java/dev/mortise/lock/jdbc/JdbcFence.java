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
 * Works with SQLite, PostgreSQL, MariaDB and H2.
 */
public final class JdbcFence {

    /** A fence over the table {@code mortise_fence}. */
    public JdbcFence() {}

    /**
     * Lets the transaction go on if its token is not older than any that this resource has seen, and remembers the
     * token. Call it as the first statement of every transaction that reads or writes the resource; roll back when it
     * throws.
     *
     * <p>On SQLite the table is made on first use, inside this transaction, so that it is undone with it; or before, by the
     * {@code CREATE TABLE} statement of the shipped {@code sqlite.sql}. The check takes the database's one write lock for
     * the rest of the transaction, also when the transaction then only reads. How long it waits for that is the caller's
     * {@code busy_timeout}. A transaction that has read something before the check can fail with
     * {@code SQLITE_BUSY_SNAPSHOT}: roll back, and begin with the check.
     *
     * <p>On PostgreSQL the table is to be made before, once, by that statement of the shipped {@code postgresql.sql}: a
     * statement that fails ends the transaction there, and transactions that make it at the same time would wait for each
     * other. It is found by the search path, as the tables that it protects are. The check locks the resource's row for
     * the rest of the transaction; how long it waits for that is the caller's {@code lock_timeout}. Under REPEATABLE READ
     * and SERIALIZABLE it fails with a serialization failure ({@code 40001}) when it had to wait for another transaction:
     * roll back, and run the transaction again, check included.
     *
     * <p>On MariaDB and H2 the table is to be made before as well, by that statement of the shipped {@code mariadb.sql} or
     * {@code h2.sql}: to make a table would commit the caller's transaction. The check locks the resource's row for the rest
     * of the transaction; how long it waits for that is the caller's {@code innodb_lock_wait_timeout} or {@code
     * LOCK_TIMEOUT}. Begin with the check: under REPEATABLE READ, MariaDB's default, what is read later is as of the first
     * plain read, and so after the check.
     *
     * @param transaction the caller's connection, with auto-commit off; neither committed nor closed here
     * @param resource what is protected, as a rule the lock's name; the same rules
     * @param token the lease's token
     * @throws StaleTokenException if the resource has seen a newer token; nothing was changed
     * @throws IllegalStateException if auto-commit is on: then the check would protect nothing that follows
     * @throws IllegalArgumentException if the resource's name or the token is none
     * @throws SQLFeatureNotSupportedException if the database is none of these
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
        boolean passed;
        String newest;
        switch (database) {
            case "SQLite" -> {
                passed = raiseOrCreate(transaction, name, token);
                newest = SqliteDialect.NEWEST;
            }
            case "PostgreSQL" -> {
                passed = raise(transaction, PostgresDialect.RAISE, name, token);
                newest = PostgresDialect.NEWEST;
            }
            case "MariaDB" -> {
                passed = raise(transaction, MariaDbDialect.RAISE, name, token);
                newest = MariaDbDialect.NEWEST;
            }
            case "H2" -> {
                passed = raiseTwice(transaction, name, token);
                newest = H2Dialect.NEWEST;
            }
            default ->
                throw new SQLFeatureNotSupportedException(
                        "JdbcFence works with SQLite, PostgreSQL, MariaDB and H2, not with " + database);
        }
        if (!passed) {
            throw new StaleTokenException(resource, name, token, newest(transaction, newest, name));
        }
    }

    private static boolean raiseOrCreate(Connection transaction, String name, long token) throws SQLException {
        try {
            return raise(transaction, SqliteDialect.RAISE, name, token);
        } catch (SQLException e) {
            if (!SqliteDialect.isMissingTable(e)) {
                throw e;
            }
            // Not before the check: CREATE TABLE IF NOT EXISTS reads, and after a read SQLite may refuse the write.
            try (Statement statement = transaction.createStatement()) {
                statement.execute(Dialect.ddl(SqliteDialect.DDL, "mortise_fence"));
            }
            return raise(transaction, SqliteDialect.RAISE, name, token);
        }
    }

    /** H2 fails when another transaction has made the same row since it looked; the transaction goes on. */
    private static boolean raiseTwice(Connection transaction, String name, long token) throws SQLException {
        try {
            return raise(transaction, H2Dialect.RAISE, name, token);
        } catch (SQLException e) {
            if (e.getErrorCode() != H2Dialect.DUPLICATE) {
                throw e;
            }
            return raise(transaction, H2Dialect.RAISE, name, token);
        }
    }

    private static boolean raise(Connection transaction, String sql, String name, long token) throws SQLException {
        try (PreparedStatement statement = transaction.prepareStatement(sql)) {
            statement.setString(1, name);
            statement.setLong(2, token);
            try (ResultSet rows = statement.executeQuery()) {
                boolean passed = false;
                while (rows.next()) {
                    // What the row has now; not ours where it was larger, on databases that answer then.
                    passed = rows.getLong(1) == token;
                }
                return passed;
            }
        }
    }

    private static long newest(Connection transaction, String sql, String name) throws SQLException {
        try (PreparedStatement statement = transaction.prepareStatement(sql)) {
            statement.setString(1, name);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? rows.getLong(1) : 0;
            }
        }
    }
}
