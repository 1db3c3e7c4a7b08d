package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

class ScenarioTest {

    /** A scenario is its text: printed and read again it is the same. */
    @Test
    void isItsText() {
        for (Scenario scenario : Scenario.corpus()) {
            assertThat(Scenario.parse(scenario.origin(), scenario.text())).isEqualTo(scenario);
        }
        for (Scenario scenario : Scenario.processes()) {
            assertThat(Scenario.parse(scenario.origin(), scenario.text())).isEqualTo(scenario);
        }
        List<Fault> faults = List.of(Fault.values());
        for (int seed = 0; seed < 1_000; seed++) {
            for (Scenario scenario : new Scenario[] {
                Scenario.raw(seed, 20), Scenario.client(seed, 20), Scenario.processes(seed, 20, faults)
            }) {
                assertThat(Scenario.parse(scenario.origin(), scenario.text())).isEqualTo(scenario);
            }
        }
    }

    /** A seed makes the same scenario each time. */
    @Test
    void isItsSeed() {
        assertThat(Scenario.raw(17, 30)).isEqualTo(Scenario.raw(17, 30));
    }

    /** What is not needed goes, and what is left is as small as it can be. */
    @Test
    void shrinks() {
        Scenario found = Scenario.parse(
                "", "acquire 1 b 500; wait 700; renew 2 a; release 1 b; wait 340; evict c; acquire 2 c; release 2 c");
        Scenario shortest = found.shrink(s -> s.steps().stream().anyMatch(x -> x.kind() == Step.Kind.RELEASE)
                && s.steps().stream().anyMatch(x -> x.kind() == Step.Kind.WAIT && x.amount() >= 100));
        assertThat(shortest.text()).isEqualTo("wait 150; release 0 a");
    }
}
