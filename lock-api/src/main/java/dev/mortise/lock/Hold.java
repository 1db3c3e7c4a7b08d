package dev.mortise.lock;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What the engine knows of one grant. The handle is held weakly, so that a dropped one can be noticed; the engine's
 * timers and the signal of loss hang on this, not on the handle. Guarded by the engine's mutex, but for what is volatile.
 */
final class Hold {
    enum State {
        HELD,
        RELEASED,
        DETACHED,
        LOST
    }

    final Claim claim;
    final long token;
    final long acquiredAt;
    final long threadId;
    final Throwable acquiredHere;
    WeakReference<Lease> handle = new WeakReference<>(null);

    /** Written under the mutex, read without: the answer to {@code isHeld()} waits for nobody. */
    volatile State state = State.HELD;

    /** The moment from which the holder must not count on the lease any more. Written under the mutex. */
    volatile long end;

    Grant grant;
    private final long fixedEnd;
    private final long enough;
    private long deadline;

    /** When to look next: whether the handle is still there, and whether to renew. */
    long nextLook;

    boolean inFlight;
    int unanswered;
    Alarms.@Nullable Alarm alarm;

    @Nullable
    Loss loss;

    /** The handle, from when somebody wants to hear of the loss. */
    @Nullable
    Lease keep;

    final List<Consumer<? super Loss>> onLoss = new ArrayList<>(0);

    @Nullable
    CompletableFuture<Loss> lost;

    /** Completed when the renewal in flight has come back, for one who must not send a second. */
    @Nullable
    CompletableFuture<Void> landed;

    Hold(Grant grant, long holdAtMost, long now, long threadId, Throwable acquiredHere) {
        this.claim = grant.claim();
        this.token = grant.token();
        this.grant = grant;
        this.acquiredAt = now;
        this.threadId = threadId;
        this.acquiredHere = acquiredHere;
        fixedEnd = now + holdAtMost;
        // A lease as long as the hold may last ends by itself in time: nothing of it needs to be renewed.
        enough = holdAtMost == Nanos.FOREVER ? fixedEnd : grant.since() + holdAtMost - margin(holdAtMost);
        deadline = deadline(grant);
        count();
    }

    /** The lower bound of the lease's end: 1 % for clocks that run at different speeds, and 2 ms for coarse ones. */
    static long deadline(Grant grant) {
        long lease = Nanos.of(grant.lease());
        return grant.since() + lease - margin(lease);
    }

    private static long margin(long lease) {
        return lease / 100 + 2_000_000;
    }

    private void count() {
        end = Nanos.earlier(deadline, fixedEnd);
        nextLook = grant.since() + Nanos.of(grant.lease()) / 3;
    }

    /** Leases looked at together if they are due within this: at most one call a second at the default lease. */
    long slack() {
        return Nanos.of(grant.lease()) / 30;
    }

    /** Whether the confirmed lease ends before the end chosen by the user. */
    boolean needsRenewal() {
        return !Nanos.reached(deadline, enough);
    }

    /** Takes a confirmed renewal. The deadline never comes earlier: what was confirmed stays true. */
    void renewed(Grant renewed) {
        grant = renewed;
        deadline = Nanos.later(deadline, deadline(renewed));
        unanswered = 0;
        count();
    }
}
