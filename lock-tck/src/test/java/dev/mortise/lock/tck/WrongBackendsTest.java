package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Checker.Verdict;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Every backend in {@link Wrong} is wrong, and the rule that it names must say so: no other rule counts. */
class WrongBackendsTest {
    /** What a run on a real store plays, corpus and generated ones. A wrong backend that needs more is not found there. */
    private static final int SCENARIOS = Scenario.corpus().size() + 120;

    private static final Duration LEASE = Duration.ofSeconds(1);

    private static final WrongTable TABLE = new WrongTable("Backends", Wrong.values());

    /** Short, so that what waits for ever is found soon: only what is wrong is judged with these. */
    private static final Delays DELAYS = new Delays(Duration.ofMillis(60), Duration.ofMillis(700));

    private static Verdict judge(Wrong wrong, Scenario scenario) {
        VirtualClock clock = new VirtualClock();
        SketchStore store = new SketchStore(clock, wrong, Duration.ofMillis(3));
        List<LockBackend> clients = new ArrayList<>();
        for (int i = 0; i < Scenario.CLIENTS; i++) {
            clients.add(store.connect());
        }
        Supplier<Resource> resource = wrong == Wrong.TOKENS_NOT_CHECKED
                ? () -> new WrongResource(true, true)
                : wrong == Wrong.READS_NOT_FENCED ? () -> new WrongResource(true, false) : Resource::new;
        try {
            History history = new RawPlayer(clients, store, clock, LEASE, "n-", store, resource).play(scenario);
            return Checker.check(
                    history,
                    lease -> clients.get(0)
                            .guarantees()
                            .freedWithin(Duration.ofNanos(lease))
                            .toNanos());
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static List<Scenario> scenarios(int many) {
        List<Scenario> all = new ArrayList<>(Scenario.corpus());
        for (int seed = 1; all.size() < many; seed++) {
            all.add(Scenario.raw(seed, 12));
        }
        return all;
    }

    /** A right backend breaks no rule, in no scenario. */
    @Test
    void rightBackendIsRight() {
        int many = Integer.getInteger("mortise.tck.scenarios", 20_000);
        for (Scenario scenario : scenarios(many)) {
            Verdict verdict = judge(null, scenario);
            assertThat(verdict.findings())
                    .as(scenario.origin() + ": " + scenario.text())
                    .isEmpty();
        }
    }

    /** A wrong backend breaks the rule that names it, which says its number and what it asks for. */
    @ParameterizedTest
    @EnumSource
    void wrongBackendIsFound(Wrong wrong) throws Exception {
        if (wrong.isFoundByScenarios()) {
            int number = 0;
            for (Scenario scenario : scenarios(SCENARIOS)) {
                number++;
                if (judge(wrong, scenario).breaks(wrong.rule)) {
                    Scenario shortest = scenario.shrink(s -> judge(wrong, s).breaks(wrong.rule));
                    TABLE.row(
                            wrong,
                            wrong.what,
                            wrong.rule.number(),
                            String.valueOf(number),
                            "`" + shortest.text() + "`");
                    return;
                }
            }
            throw new AssertionError(wrong + " was not found by rule " + wrong.rule + " in " + number + " scenarios");
        }
        try (Kit kit =
                new Kit(new SketchStore(Clock.MACHINE, wrong, Duration.ofMillis(3)), Clock.MACHINE, DELAYS, 1, 40)) {
            kit.asked = EnumSet.of(wrong.rule);
            Kit.Result result = kit.judge(wrong.rule);
            assertThat(result.status()).as(wrong + ", by rule " + wrong.rule).isEqualTo(Kit.Status.FAILED);
            assertThat(result.message())
                    .startsWith("rule " + wrong.rule.number() + ": ")
                    .contains(wrong.rule.must);
            TABLE.row(wrong, wrong.what, wrong.rule.number(), needed(wrong), "");
        }
    }

    private static String needed(Wrong wrong) {
        if (!wrong.faults.isEmpty()) {
            return "a fault: "
                    + wrong.faults.stream().map(Ordeal::name).sorted().collect(Collectors.joining(", "));
        }
        return Directed.has(wrong.rule) || Unanswered.has(wrong.rule) ? "a test of its own" : "a run in real time";
    }

    @AfterAll
    static void table() throws IOException {
        TABLE.end();
    }

    /** There is a wrong backend for each rule; a rule without one has never been seen to fail. */
    @Test
    void everyRuleHasAWrongBackend() {
        Set<Rule> rules = EnumSet.allOf(Rule.class);
        rules.removeIf(rule -> rule.scope == Rule.Scope.CLIENT);
        for (Wrong wrong : Wrong.values()) {
            rules.remove(wrong.rule);
        }
        assertThat(rules).isEmpty();
    }

    /** Checks tokens at writes only, or not at all. */
    private static final class WrongResource extends Resource {
        private final boolean reads;
        private final boolean writes;

        WrongResource(boolean reads, boolean writes) {
            this.reads = reads;
            this.writes = writes;
        }

        @Override
        boolean admits(long token, boolean write) {
            return (write ? writes : reads) || super.admits(token, write);
        }

        @Override
        boolean fencesReads() {
            return !reads;
        }
    }
}
