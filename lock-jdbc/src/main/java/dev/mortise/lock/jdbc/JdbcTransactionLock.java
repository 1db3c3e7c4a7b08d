package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Claim;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * A lock inside the caller's own transaction, in the database that the transaction changes. It is held from the call to
 * the commit or rollback, and ends with exactly that; there is nothing to release, to renew or to lose: a session that
 * is lost loses what the transaction wrote together with the lock. So there is no fencing token, and none is needed.
 *
 * <pre>{@code
 * try (Connection c = dataSource.getConnection()) {
 *     c.setAutoCommit(false);
 *     c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
 *     new JdbcTransactionLock().acquire(c, "schema of shop");  // first
 *     if (version(c) < 7) {                                    // read after it, never before
 *         ...                                                  // change it, and the version with it
 *     }
 *     c.commit();
 * }
 * }</pre>
 *
 * <p>It protects what is written in that transaction, and nothing else. For work outside of it, or longer than a
 * transaction should be, take a lease. The two do not exclude each other, also under one name: this lock has a table and
 * a key space of its own.
 *
 * <p><b>What is read under the lock.</b> Only statements after the call see what the holder before has committed, and
 * only if the transaction's snapshot is not older than the lock. So where that is not certain, the call is refused,
 * before it locks anything:
 *
 * <ul>
 *   <li>PostgreSQL and H2: under READ COMMITTED only. Under REPEATABLE READ and SERIALIZABLE the very statement that waits
 *       for the lock would take the snapshot, before it waits.
 *   <li>MariaDB: under REPEATABLE READ, which is its default, the lock must be the first statement of the transaction;
 *       so one lock a transaction. Under READ COMMITTED and SERIALIZABLE it may come later, and there may be several.
 * </ul>
 *
 * <p><b>Statements that commit.</b> On MariaDB and H2 a statement that changes the schema ({@code CREATE TABLE}) commits the
 * transaction, and so ends the lock: keep the lock's transaction open on one connection, and run such statements on
 * another. On PostgreSQL they are part of the transaction, as they should be.
 *
 * <p><b>Savepoints.</b> A rollback to a savepoint that was set before the lock may undo the lock as well: take the lock
 * first.
 *
 * <p><b>Databases.</b> PostgreSQL, 14 and later: an advisory lock of the transaction; no table, no right and no write is
 * needed, and a name is one lock for the whole database, whatever the schema. It may be behind a proxy that pools
 * transactions. MariaDB, 10.6 and later, and H2, 2.2.220 and later: the name's row in the table {@code mortise_transaction_lock}, which is to
 * be made before by its statement in the shipped {@code mariadb.sql} or {@code h2.sql}, because to make it here would
 * commit the transaction. The table is found as the tables that the transaction changes are. A row is made on first use,
 * inside this transaction, without a race. Replicas and Galera clusters, which would both lock what others do not see,
 * are refused. SQLite has this lock already: begin the transaction by {@code BEGIN IMMEDIATE}.
 *
 * <p>A transaction that stays open, as of a client that hangs, keeps its locks until the server ends it: let the server
 * do so ({@code idle_in_transaction_session_timeout}, {@code idle_transaction_timeout}). Two transactions that take two
 * locks in different order deadlock: the database ends one of them with an {@link SQLException}; H2, where waiting is
 * asking again, does not, and only the patience ends the wait.
 *
 * <p>Keeps no state, and may be used by any thread; a connection is used by the calling thread only, within the call.
 */
public final class JdbcTransactionLock {
    private static final String TABLE = "mortise_transaction_lock";

    /** As good as without an end, and still to be added to a reading of the clock. */
    private static final long FOREVER = Long.MAX_VALUE / 2;

    /**
     * How long a statement may wait inside of the database, so that an interrupt is noticed. Whoever comes back stands at
     * the end of the queue, so not shorter.
     */
    private static final long SLICE = TimeUnit.SECONDS.toNanos(2);

    /** A lock for transactions of any database that is served. */
    public JdbcTransactionLock() {}

    /**
     * Locks the name for the rest of the transaction, if it gets it within the patience.
     *
     * <p>If not, the transaction goes on as it was before the call: nothing is locked, nothing is undone, and the settings
     * for how long statements wait are the caller's again. After an exception from the database roll back; the database
     * may have done so already.
     *
     * <p>While it waits, the caller's own limits for statements do not count ({@code lock_timeout}, {@code
     * statement_timeout}, {@code innodb_lock_wait_timeout}, {@code max_statement_time}, {@code LOCK_TIMEOUT}), only the
     * patience; a limit of the driver at the socket does, and breaks the connection. An interrupt ends the wait within
     * about two seconds, or twice PostgreSQL's {@code deadlock_timeout}.
     *
     * @param transaction the caller's connection, with auto-commit off; neither committed nor closed here
     * @param name what is locked; the rules of the names of leases
     * @param patience how long to wait; zero to ask once
     * @return whether the lock is held, until this transaction ends. Again true if it was held by it before
     * @throws IllegalStateException if auto-commit is on; if the transaction might read what was there before the lock,
     *     as said above; or if a failed try would undo what the transaction has done ({@code innodb_rollback_on_timeout})
     * @throws IllegalArgumentException if the name is none, or the patience is negative
     * @throws InterruptedException if the thread is interrupted while it waits; otherwise as if the patience had ended
     * @throws SQLFeatureNotSupportedException if the database is none of these, a replica, or a Galera cluster
     * @throws SQLException as the database throws it
     */
    public boolean tryAcquire(Connection transaction, String name, Duration patience)
            throws SQLException, InterruptedException {
        Objects.requireNonNull(transaction, "transaction");
        Claim.requireName(name);
        if (patience.isNegative()) {
            throw new IllegalArgumentException("patience must not be negative: " + patience);
        }
        long nanos = patience.compareTo(Duration.ofNanos(FOREVER)) < 0 ? patience.toNanos() : FOREVER;
        if (transaction.getAutoCommit()) {
            throw new IllegalStateException(
                    "auto-commit is on: call setAutoCommit(false) before, else the lock would end"
                            + " with the statement that takes it");
        }
        long end = System.nanoTime() + nanos;
        String database = transaction.getMetaData().getDatabaseProductName();
        return switch (database) {
            case "PostgreSQL" -> postgres(transaction, name, end);
            case "MariaDB" -> mariaDb(transaction, Names.encode(name), end);
            case "H2" -> h2(transaction, Names.encode(name), end);
            case "SQLite" ->
                throw new SQLFeatureNotSupportedException(
                        "JdbcTransactionLock is not for SQLite, which has one lock for"
                                + " all writers: begin the transaction by BEGIN IMMEDIATE, and wait by PRAGMA busy_timeout");
            default ->
                throw new SQLFeatureNotSupportedException(
                        "JdbcTransactionLock works with PostgreSQL, MariaDB and H2, not with " + database);
        };
    }

    /**
     * As {@link #tryAcquire}, for as long as it takes.
     *
     * @param transaction the caller's connection, with auto-commit off; neither committed nor closed here
     * @param name what is locked; the rules of the names of leases
     */
    public void acquire(Connection transaction, String name) throws SQLException, InterruptedException {
        if (!tryAcquire(transaction, name, Duration.ofNanos(FOREVER))) {
            throw new IllegalStateException("146 years were not enough to acquire " + Claim.printable(name));
        }
    }

    private static long left(long end) {
        return end - System.nanoTime();
    }

    private static void pause(long end) throws InterruptedException {
        long millis = ThreadLocalRandom.current().nextInt(5, 20);
        TimeUnit.NANOSECONDS.sleep(Math.min(TimeUnit.MILLISECONDS.toNanos(millis), left(end)));
    }

    private static void requireCommittedReads(String isolation) {
        switch (isolation.toLowerCase(Locale.ROOT)) {
            case "read committed", "read uncommitted" -> {}
            default ->
                throw new IllegalStateException(
                        "the isolation is " + isolation + ": what is read after the lock could be"
                                + " from before it; call setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED) before"
                                + " the transaction");
        }
    }

    private static void execute(Connection transaction, String sql) throws SQLException {
        try (Statement statement = transaction.createStatement()) {
            statement.execute(sql);
        }
    }

    // ---- PostgreSQL ----------------------------------------------------------------------------------------------

    /**
     * By two numbers: these have a key space beside that of the one number which locks of sessions have here, so that no
     * name of one can be in the way of the other. Part of the format: must never change.
     */
    static long key(String name) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update((TABLE + "\n").getBytes(StandardCharsets.US_ASCII));
            return ByteBuffer.wrap(digest.digest(name.getBytes(StandardCharsets.UTF_8)))
                    .getLong();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }

    /** Databases that call themselves PostgreSQL have these functions and lock nothing; a replica locks for itself. */
    private static final String FIT = "version() LIKE 'PostgreSQL %' AND NOT pg_is_in_recovery()"
            + " AND current_setting('transaction_isolation') LIKE 'read %committed'";

    /**
     * Does not pass those who wait. The rest is for the wait: times in milliseconds, and twice the time after which the
     * server looks for deadlocks, which it would never do for waits that are all shorter.
     */
    private static final String TRY = "SELECT version(), pg_is_in_recovery(), current_setting('transaction_isolation'),"
            + " current_setting('lock_timeout'), current_setting('statement_timeout'),"
            + " (2000 * extract(epoch FROM current_setting('deadlock_timeout')::interval))::bigint,"
            + " CASE WHEN " + FIT + " THEN pg_try_advisory_xact_lock(?, ?) ELSE false END";

    private static boolean postgres(Connection transaction, String name, long end)
            throws SQLException, InterruptedException {
        long key = key(name);
        int high = (int) (key >>> 32);
        int low = (int) key;
        String lockTimeout;
        String statementTimeout;
        long slice;
        try (PreparedStatement statement = transaction.prepareStatement(TRY)) {
            statement.setInt(1, high);
            statement.setInt(2, low);
            try (ResultSet row = statement.executeQuery()) {
                row.next();
                if (!row.getString(1).startsWith("PostgreSQL ")) {
                    throw new SQLFeatureNotSupportedException(
                            "JdbcTransactionLock works with PostgreSQL, not with what calls itself so and is "
                                    + row.getString(1));
                }
                if (row.getBoolean(2)) {
                    throw new SQLFeatureNotSupportedException(
                            "this server is a replica, on which a lock excludes nobody"
                                    + " at the primary: connect to the primary");
                }
                requireCommittedReads(row.getString(3));
                lockTimeout = row.getString(4);
                statementTimeout = row.getString(5);
                slice = Math.max(TimeUnit.NANOSECONDS.toMillis(SLICE), row.getLong(6));
                if (row.getBoolean(7)) {
                    return true;
                }
            }
        }
        for (long left = left(end); left > 0; left = left(end)) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            long millis = Math.min(Math.min(slice, Integer.MAX_VALUE), TimeUnit.NANOSECONDS.toMillis(left) + 1);
            // A statement that fails would end the transaction. In one packet; but apart from the wait, which a driver
            // that sets savepoints of its own would else undo together with this one.
            execute(
                    transaction,
                    "SAVEPOINT " + TABLE + "; SET LOCAL lock_timeout = " + millis
                            + "; SET LOCAL statement_timeout = 0");
            if (postgresWait(transaction, high, low)) {
                postgresSettings(transaction, lockTimeout, statementTimeout);
                execute(transaction, "RELEASE SAVEPOINT " + TABLE);
                return true;
            }
            // The settings with it.
            execute(transaction, "ROLLBACK TO SAVEPOINT " + TABLE + "; RELEASE SAVEPOINT " + TABLE);
        }
        return false;
    }

    private static boolean postgresWait(Connection transaction, int high, int low) throws SQLException {
        try (PreparedStatement statement = transaction.prepareStatement("SELECT pg_advisory_xact_lock(?, ?)")) {
            statement.setInt(1, high);
            statement.setInt(2, low);
            statement.executeQuery().close();
            return true;
        } catch (SQLException e) {
            if (PostgresDialect.state(e).equals("55P03")) {
                return false;
            }
            // The transaction is left as the server left it, which takes nothing but a rollback now.
            throw e;
        }
    }

    private static void postgresSettings(Connection transaction, String lockTimeout, String statementTimeout)
            throws SQLException {
        try (PreparedStatement statement = transaction.prepareStatement(
                "SELECT set_config('lock_timeout', ?, true), set_config('statement_timeout', ?, true)")) {
            statement.setString(1, lockTimeout);
            statement.setString(2, statementTimeout);
            statement.executeQuery().close();
        }
    }

    // ---- MariaDB -------------------------------------------------------------------------------------------------

    private static final int MARIADB_DEADLOCK = 1213;
    private static final int MARIADB_LOCK_TIMEOUT = 1205;
    private static final int MARIADB_NO_TABLE = 1146;
    private static final int MARIADB_NO_VARIABLE = 1193;

    private static final String MARIADB_STATE = "SELECT @@in_transaction, @@tx_isolation, @@innodb_rollback_on_timeout";

    /**
     * Makes the row, or locks it, in one: SELECT … FOR UPDATE of a row that is not there locks the gap, so that two who do
     * that and then make it wait for each other; INSERT IGNORE takes a shared lock at first, with the same end. Writes
     * nothing if the row is there. The settings are for this statement, and are whole seconds.
     */
    private static String mariaDbLock(long seconds) {
        return "SET STATEMENT innodb_lock_wait_timeout = " + seconds + ", lock_wait_timeout = " + seconds
                + ", max_statement_time = 0 FOR INSERT INTO " + TABLE
                + " (name) VALUES (?) ON DUPLICATE KEY UPDATE name = name";
    }

    private static boolean mariaDb(Connection transaction, String name, long end)
            throws SQLException, InterruptedException {
        boolean first = mariaDbIsFirst(transaction);
        while (true) {
            long seconds = Math.max(0, TimeUnit.NANOSECONDS.toSeconds(Math.min(left(end), SLICE)));
            boolean waited = seconds > 0;
            try (PreparedStatement statement = transaction.prepareStatement(mariaDbLock(seconds))) {
                statement.setString(1, name);
                statement.executeUpdate();
                return true;
            } catch (SQLException e) {
                // When who made the row rolls back, others who wait for it can deadlock once. The server then has
                // rolled
                // back one of their transactions, in which there was nothing yet.
                boolean deadlock = first && e.getErrorCode() == MARIADB_DEADLOCK;
                if (e.getErrorCode() != MARIADB_LOCK_TIMEOUT && !deadlock) {
                    throw explained(e, e.getErrorCode() == MARIADB_NO_TABLE, "mariadb.sql");
                }
                waited &= !deadlock;
            }
            try {
                if (left(end) <= 0) {
                    undoNothing(transaction, first);
                    return false;
                }
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
                if (!waited) {
                    pause(end);
                }
            } catch (InterruptedException e) {
                undoNothing(transaction, first);
                throw e;
            }
        }
    }

    /** So that there is no transaction, as before, and the next try is the first statement again. */
    private static void undoNothing(Connection transaction, boolean first) throws SQLException {
        if (first) {
            execute(transaction, "ROLLBACK");
        }
    }

    /** Whether nothing was done in this transaction. */
    private static boolean mariaDbIsFirst(Connection transaction) throws SQLException {
        try (Statement statement = transaction.createStatement();
                ResultSet row = mariaDbState(statement)) {
            row.next();
            boolean first = !row.getBoolean(1);
            if (row.getMetaData().getColumnCount() > 3 && row.getBoolean(4)) {
                throw new SQLFeatureNotSupportedException(
                        "this server is a node of a Galera cluster, on which a row lock"
                                + " excludes nobody at the other nodes; use a lease in another store");
            }
            if (!first && row.getString(2).equals("REPEATABLE-READ")) {
                throw new IllegalStateException(
                        "the isolation is REPEATABLE READ and the transaction has begun: what is"
                                + " read after the lock could be from before it; take the lock as the first statement, or call"
                                + " setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED) before the transaction");
            }
            if (!first && row.getBoolean(3)) {
                throw new IllegalStateException(
                        "the transaction has begun, and with innodb_rollback_on_timeout a try that"
                                + " fails would undo it: take the lock as the first statement");
            }
            return first;
        }
    }

    private static ResultSet mariaDbState(Statement statement) throws SQLException {
        try {
            return statement.executeQuery(MARIADB_STATE + ", @@wsrep_on");
        } catch (SQLException e) {
            if (e.getErrorCode() != MARIADB_NO_VARIABLE) {
                throw e;
            }
            // Built without Galera.
            return statement.executeQuery(MARIADB_STATE);
        }
    }

    // ---- H2 ------------------------------------------------------------------------------------------------------

    private static final int H2_DUPLICATE = 23505;

    /** Others keep the row locked; or changed it while this statement looked. */
    private static final Set<Integer> H2_BUSY = Set.of(50200, 90131);

    private static boolean h2(Connection transaction, String name, long end) throws SQLException, InterruptedException {
        String isolation;
        long lockTimeout;
        try (Statement statement = transaction.createStatement();
                ResultSet row = statement.executeQuery("SELECT ISOLATION_LEVEL, LOCK_TIMEOUT() FROM"
                        + " INFORMATION_SCHEMA.SESSIONS WHERE SESSION_ID = SESSION_ID()")) {
            row.next();
            isolation = row.getString(1);
            lockTimeout = row.getLong(2);
        }
        requireCommittedReads(isolation);
        boolean held;
        try {
            held = h2Wait(transaction, name, end);
        } catch (Throwable e) {
            try {
                execute(transaction, "SET LOCK_TIMEOUT " + lockTimeout);
            } catch (SQLException again) {
                e.addSuppressed(again);
            }
            throw e;
        }
        execute(transaction, "SET LOCK_TIMEOUT " + lockTimeout);
        return held;
    }

    /**
     * By asking: who waits for a row inside of H2, and the other rolls back to a savepoint meanwhile, keeps a processor busy
     * until that one's end, whatever the limit of the wait.
     */
    private static boolean h2Wait(Connection transaction, String name, long end)
            throws SQLException, InterruptedException {
        // For the row that somebody is making. Zero would be H2's own limit.
        execute(transaction, "SET LOCK_TIMEOUT 1");
        while (true) {
            try {
                if (h2Lock(transaction, name)) {
                    return true;
                }
            } catch (SQLException e) {
                if (!H2_BUSY.contains(e.getErrorCode())) {
                    throw explained(e, PostgresDialect.state(e).startsWith("42S0"), "h2.sql");
                }
            }
            if (left(end) <= 0) {
                return false;
            }
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            pause(end);
        }
    }

    /**
     * The row that is there; or the row that is made now, which others can neither make nor lock before this transaction
     * ends; or the row that somebody else made meanwhile, and has committed.
     */
    private static boolean h2Lock(Connection transaction, String name) throws SQLException {
        return h2LockRow(transaction, name) || h2MakeRow(transaction, name) || h2LockRow(transaction, name);
    }

    private static boolean h2LockRow(Connection transaction, String name) throws SQLException {
        try (PreparedStatement statement =
                transaction.prepareStatement("SELECT name FROM " + TABLE + " WHERE name = ? FOR UPDATE NOWAIT")) {
            statement.setString(1, name);
            try (ResultSet row = statement.executeQuery()) {
                return row.next();
            }
        }
    }

    private static boolean h2MakeRow(Connection transaction, String name) throws SQLException {
        try (PreparedStatement statement =
                transaction.prepareStatement("INSERT INTO " + TABLE + " (name) VALUES (?)")) {
            statement.setString(1, name);
            statement.executeUpdate();
            return true;
        } catch (SQLException e) {
            if (e.getErrorCode() != H2_DUPLICATE) {
                throw e;
            }
            return false;
        }
    }

    private static SQLException explained(SQLException e, boolean noTable, String ddl) {
        return noTable
                ? new SQLException(
                        "the table " + TABLE + " is not there: run its statement CREATE TABLE of the shipped " + ddl
                                + " once, in the schema of the tables that the transaction changes",
                        e.getSQLState(),
                        e.getErrorCode(),
                        e)
                : e;
    }
}
