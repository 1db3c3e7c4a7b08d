package dev.mortise.lock.redlock;

import dev.mortise.lock.redlock.Node.Answer;
import dev.mortise.lock.redlock.Node.Kept;
import dev.mortise.lock.redlock.Node.Look;
import dev.mortise.lock.redlock.Node.Memory;
import dev.mortise.lock.redlock.Node.Proposal;
import dev.mortise.lock.redlock.Node.Renewed;
import dev.mortise.lock.redlock.Node.Silence;
import dev.mortise.lock.redlock.Node.Terms;
import dev.mortise.lock.redlock.Node.Vote;
import dev.mortise.lock.redlock.Protocol.Outcome;
import dev.mortise.lock.redlock.Protocol.State;
import dev.mortise.lock.redlock.SimulatedScenario.Kind;
import dev.mortise.lock.redlock.SimulatedScenario.Step;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * A scenario in virtual time, on one thread: the clients are the real {@link Protocol}, the servers {@link ModelServer}s,
 * the network and the clocks are of here. The same scenario always takes the same course. What happened is judged at the
 * end, and then it is seen whether the lock still works.
 */
final class Simulation {
    /** What must hold. */
    enum Property {
        /** No token is given twice. */
        F1,
        /** An acquisition that began after a grant was answered gets a larger token. */
        F2,
        /** Tokens grow in the order of holding. */
        F3,
        /** A resource guarded by tokens loses no update. */
        F5,
        /** Two holders who count on their leases never overlap. */
        S1,
        /** A renewal is confirmed only if a majority kept the claim of that owner with that token. */
        S6,
        /** A refused attempt leaves nothing behind, where no message was lost or late. */
        G1,
        /** When the faults have ended, a free lock is granted. */
        L1,
        /** The protocol threw something. */
        D0
    }

    record Finding(Property property, String what) {}

    static final Terms TERMS = new Terms(400, 1000);

    /** An arbitrary day; the servers' clocks begin here. */
    private static final long BEGIN = 1_795_000_000_000_000L;

    private static final long MILLI = 1000;
    private static final long FENCES_LIVE = 1500;
    private static final long LOST_AFTER = 250 * MILLI;
    private static final double[] SERVER_SPEEDS = {1.0, 1.002, 0.998, 1.001, 0.999};
    private static final double[] CLIENT_SPEEDS = {1.0, 1.001, 0.999};

    private record Event(long at, long number, Runnable run) {}

    final SimulatedScenario scenario;
    private final Mutant mutant;
    private final List<String> trace;
    private final int n;
    private final int majority;
    private final PriorityQueue<Event> events =
            new PriorityQueue<>((a, b) -> a.at != b.at ? Long.compare(a.at, b.at) : Long.compare(a.number, b.number));
    private final ModelServer[] servers;
    private final long[] serverAhead;
    private final long[] downUntil;
    private final Object[] snapshots;
    private final Client[] clients = new Client[SimulatedScenario.CLIENTS];
    private final List<Claim> claims = new ArrayList<>();
    private final List<Long> totalLosses = new ArrayList<>();
    private final Set<String> faulted = new HashSet<>();
    private final IdentityHashMap<List<Kept>, int[]> reallyKept = new IdentityHashMap<>();

    /** In microseconds. */
    private long now;

    private long numbers;
    private int runs;
    private int calls;
    private int owners;
    private boolean nobodyRemembers;
    private boolean clocksJumped;
    private boolean repaired;
    private boolean rolledBack;
    private long resourceToken;
    private long resourceValue;
    private long resourceWrites;

    final List<Finding> findings = new ArrayList<>();

    /** What is not promised, because a server's clock jumped, an operator took a risk, or nobody remembered. */
    final List<Finding> excused = new ArrayList<>();

    int grants;

    boolean lostAll() {
        return totalLosses.stream().anyMatch(t -> t > 0);
    }

    /** A grant, and how long its owner counts on it. */
    private static final class Claim {
        private int client;
        private int name;
        private String owner;
        private long token;
        private long leaseMillis;
        private long asked;
        private long answered;
        private long until;
        private long untilTicker;
        private long ended = -1;
        private final List<Long> renewed = new ArrayList<>(2);

        long end() {
            return ended < 0 ? until : Math.min(ended, until);
        }
    }

    private final class Client {
        private final int id;
        private int process;
        private Protocol protocol;
        private long skew;
        private long pausedUntil;
        private int slowRequests;
        private long slowRequest;
        private int slowReplies;
        private long slowReply;
        private int lostRequests;
        private int lostReplies;
        private int doubled;
        private long doubledAfter;
        private boolean writing;
        private final Claim[] holds = new Claim[2];
        private final Protocol.Acquisition[] attempts = new Protocol.Acquisition[2];
        private final String[] attemptOwners = new String[2];

        /** Owners of attempts without an outcome, which are yet to be released. */
        private final Claim[] unknown = new Claim[2];

        // Of mutants.
        private long settlesFrom = -1;
        private final Map<String, Integer> counts = new HashMap<>();
        private final IdentityHashMap<List<Kept>, int[]> renewals = new IdentityHashMap<>();

        Client(int id) {
            this.id = id;
            begin();
        }

        void begin() {
            int its = process;
            List<Node> nodes = new ArrayList<>();
            for (int i = 0; i < n; i++) {
                nodes.add(new Remote(this, i));
            }
            protocol = new Protocol(
                    nodes,
                    configured(this),
                    false,
                    this::ticker,
                    this::wall,
                    (nanos, work) -> {
                        long wait = nanos;
                        if (nanos == TERMS.attemptMillis() * 1_000_000 + Protocol.margin(400)) {
                            if (mutant == Mutant.M36_JOIN_WITHOUT_WAIT) {
                                wait = 0;
                            } else if (mutant == Mutant.M43_WAIT_FROM_AN_OLDER_MARK) {
                                settlesFrom = settlesFrom < 0 ? ticker() : settlesFrom;
                                wait = settlesFrom + nanos - ticker();
                            }
                        }
                        double micros = Math.max(0, wait) / 1000.0;
                        boolean[] off = new boolean[1];
                        at(now + (long) Math.ceil(micros / CLIENT_SPEEDS[id]), () -> {
                            if (!off[0]) {
                                on(this, its, work);
                            }
                        });
                        return () -> off[0] = true;
                    },
                    scenario.timeout() * 1_000_000L,
                    line -> {
                        log(() -> "c" + id + " says: " + line);
                        if (line.startsWith("a defect")) {
                            found(Property.D0, line);
                        }
                    });
        }

        long ticker() {
            return (long) (now * CLIENT_SPEEDS[id] * 1000);
        }

        /** In milliseconds, so that clients propose the same token now and then. */
        long wall() {
            return BEGIN + now / MILLI * MILLI + skew * MILLI;
        }

        /** When the client's ticker shows this. */
        long when(long ticker) {
            return (long) (ticker / CLIENT_SPEEDS[id] / 1000);
        }

        boolean runs() {
            return now >= pausedUntil;
        }
    }

    private boolean otherTerms(Client c) {
        return c.id == 0 && (mutant == Mutant.M27_NO_ATTEMPT_CAP || mutant == Mutant.M32_TERMS_NOT_CHECKED);
    }

    private Terms configured(Client c) {
        return otherTerms(c) ? new Terms(100_000, TERMS.longestMillis()) : TERMS;
    }

    Simulation(SimulatedScenario scenario, Mutant mutant, boolean traced) {
        this.scenario = scenario;
        this.mutant = mutant;
        this.trace = traced ? new ArrayList<>() : null;
        this.n = scenario.servers();
        this.majority = n / 2 + 1;
        this.servers = new ModelServer[n];
        this.serverAhead = new long[n];
        this.downUntil = new long[n];
        this.snapshots = new Object[n];
        for (int i = 0; i < n; i++) {
            int server = i;
            servers[i] = new ModelServer(
                    nextRun(),
                    () -> BEGIN + (long) (now * SERVER_SPEEDS[server]) + serverAhead[server],
                    FENCES_LIVE,
                    mutant);
            if (!scenario.fresh()) {
                servers[i].join(servers[i].memory("0").mark(), TERMS, 1, true);
            }
        }
        if (scenario.fresh()) {
            totalLosses.add(0L);
            nobodyRemembers = true;
        }
        for (int i = 0; i < clients.length; i++) {
            clients[i] = new Client(i);
        }
    }

    /** Runs it, and says what was found. */
    static Simulation run(SimulatedScenario scenario, Mutant mutant) {
        Simulation simulation = new Simulation(scenario, mutant, false);
        simulation.run();
        return simulation;
    }

    static List<String> traceOf(SimulatedScenario scenario, Mutant mutant) {
        Simulation simulation = new Simulation(scenario, mutant, true);
        simulation.run();
        simulation.findings.forEach(f -> simulation.trace.add(f.toString()));
        return simulation.trace;
    }

    Set<Property> properties() {
        Set<Property> all = EnumSet.noneOf(Property.class);
        findings.forEach(f -> all.add(f.property));
        return all;
    }

    /** The smallest scenario found that still violates the property. */
    static SimulatedScenario shrink(SimulatedScenario scenario, Mutant mutant, Property property) {
        SimulatedScenario best = scenario;
        boolean again = true;
        while (again) {
            again = false;
            for (SimulatedScenario smaller : best.smaller()) {
                if (run(smaller, mutant).properties().contains(property)) {
                    best = smaller;
                    again = true;
                    break;
                }
            }
        }
        return best;
    }

    private void found(Property property, String what) {
        findings.add(new Finding(property, what));
    }

    private void log(Supplier<String> line) {
        if (trace != null) {
            trace.add(String.format(Locale.ROOT, "%9.3f %s", now / 1000.0, line.get()));
        }
    }

    private String nextRun() {
        return "run" + runs++;
    }

    private static String nameOf(int name) {
        return name == 0 ? "x" : "y";
    }

    // ------------------------------------------------------------------------------------------------- time

    private void at(long time, Runnable run) {
        events.add(new Event(time, numbers++, run));
    }

    private void drain(long until) {
        while (!events.isEmpty() && events.peek().at <= until) {
            Event event = events.poll();
            now = Math.max(now, event.at);
            event.run.run();
        }
        now = Math.max(now, until);
    }

    /** On a client that may pause, or be gone. */
    private void on(Client c, int process, Runnable run) {
        if (c.process != process) {
            return;
        }
        if (c.runs()) {
            run.run();
        } else {
            at(c.pausedUntil, () -> on(c, process, run));
        }
    }

    // ------------------------------------------------------------------------------------------------- network

    private <T> CompletableFuture<T> send(
            Client c, int node, String owner, Supplier<String> what, Function<ModelServer, T> call) {
        CompletableFuture<T> future = new CompletableFuture<>();
        int process = c.process;
        int bit = 1 << node;
        long base = (1 + (c.id * 7 + node * 3) % 5) * MILLI;
        long there = base;
        long back = base;
        if ((c.slowRequests & bit) != 0) {
            c.slowRequests &= ~bit;
            there += c.slowRequest * MILLI;
            fault(owner);
        }
        if ((c.slowReplies & bit) != 0) {
            c.slowReplies &= ~bit;
            back += c.slowReply * MILLI;
            fault(owner);
        }
        boolean lostReply = (c.lostReplies & bit) != 0;
        if (lostReply) {
            c.lostReplies &= ~bit;
            fault(owner);
        }
        if ((c.doubled & bit) != 0) {
            c.doubled &= ~bit;
            fault(owner);
            deliver(
                    c,
                    process,
                    node,
                    owner,
                    () -> what.get() + ", a second time",
                    call,
                    future,
                    there + c.doubledAfter * MILLI,
                    back,
                    false);
        }
        if ((c.lostRequests & bit) != 0) {
            c.lostRequests &= ~bit;
            fault(owner);
            lost(c, process, future);
        } else {
            deliver(c, process, node, owner, what, call, future, there, back, lostReply);
        }
        return future;
    }

    private void fault(String owner) {
        if (owner != null) {
            faulted.add(owner);
        }
    }

    private <T> void lost(Client c, int process, CompletableFuture<T> future) {
        if (!scenario.silent()) {
            at(
                    now + LOST_AFTER,
                    () -> on(c, process, () -> future.completeExceptionally(new Silence("lost", true, null))));
        }
    }

    private <T> void deliver(
            Client c,
            int process,
            int node,
            String owner,
            Supplier<String> what,
            Function<ModelServer, T> call,
            CompletableFuture<T> future,
            long there,
            long back,
            boolean lostReply) {
        at(now + there, () -> {
            if (now < downUntil[node]) {
                fault(owner);
                if (!scenario.silent()) {
                    at(
                            now + back,
                            () -> on(
                                    c,
                                    process,
                                    () -> future.completeExceptionally(new Silence("refused", false, null))));
                }
                return;
            }
            T answer = call.apply(servers[node]);
            log(() -> "n" + node + ": " + what.get() + " -> " + answer);
            if (lostReply) {
                lost(c, process, future);
            } else {
                at(now + back, () -> on(c, process, () -> future.complete(answer)));
            }
        });
    }

    /** A server as a client's protocol sees it; and where those mutants sit that are not in the servers. */
    private final class Remote implements Node {
        private final Client c;
        private final int node;

        Remote(Client c, int node) {
            this.c = c;
            this.node = node;
        }

        private String call() {
            return "call" + calls++;
        }

        @Override
        public String name() {
            return "n" + node;
        }

        @Override
        public CompletableFuture<Vote> propose(Proposal p) {
            String call = call();
            if (mutant == Mutant.M01_TOKENS_COUNTED_TOGETHER && p.again() && c.counts.containsKey(p.owner() + node)) {
                return CompletableFuture.completedFuture(Vote.of(Answer.OK, p.token()));
            }
            long token = mutant == Mutant.M40_CLOCK_PROPOSED_AGAIN && p.aheadMicros() > Protocol.AHEAD_MICROS
                    ? Math.max(p.token(), c.wall())
                    : p.token();
            Terms terms = mutant == Mutant.M27_NO_ATTEMPT_CAP ? TERMS : p.terms();
            Proposal sent =
                    new Proposal(p.name(), p.owner(), token, p.leaseMillis(), p.again(), p.aheadMicros(), terms);
            CompletableFuture<Vote> vote = send(
                    c,
                    node,
                    p.owner(),
                    () -> "propose " + p.name() + " " + p.owner() + " " + (p.token() - BEGIN)
                            + (p.again() ? " again" : ""),
                    server -> server.propose(call, sent));
            String proposed = p.owner() + " " + p.token();
            return switch (mutant) {
                case M01_TOKENS_COUNTED_TOGETHER ->
                    vote.thenApply(v -> {
                        if (v.answer() == Answer.OK) {
                            c.counts.put(p.owner() + node, 1);
                        }
                        return v;
                    });
                case M10_HALF_IS_ENOUGH ->
                    vote.thenApply(v -> {
                        if (v.answer() == Answer.OK) {
                            c.counts.merge(proposed, 1, Integer::sum);
                            return v;
                        }
                        return c.counts.getOrDefault(proposed, 0) >= majority - 1 ? Vote.of(Answer.OK, p.token()) : v;
                    });
                case M37_REFUSALS_TEACH_NOTHING ->
                    vote.thenApply(v -> v.answer() == Answer.OK || v.answer() == Answer.MINE
                            ? v
                            : new Vote(v.answer(), 0, v.restMillis(), v.detail()));
                case M38_MARKS_FORGOTTEN ->
                    vote.thenCompose(v -> v.answer() == Answer.NO_MEMORY
                            ? CompletableFuture.failedFuture(new Silence("has lost its memory", false, null))
                            : CompletableFuture.completedFuture(v));
                default -> vote;
            };
        }

        @Override
        public CompletableFuture<Renewed> renew(List<Kept> kept) {
            String call = call();
            int[] really = reallyKept.computeIfAbsent(kept, x -> new int[kept.size()]);
            boolean[] counted = new boolean[1];
            CompletableFuture<Renewed> renewed =
                    send(c, node, null, () -> "renew " + kept.get(0).owner() + " (" + kept.size() + ")", server -> {
                        if (!counted[0] && server.remembers()) {
                            counted[0] = true;
                            for (int i = 0; i < really.length; i++) {
                                Kept each = kept.get(i);
                                really[i] += server.has(each.name(), each.owner(), each.token()) ? 1 : 0;
                            }
                        }
                        return server.renew(call, kept);
                    });
            if (mutant == Mutant.M22_RENEW_HALF_IS_ENOUGH) {
                int[] yes = c.renewals.computeIfAbsent(kept, x -> new int[kept.size()]);
                return renewed.thenApply(r -> {
                    List<Boolean> live = new ArrayList<>();
                    for (int i = 0; i < yes.length; i++) {
                        boolean its = r.mark() == null && r.live().get(i);
                        live.add(its || yes[i] >= majority - 1);
                        yes[i] += its ? 1 : 0;
                    }
                    return new Renewed(null, live);
                });
            }
            return renewed;
        }

        @Override
        public CompletableFuture<Boolean> release(String name, String owner) {
            if (mutant == Mutant.M23_NOTHING_GIVEN_BACK && owner.equals(c.attemptOwners[name.equals("x") ? 0 : 1])) {
                return CompletableFuture.completedFuture(false);
            }
            return send(c, node, owner, () -> "release " + name + " " + owner, server -> server.release(name, owner));
        }

        @Override
        public CompletableFuture<Memory> memory() {
            String call = call();
            CompletableFuture<Memory> memory = send(c, node, null, () -> "memory", server -> server.memory(call));
            if (otherTerms(c)) {
                return memory.thenApply(m -> new Memory(
                        m.mark(),
                        m.markAtMicros(),
                        m.nowMicros(),
                        m.high(),
                        m.readyAtMicros(),
                        m.lost() ? null : configured(c)));
            }
            if (mutant == Mutant.M06_JOIN_READS_TOO_FEW) {
                CompletableFuture<Memory> few = memory.handle(
                        (m, failure) -> m == null || m.lost() ? new Memory(null, 0, BEGIN + now, 0, 1, TERMS) : m);
                int process = c.process;
                at(
                        now + 100 * MILLI,
                        () -> on(c, process, () -> few.complete(new Memory(null, 0, BEGIN + now, 0, 1, TERMS))));
                return few;
            }
            return memory;
        }

        @Override
        public CompletableFuture<Boolean> join(String mark, Terms terms, long floor, boolean atOnce) {
            boolean begins = floor > BEGIN + Protocol.AHEAD_MICROS / 2;
            long its = mutant == Mutant.M24_INIT_WITHOUT_FLOOR && begins ? 1 : floor;
            boolean now = atOnce || mutant == Mutant.M25_JOIN_VOTES_AT_ONCE;
            return send(
                    c,
                    node,
                    null,
                    () -> "join " + mark + " floor " + (its - BEGIN) + (now ? " at once" : ""),
                    server -> server.join(mark, otherTerms(c) ? TERMS : terms, its, now));
        }

        @Override
        public CompletableFuture<Optional<Look>> look(String name) {
            return send(c, node, null, () -> "look", server -> server.look(name));
        }
    }

    // ------------------------------------------------------------------------------------------------- clients

    private void acquire(Client c, int name, long leaseMillis) {
        if (c.attempts[name] != null || c.holds[name] != null) {
            return;
        }
        giveBack(c, name, c.unknown[name]);
        String owner = mutant == Mutant.M09_OWNER_USED_AGAIN ? "o" + c.id : "o" + c.id + "." + owners++;
        attempt(c, name, leaseMillis, owner, false);
    }

    private void attempt(Client c, int name, long leaseMillis, String owner, boolean again) {
        long asked = now;
        log(() -> "c" + c.id + ": acquire " + nameOf(name) + " " + owner);
        c.attemptOwners[name] = owner;
        Protocol.Acquisition attempt = c.protocol.acquire(nameOf(name), owner, leaseMillis, 60_000_000_000L);
        c.attempts[name] = attempt;
        CompletableFuture<Outcome> unused = attempt.outcome.whenComplete((outcome, failure) -> {
            c.attempts[name] = null;
            c.attemptOwners[name] = null;
            if (outcome instanceof Outcome.Granted granted) {
                Claim claim = new Claim();
                claim.client = c.id;
                claim.name = name;
                claim.owner = owner;
                claim.token = granted.token();
                claim.leaseMillis = leaseMillis;
                claim.asked = asked;
                claim.answered = now;
                long since = mutant == Mutant.M07_DEADLINE_FROM_REPLY ? c.ticker() : granted.since();
                counted(c, claim, since);
                claims.add(claim);
                c.holds[name] = claim;
                grants++;
                log(() -> "c" + c.id + ": GRANTED " + nameOf(name) + " " + owner + " " + (claim.token - BEGIN)
                        + " until " + claim.until / 1000.0);
            } else {
                log(() -> "c" + c.id + ": not granted " + owner + ": " + (outcome == null ? failure : outcome));
                if (failure instanceof Protocol.Unavailable unavailable && unavailable.mayHaveTakenEffect()) {
                    Claim claim = new Claim();
                    claim.owner = owner;
                    claim.leaseMillis = leaseMillis;
                    c.unknown[name] = claim;
                    if (!scenario.silent()) {
                        int process = c.process;
                        at(now + 20 * MILLI, () -> on(c, process, () -> giveBack(c, name, claim)));
                    }
                } else {
                    nothingIsLeft(name, owner, again);
                }
            }
        });
        if (attempt.outcome.isDone()) {
            c.attempts[name] = null;
        }
    }

    /** From when on the holder no longer counts on it. */
    private void counted(Client c, Claim claim, long since) {
        claim.untilTicker = since + claim.leaseMillis * 1_000_000 - Protocol.margin(claim.leaseMillis);
        claim.until = c.when(claim.untilTicker);
        int process = c.process;
        long until = claim.until;
        at(
                until,
                () -> on(c, process, () -> {
                    if (claim.until == until && c.holds[claim.name] == claim) {
                        c.holds[claim.name] = null;
                    }
                }));
    }

    private void giveBack(Client c, int name, Claim claim) {
        if (claim != null && c.unknown[name] == claim) {
            c.unknown[name] = null;
            log(() -> "c" + c.id + ": release unknown " + claim.owner);
            CompletableFuture<Boolean> unused = c.protocol.release(nameOf(name), claim.owner);
            nothingIsLeft(name, claim.owner, false);
        }
    }

    private void nothingIsLeft(int name, String owner, boolean again) {
        at(now + 60 * MILLI, () -> {
            for (int i = 0; i < n; i++) {
                if (!again && !rolledBack && !faulted.contains(owner) && servers[i].has(nameOf(name), owner, 0)) {
                    found(Property.G1, "n" + i + " still has " + owner + ", which was refused");
                }
            }
        });
    }

    private void again(Client c, int name) {
        Claim unknown = c.unknown[name];
        if (unknown != null && c.attempts[name] == null) {
            c.unknown[name] = null;
            attempt(c, name, unknown.leaseMillis, unknown.owner, true);
            return;
        }
        Claim claim = c.holds[name];
        if (claim == null || now >= claim.until || c.attempts[name] != null) {
            return;
        }
        claim.ended = now;
        c.holds[name] = null;
        attempt(c, name, claim.leaseMillis, claim.owner, true);
    }

    private void release(Client c, int name) {
        giveBack(c, name, c.unknown[name]);
        Claim claim = c.holds[name];
        if (claim == null) {
            return;
        }
        claim.ended = now;
        c.holds[name] = null;
        log(() -> "c" + c.id + ": release " + claim.owner);
        CompletableFuture<Boolean> unused = c.protocol.release(nameOf(name), claim.owner);
    }

    private void renew(Client c) {
        List<Claim> renewed = new ArrayList<>();
        List<Kept> kept = new ArrayList<>();
        for (Claim claim : c.holds) {
            if (claim != null && now < claim.until) {
                renewed.add(claim);
                kept.add(new Kept(nameOf(claim.name), claim.owner, claim.token, claim.leaseMillis));
            }
        }
        if (kept.isEmpty()) {
            return;
        }
        long sent = now;
        log(() -> "c" + c.id + ": renew " + kept.size());
        long[] deadlines =
                renewed.stream().mapToLong(claim -> claim.untilTicker).toArray();
        CompletableFuture<Protocol.Renewal> unused = c.protocol
                .renew(kept, deadlines)
                .whenComplete((renewal, failure) -> {
                    for (int i = 0; renewal != null && i < kept.size(); i++) {
                        Claim claim = renewed.get(i);
                        State state = renewal.states().get(i);
                        log(() -> "c" + c.id + ": " + claim.owner + " is " + state);
                        if (claim.ended >= 0 || now >= claim.until) {
                            continue;
                        }
                        if (state == State.ENDED) {
                            claim.ended = now;
                            c.holds[claim.name] = null;
                        } else if (state == State.LIVE) {
                            int really = reallyKept.get(kept)[i];
                            if (really < majority) {
                                found(Property.S6, "confirmed " + claim.owner + ", kept by " + really + " servers");
                            }
                            claim.renewed.add(sent);
                            long since = mutant == Mutant.M16_RENEWED_FROM_REPLY ? c.ticker() : renewal.since();
                            if (c.when(since + claim.leaseMillis * 1_000_000) > claim.until) {
                                counted(c, claim, since);
                            }
                        }
                    }
                });
    }

    private void write(Client c, long after) {
        Claim claim = c.holds[0];
        if (claim == null || now >= claim.until || c.writing) {
            return;
        }
        boolean fenced = mutant != Mutant.R01_RESOURCE_IGNORES_TOKENS;
        if (fenced && claim.token < resourceToken) {
            return;
        }
        resourceToken = Math.max(resourceToken, claim.token);
        c.writing = true;
        int process = c.process;
        long read = resourceValue;
        at(now + MILLI + after * MILLI, () -> {
            if (c.process == process) {
                c.writing = false;
            }
            if (fenced && claim.token < resourceToken) {
                return;
            }
            if (resourceValue != read && totalLosses.stream().noneMatch(t -> t > 0)) {
                found(Property.F5, "an update is lost to the one with token " + (claim.token - BEGIN));
            }
            resourceToken = Math.max(resourceToken, claim.token);
            resourceValue = ++resourceWrites;
        });
    }

    // ------------------------------------------------------------------------------------------------- steps

    void run() {
        for (Step step : scenario.steps()) {
            if (step.kind() != Kind.WAIT) {
                log(() -> "-- " + step);
            }
            step(step);
            drain(now);
            totalLoss();
        }
        drain(now + 3000 * MILLI);
        works();
        judge();
    }

    private void totalLoss() {
        boolean nobody = true;
        for (ModelServer server : servers) {
            nobody &= !server.remembers();
        }
        if (nobody && !nobodyRemembers) {
            totalLosses.add(now);
        }
        nobodyRemembers = nobody;
    }

    private void step(Step step) {
        Client c = clients[step.c()];
        int node = step.a() % n;
        boolean runs = c.runs();
        long t = step.t();
        switch (step.kind()) {
            case ACQ -> {
                if (runs) {
                    acquire(c, step.a(), t);
                }
            }
            case AGAIN -> {
                if (runs) {
                    again(c, step.a());
                }
            }
            case ABANDON -> {
                if (runs && c.attempts[step.a()] != null) {
                    c.attempts[step.a()].abandon();
                }
            }
            case REL -> {
                if (runs) {
                    release(c, step.a());
                }
            }
            case RENEW -> {
                if (runs) {
                    renew(c);
                }
            }
            case WAIT -> drain(now + t * MILLI);
            case EDGE -> {
                long first = Long.MAX_VALUE;
                for (Claim claim : claims) {
                    if (claim.ended < 0 && claim.until > now) {
                        first = Math.min(first, claim.until);
                    }
                }
                if (first < Long.MAX_VALUE) {
                    drain(Math.max(now, first - t * MILLI));
                }
            }
            case WRITE -> {
                if (runs) {
                    write(c, t);
                }
            }
            case PAUSE -> {
                c.pausedUntil = Math.max(c.pausedUntil, now + t * MILLI);
                fault(c.attemptOwners[0]);
                fault(c.attemptOwners[1]);
            }
            case CRASH -> {
                c.process++;
                c.writing = false;
                c.pausedUntil = 0;
                for (int i = 0; i < 2; i++) {
                    c.attempts[i] = null;
                    c.attemptOwners[i] = null;
                    c.unknown[i] = null;
                    if (c.holds[i] != null) {
                        c.holds[i].ended = now;
                        c.holds[i] = null;
                    }
                }
                c.counts.clear();
                c.begin();
            }
            case SKEW -> c.skew = t;
            case SLOWQ -> {
                c.slowRequests = step.a();
                c.slowRequest = t;
            }
            case SLOWP -> {
                c.slowReplies = step.a();
                c.slowReply = t;
            }
            case DROPQ -> c.lostRequests = step.a();
            case DROPP -> c.lostReplies = step.a();
            case DUP -> {
                c.doubled = step.a();
                c.doubledAfter = t;
            }
            case JUMP -> {
                serverAhead[node] += t * MILLI;
                clocksJumped = true;
            }
            case DOWN -> downUntil[node] = now + t * MILLI;
            case FLUSH -> servers[node].flush();
            case RESTART -> servers[node].restart(nextRun(), null);
            case SNAP -> snapshots[node] = servers[node].snapshot();
            case ROLL -> {
                rolledBack = true;
                if (snapshots[node] == null) {
                    servers[node].flush();
                }
                servers[node].restart(nextRun(), snapshots[node]);
            }
            case START -> {
                if (runs) {
                    CompletableFuture<Void> unused = c.protocol.start();
                }
            }
            case REPAIR -> {
                if (runs) {
                    repaired = true;
                    CompletableFuture<List<String>> unused = c.protocol.repair();
                }
            }
        }
    }

    // ------------------------------------------------------------------------------------------------- liveness

    /** No faults any more: does the lock still work? */
    private void works() {
        log(() -> "-- the faults end");
        for (Client c : clients) {
            c.slowRequests = 0;
            c.slowReplies = 0;
            c.lostRequests = 0;
            c.lostReplies = 0;
            c.doubled = 0;
            drain(Math.max(now, c.pausedUntil));
        }
        for (int i = 0; i < n; i++) {
            drain(Math.max(now, downUntil[i]));
        }
        for (Client c : clients) {
            release(c, 0);
            release(c, 1);
        }
        drain(now + 2000 * MILLI);
        long busy = 0;
        for (ModelServer server : servers) {
            busy = Math.max(busy, server.busyMillis());
        }
        boolean old = busy > 3 * TERMS.longestMillis(); // A clock was set back: they are cut when somebody asks.
        if (old && !clocksJumped) {
            found(Property.L1, "a key lives for " + busy + " ms more");
            return;
        }
        if (!old) {
            drain(now + busy * MILLI * 11 / 10);
        }
        int remember = 0;
        int vote = 0;
        for (ModelServer server : servers) {
            remember += server.remembers() ? 1 : 0;
            vote += server.votes() ? 1 : 0;
        }
        if (remember > 0 && remember < n - majority + 1) {
            log(() -> "-- too few remember, the operator repairs");
            repaired = true;
            CompletableFuture<List<String>> unused = clients[1].protocol.repair();
            drain(now + 50 * MILLI);
        }
        for (Client c : clients) {
            long begin = now;
            int before = grants;
            for (int tries = 1; grants == before; tries++) {
                acquire(c, 0, TERMS.longestMillis());
                drain(now + 50 * MILLI);
                if (grants == before) {
                    if ((vote >= majority && tries >= 3 && !old) || now - begin > 10_000 * MILLI) {
                        found(
                                Property.L1,
                                "not granted to c" + c.id + " by " + tries + " tries; " + remember
                                        + " servers remember, " + vote + " vote");
                        return;
                    }
                    drain(now + 100 * MILLI);
                }
            }
            release(c, 0);
            drain(now + 50 * MILLI);
        }
        mended();
    }

    /** With a client that is in use, every server votes again after a while. */
    private void mended() {
        for (int i = 0; i < n; i++) {
            long begin = now;
            while (!servers[i].votes()) {
                if (now - begin > 10_000 * MILLI) {
                    found(
                            Property.L1,
                            "n" + i + (servers[i].remembers() ? " does not vote" : " has no memory") + " for ever");
                    return;
                }
                acquire(clients[0], 0, TERMS.longestMillis());
                drain(now + 50 * MILLI);
                release(clients[0], 0);
                drain(now + 250 * MILLI);
            }
        }
    }

    // ------------------------------------------------------------------------------------------------- judgement

    private boolean nobodyRemembered(Claim a, Claim b) {
        long from = Math.min(a.asked, b.asked);
        long to = Math.max(a.answered, b.answered);
        for (long loss : totalLosses) {
            if (loss >= from && loss <= to) {
                return true;
            }
        }
        return false;
    }

    private void judge() {
        for (int i = 0; i < claims.size(); i++) {
            for (int j = 0; j < claims.size(); j++) {
                Claim g = claims.get(i);
                Claim h = claims.get(j);
                if (i == j || g.name != h.name) {
                    continue;
                }
                boolean lost = nobodyRemembered(g, h);
                boolean sameOwner = g.owner.equals(h.owner) && mutant != Mutant.M09_OWNER_USED_AGAIN;
                if (i < j && g.token == h.token && !sameOwner) {
                    found(lost && clocksJumped, Property.F1, g, h);
                }
                if (g.answered < h.asked && (g.token > h.token || (g.token == h.token && !sameOwner))) {
                    found(lost && clocksJumped, Property.F2, g, h);
                }
                if (g.token < h.token && g.renewed.stream().anyMatch(sent -> sent > h.answered)) {
                    found(lost, Property.S6, g, h);
                }
                boolean bothHold = g.answered < g.end() && h.answered < h.end();
                if (!bothHold || sameOwner) {
                    continue;
                }
                boolean risked = clocksJumped || repaired;
                if (g.answered < h.answered && g.token >= h.token) {
                    found(lost || risked, Property.F3, g, h);
                }
                if ((g.answered < h.answered || (g.answered == h.answered && i < j)) && h.answered < g.end()) {
                    found(risked, Property.S1, g, h);
                }
            }
        }
    }

    private void found(boolean isExcused, Property property, Claim g, Claim h) {
        Finding finding = new Finding(property, text(g) + " and " + text(h));
        (isExcused ? excused : findings).add(finding);
    }

    private static String text(Claim claim) {
        return String.format(
                Locale.ROOT,
                "%s token %d, asked %.3f, held from %.3f to %.3f",
                claim.owner,
                claim.token - BEGIN,
                claim.asked / 1000.0,
                claim.answered / 1000.0,
                claim.end() / 1000.0);
    }
}
