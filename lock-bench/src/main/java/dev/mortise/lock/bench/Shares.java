package dev.mortise.lock.bench;

import java.util.Arrays;
import java.util.Map;

/** How evenly something was shared out, in percent of the mean. */
record Shares(double min, double max, double mean) {
    static Shares of(long[] counts) {
        double mean = Arrays.stream(counts).average().orElseThrow();
        if (mean == 0) {
            return new Shares(100, 100, 0);
        }
        return new Shares(
                Arrays.stream(counts).min().orElseThrow() * 100 / mean,
                Arrays.stream(counts).max().orElseThrow() * 100 / mean,
                mean);
    }

    void into(Map<Measure, Double> results) {
        results.put(Measure.SHARE_MIN, min);
        results.put(Measure.SHARE_MAX, max);
        results.put(Measure.SHARE_MEAN, mean);
    }
}
