package dev.mortise.lock.spi;

import java.time.Duration;
import java.util.Objects;
import java.util.function.LongSupplier;

/** What a backend gets from its client: the ticker and the call timeout. Immutable; for any thread. */
public final class BackendContext {
    private final LongSupplier ticker;
    private final Duration callTimeout;

    private BackendContext(LongSupplier ticker, Duration callTimeout) {
        this.ticker = Objects.requireNonNull(ticker, "ticker");
        this.callTimeout = Objects.requireNonNull(callTimeout, "callTimeout");
        if (callTimeout.isZero() || callTimeout.isNegative()) {
            throw new IllegalArgumentException("callTimeout must be positive: " + callTimeout);
        }
    }

    /** For clients, and for tests of backends. */
    public static BackendContext of(LongSupplier ticker, Duration callTimeout) {
        return new BackendContext(ticker, callTimeout);
    }

    /**
     * The monotonic ticker, in nanoseconds from an arbitrary point, as {@link System#nanoTime()}. The only clock that
     * {@link Grant#since()} may come from.
     */
    public long nanoTime() {
        return ticker.getAsLong();
    }

    /** The longest that a call may take, beyond the patience of an acquire. Positive. */
    public Duration callTimeout() {
        return callTimeout;
    }
}
