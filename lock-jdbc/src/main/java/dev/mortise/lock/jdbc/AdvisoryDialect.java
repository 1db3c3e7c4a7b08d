package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.SQLException;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * What {@link AdvisoryBackend} needs of a database beside the statements on a row: locks that a session has until it
 * gives them up or ends, here called keys.
 *
 * <p>An exception of any of these methods leaves it open whether the session has the key; the session is then closed.
 */
interface AdvisoryDialect extends Dialect {

    /** The key of this name, as {@link Names} has it: the same in every client of this table, and for ever. */
    Object key(String name);

    /**
     * Makes the server end this session when it hears nothing of it for this long, and sets whatever else must not be as
     * the role or the database has it. Committed before anything is locked, because a setting goes with the statement
     * that fails, and the key stays.
     */
    void settle(Connected db, long leaseMillis) throws SQLException;

    /**
     * Takes the key if nobody has it, without waiting, and only then tries {@link #acquireWithKey}: judged by what is in
     * the row after the key was had, and committed.
     */
    Taken take(Connected db, Object key, String name, String owner, long leaseMillis) throws SQLException;

    /** Whether the session now has the key, and the token if it has the row as well. */
    record Taken(boolean had, @Nullable Long token) {}

    /**
     * {@link Dialect.Statements#acquire} for a session that has the key. It waits for the row if somebody is about to change it, as who gave
     * the key up a moment before the commit of his release.
     */
    String acquireWithKey();

    /** Takes the key if nobody has it, without waiting. */
    boolean tryLock(Connected db, Object key) throws SQLException;

    /**
     * Waits in the server's queue, and returns when the session has the key.
     *
     * @throws SQLException that {@link #isBusy} if it did not get it in this time
     */
    void await(Connected db, Object key, long millis) throws SQLException;

    /** Gives the key up. False if the session did not have it. */
    boolean unlock(Connected db, Object key) throws SQLException;

    /** {@link Dialect.Statements#release}, and then {@link #unlock}. */
    Released release(Connected db, Object key, String name, String owner) throws SQLException;

    /** Whether the claim was live, and whether the session had the key, and has nothing now. */
    record Released(boolean live, boolean unlocked) {}

    /**
     * {@link #renew} for one grant over the session that took the key, and whether it has it still.
     *
     * @return the lease in milliseconds: empty if nothing is known of the claim, 0 if it has ended
     */
    Kept renew(Connected db, Object key, Grant grant) throws SQLException;

    /** A lease in milliseconds, 0 if the claim has ended, or less if nothing is known; and whether the key is there. */
    record Kept(long lease, boolean had) {
        static final long UNKNOWN = -1;
    }

    /** A key of 64 bits for a name in this table. Its derivation is frozen: others would exclude nobody. */
    static long hash(String schema, String name) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256")
                    .digest((schema + "\0mortise_lock\0" + name).getBytes(StandardCharsets.UTF_8));
            return ByteBuffer.wrap(digest).getLong();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    /** What the strategy promises, beside these events that exclusion survives. */
    static Guarantees guarantees(StoreEvent... exclusionSurvives) {
        return Guarantees.builder(dev.mortise.lock.spi.Consistency.DATABASE)
                // Never a clock step: what is left of a claim whose session has gone ends by the wall clock.
                .exclusionSurvives(exclusionSurvives)
                .tokensSurvive(
                        StoreEvent.RELEASE_AND_EXPIRY,
                        StoreEvent.CLIENT_CRASH,
                        StoreEvent.CONNECTION_LOSS,
                        StoreEvent.STORE_RESTART,
                        StoreEvent.RESTART_WITHOUT_DATA,
                        StoreEvent.STORE_CLOCK_STEP)
                // The servers count idle milliseconds in 31 bits.
                .leases(Duration.ofMillis(100), Duration.ofDays(24), Duration.ofMillis(1))
                // By the row, whose end nobody needs the key for. A key that is idle goes a few milliseconds later.
                .freedWithin(lease -> lease.plusMillis(50).compareTo(Duration.ofMillis(150)) < 0
                        ? Duration.ofMillis(150)
                        : lease.plusMillis(50))
                // In the server's queue yes, but not all need to be in it.
                .fair(false)
                .outlivesClient(false)
                .build();
    }
}
