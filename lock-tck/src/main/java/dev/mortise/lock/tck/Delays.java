package dev.mortise.lock.tck;

import dev.mortise.lock.spi.Guarantees;
import java.time.Duration;

/**
 * All lengths of time that the kit uses, in one place. {@code -Dmortise.tck.scale=3} makes them three times as long.
 *
 * @param shortLease of scenarios, which wait for its end
 * @param longest how long anything may take that must happen at all; never a measure of speed
 */
record Delays(Duration shortLease, Duration longest) {
    static final Delays DEFAULT = new Delays(scaled(300), scaled(10_000));

    private static Duration scaled(long millis) {
        return Duration.ofMillis((long) (millis * Double.parseDouble(System.getProperty("mortise.tck.scale", "1"))));
    }

    /** After so long no further generated schedule of client processes is begun. */
    Duration schedules() {
        return longest.multipliedBy(2);
    }

    /** So long at most are shorter scenarios looked for, on a real store, for all rules of a run. */
    Duration shrinking() {
        return longest.multipliedBy(3);
    }

    /** For one rule. */
    Duration shrinking(boolean byProcesses) {
        return longest.multipliedBy(byProcesses ? 10 : 2).dividedBy(5);
    }

    /** The short lease as this store can give it, or a multiple. */
    Duration shortLease(Guarantees guarantees, int times) {
        return fit(shortLease.multipliedBy(times), guarantees);
    }

    /** A lease that does not end while something is looked at. */
    Duration longLease(Guarantees guarantees) {
        return fit(longest.multipliedBy(3), guarantees);
    }

    private static Duration fit(Duration lease, Guarantees guarantees) {
        Duration fit = lease.compareTo(guarantees.shortestLease()) < 0 ? guarantees.shortestLease() : lease;
        fit = fit.compareTo(guarantees.longestLease()) > 0 ? guarantees.longestLease() : fit;
        long unit = Math.max(1, guarantees.granularity().toNanos());
        return Duration.ofNanos((fit.toNanos() + unit - 1) / unit * unit);
    }
}
