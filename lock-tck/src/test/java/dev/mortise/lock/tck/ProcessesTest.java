package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.InMemoryBackend;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.Checker.Verdict;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class ProcessesTest {
    private static final Duration LEASE = Duration.ofMillis(600);
    private static final Duration LONGEST = Duration.ofSeconds(1);

    /** How often something is played on a machine that is too busy to show anything. */
    private static final int ENOUGH = 5;

    /** Wrong: each process has a store of its own. No test within one process can see that. */
    public static final class Lonely implements BackendProvider {
        public Lonely() {}

        @Override
        public Map<String, Guarantees> schemes() {
            return Map.of("lonely", new InMemoryBackend().guarantees());
        }

        @Override
        public List<Option<?>> options() {
            return List.of();
        }

        @Override
        public LockBackend open(StoreUri uri, BackendContext context) {
            return new InMemoryBackend();
        }
    }

    private static Schedules schedules(FileStore store) throws Exception {
        Guarantees guarantees = store.connect().guarantees();
        return new Schedules(store, guarantees, "tck-", LEASE, LONGEST, store.program(), 1);
    }

    private static List<Scenario> enough(Schedules schedules) {
        List<Scenario> all = new ArrayList<>(schedules.fixed(1));
        for (int seed = 1; seed <= 12; seed++) {
            all.add(schedules.generated(seed));
        }
        return all;
    }

    /** Holders in processes of their own that hold at a time are found in their histories. */
    @Test
    void lonelyProcessesAreFound() throws Exception {
        Store store = new Store() {
            @Override
            public LockBackend connect() {
                return new InMemoryBackend();
            }

            @Override
            public void evict(String name) {}

            @Override
            public Optional<String> uri() {
                return Optional.of("lonely://here");
            }
        };
        try (Schedules schedules =
                new Schedules(store, store.connect().guarantees(), "tck-", LEASE, LONGEST, ClientProcess.class, 1)) {
            Scenario both = Scenario.parse("both", "acquire 0 a; acquire 1 a; write 0 a; write 1 a; wait 50");
            History history = schedules.again(both);
            Verdict verdict = schedules.judge(both, history);
            assertThat(verdict.breaks(Rule.R1_1)).as(history.timeline()).isTrue();
            assertThat(verdict.breaks(Rule.R5_6)).as(history.timeline()).isTrue();
        }
    }

    /** What is right breaks no rule, in scenarios that reach all that processes can show. */
    @Test
    void rightStoreIsRight() throws Exception {
        Set<Rule> missing = EnumSet.of(
                Rule.R1_1, Rule.R1_2, Rule.R3_1, Rule.R4_3, Rule.R5_2, Rule.R5_6, Rule.R6_2, Rule.R6_3, Rule.R6_4,
                Rule.R6_7, Rule.R6_8, Rule.R7_1);
        List<String> broken = new ArrayList<>();
        try (FileStore store = new FileStore(null);
                Schedules schedules = schedules(store)) {
            List<Scenario> all = enough(schedules);
            // On a busy machine a lease can be over before anything is done in it.
            for (int times = 0; times < ENOUGH && !missing.isEmpty(); times++) {
                schedules.play(
                        times == 0 ? all : schedules.fixed(times), Long.MAX_VALUE, (scenario, history, verdict) -> {
                            missing.removeAll(verdict.tries().keySet());
                            if (!verdict.findings().isEmpty()) {
                                broken.add(scenario.text() + "\n" + verdict.findings() + "\n" + history.timeline());
                            }
                        });
            }
        }
        assertThat(broken).isEmpty();
        assertThat(missing).isEmpty();
    }

    /** Each that is wrong is found by the rule that it names, within what a run of the kit plays. */
    @ParameterizedTest
    @EnumSource
    void wrongOneIsFound(FileStore.Wrong wrong) throws Exception {
        try (FileStore store = new FileStore(wrong);
                Schedules schedules = schedules(store)) {
            // What is made for it comes first, to save time; on a busy machine another may have to do.
            List<Scenario> all = enough(schedules);
            all.sort(Comparator.comparing(scenario -> !scenario.origin().endsWith(", " + wrong.shownBy)));
            for (int i = 0; i < ENOUGH * all.size(); i++) {
                Scenario scenario = all.get(i % all.size());
                History history = schedules.again(scenario);
                if (schedules.judge(scenario, history).breaks(wrong.rule)) {
                    System.out.printf(
                            Locale.ROOT,
                            "| %s | %s | %s |%n",
                            wrong.name().toLowerCase(Locale.ROOT).replace('_', ' '),
                            wrong.rule.number(),
                            scenario.text());
                    return;
                }
            }
            throw new AssertionError(wrong + " was not found by rule " + wrong.rule);
        }
    }
}
