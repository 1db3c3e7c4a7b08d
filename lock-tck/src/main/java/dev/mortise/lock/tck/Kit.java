package dev.mortise.lock.tck;

import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Checker.Verdict;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import dev.mortise.lock.tck.History.Finding;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongUnaryOperator;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * One run of the kit on one store. The scenarios are played once, side by side because they mostly wait; each rule is
 * then judged by itself.
 */
final class Kit implements AutoCloseable {
    /** Scenarios side by side. More makes the store slower, and the leases shorter than what is done in them. */
    private static final int WORKERS = 6;

    private static final int LONGEST = 12;

    private static final Set<Step.Kind> FAULTS = EnumSet.of(Step.Kind.SLOW, Step.Kind.LOSE, Step.Kind.HOLD_UP);

    final Store store;
    private final Clock clock;
    final Delays delays;
    final long seed;
    private final int scenarios;
    private final List<List<LockBackend>> clients = new ArrayList<>();
    private final Map<Rule, Failure> failures = new EnumMap<>(Rule.class);
    private final Map<Rule, Integer> tries = new EnumMap<>(Rule.class);
    private final Map<Rule, Result> results = new EnumMap<>(Rule.class);
    private final Map<Op, Map<Outcome, Integer>> answers = new EnumMap<>(Op.class);
    private final Map<Op, String> unanswered = new EnumMap<>(Op.class);
    private @Nullable Guarantees guarantees;
    private boolean played;
    private int playedScenarios;
    private String processes = "not started";

    /** The first finding of a rule. */
    private record Failure(Scenario scenario, Duration lease, Finding finding, History history) {}

    /**
     * An event that the backend does not declare to survive, caused and seen to break it.
     *
     * @param what in a sentence, with the token check that made it harmless or did not
     * @param exclusion whether two held it at a time
     * @param tokens whether a token came twice, or a smaller one after a larger
     */
    record Shown(Fault fault, String what, boolean exclusion, boolean tokens, History history) {}

    enum Status {
        PASSED,
        FAILED,
        SKIPPED
    }

    /**
     * What is known of a rule after the run.
     *
     * @param message why it failed or was skipped; empty if it passed
     */
    record Result(Rule rule, Status status, int tries, String message) {}

    Kit(Store store, Clock clock, Delays delays, long seed, int scenarios) {
        this.store = store;
        this.clock = clock;
        this.delays = delays;
        this.seed = seed;
        this.scenarios = scenarios;
    }

    /** With what the system properties say, or else the defaults. */
    static Kit of(Store store) {
        return new Kit(
                store,
                Clock.MACHINE,
                Delays.DEFAULT,
                Long.getLong("mortise.tck.seed", 1),
                Integer.getInteger("mortise.tck.scenarios", 120));
    }

    Map<Rule, Result> results() {
        return results;
    }

    int playedScenarios() {
        return playedScenarios;
    }

    Guarantees guarantees() {
        Guarantees known = guarantees;
        if (known == null) {
            known = clients(0).get(0).guarantees();
            guarantees = known;
        }
        return known;
    }

    private synchronized List<LockBackend> clients(int worker) {
        while (clients.size() <= worker) {
            List<LockBackend> some = new ArrayList<>();
            for (int i = 0; i < Scenario.CLIENTS; i++) {
                some.add(store.connect());
            }
            clients.add(some);
        }
        return clients.get(worker);
    }

    /** The verdict on one rule. */
    Result judge(Rule rule) throws Exception {
        Result result = results.get(rule);
        if (result == null) {
            result = judgeNow(rule);
            results.put(rule, result);
        }
        return result;
    }

    private Result judgeNow(Rule rule) throws Exception {
        if (rule.scope == Rule.Scope.OUTLIVES_CLIENT && !guarantees().outlivesClient()) {
            return new Result(rule, Status.SKIPPED, 0, "outlivesClient is not declared");
        }
        int tried = 0;
        if (Directed.has(rule)) {
            tried++;
            String seen = Directed.broken(rule, store, delays);
            if (seen != null) {
                return new Result(rule, Status.FAILED, tried, message(rule, seen, ""));
            }
        }
        playAll();
        tried += tries.getOrDefault(rule, 0);
        Failure failure = failures.get(rule);
        if (failure != null) {
            return new Result(rule, Status.FAILED, tried, message(failure));
        }
        if (rule == Rule.R0_4) {
            String seen = silence();
            if (seen != null) {
                return new Result(rule, Status.FAILED, tried, message(rule, seen, ""));
            }
        }
        return tried == 0
                ? new Result(rule, Status.SKIPPED, 0, unseen(rule))
                : new Result(rule, Status.PASSED, tried, "");
    }

    private String unseen(Rule rule) {
        boolean faults = store.faults().isPresent();
        if (rule.scope == Rule.Scope.FAULTS && !faults) {
            return "the Store has no Faults: its answers cannot be delayed";
        }
        if (rule.scope == Rule.Scope.HOLD_UP && !holdsUp()) {
            return faults
                    ? "the Store's Faults have no holdUp: no request can be made to wait in the store"
                    : "the Store has no Faults: no request can be made to wait in the store";
        }
        if (rule == Rule.R4_7 && tries.getOrDefault(Rule.R4_4, 0) > 0) {
            return "no refusal named a rest, which a backend need not";
        }
        return "nothing came to the point where it shows, so slow was the store or the machine; try"
                + " -Dmortise.tck.scale=4";
    }

    private synchronized boolean holdsUp() {
        return answers.containsKey(Op.HOLD_UP);
    }

    // -------------------------------------------------------------------------------------------------- scenarios

    private void playAll() throws Exception {
        if (played) {
            return;
        }
        played = true;
        List<Scenario> corpus = Scenario.corpus();
        List<Scenario> all = new ArrayList<>(corpus);
        for (int i = 0; i < scenarios; i++) {
            all.add(Scenario.raw(seed + i, LONGEST));
        }
        play(all, delays.shortLease(guarantees(), 1));
        // On a slow machine a lease can be over before anything is done in it: once more, with longer ones.
        for (int times = 4; times <= 16 && missing(); times *= 4) {
            play(corpus, delays.shortLease(guarantees(), times));
        }
        playProcesses();
    }

    private boolean missing() {
        for (Rule rule : Rule.values()) {
            boolean applies = rule.scope == Rule.Scope.ALWAYS
                    || (rule.scope == Rule.Scope.OUTLIVES_CLIENT && guarantees().outlivesClient())
                    || (rule.scope == Rule.Scope.HOLD_UP && holdsUp());
            // Where no refusal names a rest, none will with longer leases.
            applies &= rule != Rule.R4_7 || tries.getOrDefault(Rule.R4_4, 0) == 0;
            if (applies && !Directed.has(rule) && tries.getOrDefault(rule, 0) == 0) {
                return true;
            }
        }
        return false;
    }

    private void play(List<Scenario> all, Duration lease) throws InterruptedException {
        if (clock.isVirtual()) {
            for (Scenario each : all) {
                take(each, lease, run(each, lease, 0, store.faults().orElse(null)));
            }
            return;
        }
        // Faults befall all clients of the store: those scenarios are played alone, at the end.
        List<Scenario> together = all.stream()
                .filter(s -> store.faults().isEmpty() || !hasFaults(s))
                .toList();
        AtomicInteger next = new AtomicInteger();
        List<Thread> workers = new ArrayList<>();
        for (int i = 0; i < WORKERS; i++) {
            int worker = i;
            clients(i);
            Thread thread = new Thread(
                    () -> {
                        for (int at = next.getAndIncrement(); at < together.size(); at = next.getAndIncrement()) {
                            Scenario scenario = together.get(at);
                            try {
                                take(scenario, lease, run(scenario, lease, worker, null));
                            } catch (InterruptedException e) {
                                return;
                            }
                        }
                    },
                    "lock-tck-" + i);
            thread.setDaemon(true);
            thread.start();
            workers.add(thread);
        }
        for (Thread thread : workers) {
            thread.join();
        }
        for (Scenario each : all) {
            if (!together.contains(each)) {
                take(each, lease, run(each, lease, 0, store.faults().orElse(null)));
            }
        }
    }

    private static boolean hasFaults(Scenario scenario) {
        return scenario.steps().stream().map(Step::kind).anyMatch(FAULTS::contains);
    }

    private History run(Scenario scenario, Duration lease, int worker, @Nullable Faults faults)
            throws InterruptedException {
        String prefix = "tck-" + UUID.randomUUID().toString().substring(0, 13) + "-";
        return new RawPlayer(clients(worker), store, clock, lease, prefix, faults).play(scenario);
    }

    private Verdict check(History history) {
        Guarantees g = guarantees();
        LongUnaryOperator freed =
                lease -> g.freedWithin(Duration.ofNanos(lease)).toNanos();
        return Checker.check(history, freed);
    }

    private synchronized void take(Scenario scenario, Duration lease, History history) {
        Verdict verdict = check(history);
        playedScenarios++;
        note(scenario, lease, history, verdict);
    }

    /** Real clients in processes of their own, for one rule after the other what they did. */
    private void playProcesses() throws Exception {
        if (clock.isVirtual() || store.uri().isEmpty()) {
            processes = "not started: the Store has no URI";
            return;
        }
        Duration lease = delays.shortLease(guarantees(), 4);
        History history = Processes.play(store.uri().get(), store.options(), lease);
        if (history == null) {
            processes = "not judged: the processes of this machine have no clock in common";
            return;
        }
        processes = history.events().size() + " calls of three, one stopped for a while, one killed";
        Scenario scenario = new Scenario("three processes that take a lock in turn; see Taker.java", List.of());
        note(scenario, lease, history, check(history));
    }

    private synchronized void note(Scenario scenario, Duration lease, History history, Verdict verdict) {
        verdict.tries().forEach((rule, many) -> tries.merge(rule, many, Integer::sum));
        for (Event e : history.events()) {
            answers.computeIfAbsent(e.op(), op -> new EnumMap<>(Outcome.class)).merge(e.outcome(), 1, Integer::sum);
        }
        unanswered.putAll(history.unanswered());
        for (Finding finding : verdict.findings()) {
            failures.putIfAbsent(finding.rule(), new Failure(scenario, lease, finding, history));
        }
    }

    /** An answer now and then may be late on a busy machine; one in five is a backend that does not answer. */
    private synchronized @Nullable String silence() {
        for (Map.Entry<Op, Map<Outcome, Integer>> each : answers.entrySet()) {
            Map<Outcome, Integer> many = each.getValue();
            int unknown = many.getOrDefault(Outcome.UNKNOWN, 0);
            int all = many.values().stream().mapToInt(n -> n).sum();
            boolean neverNo = each.getKey() == Op.ACQUIRE && many.getOrDefault(Outcome.REFUSED, 0) == 0;
            if (unknown >= 8 && (unknown * 5 > all || neverNo)) {
                return unknown + " of " + all + " calls (" + each.getKey() + ") had no answer; the last: "
                        + unanswered.get(each.getKey());
            }
        }
        return null;
    }

    // ---------------------------------------------------------------------------------------------------- failures

    private String message(Failure failure) throws InterruptedException {
        Rule rule = failure.finding.rule();
        Failure best = shrink(failure);
        StringBuilder more = new StringBuilder();
        more.append(System.lineSeparator()).append("  scenario: ").append(best.scenario.text());
        if (best.scenario.steps().size() < failure.scenario.steps().size()) {
            more.append(System.lineSeparator()).append("  found as: ").append(failure.scenario.text());
        }
        more.append(System.lineSeparator())
                .append("  from:     ")
                .append(failure.scenario.origin())
                .append(" (the run's seed is ")
                .append(seed)
                .append("), leases of ")
                .append(best.lease.toMillis())
                .append(" ms");
        more.append(System.lineSeparator())
                .append("  what happened, in milliseconds from call to answer, one column for each client:")
                .append(System.lineSeparator())
                .append(best.history.timeline());
        return message(rule, best.finding.what(), more.toString());
    }

    private static String message(Rule rule, String seen, String more) {
        String line = System.lineSeparator();
        return "rule " + rule.number() + ": " + rule.must + line + "  why:      " + rule.intent + line + "  seen:     "
                + seen + line + "  look at:  " + rule.check + more;
    }

    /** Exactly in virtual time; as far as the time goes on a real store, where a failure does not come each time. */
    private Failure shrink(Failure failure) throws InterruptedException {
        Rule rule = failure.finding.rule();
        if (failure.scenario.steps().isEmpty()) {
            return failure;
        }
        Failure[] best = {failure};
        long until = System.nanoTime() + delays.longest().toNanos();
        @Nullable
        Faults faults = clock.isVirtual() || hasFaults(failure.scenario)
                ? store.faults().orElse(null)
                : null;
        Predicate<Scenario> fails = candidate -> {
            for (int i = 0; i < (clock.isVirtual() ? 1 : 2); i++) {
                if (!clock.isVirtual() && System.nanoTime() > until) {
                    return false;
                }
                try {
                    History history = run(candidate, failure.lease, 0, faults);
                    for (Finding finding : check(history).findings()) {
                        if (finding.rule() == rule) {
                            best[0] = new Failure(candidate, failure.lease, finding, history);
                            return true;
                        }
                    }
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    return false;
                }
            }
            return false;
        };
        failure.scenario.shrink(fails);
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        return best[0];
    }

    // ------------------------------------------------------------------------------------------------------ report

    /** One page of text. */
    String report(String title) {
        StringBuilder text = new StringBuilder();
        text.append(String.format(Locale.ROOT, "lock-tck: %s%n", title));
        text.append(String.format(Locale.ROOT, "declared: %s%n", guarantees()));
        text.append(String.format(
                Locale.ROOT,
                "%d scenarios (%d fixed, the others from seed %d on), leases of %d ms%nprocesses: %s%n%n",
                playedScenarios,
                Scenario.corpus().size(),
                seed,
                delays.shortLease(guarantees(), 1).toMillis(),
                processes));
        Map<Status, Integer> many = new EnumMap<>(Status.class);
        for (Result result : results.values()) {
            many.merge(result.status, 1, Integer::sum);
            text.append(String.format(
                    Locale.ROOT,
                    "%-4s %-7s %5d tries  %s%n",
                    result.rule.number(),
                    result.status.name().toLowerCase(Locale.ROOT),
                    result.tries,
                    result.rule.must));
            if (result.status == Status.SKIPPED) {
                text.append(String.format(Locale.ROOT, "       because %s%n", result.message));
            }
        }
        text.append(String.format(
                Locale.ROOT,
                "%n%d passed, %d failed, %d skipped%n",
                many.getOrDefault(Status.PASSED, 0),
                many.getOrDefault(Status.FAILED, 0),
                many.getOrDefault(Status.SKIPPED, 0)));
        for (Result result : results.values()) {
            if (result.status == Status.FAILED) {
                text.append(String.format(Locale.ROOT, "%n%s%n", result.message));
            }
        }
        return text.toString();
    }

    @Override
    public synchronized void close() throws Exception {
        clients.forEach(some -> some.forEach(LockBackend::close));
        store.close();
    }
}
