package dev.mortise.lock;

import java.time.Duration;

/**
 * The clock that a client lives by: a monotonic ticker and a timer. {@link LockClient} uses the machine's; tests use
 * {@link VirtualTime}. For any thread.
 *
 * <p>A ticker that stands still while the machine sleeps, as {@link System#nanoTime()} does on some systems, is a limit
 * of every lease: after the machine wakes, the holder believes in a lease that the store has long ended. Only the token
 * checked at the resource helps there.
 */
public interface TimeSource {

    /** Nanoseconds from an arbitrary fixed point; never goes back. */
    long nanoTime();

    /**
     * Runs {@code task} once, {@code delay} from now or later, on a thread of this source's choice. The client's tasks
     * are short, do no I/O and call no user code.
     */
    void schedule(Duration delay, Runnable task);
}
