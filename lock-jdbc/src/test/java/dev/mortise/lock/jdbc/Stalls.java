package dev.mortise.lock.jdbc;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A clock that stands still while this machine lets nothing run, so that a bound on what a server does is not exceeded by
 * what the machine does not.
 */
final class Stalls implements AutoCloseable {
    private final Thread pulse;
    private final AtomicLong stalled = new AtomicLong();
    private volatile boolean over;

    Stalls() {
        pulse = new Thread(
                () -> {
                    long last = System.nanoTime();
                    while (!over) {
                        try {
                            TimeUnit.MILLISECONDS.sleep(10);
                        } catch (InterruptedException e) {
                            return;
                        }
                        long now = System.nanoTime();
                        stalled.addAndGet(Math.max(0, now - last - TimeUnit.MILLISECONDS.toNanos(30)));
                        last = now;
                    }
                },
                "pulse");
        pulse.setDaemon(true);
        pulse.start();
    }

    /** In nanoseconds; for differences. */
    long now() {
        return System.nanoTime() - stalled.get();
    }

    Duration since(long then) {
        return Duration.ofNanos(now() - then);
    }

    @Override
    public void close() {
        over = true;
    }
}
