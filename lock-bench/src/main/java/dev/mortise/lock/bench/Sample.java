package dev.mortise.lock.bench;

import java.util.Map;

/**
 * What one round of one peer gave.
 *
 * @param commands what its servers did, by command, those inside scripts too: each operation, or in {@link Scenario#IDLE}
 *     each second
 */
record Sample(Map<Measure, Double> values, Map<String, Double> commands) {
    double get(Measure measure) {
        return values.getOrDefault(measure, Double.NaN);
    }
}
