package dev.mortise.lock.spi;

import dev.mortise.lock.LockStoreException;
import java.util.Collection;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * One store of locks, as one client sees it. Four methods make a backend: {@link #acquire}, {@link #renew},
 * {@link #release} and {@link #guarantees}; what is the same for all stores (deadlines, renewal, waiting lines, loss,
 * undoing) is done by {@link dev.mortise.lock.LockClient} and must not be done again here.
 *
 * <h2>What a backend must not do</h2>
 *
 * It does not renew by itself, does not retry an acquire whose outcome is unknown, does not tell callers of losses, and
 * does not decide by a clock of the client whether a claim is live. It has no notion of threads as owners.
 *
 * <h2>The contract</h2>
 *
 * <p><b>Threads.</b> Any method may be called by any thread at any time, also while another call runs. Every call ends
 * by itself: {@code acquire} within its patience plus the {@linkplain BackendContext#callTimeout() call timeout}, the
 * others within the call timeout, whatever the store does.
 *
 * <p><b>Time.</b> No clock of the client reaches the store as a fact: leases travel as lengths, and the store's own
 * clock or session ends them. {@link Grant#since()} is a reading of {@link BackendContext#nanoTime()} taken <em>before
 * the send of the last request known to have started or restarted the lease</em>. Only the backend knows it: a wait, a
 * pooled lease or an aged session makes it older or younger than the call.
 *
 * <p><b>Ends by itself.</b> A claim that is neither renewed nor released ends within
 * {@link Guarantees#freedWithin(java.time.Duration)} of its lease. Where several claims share a carrier that others
 * keep alive (a session, a pooled lease, a connection), the backend keeps a local end per claim, moved only by
 * {@code renew} of that very claim, and removes the claim itself at that end, again and again until the store has
 * acknowledged it, or else closes the carrier. One proof of life for a carrier proves no other key on it: those are
 * looked at too.
 *
 * <p><b>Names.</b> Any non-empty string without unpaired surrogates, up to 512 bytes of UTF-8, told apart by case. A
 * backend encodes them without collisions, or hashes them with at least 128 bits where the store's keys are short.
 *
 * <p><b>Tokens.</b> Positive; unique per grant of a name; larger than that of every grant of the name that was answered
 * before the acquisition began. A token is handed out only when it is as durable as {@link Guarantees#tokensSurvive()}
 * says.
 *
 * <p><b>Format.</b> The layout in the store is public and carries a version. Data of another version, or of another
 * strategy for the same names, is refused with both named, never mixed in silence.
 *
 * <p><b>Errors.</b> "Somebody else holds it" is an answer, never an exception. No answer is a
 * {@link LockStoreException} that says which store, what was tried, what to do, and whether the request
 * {@linkplain LockStoreException#mayHaveTakenEffect() may have taken effect}; it is never turned into an answer. A
 * client library's own resending is switched off for {@code acquire}, or makes its outcome unknown.
 */
public interface LockBackend extends AutoCloseable {

    /** What this store promises. Constant, and without I/O. */
    Guarantees guarantees();

    /**
     * Tries to make {@code claim} the one live claim of its name.
     *
     * <p>With zero patience it does not wait for a release. A store that can tell of a release (a watch, a message, a
     * queue) <em>may</em> block up to the patience; one that cannot returns {@link Attempt#held} at once, and the
     * caller comes back. After a wait the backend confirms its own entry once in the store, because a place in a queue
     * or a notification is not a grant, and {@code since} is from that request.
     *
     * <p>{@code held} means that nothing of this owner is left in the store, queued or live.
     *
     * <p>Sent again for an owner whose claim is live, it answers with the same token, and with either the full lease
     * again from this call, or a lease no longer than what is left; never with a second token.
     *
     * <p>The caller never sends {@code acquire} for an owner after a {@code release} for it.
     *
     * @param claim the claim, with an owner that was made for this call
     * @param patience how long to wait at most; zero or more. Very long values mean "for ever"
     * @return a grant of this very claim, or {@code held}
     * @throws InterruptedException if the thread was interrupted; the backend has then tried, for at most the call
     *     timeout, to leave nothing behind, and the caller still releases
     * @throws LockStoreException if the store gave no answer, or an answer that is neither yes nor no
     */
    Attempt acquire(Claim claim, java.time.Duration patience) throws InterruptedException;

    /**
     * Renews these grants, all of this backend, in as few requests as the store allows.
     *
     * <p>Each grant comes back as <em>live</em> (for a full lease from its new {@code since}, with the same token), as
     * <em>ended</em> (no claim of this owner is live and none ever will be; an ended claim is not revived), or in
     * neither, which means unknown: it is asked for again until its deadline. A slow node or session must not hold up
     * the answers of the others: one call per independent carrier, in parallel.
     *
     * @throws LockStoreException if nothing is known of any of them
     */
    Renewal renew(Collection<Grant> grants);

    /**
     * Ends this owner's claim, live or queued, and no other's. Idempotent. Works as well for an acquire whose answer
     * never came; where a claim lives in a connection, that connection is closed, and what it left is cleared for this
     * owner over another.
     *
     * <p>An acquire that is still under way may take effect after its release (a <em>ghost</em>). Where the store
     * allows, release therefore goes over the acquire's own connection, or after that is closed.
     *
     * @return true only if this call ended a live grant
     * @throws LockStoreException if the store did not acknowledge; the caller repeats it
     */
    boolean release(Claim claim);

    /**
     * The same as {@link #release(Claim)}, and then, where the store can do both in one request, an acquire of
     * {@code next}, of the same name, without patience: for somebody else of this client who waits, so that the lock goes
     * from one to the other in one round trip. It is as well for a backend not to: where clients elsewhere wait for the
     * name, they would never get it.
     *
     * <p>What the acquire brought is given to {@code passed}, at most once, on the calling thread, before this returns or
     * throws. If it was not called, nothing of {@code next} is in the store or on its way, unless this throws what
     * {@linkplain LockStoreException#mayHaveTakenEffect() may have taken effect}, for which the caller releases it.
     *
     * @return as {@link #release(Claim)}, of {@code claim}
     * @throws LockStoreException as {@link #release(Claim)}, of {@code claim}
     */
    default boolean release(Claim claim, Claim next, Consumer<Attempt> passed) {
        return release(claim);
    }

    /**
     * Lets {@code heir} take the place of {@code held} in one atomic step: if {@code held} is live, by owner and token,
     * the heir gets the lock for its own lease with a new, larger token, ahead of every waiter. From then on the former
     * owner's renew and release no longer touch it.
     *
     * <p>Idempotent per heir: a heir that already took over gets its token again, with its lease anew. A second heir
     * gets empty, and so does one that comes after the end of {@code held}. After an unknown outcome the caller asks
     * again with the same heir.
     *
     * <p>Only called where {@link Guarantees#outlivesClient()}; a backend that declares it overrides this.
     *
     * @throws LockStoreException if the store gave no answer
     */
    default Optional<Grant> adopt(Grant held, Claim heir) {
        throw new IllegalStateException("adopt is not offered by " + getClass().getName());
    }

    /**
     * Who holds the name now, for people and logs, never for decisions: it can be out of date when it arrives.
     *
     * @throws LockStoreException if the store gave no answer
     */
    default Optional<Holder> holder(String name) {
        return Optional.empty();
    }

    /**
     * Gives back connections and threads, and ends calls that still wait, which then throw. Idempotent. Does not
     * release claims: the caller has done so for those that it knew of, and the others end by themselves. A call that
     * comes later throws {@link LockStoreException} and has no effect.
     */
    @Override
    void close();
}
