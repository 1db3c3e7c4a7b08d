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
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Redlock with fencing tokens in one round trip. The client proposes a token; a server accepts it if the lock is free there
 * and the token is larger than every one that it knows; a majority for the same token is a grant. A later acquisition
 * shares a server with it, and needs a larger token there. docs/stores/redlock.md says why that holds, and what else is
 * needed when a server loses its memory.
 *
 * <p>Knows servers only as {@link Node}s, time only by a ticker and an alarm, and the wall clock only as a source of
 * proposals, which may be anything. Starts no threads and never blocks; its futures complete on the threads of the nodes
 * and of the alarm. For any thread.
 */
final class Protocol {
    /** X: how far before a server's clock a token may be that a client took from its own wall clock. A day. */
    static final long AHEAD_MICROS = 86_400_000_000L;

    /** Beyond it a script's numbers, which are doubles, no longer tell neighbours apart. In the year 2255. */
    static final long TOKENS_END = 1L << 53;

    /** How often an attempt proposes, with a larger token each time, while others have the lock at some servers. */
    static final int ROUNDS = 4;

    private static final long MILLI = 1_000_000;

    /** How the protocol waits. */
    interface Alarm {
        /**
         * Runs the work once after this time, in nanoseconds, on any thread.
         *
         * @return takes it back; too late is no mistake
         */
        Runnable after(long nanos, Runnable work);
    }

    /** What came of an acquire. */
    sealed interface Outcome {
        /** A majority has this token. The lease counts from {@code since}, a reading of the ticker. */
        record Granted(long token, long since) implements Outcome {}

        /**
         * Others have it. What this owner had is given back, and it must not ask again.
         *
         * @param restMillis when enough servers will be free unless something is renewed; -1 if that is not known
         */
        record Held(long restMillis) implements Outcome {}
    }

    /** What is known of a claim after a renewal. */
    enum State {
        LIVE,
        ENDED,
        UNKNOWN
    }

    /** The answer to a renewal: states in the order of the claims, and the reading of the ticker that leases count from. */
    record Renewal(long since, List<State> states) {}

    /** Too few servers answered, or could vote. */
    static final class Unavailable extends Exception {
        private static final long serialVersionUID = 1;

        private final String advice;
        private final boolean mayHaveTakenEffect;

        Unavailable(String what, String advice, boolean mayHaveTakenEffect) {
            super(what);
            this.advice = advice;
            this.mayHaveTakenEffect = mayHaveTakenEffect;
        }

        String advice() {
            return advice;
        }

        boolean mayHaveTakenEffect() {
            return mayHaveTakenEffect;
        }
    }

    private final List<? extends Node> nodes;
    private final int n;

    /** Q: any two sets of so many servers meet. */
    private final int majority;

    /** R: so many servers meet every majority. For odd N it is Q. */
    private final int readers;

    private final boolean termsGiven;
    private final LongSupplier ticker;
    private final LongSupplier wallMicros;
    private final Alarm alarm;
    private final long nodeTimeout;
    private final Consumer<String> log;

    private volatile Terms terms;
    private volatile boolean closed;

    /** Guards the fields below. Held for a few instructions, never while anything is called. */
    private final Object lock = new Object();

    /** The largest token known to be in use, of any name. */
    private long seen;

    /** The largest of (a token known to be in use − the ticker when it was seen), in microseconds. */
    private long pace = Long.MIN_VALUE;

    /** A server found our wall clock too far ahead: from then on it is not used. */
    private boolean wallRefused;

    private final @Nullable Sighting[] sightings;
    private final List<Debt> debts = new ArrayList<>();
    private boolean initialising;

    /**
     * A client's half of the protocol.
     *
     * @param nodes the N servers, in any order; always the same ones for all clients
     * @param terms what the client is configured for
     * @param termsGiven whether other terms found at the servers are an error, rather than taken over
     * @param ticker monotonic nanoseconds
     * @param wallMicros microseconds since 1970, by any clock
     * @param nodeTimeout how long a round waits for a server, in nanoseconds; at most half an attempt
     * @param log takes lines for the operator
     */
    Protocol(
            List<? extends Node> nodes,
            Terms terms,
            boolean termsGiven,
            LongSupplier ticker,
            LongSupplier wallMicros,
            Alarm alarm,
            long nodeTimeout,
            Consumer<String> log) {
        this.nodes = List.copyOf(nodes);
        this.n = nodes.size();
        this.majority = n / 2 + 1;
        this.readers = n - majority + 1;
        this.terms = terms;
        this.termsGiven = termsGiven;
        this.ticker = ticker;
        this.wallMicros = wallMicros;
        this.alarm = alarm;
        this.nodeTimeout = nodeTimeout;
        this.log = log;
        this.sightings = new Sighting[n];
        nodes.forEach(node -> debts.add(new Debt()));
    }

    /** The deployment's terms once {@link #start} has completed; before, the configured ones. */
    Terms terms() {
        return terms;
    }

    /** Nothing is begun any more: joins and initialisations stop where they are, which is safe at every step. */
    void close() {
        closed = true;
    }

    /** What a holder does not count on: 1 % for clocks of different speed, and 2 ms for their grain. In nanoseconds. */
    static long margin(long leaseMillis) {
        return leaseMillis * MILLI / 100 + 2 * MILLI;
    }

    // ------------------------------------------------------------------------------------------------- tokens

    /** A server told of a token. What is larger than it may be proposed. */
    private void see(long token) {
        long now = ticker.getAsLong() / 1000;
        synchronized (lock) {
            seen = Math.max(seen, token);
            pace = Math.max(pace, token - now);
        }
    }

    private record Choice(long token, long aheadMicros) {}

    /**
     * The first token to propose: the wall clock, unless tokens seen are ahead of it. Those move on at the speed of our
     * ticker, so that a client with a slow clock keeps up with those who have fast ones, and proposes once.
     *
     * <p>Servers let tokens that descend from accepted ones be twice as far ahead as those from a wall clock: if both had
     * the same limit, one server could accept what the others refuse.
     */
    private Choice first() {
        long now = ticker.getAsLong() / 1000;
        long wall = wallMicros.getAsLong();
        synchronized (lock) {
            long next = pace == Long.MIN_VALUE ? seen + 1 : Math.max(seen + 1, pace + now);
            return wall > next && !wallRefused ? new Choice(wall, AHEAD_MICROS) : new Choice(next, 2 * AHEAD_MICROS);
        }
    }

    /** The token after one was too far ahead: the next one, not the clock, which would be refused again and again. */
    private Choice next() {
        synchronized (lock) {
            return new Choice(seen + 1, 2 * AHEAD_MICROS);
        }
    }

    // ------------------------------------------------------------------------------------------------- acquire

    /**
     * Tries once to get the lock for this owner.
     *
     * @param owner never used before, or its claim is live
     * @param leaseMillis not above the longest lease
     * @param budget how long to go on proposing, in nanoseconds; giving back takes at most the node timeout more
     */
    Acquisition acquire(String name, String owner, long leaseMillis, long budget) {
        Acquisition acquisition = new Acquisition(name, owner, leaseMillis, budget);
        acquisition.round(1, true);
        return acquisition;
    }

    /** One attempt of one owner. */
    final class Acquisition {
        /**
         * Fails with {@link Unavailable}, or with {@link CancellationException} if abandoned. After {@link Unavailable} the
         * caller releases, if it may have taken effect: until then the same owner may be asked for again. In all other
         * cases but a grant the owner is burnt.
         */
        final CompletableFuture<Outcome> outcome = new CompletableFuture<>();

        private final String name;
        private final String owner;
        private final long leaseMillis;

        /** The ticker before the first send. The lease counts from here, whatever round is granted. */
        private final long sent;

        /** A decision that comes later than this after {@link #sent} is none. */
        private final long cap;

        private final long budget;

        // Guarded by this object.
        private int round;
        private long token;
        private final @Nullable Vote[] votes = new Vote[n];
        private final @Nullable String[] silent = new String[n];
        private final boolean[] accepted = new boolean[n];
        private final int[] unanswered = new int[n];
        private boolean done;
        private Runnable disarm = () -> {};

        private Acquisition(String name, String owner, long leaseMillis, long budget) {
            this.name = name;
            this.owner = owner;
            this.leaseMillis = leaseMillis;
            this.sent = ticker.getAsLong();
            this.cap = Math.min(terms.attemptMillis() * MILLI, leaseMillis * MILLI - margin(leaseMillis));
            this.budget = Math.min(budget, cap);
        }

        private void round(int number, boolean byTheClock) {
            Choice choice = byTheClock ? first() : next();
            long left = budget - (ticker.getAsLong() - sent);
            synchronized (this) {
                if (done) {
                    return;
                }
                round = number;
                token = choice.token();
                for (int i = 0; i < n; i++) {
                    votes[i] = null;
                    silent[i] = null;
                }
            }
            if (choice.token() <= 0 || choice.token() >= TOKENS_END) {
                run(fail("tokens have reached " + choice.token(), "the clock of a server or client was years ahead"));
                return;
            }
            Runnable timer = alarm.after(Math.min(nodeTimeout, left), () -> timeUp(number));
            synchronized (this) {
                disarm = timer;
            }
            Proposal proposal =
                    new Proposal(name, owner, choice.token(), leaseMillis, number > 1, choice.aheadMicros(), terms);
            for (int i = 0; i < n; i++) {
                synchronized (this) {
                    if (done || round != number) {
                        return;
                    }
                    unanswered[i]++;
                }
                int node = i;
                then(nodes.get(i).propose(proposal), (vote, failure) -> answered(number, node, vote, failure));
            }
        }

        private void answered(int number, int node, @Nullable Vote vote, @Nullable Throwable failure) {
            if (vote != null) {
                learn(node, vote);
            }
            Runnable what;
            synchronized (this) {
                boolean yes = vote != null && (vote.answer() == Answer.OK || vote.answer() == Answer.MINE);
                accepted[node] |= yes;
                if (vote != null || !mayHaveTakenEffect(failure)) {
                    unanswered[node]--;
                }
                if (done || round != number || votes[node] != null || silent[node] != null) {
                    return;
                }
                votes[node] = vote;
                silent[node] = vote == null ? why(failure) : null;
                what = decide();
            }
            run(what);
        }

        private void timeUp(int number) {
            Runnable what;
            synchronized (this) {
                if (done || round != number) {
                    return;
                }
                for (int i = 0; i < n; i++) {
                    if (votes[i] == null && silent[i] == null) {
                        silent[i] = noAnswer();
                    }
                }
                what = decide();
            }
            run(what);
        }

        private void run(@Nullable Runnable what) {
            if (what != null) {
                what.run();
            }
        }

        /** What is to be done now that one more answer is known; null if it is too early. Called under the lock. */
        private @Nullable Runnable decide() {
            int ok = 0;
            int mine = 0;
            int mostMine = 0;
            long mineToken = 0;
            int held = 0;
            int behind = 0;
            int left = 0;
            Map<Long, Integer> mineTokens = new HashMap<>(4);
            for (int i = 0; i < n; i++) {
                Vote vote = votes[i];
                if (vote == null) {
                    left += silent[i] == null ? 1 : 0;
                    continue;
                }
                switch (vote.answer()) {
                    case OK -> ok++;
                    case MINE -> {
                        mine++;
                        int same = mineTokens.merge(vote.fence(), 1, Integer::sum);
                        if (same > mostMine) {
                            mostMine = same;
                            mineToken = vote.fence();
                        }
                    }
                    case HELD -> held++;
                    case STALE, TOO_FAR -> behind++;
                    case NOT_READY, NO_MEMORY, OTHER_TERMS -> {}
                }
            }
            if (mostMine >= majority) {
                return grant(mineToken);
            }
            if (mine > 0) {
                // A claim of this owner that a majority no longer has. No second token for it.
                return mostMine + left >= majority
                        ? null
                        : fail("only a minority still has the claim of " + owner, "acquire with a new owner");
            }
            if (ok >= majority) {
                return grant(token);
            }
            if (ok + left >= majority) {
                return null;
            }
            // Where nobody holds it, we are only late: tokens of other names stand in for a fence that has expired.
            boolean more = round < (held == 0 ? 3 * ROUNDS : ROUNDS) && ticker.getAsLong() - sent < budget;
            if (more && ok + behind >= majority) {
                int number = round + 1;
                boolean byTheClock = !tooFar();
                disarm.run();
                return () -> round(number, byTheClock);
            }
            if (more && ok + behind + left >= majority) {
                return null;
            }
            int voters = ok + held + behind;
            if (voters >= majority) {
                return held > 0 || !tooFar()
                        ? refuse()
                        : fail(
                                "a majority finds the token proposed too far ahead of its clock",
                                "compare the clocks of servers and clients");
            }
            return voters + left >= majority
                    ? null
                    : fail(voters + left == n ? "no majority" : "no majority can vote", "see each server's answer");
        }

        private boolean tooFar() {
            for (Vote vote : votes) {
                if (vote != null && vote.answer() == Answer.TOO_FAR) {
                    return true;
                }
            }
            return false;
        }

        private @Nullable Runnable grant(long granted) {
            if (ticker.getAsLong() - sent >= cap) {
                return fail("a majority agreed, but too late to count on", "find out why the servers are slow");
            }
            return end(() -> {
                see(granted);
                outcome.complete(new Outcome.Granted(granted, sent));
            });
        }

        private Runnable refuse() {
            Outcome held = new Outcome.Held(rest());
            return giveBack(() -> outcome.complete(held));
        }

        private Runnable fail(String why, String advice) {
            StringJoiner answers = new StringJoiner("; ", why + " (", ")");
            boolean may = false;
            synchronized (this) {
                for (int i = 0; i < n; i++) {
                    answers.add(nodes.get(i).name() + ": " + described(votes[i], silent[i]));
                    may |= accepted[i] || unanswered[i] > 0;
                }
            }
            Unavailable failure = new Unavailable(answers.toString(), advice, may);
            return end(() -> outcome.completeExceptionally(failure));
        }

        private Runnable end(Runnable then) {
            synchronized (this) {
                done = true;
                disarm.run();
            }
            return then;
        }

        /** When enough servers will be free for somebody else to get a majority. */
        private long rest() {
            long[] rests = new long[n];
            int known = 0;
            for (Vote vote : votes) {
                if (vote != null && vote.answer() == Answer.HELD && vote.restMillis() >= 0) {
                    rests[known++] = vote.restMillis();
                } else if (vote != null && (vote.answer() == Answer.OK || vote.answer() == Answer.STALE)) {
                    rests[known++] = 0;
                }
            }
            if (known < majority) {
                return -1;
            }
            Arrays.sort(rests, 0, known);
            return rests[majority - 1];
        }

        /**
         * Ends the attempt, and removes this owner's key wherever it may be, or may come to be. Waits for those servers
         * that are known to have had it.
         */
        private Runnable giveBack(Runnable then) {
            boolean[] release = new boolean[n];
            boolean[] await = new boolean[n];
            synchronized (this) {
                done = true;
                disarm.run();
                for (int i = 0; i < n; i++) {
                    release[i] = accepted[i] || unanswered[i] > 0;
                    await[i] = accepted[i];
                }
            }
            return () -> {
                AtomicBoolean once = new AtomicBoolean();
                Runnable end = () -> {
                    if (once.compareAndSet(false, true)) {
                        then.run();
                    }
                };
                List<CompletableFuture<?>> awaited = new ArrayList<>();
                for (int i = 0; i < n; i++) {
                    if (release[i]) {
                        CompletableFuture<Boolean> released = releaseAt(i, name, owner);
                        if (await[i]) {
                            awaited.add(released);
                        }
                    }
                }
                if (awaited.isEmpty()) {
                    end.run();
                    return;
                }
                Runnable timer = alarm.after(nodeTimeout, end);
                all(awaited, () -> {
                    timer.run();
                    end.run();
                });
            };
        }

        /** The caller does not want it any more. What it had, or gets yet, is given back; if it is granted, nothing happens. */
        void abandon() {
            Runnable what;
            synchronized (this) {
                if (done) {
                    return;
                }
                what = giveBack(() -> outcome.completeExceptionally(new CancellationException("abandoned")));
            }
            what.run();
        }
    }

    private void learn(int node, Vote vote) {
        switch (vote.answer()) {
            case HELD, STALE, NOT_READY -> see(vote.fence());
            case TOO_FAR -> {
                see(vote.fence());
                synchronized (lock) {
                    wallRefused = true;
                }
            }
            case NO_MEMORY -> sighted(node, vote.detail());
            // An accepted token is no news before it is granted: seen, it would be proposed again, and refused again by
            // those that find it too far ahead.
            case OK, MINE, OTHER_TERMS -> {}
        }
    }

    private String described(@Nullable Vote vote, @Nullable String why) {
        if (vote == null) {
            return why == null ? "not asked" : why;
        }
        return switch (vote.answer()) {
            case OK -> "agreed";
            case MINE -> "has token " + vote.fence() + " of this owner";
            case HELD -> "held by another";
            case STALE -> "knows token " + vote.fence();
            case TOO_FAR -> "finds the token too far ahead";
            case NOT_READY -> "votes again in " + vote.restMillis() + " ms, after it had lost its memory";
            case NO_MEMORY -> "has lost its memory";
            case OTHER_TERMS -> "is of a deployment with " + vote.detail() + ", not " + terms;
        };
    }

    // ------------------------------------------------------------------------------------------------- renew, release

    /**
     * Renews these claims with one call to each server.
     *
     * @param deadlines of each claim, as readings of the ticker; one that is answered later is not revived
     */
    CompletableFuture<Renewal> renew(List<Kept> kept, long[] deadlines) {
        CompletableFuture<Renewal> result = new CompletableFuture<>();
        long since = ticker.getAsLong();
        int[] yes = new int[kept.size()];
        int[] no = new int[kept.size()];
        gather(node -> nodes.get(node).renew(kept), new Counting<Renewed>() {
            @Override
            public void on(int node, Renewed answer) {
                String mark = answer.mark();
                if (mark != null) {
                    // It may have kept the keys, and count again once it has joined: neither yes nor no.
                    sighted(node, mark);
                    return;
                }
                for (int i = 0; i < yes.length; i++) {
                    if (answer.live().get(i)) {
                        yes[i]++;
                    } else {
                        no[i]++;
                    }
                }
            }

            @Override
            public boolean decided() {
                for (int i = 0; i < yes.length; i++) {
                    if (yes[i] < majority && no[i] <= n - majority) {
                        return false;
                    }
                }
                return true;
            }

            @Override
            public void end(int answers, @Nullable Unavailable silence) {
                List<State> states = new ArrayList<>(yes.length);
                boolean known = false;
                long now = ticker.getAsLong();
                for (int i = 0; i < yes.length; i++) {
                    State state = yes[i] >= majority && now - deadlines[i] < 0
                            ? State.LIVE
                            : no[i] > n - majority ? State.ENDED : State.UNKNOWN;
                    known |= state != State.UNKNOWN;
                    states.add(state);
                }
                if (!known && silence != null) {
                    result.completeExceptionally(silence);
                } else {
                    result.complete(new Renewal(since, states));
                }
            }
        });
        return result;
    }

    /**
     * Removes this owner's key everywhere.
     *
     * @return whether a majority may have had it, and it was removed where there is an answer
     */
    CompletableFuture<Boolean> release(String name, String owner) {
        CompletableFuture<Boolean> result = new CompletableFuture<>();
        int[] removed = new int[1];
        int[] none = new int[1];
        gather(node -> releaseAt(node, name, owner), new Counting<Boolean>() {
            @Override
            public void on(int node, Boolean answer) {
                (answer ? removed : none)[0]++;
            }

            @Override
            public boolean decided() {
                return removed[0] >= majority || none[0] > n - majority;
            }

            @Override
            public void end(int answers, @Nullable Unavailable silence) {
                if (silence != null) {
                    result.completeExceptionally(silence);
                } else {
                    // A minority is silent: it may have been the rest of a majority.
                    result.complete(removed[0] > 0 && none[0] <= n - majority);
                }
            }
        });
        return result;
    }

    /** Who has the name at a majority of servers. */
    CompletableFuture<Optional<Look>> holder(String name) {
        CompletableFuture<Optional<Look>> result = new CompletableFuture<>();
        List<Look> looks = new ArrayList<>();
        gather(node -> nodes.get(node).look(name), new Counting<Optional<Look>>() {
            @Override
            public void on(int node, Optional<Look> answer) {
                answer.ifPresent(looks::add);
            }

            @Override
            public boolean decided() {
                return found().isPresent();
            }

            private Optional<Look> found() {
                for (Look each : looks) {
                    long same = looks.stream()
                            .filter(l -> l.owner().equals(each.owner()) && l.token() == each.token())
                            .count();
                    if (same >= majority) {
                        return Optional.of(each);
                    }
                }
                return Optional.empty();
            }

            @Override
            public void end(int answers, @Nullable Unavailable silence) {
                if (silence != null) {
                    result.completeExceptionally(silence);
                } else {
                    result.complete(found());
                }
            }
        });
        return result;
    }

    // ------------------------------------------------------------------------------------------------- owed releases

    /** At most so many for each server; those that are dropped end by themselves. */
    private static final int MOST_OWED = 1000;

    private static final long FIRST_OWED_PAUSE = 50 * MILLI;
    private static final long LONGEST_OWED_PAUSE = 1000 * MILLI;

    private record Owed(String name, String owner, long until) {}

    /** Releases that a server did not acknowledge: its key would keep others out for a lease. Guarded by {@link #lock}. */
    private static final class Debt {
        private final Deque<Owed> owed = new ArrayDeque<>();
        private boolean paying;
        private long pause = FIRST_OWED_PAUSE;
    }

    private CompletableFuture<Boolean> releaseAt(int node, String name, String owner) {
        CompletableFuture<Boolean> released = nodes.get(node).release(name, owner);
        then(released, (answer, failure) -> {
            if (answer == null) {
                owe(node, name, owner);
            }
        });
        return released;
    }

    private void owe(int node, String name, String owner) {
        Debt debt = debts.get(node);
        long until = ticker.getAsLong() + terms.longestMillis() * MILLI;
        long pause;
        synchronized (lock) {
            if (closed) {
                return;
            }
            if (debt.owed.size() == MOST_OWED) {
                debt.owed.removeFirst();
            }
            debt.owed.addLast(new Owed(name, owner, until));
            if (debt.paying) {
                return;
            }
            debt.paying = true;
            pause = debt.pause;
        }
        Runnable unused = alarm.after(pause, () -> pay(node));
    }

    /** Sends the oldest again; the others when that is acknowledged, so that a server that is down is asked rarely. */
    private void pay(int node) {
        Debt debt = debts.get(node);
        Owed first;
        synchronized (lock) {
            long now = ticker.getAsLong();
            debt.owed.removeIf(o -> o.until() - now < 0);
            first = closed ? null : debt.owed.peekFirst();
            if (first == null) {
                debt.paying = false;
                debt.pause = FIRST_OWED_PAUSE;
                return;
            }
        }
        Owed owed = first;
        AtomicBoolean once = new AtomicBoolean();
        Runnable late = alarm.after(2 * nodeTimeout, () -> paid(node, owed, false, once));
        then(nodes.get(node).release(owed.name(), owed.owner()), (answer, failure) -> {
            late.run();
            paid(node, owed, answer != null, once);
        });
    }

    private void paid(int node, Owed owed, boolean acknowledged, AtomicBoolean once) {
        if (!once.compareAndSet(false, true)) {
            return;
        }
        Debt debt = debts.get(node);
        long pause;
        synchronized (lock) {
            if (acknowledged) {
                debt.owed.remove(owed);
                debt.pause = FIRST_OWED_PAUSE;
            } else {
                debt.pause = Math.min(LONGEST_OWED_PAUSE, 2 * debt.pause);
            }
            pause = debt.pause;
        }
        if (acknowledged) {
            pay(node);
        } else {
            Runnable unused = alarm.after(pause, () -> pay(node));
        }
    }

    private interface Counting<A> {
        void on(int node, A answer);

        boolean decided();

        /** Called once. With a failure if fewer than a majority answered. */
        void end(int answers, @Nullable Unavailable silence);
    }

    /** Asks all servers, until it is decided, or all have answered, or the node timeout is over. */
    private <A> void gather(IntFunction<CompletableFuture<A>> call, Counting<A> counting) {
        Object guard = new Object();
        boolean[] done = new boolean[n];
        @Nullable String[] silent = new String[n];
        int[] count = new int[2]; // answers, ends
        boolean[] over = new boolean[1];
        Runnable end = () -> {
            Unavailable failure = null;
            int answers;
            synchronized (guard) {
                if (over[0]) {
                    return;
                }
                over[0] = true;
                answers = count[0];
                if (answers < majority) {
                    StringJoiner names =
                            new StringJoiner("; ", answers + " of " + n + " servers answered, no majority (", ")");
                    for (int i = 0; i < n; i++) {
                        String why = silent[i];
                        names.add(nodes.get(i).name() + ": " + (why != null ? why : done[i] ? "answered" : noAnswer()));
                    }
                    failure = new Unavailable(names.toString(), "check that the servers run and can be reached", true);
                }
            }
            counting.end(answers, failure);
        };
        Runnable timer = alarm.after(nodeTimeout, end);
        for (int i = 0; i < n; i++) {
            int node = i;
            then(call.apply(i), (answer, failure) -> {
                boolean ends;
                synchronized (guard) {
                    if (over[0] || done[node]) {
                        return;
                    }
                    done[node] = true;
                    count[1]++;
                    if (answer != null) {
                        count[0]++;
                        counting.on(node, answer);
                    } else {
                        silent[node] = why(failure);
                    }
                    ends = count[1] == n || (count[0] >= majority && counting.decided());
                }
                if (ends) {
                    timer.run();
                    end.run();
                }
            });
        }
    }

    // ------------------------------------------------------------------------------------------------- memory

    /** A server's loss of memory, as this client knows it. */
    private static final class Sighting {
        private final String mark;
        private final long first;
        private boolean joining;
        private long tried;

        Sighting(String mark, long first) {
            this.mark = mark;
            this.first = first;
            this.tried = first;
        }
    }

    /**
     * The end of every attempt that could still count on what this server said before it lost its memory: on our own
     * ticker, because a step of the server's clock would end it early.
     */
    private long settling() {
        long attempt = terms.attemptMillis();
        return attempt * MILLI + margin(attempt);
    }

    /** A server says that it has lost its memory. It is given a new one when every attempt from before is decided. */
    private void sighted(int node, String mark) {
        long now = ticker.getAsLong();
        Sighting sighting;
        synchronized (lock) {
            sighting = sightings[node];
            if (sighting != null && sighting.mark.equals(mark)) {
                if (now - sighting.first < settling() || now - sighting.tried < nodeTimeout) {
                    return;
                }
            } else {
                sighting = new Sighting(mark, now);
                sightings[node] = sighting;
            }
        }
        Sighting known = sighting;
        if (known.first == now) {
            Runnable unused = alarm.after(settling(), () -> join(node, known));
        } else {
            join(node, known);
        }
    }

    private void join(int node, Sighting sighting) {
        synchronized (lock) {
            if (closed || sightings[node] != sighting || sighting.joining) {
                return;
            }
            sighting.joining = true;
            sighting.tried = ticker.getAsLong();
        }
        // Every read is sent after the wait.
        then(memories(node, readers), (found, failure) -> {
            if (found == null) {
                return; // memories() never fails.
            }
            long floor = 0;
            int remember = 0;
            int lost = 0;
            Terms common = null;
            boolean differ = false;
            for (Object each : found) {
                if (each instanceof Memory memory) {
                    Terms its = memory.terms();
                    if (memory.lost()) {
                        lost++;
                    } else if (its == null) {
                        differ = true;
                    } else {
                        remember++;
                        floor = Math.max(floor, memory.high());
                        differ |= common != null && !common.equals(its);
                        common = its;
                    }
                }
            }
            if (remember < readers || differ || common == null) {
                synchronized (lock) {
                    sighting.joining = false;
                }
                if (lost == n - 1) {
                    initialiseAgain();
                }
                return;
            }
            Runnable late = alarm.after(nodeTimeout, () -> {
                synchronized (lock) {
                    sighting.joining = false;
                }
            });
            then(nodes.get(node).join(sighting.mark, common, floor, false), (joined, silence) -> {
                late.run();
                synchronized (lock) {
                    sighting.joining = false;
                    if (joined != null && sightings[node] == sighting) {
                        sightings[node] = null;
                    }
                }
                if (joined != null && joined) {
                    log.accept(
                            nodes.get(node).name() + " had lost its memory; it votes again within the longest lease of "
                                    + terms.longestMillis() + " ms");
                }
            });
        });
    }

    /**
     * The memories of all servers but one, or why there is none: {@link Memory}, or a text.
     *
     * @param enough ends early when so many remember
     */
    private CompletableFuture<List<Object>> memories(int without, int enough) {
        CompletableFuture<List<Object>> result = new CompletableFuture<>();
        Object[] found = new Object[n];
        int[] open = {without < 0 ? n : n - 1};
        int[] remember = new int[1];
        Runnable end = () -> {
            List<Object> all = new ArrayList<>(n);
            synchronized (found) {
                for (int i = 0; i < n; i++) {
                    all.add(found[i] == null ? i == without ? "not asked" : noAnswer() : found[i]);
                }
            }
            result.complete(all);
        };
        Runnable timer = alarm.after(nodeTimeout, end);
        for (int i = 0; i < n; i++) {
            if (i == without) {
                continue;
            }
            int node = i;
            then(nodes.get(i).memory(), (memory, failure) -> {
                boolean last;
                synchronized (found) {
                    if (found[node] != null) {
                        return;
                    }
                    found[node] = memory == null ? why(failure) : memory;
                    remember[0] += memory != null && !memory.lost() ? 1 : 0;
                    last = --open[0] == 0 || remember[0] >= enough;
                }
                if (last) {
                    timer.run();
                    end.run();
                }
            });
        }
        return result;
    }

    // ------------------------------------------------------------------------------------------------- deployment

    /**
     * Finds out what the servers are, and initialises a new deployment, which takes a longest lease: a client cannot tell
     * it from one that was flushed while locks are held.
     */
    CompletableFuture<Void> start() {
        return memories(-1, n + 1).thenCompose(found -> {
            Tally tally = new Tally(found);
            if (tally.answers < majority) {
                return failed(tally.unavailable(
                        tally.answers + " of " + n + " servers answered, no majority",
                        "check that the servers run and can be reached"));
            }
            Unavailable differ = agree(tally);
            if (differ != null) {
                return failed(differ);
            }
            if (tally.lost == n) {
                return initialise();
            }
            if (tally.remember < readers) {
                return failed(tally.unavailable(
                        "only " + tally.remember + " of " + n
                                + " servers remember, and a majority cannot be mended by itself",
                        tally.remember == 0
                                ? "a new deployment is initialised when all servers can be reached; or run: mortise init"
                                : "if they have lost their data for good, run: mortise init"));
            }
            return CompletableFuture.completedFuture(null);
        });
    }

    /** Takes over the terms of those that remember, and sees what they know. */
    private @Nullable Unavailable agree(Tally tally) {
        Terms common = tally.terms;
        if (tally.differ) {
            return tally.unavailable(
                    "the servers are of different deployments or formats",
                    "let all servers and clients have the same version, attempt and longest lease");
        }
        if (common != null) {
            if (termsGiven && !common.equals(terms)) {
                return tally.unavailable(
                        "this client is configured for " + terms + ", and the deployment is of " + common,
                        "configure all clients alike, or leave these options out");
            }
            terms = common;
        }
        if (tally.high > 0) {
            see(tally.high);
        }
        for (int i = 0; i < n; i++) {
            if (tally.found.get(i) instanceof Memory memory && memory.mark() != null) {
                sighted(i, memory.mark());
            }
        }
        return null;
    }

    private final class Tally {
        private final List<Object> found;
        private int answers;
        private int lost;
        private int remember;
        private long high;
        private long clock;

        /** The longest until a longest lease has gone by since a server lost its memory, in microseconds. */
        private long wait;

        private @Nullable Terms terms;
        private boolean differ;

        Tally(List<Object> found) {
            this.found = found;
            for (Object each : found) {
                if (each instanceof Memory memory) {
                    answers++;
                    clock = Math.max(clock, memory.nowMicros());
                    if (memory.lost()) {
                        lost++;
                        // Where the clock was set back after the mark was made, from now.
                        long from = Math.min(memory.markAtMicros(), memory.nowMicros());
                        wait = Math.max(wait, from + Protocol.this.terms.longestMillis() * 1000 - memory.nowMicros());
                    } else {
                        remember++;
                        high = Math.max(high, memory.high());
                        Terms its = memory.terms();
                        differ |= its == null || (terms != null && !terms.equals(its));
                        terms = its;
                    }
                }
            }
        }

        Unavailable unavailable(String what, String advice) {
            StringJoiner all = new StringJoiner("; ", what + " (", ")");
            for (int i = 0; i < n; i++) {
                Object each = found.get(i);
                all.add(nodes.get(i).name() + ": "
                        + (each instanceof Memory memory
                                ? memory.lost() ? "has no memory" : String.valueOf(memory.terms())
                                : String.valueOf(each)));
            }
            return new Unavailable(all.toString(), advice, false);
        }

        boolean sameMarks(Tally other) {
            for (int i = 0; i < n; i++) {
                if (!(found.get(i) instanceof Memory a && other.found.get(i) instanceof Memory b)
                        || a.mark() == null
                        || !a.mark().equals(b.mark())) {
                    return false;
                }
            }
            return true;
        }
    }

    /** In the background, when all servers seem to have lost their memory. */
    private void initialiseAgain() {
        synchronized (lock) {
            if (initialising || closed) {
                return;
            }
            initialising = true;
        }
        then(initialise(), (done, failure) -> {
            synchronized (lock) {
                initialising = false;
            }
            if (failure != null) {
                log.accept("not initialised: " + cause(failure).getMessage());
            }
        });
    }

    private CompletableFuture<Void> initialise() {
        return memories(-1, n + 1).thenCompose(found -> {
            Tally first = new Tally(found);
            if (first.lost < n) {
                return failed(first.unavailable("some servers remember", "try again"));
            }
            long wait = first.wait * 1000 + margin(terms.longestMillis());
            log.accept("no server remembers: a new deployment, or all have lost their data. Locks may still be held, so"
                    + " that it begins in " + Math.max(0, wait / MILLI)
                    + " ms, a longest lease after that was first seen");
            return initialise(first, wait);
        });
    }

    private CompletableFuture<Void> initialise(Tally first, long wait) {
        return later(wait).thenCompose(x -> memories(-1, n + 1)).thenCompose(found -> {
            Tally second = new Tally(found);
            // Every mark is unchanged: between the two passes there was an instant at which nobody remembered.
            if (!second.sameMarks(first)) {
                Unavailable differ = agree(second);
                if (differ != null) {
                    return failed(differ);
                }
                return second.remember >= majority
                        ? CompletableFuture.completedFuture(null) // Somebody else was faster.
                        : failed(second.unavailable("the servers changed meanwhile", "try again"));
            }
            // No second wait, whatever the clocks say now: join.lua has one of its own where a clock was set back.
            long floor = second.clock + AHEAD_MICROS;
            return write(second, floor, false).thenCompose(written -> {
                see(floor);
                return memories(-1, n + 1).thenCompose(after -> {
                    Tally third = new Tally(after);
                    Unavailable differ = agree(third);
                    return differ != null
                            ? failed(differ)
                            : third.remember >= majority
                                    ? CompletableFuture.completedFuture(null)
                                    : failed(
                                            third.unavailable("no majority could be initialised", "run: mortise init"));
                });
            });
        });
    }

    /** Gives each of these servers that has lost its memory a new one. The names of those that took it. */
    private CompletableFuture<List<String>> write(Tally tally, long floor, boolean atOnce) {
        CompletableFuture<List<String>> result = new CompletableFuture<>();
        List<String> written = new ArrayList<>();
        List<CompletableFuture<?>> all = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            if (tally.found.get(i) instanceof Memory memory && memory.mark() != null) {
                String name = nodes.get(i).name();
                all.add(nodes.get(i).join(memory.mark(), terms, floor, atOnce).thenAccept(joined -> {
                    if (joined) {
                        synchronized (written) {
                            written.add(name);
                        }
                    }
                }));
            }
        }
        Runnable end = () -> {
            synchronized (written) {
                result.complete(List.copyOf(written));
            }
        };
        Runnable timer = alarm.after(nodeTimeout, end);
        all(all, () -> {
            timer.run();
            end.run();
        });
        return result;
    }

    /**
     * An operator's act: gives every server without memory a new one, to vote at once. What is held by a majority that has
     * lost its memory less than a longest lease ago can then be given to a second holder, with a larger token.
     *
     * <p>The floor is above every token that a server can have accepted: none was further ahead of its clock.
     *
     * @return the servers that were given a memory
     */
    CompletableFuture<List<String>> repair() {
        return memories(-1, n + 1).thenCompose(found -> {
            Tally tally = new Tally(found);
            if (tally.answers < majority) {
                return failed(tally.unavailable(
                        tally.answers + " of " + n + " servers answered, no majority",
                        "check that the servers run and can be reached"));
            }
            Unavailable differ = agree(tally);
            if (differ != null) {
                return failed(differ);
            }
            long floor = Math.max(tally.high, tally.clock + AHEAD_MICROS);
            return write(tally, floor, true);
        });
    }

    // ------------------------------------------------------------------------------------------------- small things

    private CompletableFuture<Void> later(long nanos) {
        CompletableFuture<Void> future = new CompletableFuture<>();
        if (nanos <= 0) {
            future.complete(null);
        } else {
            Runnable unused = alarm.after(nanos, () -> future.complete(null));
        }
        return future;
    }

    private static <T> CompletableFuture<T> failed(Throwable failure) {
        CompletableFuture<T> future = new CompletableFuture<>();
        future.completeExceptionally(failure);
        return future;
    }

    private void all(List<CompletableFuture<?>> futures, Runnable then) {
        then(CompletableFuture.allOf(futures.toArray(CompletableFuture[]::new)), (x, failure) -> then.run());
    }

    /** As whenComplete, but an exception of ours does not vanish in a future that nobody looks at. */
    private <T> void then(CompletableFuture<T> future, BiConsumer<@Nullable T, @Nullable Throwable> handler) {
        CompletableFuture<T> unused = future.whenComplete((value, failure) -> {
            try {
                handler.accept(value, failure);
            } catch (RuntimeException e) {
                log.accept("a defect of lock-redlock: " + e);
                throw e;
            }
        });
    }

    private String noAnswer() {
        return "no answer within " + nodeTimeout / MILLI + " ms";
    }

    private static boolean mayHaveTakenEffect(@Nullable Throwable failure) {
        return !(failure != null && cause(failure) instanceof Silence silence) || silence.mayHaveTakenEffect();
    }

    private static String why(@Nullable Throwable failure) {
        if (failure == null) {
            return "no answer";
        }
        String message = cause(failure).getMessage();
        return message == null ? cause(failure).toString() : message;
    }

    static Throwable cause(Throwable failure) {
        Throwable cause = failure.getCause();
        return failure instanceof CompletionException && cause != null ? cause : failure;
    }
}
