package dev.mortise.lock.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.mortise.lock.bench.Holds.Hold;
import java.util.EnumMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What the holds of several processes say together. */
final class HoldsTest {
    private static Map<Measure, Double> of(int processes, Hold... holds) {
        Holds all = new Holds(processes);
        for (Hold hold : holds) {
            all.add(hold);
        }
        Map<Measure, Double> results = new EnumMap<>(Measure.class);
        all.into(results, 0, 1_000_000_000);
        return results;
    }

    /** Only the time from a release to another process's acquire counts, whatever the order in which they are told. */
    @Test
    void time_counts_between_processes() {
        Map<Measure, Double> results = of(
                2,
                new Hold(0, 0, 1_000_000),
                new Hold(0, 1_001_000, 2_000_000),
                new Hold(1, 2_500_000, 3_000_000),
                new Hold(0, 3_700_000, 4_000_000));
        assertThat(results.get(Measure.P50)).isCloseTo(500, within(1.0));
        assertThat(results.get(Measure.P99)).isCloseTo(700, within(1.0));
        assertThat(results.get(Measure.MOVED)).isCloseTo(66.7, within(0.1));
        assertThat(results.get(Measure.OVERLAPS)).isZero();
        assertThat(results.get(Measure.RATE)).isEqualTo(4);
        assertThat(results.get(Measure.SHARE_MIN)).isEqualTo(50);
        assertThat(results.get(Measure.SHARE_MAX)).isEqualTo(150);
    }

    /** Two holders at a time are seen, also when a third one began and ended in between. */
    @Test
    void overlaps_are_seen() {
        assertThat(of(2, new Hold(0, 0, 100), new Hold(1, 99, 200)).get(Measure.OVERLAPS))
                .isEqualTo(1);
        assertThat(of(3, new Hold(0, 0, 100), new Hold(1, 10, 20), new Hold(2, 50, 60))
                        .get(Measure.OVERLAPS))
                .isEqualTo(2);
    }

    /** A lock that never changed hands was not handed over in no time. */
    @Test
    void no_change_is_no_time() {
        assertThat(of(2, new Hold(0, 0, 100), new Hold(0, 200, 300)).get(Measure.P50))
                .isNaN();
        assertThat(of(2).get(Measure.P50)).isNaN();
    }
}
