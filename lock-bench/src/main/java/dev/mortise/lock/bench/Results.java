package dev.mortise.lock.bench;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** What was measured: by scenario and peer, a sample a round. */
final class Results {
    private final Map<Scenario, Map<Peer, Row>> rows = new EnumMap<>(Scenario.class);

    /** One peer in one scenario. */
    static final class Row {
        final Peer peer;
        final Scenario scenario;
        final List<Sample> rounds = new ArrayList<>();
        /** Why it has no samples, or not all. */
        @Nullable
        String failure;

        private Row(Peer peer, Scenario scenario) {
            this.peer = peer;
            this.scenario = scenario;
        }

        /** Empty if it was not measured here, or never came about. */
        DoubleStream values(Measure measure) {
            return rounds.stream().mapToDouble(round -> round.get(measure)).filter(value -> !Double.isNaN(value));
        }

        /** Of all rounds; NaN if there is none. */
        double best(Measure measure) {
            return (measure.lowerIsBetter
                            ? values(measure).min()
                            : values(measure).max())
                    .orElse(Double.NaN);
        }

        double worst(Measure measure) {
            return (measure.lowerIsBetter
                            ? values(measure).max()
                            : values(measure).min())
                    .orElse(Double.NaN);
        }
    }

    /** To be filled. */
    Row row(Scenario scenario, Peer peer) {
        return rows.computeIfAbsent(scenario, key -> new EnumMap<>(Peer.class))
                .computeIfAbsent(peer, key -> new Row(peer, scenario));
    }

    /** What there is: no rounds, where nothing was measured. */
    List<Sample> rounds(Scenario scenario, Peer peer) {
        Row row = rows.getOrDefault(scenario, Map.of()).get(peer);
        return row == null ? List.of() : row.rounds;
    }

    /** Of one tier, in the order of the enum. */
    List<Row> rows(Scenario scenario, Tier tier) {
        return rows.getOrDefault(scenario, Map.of()).values().stream()
                .filter(row -> row.peer.tier() == tier)
                .toList();
    }

    List<Row> rows() {
        return rows.values().stream().flatMap(each -> each.values().stream()).toList();
    }

    /** NaN if nothing was measured. */
    double best(Scenario scenario, Measure measure, Peer peer) {
        Row row = rows.getOrDefault(scenario, Map.of()).get(peer);
        return row == null ? Double.NaN : row.best(measure);
    }

    /** The first by the second, each within its round: what disturbs the machine disturbs both. */
    double[] ratios(Scenario scenario, Measure measure, Peer first, Peer second) {
        List<Sample> a = rounds(scenario, first);
        List<Sample> b = rounds(scenario, second);
        return IntStream.range(0, Math.min(a.size(), b.size()))
                .mapToDouble(i -> a.get(i).get(measure) / b.get(i).get(measure))
                .filter(Double::isFinite)
                .toArray();
    }

    /** NaN if there is none. */
    static double median(double[] values) {
        double[] sorted = DoubleStream.of(values).sorted().toArray();
        int half = sorted.length / 2;
        return sorted.length == 0
                ? Double.NaN
                : sorted.length % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
    }
}
