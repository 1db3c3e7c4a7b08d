package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;

/**
 * What differs from database to database: how to connect, what its errors mean, and the statements.
 *
 * <p>Every statement is complete in itself and runs in auto-commit. It judges and counts by the database's clock, read
 * by itself after it has got its locks; its parameters come in the order given here, and its answers are columns in the
 * order given here. A claim's end is rounded up, so that it never comes before {@code since + lease}.
 */
interface Dialect {
    /** The version of the layout that these statements read and write. */
    int FORMAT = 1;

    /** The strategy of {@link TableBackend}, as the option and the column {@code strategy} have it. */
    String TABLE = "table";

    /** The strategy of {@link AdvisoryBackend}. */
    String ADVISORY = "advisory";

    /** What the column {@code strategy} says in rows of these statements. */
    String strategy();

    /** The store as people know it, without secrets. */
    String store();

    /** Constant from the first {@link #open} on. */
    Guarantees guarantees();

    /** How many sessions may be open at once. */
    int sessions();

    /** Whether a session is kept for the next call, with the statements prepared on it, or closed after each. */
    boolean keepsSessions();

    /**
     * Connects, checks that the database is set up as the guarantees need it, and makes the table if it is not there.
     *
     * @param again true if this store was open before: what has gone since is then not made anew
     * @param nanos how long it may take, where that can be limited
     */
    Session open(boolean again, long nanos) throws SQLException;

    /** Whether the database was busy with somebody else: nothing was done, and the same may succeed a little later. */
    boolean isBusy(SQLException e);

    /** Whether the session that failed so is of no use any more, and others of the same age perhaps neither. */
    boolean isBroken(SQLException e);

    /**
     * How much time must be left for another try. With less, a statement that waits for somebody else's lock could be given
     * up here before the database gives it up, and then nobody knows what came of it.
     */
    long leastNanos();

    /**
     * Whether acquire, release, adopt and clamp take one parameter more, as the last:
     * how long they may wait for somebody else's lock, in milliseconds as text.
     */
    boolean limitsWaits();

    /** Whether a write that failed so may have been done all the same. */
    boolean mayHaveTakenEffect(SQLException e);

    /** What came of it, in words for people. */
    String what(SQLException e);

    /** What to do about it. */
    String advice(SQLException e);

    /** Their texts, each complete in itself. Constant from the first {@link #open} on. */
    Statements statements();

    /**
     * The statements for one name.
     *
     * @param acquire takes a name that has no row, is free or has ended, for a new token; or starts the lease anew for the
     *     owner it has, under the same token. Else it does nothing, and answers nothing. Rows of another format or strategy
     *     are neither. In: {@link #acquireParameters}. Out: token, or NULL if it did nothing
     * @param look in: name. Out: format, strategy, owner or NULL, token, lease, what is left of it. Writes nothing
     * @param release frees the name if it is this owner's. In: name, owner. Out: 1 if the claim was live, 0 if it had ended
     * @param adopt puts the heir into the place of the held claim if that is live, for a new token; or, if the heir is there
     *     already and live, starts its lease anew under the same token. In: name, held owner, held token, heir, lease. Out:
     *     token
     * @param clamp brings the end of this owner's claim back to one lease from now, if it lies further ahead. In: name,
     *     owner. Out: one row if it did
     */
    record Statements(String acquire, String look, String release, String adopt, String clamp) {}

    /** The parameters of {@link Statements#acquire}, in its order: of name, owner and lease. */
    default Object[] acquireParameters(String name, String owner, long lease) {
        return new Object[] {name, owner, lease};
    }

    /**
     * Starts the leases of live claims anew, each for its own length. Out: name, owner, token, and the lease, or NULL if
     * the claim has ended.
     */
    Query renew(List<Grant> grants);

    /**
     * Whether a claim that {@link #renew} says nothing of has ended. If not, somebody else has its row locked, and nothing
     * is known of it.
     */
    boolean silenceMeansEnded();

    /**
     * Which of the claims that {@link #renew} says nothing of have ended, where only another statement can tell. Out: as
     * that.
     */
    default @Nullable Query ended(List<Grant> grants) {
        return null;
    }

    /** How many claims one statement may renew: a power of two. */
    int largestBatch();

    /** A statement and its parameters. */
    record Query(String sql, List<?> parameters) {}

    /** One connection. Used by one thread at a time. */
    interface Session {
        Connection connection();

        /** How long what follows may take, where that can be limited. */
        void limit(long nanos) throws SQLException;

        /** Does this work with the connection: in a thread that is not interrupted, where the database needs that. */
        default <T> T run(Callable<T> work) throws SQLException {
            try {
                return work.call();
            } catch (SQLException | RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }

        /** The statement, so that the database itself gives it up before that, where its text can say so. */
        default String limited(String sql) {
            return sql;
        }

        /**
         * Proves that the other side is still there, where it could have gone unnoticed. Asked before a session is used
         * that was not used for a while: then a statement need not be sent to find out, with an outcome unknown.
         */
        void requireAlive() throws SQLException;

        /**
         * Proves that what others open under this store's name is still what this connection works in.
         *
         * @throws SQLException if it is not: then what it answered means nothing
         */
        void requireSameStore() throws SQLException;

        void close();

        /** After this, which closes what was prepared on it: before its connection, which others may go on using. */
        default void close(Runnable first) {
            first.run();
            close();
        }
    }

    /** What the strategy promises on every database, beside these events that exclusion survives. */
    static Guarantees guarantees(StoreEvent... exclusionSurvives) {
        return Guarantees.builder(Consistency.DATABASE)
                // Never a clock step (a lease ends by the wall clock), nor the loss of the table.
                .exclusionSurvives(exclusionSurvives)
                // A new token is larger than the row's and not below the clock's microseconds: it takes the loss of the
                // row, and a clock set back by more than that row's age, to see a token again.
                .tokensSurvive(
                        StoreEvent.RELEASE_AND_EXPIRY,
                        StoreEvent.CLIENT_CRASH,
                        StoreEvent.CONNECTION_LOSS,
                        StoreEvent.STORE_RESTART,
                        StoreEvent.RESTART_WITHOUT_DATA,
                        StoreEvent.STORE_CLOCK_STEP)
                .leases(Duration.ofMillis(100), Duration.ofDays(365), Duration.ofMillis(1))
                // The row ends at the very millisecond. What is added is the way from the arrival of a request to the
                // reading of the clock inside its statement: microseconds, and a pause of the machine.
                .freedWithin(lease -> lease.plusMillis(50).compareTo(Duration.ofMillis(150)) < 0
                        ? Duration.ofMillis(150)
                        : lease.plusMillis(50))
                .fair(false)
                .outlivesClient(true)
                .build();
    }

    /** The claim's lease in whole milliseconds, rounded up and raised to the shortest. */
    static long leaseMillis(Dialect dialect, Claim claim) {
        Guarantees g = dialect.guarantees();
        if (claim.lease().compareTo(g.longestLease()) > 0) {
            throw new IllegalArgumentException("lease must be at most " + g.longestLease() + ": " + claim.lease());
        }
        long millis = claim.lease().plusNanos(999_999).toMillis();
        return Math.max(millis, g.shortestLease().toMillis());
    }

    /** The statement that makes {@code table}, from the DDL that is shipped as {@code resource}. */
    static String ddl(String resource, String table) {
        try (InputStream in = Objects.requireNonNull(Dialect.class.getResourceAsStream(resource), resource)) {
            String text = new String(in.readAllBytes(), StandardCharsets.UTF_8).replaceAll("(?m)--.*$", "");
            for (String statement : text.split(";", -1)) {
                String stripped = statement.strip();
                if (stripped.toLowerCase(Locale.ROOT).startsWith("create table if not exists " + table)) {
                    return stripped;
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        throw new IllegalStateException(resource + " has no table " + table);
    }
}
