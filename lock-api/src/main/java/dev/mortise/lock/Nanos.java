package dev.mortise.lock;

import java.time.Duration;

/** Durations as nanoseconds that can be added to a reading of the ticker and compared by subtraction. */
final class Nanos {
    /** About 73 years: stands for everything longer, so that no sum overflows into the past. */
    static final long FOREVER = Long.MAX_VALUE / 4;

    private Nanos() {}

    static long of(Duration d) {
        if (d.toSeconds() >= FOREVER / 1_000_000_000) {
            return FOREVER;
        }
        return d.isNegative() ? 0 : d.toNanos();
    }

    static boolean reached(long now, long at) {
        return now - at >= 0;
    }

    static long later(long a, long b) {
        return a - b >= 0 ? a : b;
    }

    static long earlier(long a, long b) {
        return a - b <= 0 ? a : b;
    }
}
