package dev.mortise.lock.etcd;

import java.time.Duration;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * The end of one call, whatever is done in it: in real time and not in the ticker's, which a test may have stopped. Immutable.
 */
final class Limit {
    private static final Duration FOREVER = Duration.ofDays(36_500);

    private final long end;
    private final boolean interruptible;

    private Limit(long end, boolean interruptible) {
        this.end = end;
        this.interruptible = interruptible;
    }

    /** An interrupt ends it. */
    static Limit interruptible(Duration length) {
        return new Limit(System.nanoTime() + nanos(length), true);
    }

    /** An interrupt does not end it; the thread finds itself interrupted afterwards. */
    static Limit uninterruptible(Duration length) {
        return new Limit(System.nanoTime() + nanos(length), false);
    }

    static long nanos(Duration length) {
        return (length.compareTo(FOREVER) < 0 ? length : FOREVER).toNanos();
    }

    /** A part of it, for at most so long from now. */
    Limit part(long nanos) {
        return new Limit(System.nanoTime() + Math.min(nanos, left()), interruptible);
    }

    /** In nanoseconds; zero or less when it is over. */
    long left() {
        return end - System.nanoTime();
    }

    boolean isOver() {
        return left() <= 0;
    }

    /** The result; null if it was not there before the end. What is not waited for any more is not cancelled here. */
    <T> @Nullable T await(Future<T> future) throws InterruptedException, ExecutionException {
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return future.get(Math.max(0, left()), TimeUnit.NANOSECONDS);
                } catch (TimeoutException e) {
                    return null;
                } catch (CancellationException e) {
                    throw new ExecutionException(e);
                } catch (InterruptedException e) {
                    if (interruptible) {
                        throw e;
                    }
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** A pause, cut at the end. */
    void pause(long nanos) throws InterruptedException {
        long most = Math.min(nanos, left());
        if (most <= 0) {
            return;
        }
        if (interruptible) {
            TimeUnit.NANOSECONDS.sleep(most);
            return;
        }
        long until = System.nanoTime() + most;
        boolean interrupted = false;
        while (until - System.nanoTime() > 0) {
            try {
                TimeUnit.NANOSECONDS.sleep(until - System.nanoTime());
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
