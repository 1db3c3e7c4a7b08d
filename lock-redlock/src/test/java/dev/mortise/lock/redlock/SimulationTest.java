package dev.mortise.lock.redlock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.redlock.SimulatedScenario.Faults;
import dev.mortise.lock.redlock.Simulation.Property;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** The protocol as it is, in virtual time against every fault at once: nothing that it promises is ever broken. */
class SimulationTest {
    /** How many scenarios; {@code -Dmortise.redlock.simulations=10000000} for a night. */
    private static final long SIMULATIONS = Long.getLong("mortise.redlock.simulations", 140_000);

    private static final long CHUNK = 500;

    /** Those that once broke a protocol come first: drafts of it, and its mutants. */
    @Test
    void holdsInWhatBrokeOthers() {
        List<String> broken = new ArrayList<>();
        for (SimulatedCorpus.Entry entry : SimulatedCorpus.ALL) {
            Simulation simulation = Simulation.run(entry.scenario(), Mutant.NONE);
            Set<Property> promised = simulation.properties();
            if (entry.inherent() != null) {
                assertThat(simulation.excused)
                        .as("%s, which no protocol could keep", entry.name())
                        .anyMatch(f -> f.property() == entry.inherent());
            }
            if (!promised.isEmpty()) {
                broken.add(entry.name() + " " + simulation.findings + "\n    " + entry.scenario());
            }
        }
        assertThat(broken).isEmpty();
    }

    /** The same seeds give the same courses, or no finding could be looked into. */
    @Test
    void isDeterministic() {
        for (SimulatedCorpus.Entry entry : SimulatedCorpus.ALL) {
            assertThat(Simulation.traceOf(entry.scenario(), Mutant.NONE))
                    .isEqualTo(Simulation.traceOf(
                            SimulatedScenario.parse(entry.scenario().toString()), Mutant.NONE));
        }
    }

    @Test
    void holdsInManyScenarios() throws Exception {
        ExecutorService threads =
                Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors());
        try {
            List<Future<SimulationCampaign>> parts = new ArrayList<>();
            Faults[] faults = Faults.values();
            for (long chunk = 0; chunk * CHUNK < SIMULATIONS; chunk++) {
                Faults kind = faults[(int) (chunk % faults.length)];
                int servers = chunk / faults.length % 2 == 0 ? 3 : 5;
                long from = chunk * CHUNK;
                parts.add(threads.submit(() -> SimulationCampaign.run(
                        Mutant.NONE, kind, servers, from, from + CHUNK, SimulatedCorpus.NEAR, null)));
            }
            SimulationCampaign all = new SimulationCampaign();
            for (Future<SimulationCampaign> part : parts) {
                all.add(part.get());
            }
            all.hits.forEach((property, hit) -> {
                SimulatedScenario small = Simulation.shrink(hit.scenario, Mutant.NONE, property);
                System.out.println(property + " " + small);
                Simulation.traceOf(small, Mutant.NONE).forEach(System.out::println);
            });
            System.out.println("Redlock: " + all);
            assertThat(all.hits).isEmpty();
            assertThat(all.grants).isGreaterThan(SIMULATIONS);
        } finally {
            threads.shutdownNow();
        }
    }
}
