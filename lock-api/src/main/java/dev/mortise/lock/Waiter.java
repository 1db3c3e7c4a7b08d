package dev.mortise.lock;

import dev.mortise.lock.spi.Claim;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/** One call of acquire. Guarded by the engine's mutex. */
final class Waiter {
    enum State {
        /** Behind others in the line of its name. */
        QUEUED,
        /** Asking the store. */
        CALLING,
        /** First in line, between two questions, or until this client's own hold of the name ends. */
        PAUSING,
        /** Has its result, or nobody wants it any more. */
        DONE
    }

    final String name;
    final Terms terms;
    final boolean inLine;
    final long start;
    final long end;
    final Executor on;

    /** Whether the calls to the store run on the very thread that waits for them. */
    final boolean runsOwnCalls;

    final long threadId;
    final Throwable acquiredHere;
    final CompletableFuture<Optional<Lease>> done = new CompletableFuture<>();

    State state = State.QUEUED;

    /** Whether the call to the store is its own, or that of who releases the lock. */
    boolean asksItself = true;

    @Nullable
    Claim claim;

    Gateway.@Nullable Call call;
    Alarms.@Nullable Alarm alarm;
    Alarms.@Nullable Alarm warning;

    /** Undoes the claim of a call that was abandoned and does not come back. */
    Alarms.@Nullable Alarm orphan;

    long pause;

    Waiter(String name, Terms terms, boolean inLine, long start, long patience, Executor on) {
        this.name = name;
        this.terms = terms;
        this.inLine = inLine;
        this.start = start;
        this.end = start + patience;
        this.on = on;
        this.runsOwnCalls = on instanceof Workers.Here here && here.isCallingThread();
        this.threadId = Thread.currentThread().getId();
        this.acquiredHere = new Throwable("acquire was called here");
    }

    Duration left(long now) {
        return inLine && !Nanos.reached(now, end) ? Duration.ofNanos(end - now) : Duration.ZERO;
    }

    /**
     * What is asked for: the lease, and how long to hold at most.
     *
     * @param holdAtMost in nanoseconds; {@link Nanos#FOREVER} for no limit
     */
    record Terms(Duration lease, long holdAtMost) {}
}
