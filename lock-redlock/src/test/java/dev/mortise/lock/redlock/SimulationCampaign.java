package dev.mortise.lock.redlock;

import dev.mortise.lock.redlock.SimulatedScenario.Faults;
import dev.mortise.lock.redlock.Simulation.Property;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** Many scenarios of one kind, each of its seed. Deterministic, however many threads share the work. */
final class SimulationCampaign {
    /** The first scenario that violated a property, and how many did. */
    static final class Hit {
        long first = Long.MAX_VALUE;
        long count;
        SimulatedScenario scenario;
    }

    final Map<Property, Hit> hits = new EnumMap<>(Property.class);
    long scenarios;
    long grants;
    long totalLosses;

    /** Runs the seeds from (inclusive) to (exclusive); stops early when this property was violated, if not null. */
    static SimulationCampaign run(
            Mutant mutant,
            Faults faults,
            int servers,
            long from,
            long to,
            List<SimulatedScenario> near,
            Property stop) {
        SimulationCampaign campaign = new SimulationCampaign();
        for (long seed = from; seed < to; seed++) {
            SimulatedScenario scenario = SimulatedScenario.of(seed, faults, servers, near);
            Simulation simulation;
            try {
                simulation = Simulation.run(scenario, mutant);
            } catch (RuntimeException e) {
                throw new AssertionError("seed " + seed + ": " + scenario, e);
            }
            campaign.scenarios++;
            campaign.grants += simulation.grants;
            campaign.totalLosses += simulation.lostAll() ? 1 : 0;
            for (Property property : simulation.properties()) {
                Hit hit = campaign.hits.computeIfAbsent(property, p -> new Hit());
                hit.count++;
                if (seed < hit.first) {
                    hit.first = seed;
                    hit.scenario = scenario;
                }
            }
            if (stop != null && campaign.hits.containsKey(stop)) {
                break;
            }
        }
        return campaign;
    }

    void add(SimulationCampaign other) {
        scenarios += other.scenarios;
        grants += other.grants;
        totalLosses += other.totalLosses;
        other.hits.forEach((property, hit) -> {
            Hit mine = hits.computeIfAbsent(property, p -> new Hit());
            mine.count += hit.count;
            if (hit.first < mine.first) {
                mine.first = hit.first;
                mine.scenario = hit.scenario;
            }
        });
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        hits.forEach((property, hit) -> text.append(property)
                .append('@')
                .append(hit.first)
                .append('(')
                .append(hit.count)
                .append(") "));
        return scenarios + " scenarios, " + grants + " grants, " + totalLosses + " total losses: "
                + (hits.isEmpty() ? "clean" : text);
    }
}
