package dev.mortise.lock.redlock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.redlock.SimulatedScenario.Faults;
import dev.mortise.lock.redlock.Simulation.Property;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** The simulation finds mistakes: each mutant breaks the property that it should. */
class MutantTest {
    /** Each by its own scenario of the corpus. */
    @Test
    void areCaught() {
        Set<Mutant> uncaught = EnumSet.complementOf(EnumSet.of(Mutant.NONE));
        System.out.println("| mutant | caught by | after scenarios | shrunk to |");
        System.out.println("|---|---|---|---|");
        for (SimulatedCorpus.Entry entry : SimulatedCorpus.ALL) {
            Mutant mutant = entry.mutant();
            if (mutant != Mutant.NONE) {
                assertThat(Simulation.run(entry.scenario(), mutant).properties())
                        .as("%s in %s", mutant, entry.scenario())
                        .contains(entry.property());
                uncaught.remove(mutant);
                System.out.println("| " + mutant + " | " + entry.property() + " | "
                        + (entry.tries() == 0 ? "by hand" : entry.tries()) + " | `" + entry.scenario() + "` |");
            }
        }
        assertThat(uncaught).isEmpty();
    }

    /** Looks for them anew, {@code -Dmortise.redlock.mutants=2000} scenarios of each kind, and prints the corpus's lines. */
    @Test
    @EnabledIfSystemProperty(named = "mortise.redlock.mutants", matches = "\\d+")
    void areFoundAnew() {
        long scenarios = Long.getLong("mortise.redlock.mutants");
        for (Mutant mutant : Mutant.values()) {
            Map<Property, SimulationCampaign.Hit> first = new EnumMap<>(Property.class);
            for (Faults faults : Faults.values()) {
                SimulationCampaign.run(mutant, faults, 3, 1, 1 + scenarios, SimulatedCorpus.NEAR, null)
                        .hits
                        .forEach((property, hit) -> first.merge(property, hit, (a, b) -> a.first <= b.first ? a : b));
            }
            first.forEach((property, hit) -> System.out.println(mutant + " " + property + " " + hit.first + " "
                    + Simulation.shrink(hit.scenario, mutant, property)));
        }
    }
}
