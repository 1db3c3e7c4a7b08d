package dev.mortise.lock;

import java.time.Duration;
import java.util.Objects;
import java.util.PriorityQueue;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * A clock that tests move by hand, so that the loss of a lease can be tested without sleeping.
 *
 * <p>A client built with it runs its renewals, releases, callbacks and listeners inside {@link #advance}, in the order
 * of time, on the thread that calls it; nothing else moves the clock, with one exception: a call that has to wait, such
 * as {@link DistributedLock#tryAcquire(Duration)} on a held lock, moves the clock from event to event until its wait is
 * over. Drive one instance from one thread; let others wait with {@link DistributedLock#tryAcquireAsync}.
 */
public final class VirtualTime implements TimeSource {
    private final PriorityQueue<Event> events = new PriorityQueue<>();
    private long now;
    private long order;

    /** A clock at an arbitrary point, with nothing scheduled. */
    public VirtualTime() {}

    private record Event(long at, long order, Runnable task) implements Comparable<Event> {
        @Override
        public int compareTo(Event other) {
            return at != other.at ? Long.compare(at, other.at) : Long.compare(order, other.order);
        }
    }

    @Override
    public synchronized long nanoTime() {
        return now;
    }

    @Override
    public synchronized void schedule(Duration delay, Runnable task) {
        Objects.requireNonNull(task, "task");
        events.add(new Event(now + Nanos.of(delay), order++, task));
    }

    /**
     * Moves the clock forward and runs, in order, all that becomes due on the way, also what is scheduled meanwhile.
     * Zero runs what is due now. What a task throws ends the call, at the time of that task.
     *
     * @throws IllegalArgumentException if {@code by} is negative
     */
    public void advance(Duration by) {
        if (by.isNegative()) {
            throw new IllegalArgumentException("by must not be negative: " + by);
        }
        long until;
        synchronized (this) {
            until = now + Nanos.of(by);
        }
        for (Event e = next(until); e != null; e = next(until)) {
            e.task.run();
        }
        synchronized (this) {
            now = Math.max(now, until);
        }
    }

    /** Runs event after event until {@code done}. */
    void advanceUntil(BooleanSupplier done) {
        while (!done.getAsBoolean()) {
            Event e = next(Long.MAX_VALUE);
            if (e == null) {
                throw new IllegalStateException("this wait would never end: nothing is scheduled in virtual time");
            }
            e.task.run();
        }
    }

    private synchronized @Nullable Event next(long until) {
        Event e = events.peek();
        if (e == null || e.at > until) {
            return null;
        }
        events.remove();
        now = Math.max(now, e.at);
        return e;
    }
}
