package dev.mortise.lock;

import com.google.errorprone.annotations.CheckReturnValue;
import dev.mortise.lock.spi.Claim;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;

/**
 * A lock that is held, until it is released or lost.
 *
 * <pre>{@code
 * try (Lease lease = locks.lock("invoice-42").acquire()) {
 *     ledger.post(invoice, lease.token());   // the ledger rejects a token smaller than the largest it has seen
 * }
 * }</pre>
 *
 * <p><b>What is safe.</b> Only the {@link #token()}, checked by the protected resource at every read and write, keeps a
 * holder whose lease has run out from doing harm: a process can be stopped between any check of its own and the write
 * that follows. {@link #isHeld()}, {@link #ensureHeld()} and {@link #onLoss} are for stopping early, never for safety.
 *
 * <p>A lease belongs to nobody's thread: any thread may use it, hand it on and release it, several at a time. It is not
 * re-entrant: acquiring the same name again waits for its release, also on the same thread.
 *
 * <p>A lease that is dropped without being released is noticed when the garbage collector has taken it: it is no longer
 * renewed, it is released, and one warning shows where it was acquired. One with a callback or stage of its loss given out
 * counts as used.
 */
public final class Lease implements AutoCloseable {
    private final Engine engine;
    final Hold hold;

    Lease(Engine engine, Hold hold) {
        this.engine = engine;
        this.hold = hold;
    }

    /** The lock's name. */
    public String name() {
        return hold.claim.name();
    }

    /**
     * The fencing token: positive, larger than that of every lease of this name that was acquired before this one was
     * asked for. The same for the whole life of the lease. Give it to the resource with every request.
     */
    public long token() {
        return hold.token;
    }

    /**
     * A lower bound of the time for which the lease is still good without a further renewal; zero once it is released or
     * lost. No I/O.
     */
    public Duration remaining() {
        return engine.remaining(hold);
    }

    /**
     * Whether the lease can still be counted on, by this machine's monotonic clock alone: false from its deadline on,
     * whatever the store or the network does, and never true again. No I/O. For stopping early, not for safety.
     */
    public boolean isHeld() {
        return engine.isHeld(hold);
    }

    /**
     * The checkpoint for long loops. No I/O.
     *
     * @throws LeaseLostException if the lease was lost
     * @throws IllegalStateException if it was released or detached
     */
    public void ensureHeld() {
        engine.requireHeld(hold);
    }

    /**
     * Calls {@code callback} once if the lease is lost; at once if it was lost before; never after a release. On a thread
     * of the client that it may keep as long as it likes. Late by at most the timer's delay, which a busy or stopped
     * machine lengthens; {@link #isHeld()} is never late.
     */
    public void onLoss(Consumer<? super Loss> callback) {
        engine.onLoss(this, Objects.requireNonNull(callback, "callback"));
    }

    /** A stage that completes if the lease is lost, and never if it is released. */
    @CheckReturnValue
    public CompletionStage<Loss> lost() {
        return engine.lost(this).minimalCompletionStage();
    }

    /**
     * Ends the lease and tells the store. Idempotent.
     *
     * @return true if this call ended it in time; false if it had been released or lost before
     * @throws LockStoreException if the store did not acknowledge. The lease is over all the same; the client goes on
     *     asking the store until it acknowledges or the claim must have ended by itself
     */
    public boolean release() {
        return engine.release(hold);
    }

    /**
     * As {@link #release()}, but never throws: what the store did not acknowledge is logged, and goes on in the
     * background. Waits at most the call timeout.
     */
    @Override
    public void close() {
        try {
            engine.release(hold);
        } catch (LockStoreException e) {
            System.getLogger("dev.mortise.lock")
                    .log(
                            Level.WARNING,
                            "the release of '" + Claim.printable(name()) + "' with token " + token()
                                    + " was not acknowledged and goes on in the background",
                            e);
        }
    }

    /**
     * Prepares a hand-over: renews once and, when that is confirmed, ends this handle without releasing the lock. Nobody
     * renews it until {@link DistributedLock#adopt} takes it over with the ticket, in any process; the ticket is good for
     * one full lease. If nobody does, the lock becomes free by itself. {@link LockClient#close()} does not release it.
     *
     * @return the ticket: text for a URL, a file or a message. Who has it can take the lock
     * @throws LeaseLostException if the lease was lost
     * @throws LockStoreException if the renewal was not confirmed; the lease goes on
     * @throws IllegalStateException if it was released or detached before, or if leases of this store die with their
     *     client; names those that live on
     */
    @CheckReturnValue
    public String detach() {
        return engine.detach(hold).toString();
    }

    Optional<Loss> loss() {
        return engine.loss(hold);
    }

    @Override
    public String toString() {
        return "lease of '" + Claim.printable(name()) + "' with token " + token() + " in " + engine.store;
    }
}
