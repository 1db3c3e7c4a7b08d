package dev.mortise.lock.tck;

import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.Checker.Verdict;
import dev.mortise.lock.tck.History.Finding;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.LongUnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * The scenarios of client processes, played two at a time because they mostly wait; those with faults of the store alone.
 * For one thread.
 */
final class Schedules implements AutoCloseable {
    private static final int LONGEST = 14;

    /** What is judged where a fault befell the store, and as which rule; the others suppose that it is well. */
    private static final Map<Rule, Rule> THROUGH_FAULTS = new EnumMap<>(Map.of(
            Rule.R1_1, Rule.R6_2,
            Rule.R5_1, Rule.R6_3,
            Rule.R5_2, Rule.R6_3,
            Rule.R5_3, Rule.R6_3,
            Rule.R5_6, Rule.R6_7,
            Rule.R6_4, Rule.R6_4,
            Rule.R6_5, Rule.R6_5,
            Rule.R6_8, Rule.R6_8));

    private final Store store;
    private final Guarantees guarantees;
    private final List<Processes> lanes = new ArrayList<>();

    /** Is told of each scenario, on any thread. */
    interface Player {
        void played(Scenario scenario, History history, Verdict verdict);
    }

    Schedules(
            Store store,
            Guarantees guarantees,
            String prefix,
            Duration lease,
            Duration longest,
            Class<?> program,
            int lanes)
            throws IOException {
        this.store = store;
        this.guarantees = guarantees;
        for (int i = 0; i < lanes; i++) {
            this.lanes.add(new Processes(store, guarantees, prefix, lease, longest, program));
        }
    }

    Duration lease() {
        return lanes.get(0).lease();
    }

    /** The faults that generated scenarios have: what this store declares to survive, for exclusion or for tokens. */
    List<Fault> faults() {
        Set<Fault> possible = store.faults().map(Faults::possible).orElse(Set.of());
        List<Fault> declared = new ArrayList<>();
        for (Fault fault : Fault.values()) {
            if (possible.contains(fault)
                    && (guarantees.exclusionSurvives().contains(fault.event())
                            || guarantees.tokensSurvive().contains(fault.event()))) {
                declared.add(fault);
            }
        }
        return declared;
    }

    Scenario generated(long seed) {
        return Scenario.processes(seed, LONGEST, faults());
    }

    /** The fixed ones, and one with two faults in a row, which the seed chooses. */
    List<Scenario> fixed(long seed) {
        List<Scenario> all = new ArrayList<>(Scenario.processes());
        List<Fault> faults = faults();
        if (!faults.isEmpty()) {
            String first = Step.word(faults.get((int) Long.remainderUnsigned(seed, faults.size())));
            String second = Step.word(faults.get((int) Long.remainderUnsigned(seed + 1, faults.size())));
            all.add(Scenario.parse(
                    "processes, two faults in a row",
                    "acquire 0 a; read 0 a; stop 0 1200; fault " + first + " 150; wait 340; acquire 1 a 2500; edge -13;"
                            + " acquire 2 a; edge 12; write 1 a; wait 340; write 0 a; fault " + second + " 340;"
                            + " acquire 2 a 2500; write 1 a; release 1 a; wait 500; acquire 0 a 1200"));
        }
        return all;
    }

    /**
     * Plays them.
     *
     * @param until after this reading of the clock none is begun
     */
    void play(List<Scenario> all, long until, Player player) throws IOException, InterruptedException {
        List<Scenario> left = new ArrayList<>(all);
        List<Scenario> alone = all.stream()
                .filter(s -> hasFaults(s) || s.steps().stream().anyMatch(step -> step.kind() == Step.Kind.SLOW))
                .toList();
        left.removeAll(alone);
        List<Exception> thrown = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (Processes lane : lanes) {
            Thread thread = new Thread(
                    () -> {
                        try {
                            for (Scenario next = take(left, until); next != null; next = take(left, until)) {
                                play(lane, next, player);
                            }
                        } catch (IOException | InterruptedException | RuntimeException e) {
                            synchronized (thrown) {
                                thrown.add(e);
                            }
                        }
                    },
                    "lock-tck-processes");
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (Exception e : thrown) {
            if (e instanceof IOException failed) {
                throw failed;
            }
            throw new IllegalStateException("client processes could not be played with", e);
        }
        for (Scenario each : alone) {
            if (System.nanoTime() < until) {
                play(lanes.get(0), each, player);
            }
        }
    }

    private static @Nullable Scenario take(List<Scenario> left, long until) {
        synchronized (left) {
            return left.isEmpty() || System.nanoTime() > until ? null : left.remove(0);
        }
    }

    private void play(Processes lane, Scenario scenario, Player player) throws IOException, InterruptedException {
        History history = lane.play(scenario);
        player.played(scenario, history, judge(scenario, history));
    }

    /** Again, on its own. */
    History again(Scenario scenario) throws IOException, InterruptedException {
        return lanes.get(0).play(scenario);
    }

    static boolean hasFaults(Scenario scenario) {
        return scenario.steps().stream().anyMatch(step -> step.kind() == Step.Kind.FAULT);
    }

    /** The locks that it is about. */
    static Set<String> names(History history) {
        Set<String> names = new HashSet<>();
        for (Event event : history.events()) {
            if (event.op() == Event.Op.ACQUIRE) {
                names.add(event.name());
            }
        }
        return names;
    }

    /** What the history shows, as far as what befell the store is declared to be survived. */
    Verdict judge(Scenario scenario, History history) {
        LongUnaryOperator freed =
                lease -> guarantees.freedWithin(Duration.ofNanos(lease)).toNanos();
        Verdict all = Checker.check(history, freed);
        Set<StoreEvent> events = EnumSet.noneOf(StoreEvent.class);
        for (Event event : history.events()) {
            if (event.op() == Event.Op.FAULT) {
                events.add(Fault.valueOf(event.name().replace('-', '_').toUpperCase(Locale.ROOT))
                        .event());
            }
        }
        boolean exclusion = guarantees.exclusionSurvives().containsAll(events);
        boolean tokens = guarantees.tokensSurvive().containsAll(events);
        List<Finding> findings = new ArrayList<>();
        Map<Rule, Integer> tries = new EnumMap<>(Rule.class);
        for (Finding finding : all.findings()) {
            Rule rule = told(finding.rule(), !events.isEmpty(), exclusion, tokens);
            if (rule != null) {
                findings.add(new Finding(rule, finding.what()));
            }
        }
        all.tries().forEach((rule, many) -> {
            Rule told = told(rule, !events.isEmpty(), exclusion, tokens);
            if (told != null) {
                tries.merge(told, many, Integer::sum);
            }
        });
        return new Verdict(findings, tries);
    }

    private static @Nullable Rule told(Rule rule, boolean faults, boolean exclusion, boolean tokens) {
        if (!faults) {
            // Nobody counts on what an acquire without answer has left, and it is in the way of the others.
            return rule == Rule.C7_1 ? Rule.R6_4 : rule;
        }
        boolean judged = switch (rule) {
            case R1_1 -> exclusion;
            case R5_1, R5_2, R5_6 -> tokens;
            case R5_3 -> tokens && exclusion;
            default -> true;
        };
        return judged ? THROUGH_FAULTS.get(rule) : null;
    }

    @Override
    public void close() throws IOException, InterruptedException {
        for (Processes lane : lanes) {
            lane.close();
        }
    }
}
