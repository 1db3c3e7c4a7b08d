package dev.mortise.lock.jdbc;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The strategy {@code table}: a claim is a row with an owner and an end by the database's clock.
 *
 * <p>Every step is one statement in auto-commit that judges the row and changes it, so that nothing can come in between,
 * a lost answer can be asked for again, and no transaction of anybody else has a part in it. An answer counts once the
 * statement has been read to its end, which is when it has committed.
 *
 * <p><b>Threads and locks.</b> A call has a session for the length of one statement, never while it waits for the next
 * try: an acquire that finds the database busy must not hold up the renewals of others. Where the database itself lets a
 * statement wait, for a row that somebody has locked, there are several sessions, and renewals have some of their own.
 * The waits are ours and not the driver's, so that they end at an interrupt, a deadline and {@link #close}.
 */
final class TableBackend implements LockBackend {
    /** How soon a loser may come back: about the time of a commit. The caller lengthens it from try to try. */
    private static final Duration PAUSE = Duration.ofMillis(5);

    /**
     * Sleeps before the next try to write: SQLite has no queue for its write lock, so whoever asks more often gets it
     * sooner. Short at first, because others mostly keep it for one commit.
     */
    private static final long FIRST_SLEEP = TimeUnit.MICROSECONDS.toNanos(200);

    private static final long LONGEST_SLEEP = TimeUnit.MILLISECONDS.toNanos(5);

    /** To connect takes longer than to write, and is in the way of others who connect: so these are longer, too. */
    private static final long FIRST_OPENING_SLEEP = TimeUnit.MILLISECONDS.toNanos(5);

    private static final long LONGEST_OPENING_SLEEP = TimeUnit.MILLISECONDS.toNanos(200);

    /** How long a wait may go on before it looks whether this backend was closed. */
    private static final long GLANCE = TimeUnit.MILLISECONDS.toNanos(100);

    /** How many names seen held are remembered. Forgetting one costs a statement that writes nothing. */
    private static final int REMEMBERED = 1024;

    /** Of the sessions, where there are several, so many for renewals alone, and as many for releases and the like. */
    private static final int RESERVED = 2;

    /**
     * How long a statement may wait inside of the database for somebody else's lock, in milliseconds, before it is tried
     * again: so that an interrupt, a close and the end of the patience are noticed, and the session is free for others.
     */
    static final long LONGEST_WAIT = 250;

    /** A session that was not used for longer is tried before it is used. */
    private static final long FRESH = TimeUnit.SECONDS.toNanos(1);

    private final Dialect dialect;
    private final BackendContext context;

    /** Sessions that nobody uses now, the latest used first; at most as many as the lanes let through. */
    private final Deque<Connected> idle = new ConcurrentLinkedDeque<>();

    private final Lane acquires;
    private final Lane renewals;
    private final Lane others;

    /** Whether there has been a session. */
    private volatile boolean again;

    /**
     * Names that a try lately found held. The next try looks before it writes: a write that loses waits for the lock
     * on the whole database, for nothing.
     */
    private final Set<String> heldLately = Collections.synchronizedSet(Collections.newSetFromMap(lru()));

    private volatile boolean closed;

    private TableBackend(Dialect dialect, BackendContext context) {
        this.dialect = dialect;
        this.context = context;
        int sessions = dialect.sessions();
        acquires = new Lane(Math.max(1, sessions - 2 * RESERVED));
        renewals = sessions == 1 ? acquires : new Lane(RESERVED);
        others = sessions == 1 ? acquires : new Lane(RESERVED);
    }

    /** Connects at once, so that what is wrong with the database is found out here. */
    static TableBackend open(Dialect dialect, BackendContext context) {
        TableBackend backend = new TableBackend(dialect, context);
        backend.uninterrupted("open", Effect.NONE, (db, since) -> true);
        return backend;
    }

    /** For tests: how many names are remembered as held. */
    int remembered() {
        return heldLately.size();
    }

    @SuppressWarnings("serial") // Nobody serializes it.
    private static Map<String, Boolean> lru() {
        return new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
                return size() > REMEMBERED;
            }
        };
    }

    @Override
    public Guarantees guarantees() {
        return dialect.guarantees();
    }

    @Override
    public String toString() {
        return dialect.store();
    }

    /**
     * Does not wait for a release: the database cannot tell of one. Waits only for its turn to write, at most for the
     * patience and the call timeout together.
     *
     * <p>An interrupt during that wait leaves nothing of this call, because nothing was written yet; one that comes
     * while a statement runs is left to the caller, together with the answer.
     */
    @Override
    public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
        long lease = Dialect.leaseMillis(dialect, claim);
        String name = Names.encode(claim.name());
        String tried = "acquire " + name;
        Wait wait = new Wait(acquires, end(patience, context.callTimeout()), true);
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        if (heldLately.contains(name)) {
            Row row = look(tried, name, wait);
            // Our own row is one whose grant got lost on the way: ask for it again.
            if (row != null && row.live() && !claim.owner().equals(row.owner)) {
                return held(tried, name, row, wait);
            }
        }
        Optional<Grant> grant = send(tried, Effect.WRITE, wait, (db, since) -> {
            List<Long> tokens = db.change(
                    dialect.statements().acquire(),
                    // Tokens are positive: 0 stands for NULL.
                    r -> r.getLong(1),
                    dialect.acquireParameters(name, claim.owner(), lease));
            return tokens.stream()
                    .filter(token -> token > 0)
                    .findFirst()
                    .map(token -> claim.granted(Duration.ofMillis(lease), token, since));
        });
        if (grant.isPresent()) {
            heldLately.remove(name);
            return Attempt.granted(grant.get());
        }
        Row row = look(tried, name, wait);
        if (row == null || !row.live()) {
            // It has ended since: the caller may come back at once.
            return Attempt.held(PAUSE, Duration.ZERO);
        }
        heldLately.add(name);
        return held(tried, name, row, wait);
    }

    private Attempt held(String tried, String name, Row row, Wait wait) throws InterruptedException {
        long rest = row.rest;
        if (rest > row.lease + 1) {
            // No holder was ever promised more than one lease from now, so the clock was set back after that row was
            // written. Its own end would come late by as much, after a year's step a year. Cut to one lease it comes
            // after its holder's deadline all the same, and holders who live move it with their next renewal.
            send(
                    tried,
                    Effect.NONE,
                    wait,
                    (db, since) -> db.change(dialect.statements().clamp(), r -> true, name, String.valueOf(row.owner)));
            rest = row.lease + 1;
        }
        return Attempt.held(PAUSE, Duration.ofMillis(rest));
    }

    /** A row of our format and strategy, or null if the name has none. */
    private @Nullable Row look(String tried, String name, Wait wait) throws InterruptedException {
        List<Row> rows = send(
                tried,
                Effect.NONE,
                wait,
                (db, since) -> db.query(dialect.statements().look(), Row::new, name));
        if (rows.isEmpty()) {
            return null;
        }
        Row row = rows.get(0);
        row.requireOurs(dialect, tried);
        return row;
    }

    @Override
    public Renewal renew(Collection<Grant> grants) {
        Map<String, Grant> asked = new LinkedHashMap<>();
        grants.forEach(grant -> asked.put(key(Names.encode(grant.name()), grant.owner(), grant.token()), grant));
        List<Grant> live = new ArrayList<>();
        List<Grant> ended = new ArrayList<>();
        List<String> keys = new ArrayList<>(asked.keySet());
        long end = end(context.callTimeout());
        for (int from = 0; from < keys.size(); from += dialect.largestBatch()) {
            List<String> batch = keys.subList(from, Math.min(keys.size(), from + dialect.largestBatch()));
            try {
                renew(batch, asked, end, live, ended);
            } catch (LockStoreException e) {
                if (from == 0) {
                    throw e;
                }
                // What the batches before this one told is known; the rest is in neither list.
                break;
            }
        }
        return Renewal.of(live, ended);
    }

    private void renew(List<String> keys, Map<String, Grant> asked, long end, List<Grant> live, List<Grant> ended) {
        Set<String> silent = new LinkedHashSet<>(keys);
        ask(dialect::renew, silent, asked, end, live, ended);
        if (dialect.silenceMeansEnded()) {
            // The statement was one, and has committed: what it did not find live had ended by then.
            silent.forEach(key -> ended.add(grant(asked, key)));
        } else if (!silent.isEmpty()) {
            // Somebody had these rows locked, mostly for a commit. Once more; what is silent then is unknown.
            try {
                ask(dialect::ended, silent, asked, end, live, ended);
                ask(dialect::renew, silent, asked, end, live, ended);
            } catch (LockStoreException e) {
                System.getLogger(TableBackend.class.getName()).log(System.Logger.Level.DEBUG, "renew once more", e);
            }
        }
    }

    /** One statement at most. Takes from the keys those that it got an answer for. */
    private void ask(
            Function<List<Grant>, Dialect.@Nullable Query> question,
            Set<String> keys,
            Map<String, Grant> asked,
            long end,
            List<Grant> live,
            List<Grant> ended) {
        if (keys.isEmpty()) {
            return;
        }
        List<Grant> grants = keys.stream().map(key -> grant(asked, key)).collect(Collectors.toList());
        Dialect.Query query = question.apply(grants);
        if (query == null) {
            return;
        }
        String tried = "renew " + keys.size() + (keys.size() == 1 ? " lease" : " leases");
        List<Renewed> answers = uninterrupted(
                renewals,
                tried,
                Effect.WRITE,
                end,
                (db, since) -> db.query(
                        query.sql(),
                        row -> new Renewed(row, since),
                        query.parameters().toArray()));
        for (Renewed answer : answers) {
            if (keys.remove(answer.key)) {
                Grant grant = grant(asked, answer.key);
                if (answer.live) {
                    live.add(grant.renewed(answer.lease, answer.since));
                } else {
                    ended.add(grant);
                }
            }
        }
    }

    private static final class Renewed {
        private final String key;
        private final Duration lease;
        private final boolean live;
        private final long since;

        Renewed(ResultSet row, long since) throws SQLException {
            key = key(row.getString(1), row.getString(2), row.getLong(3));
            lease = Duration.ofMillis(row.getLong(4));
            live = !row.wasNull();
            this.since = since;
        }
    }

    /** Neither a name in its encoding nor an owner has a space. */
    private static String key(String name, String owner, long token) {
        return name + " " + owner + " " + token;
    }

    private static Grant grant(Map<String, Grant> asked, String key) {
        return Objects.requireNonNull(asked.get(key), key);
    }

    @Override
    public boolean release(Claim claim) {
        String name = Names.encode(claim.name());
        return uninterrupted(
                "release " + name,
                Effect.WRITE,
                (db, since) -> db.change(dialect.statements().release(), r -> r.getInt(1) == 1, name, claim.owner())
                        .contains(true));
    }

    @Override
    public Optional<Grant> adopt(Grant held, Claim heir) {
        if (!held.name().equals(heir.name())) {
            throw new IllegalArgumentException("heir must be of the same name: " + heir + ", not " + held.claim());
        }
        long lease = Dialect.leaseMillis(dialect, heir);
        String name = Names.encode(heir.name());
        String tried = "adopt " + name;
        long end = end(context.callTimeout());
        Optional<Grant> grant = uninterrupted(
                others,
                tried,
                Effect.WRITE,
                end,
                (db, since) -> db
                        .change(
                                dialect.statements().adopt(),
                                r -> r.getLong(1),
                                name,
                                held.owner(),
                                held.token(),
                                heir.owner(),
                                lease)
                        .stream()
                        .findFirst()
                        .map(token -> heir.granted(Duration.ofMillis(lease), token, since)));
        if (grant.isEmpty()) {
            // Only to refuse a row that is not ours to judge.
            uninterruptedLook(tried, name, end);
        }
        return grant;
    }

    @Override
    public Optional<Holder> holder(String name) {
        String encoded = Names.encode(Claim.requireName(name));
        Row row = uninterruptedLook("look at " + encoded, encoded, end(context.callTimeout()));
        return row != null && row.live()
                ? Optional.of(Holder.of(String.valueOf(row.owner), row.token, Duration.ofMillis(row.rest)))
                : Optional.empty();
    }

    private @Nullable Row uninterruptedLook(String tried, String name, long end) {
        Wait wait = new Wait(others, end, false);
        try {
            return look(tried, name, wait);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            wait.over();
        }
    }

    @Override
    public void close() {
        closed = true;
        closeIdle();
        long end = end(context.callTimeout());
        for (Lane lane : new LinkedHashSet<>(List.of(acquires, renewals, others))) {
            Wait wait = new Wait(lane, end, false);
            try {
                // Whoever is under way, and does not come back in time, closes its session then.
                if (wait.forTurn(lane.width, false)) {
                    lane.turns.release(lane.width);
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            } finally {
                wait.over();
            }
        }
        closeIdle();
    }

    private void closeIdle() {
        for (Connected db = idle.poll(); db != null; db = idle.poll()) {
            db.close();
        }
    }

    // ---- Sending -------------------------------------------------------------------------------------------------

    private <T> T uninterrupted(String tried, Effect effect, Work<T> work) {
        return uninterrupted(others, tried, effect, end(context.callTimeout()), work);
    }

    /** An interrupt neither shortens nor fails it; the thread finds itself interrupted afterwards. */
    private <T> T uninterrupted(Lane lane, String tried, Effect effect, long end, Work<T> work) {
        Wait wait = new Wait(lane, end, false);
        try {
            return send(tried, effect, wait, work);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            wait.over();
        }
    }

    /** Does the work in its turn, again and again while the database is busy with others, until the wait is over. */
    private <T> T send(String tried, Effect effect, Wait wait, Work<T> work) throws InterruptedException {
        long sleep = FIRST_SLEEP;
        long openingSleep = FIRST_OPENING_SLEEP;
        while (true) {
            if (!wait.forTurn(1, true)) {
                throw closed
                        ? closed(tried)
                        : failed(
                                tried + ": other calls of this client kept the connection for too long",
                                dialect.sessions() == 1
                                        ? "look for a slow or hanging disk"
                                        : "look for a slow or hanging server, and for who keeps rows locked",
                                false,
                                null);
            }
            Busy busy;
            try {
                return attempt(tried, effect, wait, work);
            } catch (Busy e) {
                busy = e;
            } finally {
                wait.lane.turns.release();
            }
            long nap = busy.opening ? openingSleep : sleep;
            // Between a half and one and a half, so that clients do not march in step.
            long least = Math.min(dialect.leastNanos(), context.callTimeout().toNanos() / 2);
            if (wait.left() <= least
                    || !wait.sleep(nap / 2 + ThreadLocalRandom.current().nextLong(nap))) {
                throw failed(tried + ": " + dialect.what(busy.cause), dialect.advice(busy.cause), false, busy.cause);
            }
            if (busy.opening) {
                openingSleep = Math.min(openingSleep * 2, LONGEST_OPENING_SLEEP);
            } else {
                sleep = Math.min(sleep + sleep / 8, LONGEST_SLEEP);
            }
        }
    }

    private <T> T attempt(String tried, Effect effect, Wait wait, Work<T> work) throws Busy {
        boolean sent = false;
        Connected db = null;
        boolean keep = false;
        try {
            if (closed) {
                throw closed(tried);
            }
            db = session(wait);
            db.session.limit(wait.left());
            // Half of what is left: the database gives a wait up, and says so, before we do.
            db.waits = dialect.limitsWaits() ? Math.min(LONGEST_WAIT, Math.max(1, wait.left() / 2_000_000)) : 0;
            sent = true;
            T answer;
            try {
                // Before the send, and anew for every one: the lease counts from the request that started it.
                Connected using = db;
                answer = using.session.run(() -> work.on(using, context.nanoTime()));
            } catch (SQLException e) {
                if (dialect.isBusy(e)) {
                    // A store that has been moved away can be busy for ever.
                    db.session.requireSameStore();
                }
                throw e;
            }
            db.session.requireSameStore();
            keep = true;
            return answer;
        } catch (SQLException e) {
            if (dialect.isBroken(e)) {
                closeIdle();
            }
            if (dialect.isBusy(e)) {
                keep = !dialect.isBroken(e);
                throw new Busy(e, !sent);
            }
            if (dialect.isBroken(e) && wait.lane == renewals && db != null && db.used != 0) {
                // The session may have been dead for long. Over a new one, within the same limit.
                throw new Busy(e, false);
            }
            throw failed(
                    tried + ": " + dialect.what(e),
                    dialect.advice(e),
                    sent && effect == Effect.WRITE && dialect.mayHaveTakenEffect(e),
                    e);
        } finally {
            if (db != null) {
                giveBack(db, keep);
            }
        }
    }

    /** A session that works as far as is known. */
    private Connected session(Wait wait) throws SQLException {
        for (Connected db = idle.poll(); db != null; db = idle.poll()) {
            // A renewal that fails can be sent again.
            if (System.nanoTime() - db.used < FRESH || wait.lane == renewals) {
                return db;
            }
            try {
                db.session.limit(wait.left());
                db.session.requireAlive();
                return db;
            } catch (SQLException e) {
                System.getLogger(TableBackend.class.getName()).log(System.Logger.Level.DEBUG, "idle session", e);
                db.close();
            }
        }
        Connected db = new Connected(dialect.open(again, wait.left()));
        again = true;
        return db;
    }

    private void giveBack(Connected db, boolean keep) {
        if (!keep || !dialect.keepsSessions()) {
            db.close();
            return;
        }
        db.used = System.nanoTime();
        idle.push(db);
        if (closed) {
            closeIdle();
        }
    }

    private LockStoreException failed(String tried, String advice, boolean effect, @Nullable Throwable cause) {
        return new LockStoreException(dialect.store(), tried, advice, effect, cause);
    }

    private LockStoreException closed(String tried) {
        return failed(tried + ": this client of the store was closed", "open another", false, null);
    }

    /** The moment after this long, in the time of {@link System#nanoTime}; at most a hundred years ahead. */
    private static long end(Duration... lengths) {
        Duration sum = Duration.ZERO;
        Duration most = Duration.ofDays(36_500);
        for (Duration length : lengths) {
            sum = length.compareTo(most) < 0 ? sum.plus(length) : most;
        }
        return System.nanoTime() + (sum.compareTo(most) < 0 ? sum : most).toNanos();
    }

    /** The waits of one call: in real time, not in the ticker's, which a test may have stopped. */
    private final class Wait {
        private final Lane lane;
        private final long end;
        private final boolean interruptibly;
        private boolean interrupted;

        Wait(Lane lane, long end, boolean interruptibly) {
            this.lane = lane;
            this.end = end;
            this.interruptibly = interruptibly;
        }

        /** False if it was not to be had before the end, or, where that matters, before this backend was closed. */
        boolean forTurn(int width, boolean onlyWhileOpen) throws InterruptedException {
            while (true) {
                long left = Math.max(0, end - System.nanoTime());
                try {
                    if (lane.turns.tryAcquire(width, Math.min(left, GLANCE), TimeUnit.NANOSECONDS)) {
                        return true;
                    }
                } catch (InterruptedException e) {
                    note(e);
                    continue;
                }
                if (left <= GLANCE || (onlyWhileOpen && closed)) {
                    return false;
                }
            }
        }

        /** How long the next statement may take; positive. */
        long left() {
            return Math.max(
                    1, Math.min(end - System.nanoTime(), context.callTimeout().toNanos()));
        }

        /** False if nothing is left to sleep. */
        boolean sleep(long nanos) throws InterruptedException {
            long now = System.nanoTime();
            long until = end - now < nanos ? end : now + nanos;
            if (until - now <= 0) {
                return false;
            }
            for (long left = until - now; left > 0; left = until - System.nanoTime()) {
                try {
                    TimeUnit.NANOSECONDS.sleep(left);
                } catch (InterruptedException e) {
                    note(e);
                }
            }
            return true;
        }

        private void note(InterruptedException e) throws InterruptedException {
            if (interruptibly) {
                throw e;
            }
            interrupted = true;
        }

        /** Gives the thread back an interrupt that came meanwhile. */
        void over() {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** The calls that share some of the sessions. Fair, so that nobody is overtaken for ever. */
    private static final class Lane {
        private final int width;
        private final Semaphore turns;

        Lane(int width) {
            this.width = width;
            turns = new Semaphore(width, true);
        }
    }

    private enum Effect {
        /** Reads, or writes what needs no undoing. */
        NONE,
        WRITE
    }

    private interface Work<T> {
        /**
         * @param since the ticker before the send
         */
        T on(Connected db, long since) throws SQLException;
    }

    /** Somebody else's write is in the way. Without a stack: it is made often, and caught at once. */
    private static final class Busy extends Exception {
        private static final long serialVersionUID = 1;

        private final SQLException cause;
        private final boolean opening;

        Busy(SQLException cause, boolean opening) {
            super(null, cause, false, false);
            this.cause = cause;
            this.opening = opening;
        }
    }
}
