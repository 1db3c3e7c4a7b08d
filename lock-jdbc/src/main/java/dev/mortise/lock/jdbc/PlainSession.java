package dev.mortise.lock.jdbc;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** A connection of our own, or one of the application's, which is given back as it was. */
abstract class PlainSession implements Dialect.Session {
    final Connection connection;
    private final boolean own;
    private boolean begins;
    private boolean readOnly;
    private int isolation = Connection.TRANSACTION_NONE;
    private int timeout = -1;

    /** Nothing is to be undone in one that came with a transaction open. */
    private boolean borrowed;

    PlainSession(Connection connection, boolean own) {
        this.connection = connection;
        this.own = own;
    }

    /** Refuses a connection with a transaction open in it, which switching auto-commit on would commit. */
    abstract void requireNoTransaction() throws SQLException;

    void borrow() throws SQLException {
        requireNoTransaction();
        borrowed = true;
        begins = !connection.getAutoCommit();
        if (begins) {
            connection.setAutoCommit(true);
        }
        readOnly = connection.isReadOnly();
        if (readOnly) {
            connection.setReadOnly(false);
        }
    }

    static Refusal transactionOpen(@Nullable SQLException cause) {
        return new Refusal(
                "the DataSource gave a connection with a transaction open in it",
                "give a DataSource that does not take part in the caller's transactions",
                cause);
    }

    /** What is left to do when it is borrowed and probed. */
    void settle() throws SQLException {}

    /** READ COMMITTED until the end, where it is something else. */
    void isolate(int from) throws SQLException {
        if (from != Connection.TRANSACTION_READ_COMMITTED) {
            connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            isolation = from;
        }
    }

    @Override
    public Connection connection() {
        return connection;
    }

    @Override
    public void limit(long nanos) throws SQLException {
        if (!own && timeout < 0) {
            timeout = connection.getNetworkTimeout();
        }
        long millis = TimeUnit.NANOSECONDS.toMillis(nanos);
        connection.setNetworkTimeout(Runnable::run, (int) Math.min(Integer.MAX_VALUE, Math.max(1, millis)));
    }

    @Override
    public void requireAlive() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("SELECT 1");
        }
    }

    @Override
    public void requireSameStore() {
        // The server's name leads where it leads; a new connection is probed.
    }

    @Override
    public void close() {
        try (Connection closing = connection) {
            if (borrowed && !closing.isClosed()) {
                if (isolation != Connection.TRANSACTION_NONE) {
                    closing.setTransactionIsolation(isolation);
                }
                if (readOnly) {
                    closing.setReadOnly(true);
                }
                if (begins) {
                    closing.setAutoCommit(false);
                }
            }
            if (timeout >= 0 && !closing.isClosed()) {
                closing.setNetworkTimeout(Runnable::run, timeout);
            }
        } catch (SQLException e) {
            // It is given up either way; nothing of value was left in it.
            System.getLogger(PlainSession.class.getName()).log(System.Logger.Level.DEBUG, "close", e);
        }
    }
}
