package dev.mortise.lock.redis;

import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.jspecify.annotations.Nullable;

/** The time limit of one call, in real time and not in the ticker's, which a test may have stopped. For one thread. */
final class Wait implements AutoCloseable {
    /** How long a wait goes on before it looks whether all is over. */
    private static final long GLANCE = TimeUnit.MILLISECONDS.toNanos(100);

    private static final Duration FOREVER = Duration.ofDays(36_500);

    private final long end;
    private final boolean interruptibly;

    /** Which it is a part of; the one to give an interrupt back. */
    private final @Nullable Wait whole;

    private boolean interrupted;

    private Wait(long end, boolean interruptibly, @Nullable Wait whole) {
        this.end = end;
        this.interruptibly = interruptibly;
        this.whole = whole;
    }

    /** An interrupt ends it. */
    static Wait interruptible(Duration length) {
        return new Wait(end(length), true, null);
    }

    /**
     * An interrupt does not end it; the thread finds itself interrupted afterwards. The flag is taken away meanwhile,
     * because a virtual thread that has it closes each socket that it reads from.
     */
    static Wait uninterruptible(Duration length) {
        Wait wait = new Wait(end(length), false, null);
        wait.interrupted = Thread.interrupted();
        return wait;
    }

    private static long end(Duration length) {
        return System.nanoTime() + (length.compareTo(FOREVER) < 0 ? length : FOREVER).toNanos();
    }

    /** A part of this wait, for at most so long from now. Not to be closed. */
    Wait part(Duration length) {
        long part = end(length);
        return new Wait(part - end < 0 ? part : end, interruptibly, this);
    }

    long end() {
        return end;
    }

    /** In nanoseconds; zero or less when it is over. */
    long left() {
        return end - System.nanoTime();
    }

    private interface Step {
        /** True if what was waited for is there. */
        boolean await(long nanos) throws InterruptedException;
    }

    /** Takes a permit; false if there was none before the end, or before it was over otherwise. */
    boolean forPermit(Semaphore permits, java.util.function.BooleanSupplier over) throws InterruptedException {
        return permits.tryAcquire() || steps(nanos -> permits.tryAcquire(nanos, TimeUnit.NANOSECONDS), over);
    }

    /** Until the result is there; false if it was not before the end, or before it was over otherwise. */
    boolean forResult(java.util.concurrent.CountDownLatch there, java.util.function.BooleanSupplier over)
            throws InterruptedException {
        return steps(nanos -> there.await(nanos, TimeUnit.NANOSECONDS), over);
    }

    /** For a signal, at most so long; the caller has the lock, and looks itself what came. */
    @SuppressWarnings("WaitNotInLoop") // The caller's.
    void forSignal(Condition condition, long nanos) throws InterruptedException {
        long most = Math.min(nanos, left());
        if (most <= 0) {
            return;
        }
        try {
            long unused = condition.awaitNanos(most);
        } catch (InterruptedException e) {
            note(e);
        }
    }

    /** A pause; cut at the end. */
    void pause(long nanos) throws InterruptedException {
        long most = Math.min(nanos, left());
        if (most <= 0) {
            return;
        }
        try {
            TimeUnit.NANOSECONDS.sleep(most);
        } catch (InterruptedException e) {
            note(e);
        }
    }

    private boolean steps(Step step, java.util.function.BooleanSupplier over) throws InterruptedException {
        while (true) {
            long left = Math.max(0, left());
            try {
                if (step.await(Math.min(left, GLANCE))) {
                    return true;
                }
            } catch (InterruptedException e) {
                note(e);
                continue;
            }
            if (left <= GLANCE || over.getAsBoolean()) {
                return false;
            }
        }
    }

    private void note(InterruptedException e) throws InterruptedException {
        if (interruptibly) {
            throw e;
        }
        interrupted = true;
        if (whole != null) {
            whole.note(e);
        }
    }

    /** Gives the thread back an interrupt that came meanwhile. */
    @Override
    public void close() {
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
