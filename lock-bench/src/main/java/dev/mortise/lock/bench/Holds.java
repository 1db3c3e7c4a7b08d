package dev.mortise.lock.bench;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.Histogram;

/** The holds of several processes, in the order in which they began. */
final class Holds {
    /** From when the acquire had returned to when the release was called, in nanoseconds of the machine. */
    record Hold(int process, long begin, long end) {}

    private final List<Hold> holds = new ArrayList<>();
    private final int processes;

    Holds(int processes) {
        this.processes = processes;
    }

    void add(Hold hold) {
        holds.add(hold);
    }

    void into(Map<Measure, Double> results, long start, long nanos) {
        List<Hold> sorted = new ArrayList<>(holds);
        sorted.sort(Comparator.comparingLong(Hold::begin));
        Histogram handOffs = new Histogram(TimeUnit.MINUTES.toNanos(10), 3);
        long[] counts = new long[processes];
        double overlaps = 0;
        double moved = 0;
        long latestEnd = Long.MIN_VALUE;
        for (int i = 0; i < sorted.size(); i++) {
            Hold hold = sorted.get(i);
            if (hold.begin < start + nanos) {
                counts[hold.process]++;
            }
            if (i > 0) {
                Hold before = sorted.get(i - 1);
                overlaps += hold.begin < latestEnd ? 1 : 0;
                if (hold.process != before.process) {
                    moved++;
                    handOffs.recordValue(Math.max(0, hold.begin - before.end));
                }
            }
            latestEnd = Math.max(latestEnd, hold.end);
        }
        for (Measure measure : List.of(Measure.P50, Measure.P90, Measure.P99)) {
            double percentile = Double.parseDouble(measure.label.substring(1));
            // If it never moved, there is no such time, and not one of zero.
            results.put(
                    measure,
                    handOffs.getTotalCount() == 0 ? Double.NaN : handOffs.getValueAtPercentile(percentile) / 1e3);
        }
        Shares shares = Shares.of(counts);
        shares.into(results);
        results.put(Measure.RATE, shares.mean() * processes / (nanos / 1e9));
        results.put(Measure.MOVED, sorted.size() < 2 ? 0 : 100 * moved / (sorted.size() - 1));
        results.put(Measure.COUNT, (double) sorted.size());
        results.put(Measure.OVERLAPS, overlaps);
    }
}
