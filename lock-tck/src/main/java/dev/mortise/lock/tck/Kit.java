package dev.mortise.lock.tck;

import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.Checker.Verdict;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import dev.mortise.lock.tck.History.Finding;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
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

    /** Generated schedules of client processes, if there is time for so many. */
    private static final int SCHEDULES = 12;

    /** How often a script is played that is to be played again: what it shows need not come each time. */
    private static final int REPLAYS = 3;

    private static final Set<Step.Kind> FAULTS = EnumSet.of(Step.Kind.SLOW, Step.Kind.LOSE, Step.Kind.HOLD_UP);

    private static final Set<Rule.Scope> NEED_FAULTS = EnumSet.of(
            Rule.Scope.FAULTS,
            Rule.Scope.HOLD_UP,
            Rule.Scope.ADOPTIONS,
            Rule.Scope.EXCLUSION_SURVIVES,
            Rule.Scope.TOKENS_SURVIVE,
            Rule.Scope.EVENTS);

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
    private @Nullable FaultRules faultRules;
    private @Nullable Exception faultRulesThrew;
    private int playedScenarios;
    private final Map<String, Duration> phases = new LinkedHashMap<>();
    private final Set<String> processNames = new LinkedHashSet<>();
    private String processes = "not started";
    private int playedSchedules;
    private Duration shrinking = Duration.ZERO;
    private @Nullable Schedules schedules;

    /** How often each fault was begun, in tests of one rule and in scenarios. */
    final Map<Fault, Integer> caused = new EnumMap<>(Fault.class);

    /** Of what is not declared. */
    final List<Shown> shown = new ArrayList<>();

    /** Declared events that cannot be caused on this store, with the reason. */
    final Map<StoreEvent, String> notTested = new EnumMap<>(StoreEvent.class);

    /** All names of this run begin with it. */
    String prefix = "tck-" + UUID.randomUUID().toString().substring(0, 6) + "-";

    /** Whether the store is the kit's alone, so that it may use names without the prefix too. */
    boolean alone = true;

    /** The rules that are asked for. */
    Set<Rule> asked = EnumSet.allOf(Rule.class);

    /** How many scenarios are played side by side. */
    int atATime = WORKERS;

    /** How long new scenarios are generated after the others. */
    Duration longer = Duration.ofMinutes(Long.getLong("mortise.tck.minutes", 0));

    /** Whether clients in processes of their own are started where they can be. */
    boolean withProcesses = true;

    /** Told a line for each phase that begins and each rule that was judged, by the thread that judges. */
    Consumer<String> progress = line -> {};

    /** The first finding of a rule. */
    private record Failure(Scenario scenario, Duration lease, Finding finding, History history, boolean byProcesses) {
        Failure(Scenario scenario, Duration lease, Finding finding, History history) {
            this(scenario, lease, finding, history, false);
        }
    }

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
     * @param took what was done for this rule alone; scenarios are played for all
     * @param message why it failed or was skipped; empty if it passed
     * @param evidence of a failure
     */
    record Result(
            Rule rule,
            Status status,
            int tries,
            Duration took,
            String message,
            @Nullable Evidence evidence) {}

    /**
     * How a rule was seen broken.
     *
     * @param scenario the shortest found that shows it, if a scenario does; what follows is then there too
     * @param foundAs the one that showed it first
     */
    record Evidence(
            String seen,
            @Nullable Scenario scenario,
            @Nullable Scenario foundAs,
            @Nullable Duration lease,
            @Nullable History history) {}

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
            Duration before = phases();
            long began = System.nanoTime();
            result = judgeNow(rule);
            Duration took = Duration.ofNanos(System.nanoTime() - began).minus(phases().minus(before));
            result = new Result(rule, result.status, result.tries, took, result.message, result.evidence);
            results.put(rule, result);
            progress.accept("rule " + rule.number() + " "
                    + switch (result.status) {
                        case PASSED -> "holds";
                        case FAILED -> "IS BROKEN";
                        case SKIPPED -> "is not tested: " + result.message;
                    });
        }
        return result;
    }

    private Result judgeNow(Rule rule) throws Exception {
        boolean adoption = rule.scope == Rule.Scope.OUTLIVES_CLIENT || rule.scope == Rule.Scope.ADOPTIONS;
        if (adoption && !guarantees().outlivesClient()) {
            return skipped(rule, "outlivesClient is not declared");
        }
        if (!alone && (FaultRules.has(rule) || NEED_FAULTS.contains(rule.scope))) {
            return skipped(rule, "no fault is caused in a store that others use");
        }
        if (FaultRules.has(rule)) {
            return judgeByFaults(rule);
        }
        if (Unanswered.has(rule)) {
            return judgeUnanswered(rule);
        }
        int tried = 0;
        if (Directed.has(rule)) {
            tried++;
            String seen = Directed.broken(rule, store, delays, prefix, alone);
            if (seen != null) {
                return failed(rule, tried, seen);
            }
        }
        playAll();
        tried += tries.getOrDefault(rule, 0);
        Failure failure = failures.get(rule);
        if (failure != null) {
            return failed(failure, tried);
        }
        if (rule == Rule.R0_4) {
            String seen = silence();
            if (seen != null) {
                return failed(rule, tried, seen);
            }
        }
        return tried == 0
                ? skipped(rule, unseen(rule))
                : new Result(rule, Status.PASSED, tried, Duration.ZERO, "", null);
    }

    private static Result skipped(Rule rule, String reason) {
        return new Result(rule, Status.SKIPPED, 0, Duration.ZERO, reason, null);
    }

    /** Where it is no scenario that shows it. */
    private static Result failed(Rule rule, int tried, String seen) {
        return new Result(
                rule,
                Status.FAILED,
                tried,
                Duration.ZERO,
                message(rule, seen, ""),
                new Evidence(seen, null, null, null, null));
    }

    /** How long what is done for all rules has taken so far. */
    private Duration phases() {
        return phases.values().stream().reduce(Duration.ZERO, Duration::plus);
    }

    private interface Phase {
        void run() throws Exception;
    }

    private void phase(String name, Phase phase) throws Exception {
        progress.accept(name);
        long began = System.nanoTime();
        phase.run();
        phases.merge(name, Duration.ofNanos(System.nanoTime() - began), Duration::plus);
    }

    private Result judgeUnanswered(Rule rule) throws Exception {
        Unanswered.Tried tried = Unanswered.test(rule, store, guarantees(), delays, prefix);
        if (tried.seen() != null) {
            Scenario scenario = new Scenario("a test of its own; see Unanswered.java", List.of());
            Duration lease = delays.shortLease(guarantees(), 1);
            return failed(
                    new Failure(scenario, lease, new Finding(rule, tried.seen()), tried.history(), false),
                    tried.tries());
        }
        return tried.tries() == 0
                ? skipped(rule, Unanswered.unseen(rule, store))
                : new Result(rule, Status.PASSED, tried.tries(), Duration.ZERO, "", null);
    }

    /** Last of all, because not every store is after it what it was. */
    private Result judgeByFaults(Rule rule) throws Exception {
        FaultRules run = faultRules();
        FaultRules.Found found = run.found(rule);
        int tried = run.tries(rule) + tries.getOrDefault(rule, 0);
        Failure byProcesses = failures.get(rule);
        if (found != null && found.history().events().isEmpty()) {
            return failed(rule, tried, found.finding().what());
        }
        if (found != null) {
            Scenario scenario = new Scenario(found.origin() + "; see Ordeal.java", List.of());
            Duration lease = delays.shortLease(guarantees(), 1);
            return failed(new Failure(scenario, lease, found.finding(), found.history()), tried);
        }
        if (byProcesses != null) {
            return failed(byProcesses, tried);
        }
        return tried == 0
                ? skipped(rule, run.unseen(rule))
                : new Result(rule, Status.PASSED, tried, Duration.ZERO, "", null);
    }

    private FaultRules faultRules() throws Exception {
        if (faultRulesThrew != null) {
            throw faultRulesThrew;
        }
        FaultRules run = faultRules;
        if (run == null) {
            if (!asked.stream().allMatch(FaultRules::has)) {
                playAll();
            }
            FaultRules begun = new FaultRules(this);
            try {
                phase("faults of the store", begun::run);
            } catch (Exception e) {
                faultRulesThrew = e;
                throw e;
            }
            run = begun;
            faultRules = run;
        }
        return run;
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
        String replayed = System.getProperty("mortise.tck.replay");
        if (replayed != null) {
            List<Scenario> same = Collections.nCopies(REPLAYS, replay(replayed));
            play(same, delays.shortLease(guarantees(), 1));
            if (withProcesses) {
                playProcesses(same, Long.MAX_VALUE);
            }
            return;
        }
        List<Scenario> corpus = Scenario.corpus();
        List<Scenario> all = new ArrayList<>(corpus);
        for (int i = 0; i < scenarios; i++) {
            all.add(Scenario.raw(seed + i, LONGEST));
        }
        phase(all.size() + " scenarios", () -> play(all, delays.shortLease(guarantees(), 1)));
        // On a slow machine a lease can be over before anything is done in it: once more, with longer ones.
        for (int times = 4; times <= 16 && missing(); times *= 4) {
            Duration lease = delays.shortLease(guarantees(), times);
            phase("the fixed scenarios again, with leases of " + lease.toMillis() + " ms", () -> play(corpus, lease));
        }
        if (withProcesses) {
            phase("clients in processes of their own", this::playProcesses);
        }
        playOn();
    }

    /** A script, or the title of a fixed one. */
    private static Scenario replay(String text) {
        for (Scenario each : Scenario.corpus()) {
            if (each.origin().endsWith(", " + text)) {
                return each;
            }
        }
        for (Scenario each : Scenario.processes()) {
            if (each.origin().endsWith(", " + text)) {
                return each;
            }
        }
        return Scenario.parse("mortise.tck.replay", text);
    }

    /** For so long as it was asked for, with new seeds all the time. */
    private void playOn() throws Exception {
        long until = System.nanoTime() + longer.toNanos();
        long next = seed + Math.max(scenarios, 1_000);
        while (System.nanoTime() < until) {
            List<Scenario> raw = new ArrayList<>();
            List<Scenario> generated = new ArrayList<>();
            for (int i = 0; i < 120; i++) {
                raw.add(Scenario.raw(next + i, LONGEST));
            }
            play(raw, delays.shortLease(guarantees(), 1));
            Schedules players = schedules;
            if (players != null) {
                for (int i = 0; i < 16; i++) {
                    generated.add(players.generated(next + i));
                }
                playProcesses(generated, until);
            }
            next += raw.size();
            progress.accept(String.format(
                    Locale.ROOT,
                    "%d minutes to go: %d scenarios, %d of client processes, seeds up to %d, rules broken: %s",
                    TimeUnit.NANOSECONDS.toMinutes(Math.max(0, until - System.nanoTime())),
                    playedScenarios,
                    playedSchedules,
                    next,
                    failures.keySet().stream().map(Rule::number).toList()));
        }
    }

    private boolean missing() {
        if (silence() != null) {
            return false; // It is not the lease that is too short.
        }
        for (Rule rule : asked) {
            boolean applies = rule.scope == Rule.Scope.ALWAYS
                    || (rule.scope == Rule.Scope.OUTLIVES_CLIENT && guarantees().outlivesClient())
                    || (rule.scope == Rule.Scope.HOLD_UP && holdsUp());
            // Where no refusal names a rest, none will with longer leases.
            applies &= !FaultRules.has(rule) && !Unanswered.has(rule);
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
        for (int i = 0; i < atATime; i++) {
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
        String names = prefix + UUID.randomUUID().toString().substring(0, 8) + "-";
        return new RawPlayer(clients(worker), store, clock, lease, names, faults).play(scenario);
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
        note(scenario, lease, history, verdict, false);
    }

    /** Real clients in processes of their own: the fixed schedules, and some that are generated. */
    private void playProcesses() throws Exception {
        Schedules players = schedules();
        if (players == null) {
            return;
        }
        Integer asked = Integer.getInteger("mortise.tck.schedules");
        long until = asked == null ? System.nanoTime() + delays.schedules().toNanos() : Long.MAX_VALUE;
        List<Scenario> generated = new ArrayList<>();
        for (int i = 0; i < (asked == null ? SCHEDULES : asked); i++) {
            generated.add(players.generated(seed + i));
        }
        List<Scenario> first = new ArrayList<>(players.fixed(seed));
        // Some of those that nobody has thought of, however slow it all is.
        int some = Math.min(SCHEDULES / 4, generated.size());
        first.addAll(generated.subList(0, some));
        playProcesses(first, Long.MAX_VALUE);
        playProcesses(generated.subList(some, generated.size()), until);
    }

    private @Nullable Schedules schedules() throws Exception {
        if (clock.isVirtual() || store.uri().isEmpty()) {
            processes = "not started: the Store has no URI";
            return null;
        }
        Schedules players = schedules;
        if (players == null) {
            players = new Schedules(
                    store,
                    guarantees(),
                    prefix,
                    delays.shortLease(guarantees(), 3),
                    delays.longest(),
                    ClientProcess.class,
                    2);
            processNames.add(ClientProcess.warm(prefix));
            schedules = players;
        }
        return players;
    }

    private void playProcesses(List<Scenario> all, long until) throws Exception {
        Schedules players = schedules();
        if (players == null) {
            return;
        }
        try {
            players.play(all, until, (scenario, history, verdict) -> {
                synchronized (this) {
                    playedSchedules++;
                    processNames.addAll(Schedules.names(history));
                    note(scenario, players.lease(), history, verdict, true);
                }
            });
            processes = playedSchedules + " schedules of three clients, leases of "
                    + players.lease().toMillis() + " ms";
        } catch (Processes.NoCommonClock e) {
            processes = "not judged: the processes of this machine have no clock in common";
        }
    }

    private synchronized void note(
            Scenario scenario, Duration lease, History history, Verdict verdict, boolean byProcesses) {
        verdict.tries().forEach((rule, many) -> tries.merge(rule, many, Integer::sum));
        // A store that a fault has befallen need not answer.
        if (!Schedules.hasFaults(scenario)) {
            for (Event e : history.events()) {
                answers.computeIfAbsent(e.op(), op -> new EnumMap<>(Outcome.class))
                        .merge(e.outcome(), 1, Integer::sum);
            }
            unanswered.putAll(history.unanswered());
        }
        for (Finding finding : verdict.findings()) {
            failures.putIfAbsent(finding.rule(), new Failure(scenario, lease, finding, history, byProcesses));
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

    private Result failed(Failure failure, int tried) throws InterruptedException {
        Rule rule = failure.finding.rule();
        boolean shrinks = !failure.scenario.steps().isEmpty();
        if (shrinks) {
            progress.accept("rule " + rule.number() + " is broken; looking for the shortest scenario that shows it");
        }
        Failure best = shrink(failure);
        StringBuilder more = new StringBuilder();
        if (shrinks) {
            more.append(System.lineSeparator()).append("  scenario: ").append(best.scenario.text());
        }
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
        return new Result(
                rule,
                Status.FAILED,
                tried,
                Duration.ZERO,
                message(rule, best.finding.what(), more.toString()),
                new Evidence(best.finding.what(), best.scenario, failure.scenario, best.lease, best.history));
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
        // Whoever breaks many rules wants to read of them, not to wait.
        Duration most = delays.shrinking(failure.byProcesses);
        Duration left = delays.shrinking().minus(shrinking);
        long began = System.nanoTime();
        long until = began + (left.compareTo(most) < 0 ? left : most).toNanos();
        @Nullable
        Faults faults = clock.isVirtual() || hasFaults(failure.scenario)
                ? store.faults().orElse(null)
                : null;
        Predicate<Scenario> fails = candidate -> {
            for (int i = 0; i < (clock.isVirtual() || failure.byProcesses ? 1 : 2); i++) {
                if (!clock.isVirtual() && System.nanoTime() > until) {
                    return false;
                }
                try {
                    Played played = again(candidate, failure, faults);
                    for (Finding finding : played.verdict.findings()) {
                        if (finding.rule() == rule) {
                            best[0] =
                                    new Failure(candidate, failure.lease, finding, played.history, failure.byProcesses);
                            return true;
                        }
                    }
                } catch (IOException e) {
                    // No process can be had any more; what was found is evidence all the same.
                    return false;
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    return false;
                }
            }
            return false;
        };
        failure.scenario.shrink(fails);
        shrinking = shrinking.plus(Duration.ofNanos(System.nanoTime() - began));
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        return best[0];
    }

    private record Played(History history, Verdict verdict) {}

    private Played again(Scenario candidate, Failure failure, @Nullable Faults faults)
            throws IOException, InterruptedException {
        Schedules players = schedules;
        if (failure.byProcesses && players != null) {
            History history = players.again(candidate);
            return new Played(history, players.judge(candidate, history));
        }
        History history = run(candidate, failure.lease, 0, faults);
        return new Played(history, check(history));
    }

    // ------------------------------------------------------------------------------------------------------ report

    Map<String, Duration> phaseTimes() {
        return phases;
    }

    String processes() {
        return processes;
    }

    /** What processes have locked, one of which may have been killed with it. */
    Set<String> processNames() {
        return processNames;
    }

    @Override
    public synchronized void close() throws Exception {
        Schedules players = schedules;
        if (players != null) {
            players.close();
        }
        try {
            clients.forEach(some -> some.forEach(LockBackend::close));
        } finally {
            store.close();
        }
    }
}
