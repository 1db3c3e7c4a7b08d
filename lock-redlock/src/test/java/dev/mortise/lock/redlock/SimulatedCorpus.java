package dev.mortise.lock.redlock;

import dev.mortise.lock.redlock.Simulation.Property;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The scenarios in Simulated.txt, whose head says what its lines are. */
final class SimulatedCorpus {
    /**
     * A line.
     *
     * @param name a mutant, or of a scenario that was written by hand
     * @param property what the mutant violates; for others, what the protocol itself violates here, or null
     * @param tries how many random scenarios it took to find it; 0 if it was written by hand
     */
    record Entry(String name, Property property, long tries, SimulatedScenario scenario) {
        Mutant mutant() {
            for (Mutant mutant : Mutant.values()) {
                if (mutant.name().equals(name)) {
                    return mutant;
                }
            }
            return Mutant.NONE;
        }

        /** What no protocol could keep here. */
        Property inherent() {
            return mutant() == Mutant.NONE ? property : null;
        }
    }

    static final List<Entry> ALL = read();

    /** Near every mistake: what random scenarios begin from. */
    static final List<SimulatedScenario> NEAR =
            ALL.stream().map(Entry::scenario).distinct().toList();

    private SimulatedCorpus() {}

    private static List<Entry> read() {
        try (InputStream in = SimulatedCorpus.class.getResourceAsStream("Simulated.txt")) {
            List<Entry> all = new ArrayList<>();
            for (String line : new String(in.readAllBytes(), StandardCharsets.UTF_8).split("\n", -1)) {
                if (!line.isBlank() && !line.startsWith("#")) {
                    String[] words = line.split(" ", 4);
                    all.add(new Entry(
                            words[0],
                            words[1].equals("-") ? null : Property.valueOf(words[1]),
                            Long.parseLong(words[2]),
                            SimulatedScenario.parse(words[3])));
                }
            }
            return List.copyOf(all);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
