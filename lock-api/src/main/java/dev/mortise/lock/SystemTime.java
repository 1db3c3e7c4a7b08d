package dev.mortise.lock;

import java.time.Duration;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The machine's monotonic clock, with one daemon thread as the timer, started at its first use. */
final class SystemTime implements TimeSource, AutoCloseable {
    private final ScheduledThreadPoolExecutor timer;

    SystemTime() {
        timer = new ScheduledThreadPoolExecutor(1, Workers.daemons("mortise-timer"), (task, executor) -> {
            // After close nothing is left to be timed.
        });
        timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    }

    @Override
    public long nanoTime() {
        return System.nanoTime();
    }

    @Override
    public void schedule(Duration delay, Runnable task) {
        Future<?> unused = timer.schedule(task, Nanos.of(delay), TimeUnit.NANOSECONDS);
    }

    @Override
    public void close() {
        timer.shutdownNow();
    }
}
