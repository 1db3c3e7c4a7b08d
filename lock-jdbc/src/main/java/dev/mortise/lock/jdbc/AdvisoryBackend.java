package dev.mortise.lock.jdbc;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.jdbc.AdvisoryDialect.Kept;
import dev.mortise.lock.jdbc.AdvisoryDialect.Released;
import dev.mortise.lock.jdbc.AdvisoryDialect.Taken;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * The strategy {@code advisory}: a claim is a row, as with {@link TableBackend}, and in front of it the database's own
 * lock of a session, the key: a queue that wakes the next one at once, and the first to notice a death.
 *
 * <p><b>The row is the truth.</b> Nobody is granted a name whose row has another owner whose lease has not ended, whoever
 * has the key. So a session that dies, with its key, while its holder counts on its lease (a connection cut, a process of
 * the server killed, a restart) leaves an orphan, which the next one waits out with the key in hand; and its holder, if it
 * lives, renews the row over another session, and takes the key again if nobody has it. A grant or a renewal counts once
 * its commit was acknowledged, and that is when it is on the disk: so what a holder counts on is never lost to a crash.
 * When somebody died with a key that the server has not taken from it yet, its row ends all the same.
 *
 * <p><b>Sessions.</b> Each claim has one of its own, and so has each wait. The server ends a session of which it hears
 * nothing for a lease. One goes back for others only when the server has said that it has no key (it did not get one, or
 * gave it up); after an exception, an interrupt, a time out it is closed, because then nobody knows. Nothing is given up
 * twice: a session has at most one key, and asks for one only while it has none.
 *
 * <p><b>Threads and locks.</b> A {@link Seat} is used by one call at a time. A wait in the server's queue runs on a thread
 * of its own, because nothing wakes a thread that reads an answer; renewals of several claims run on some, so that one
 * that hangs does not hold up the others.
 */
final class AdvisoryBackend implements LockBackend {
    /** How many wait in the server's queue, each with a session; who comes later comes again. */
    static final int WAITING = 8;

    /** Beside the sessions of claims, so many for what has no claim here: clearing rows, looking. */
    static final int OTHERS = 2;

    /** How soon a loser may come back. The caller lengthens it from try to try. */
    private static final Duration PAUSE = Duration.ofMillis(5);

    /** Then a new one begins, behind the others: a wait holds a snapshot, and its connection could be dead. */
    private static final long LONGEST_WAIT = TimeUnit.MINUTES.toNanos(1);

    /** How long who waits in the queue gives another to take a lock that is free: longer than the commit of a grant. */
    private static final long LONGEST_PASSING = TimeUnit.MILLISECONDS.toNanos(500);

    /** A wait in the queue is not begun for less: it would cost its session. */
    private static final long SHORTEST_WAIT = TimeUnit.MILLISECONDS.toNanos(10);

    /** How often who has the key looks at a row whose owner has lost it, and may release it. */
    private static final long GLANCE = TimeUnit.MILLISECONDS.toNanos(50);

    /** A session that was not used for longer is tried before it is used. */
    private static final long FRESH = TimeUnit.SECONDS.toNanos(1);

    /** An idle session is closed after half of what the server lets it have, and at the latest after this. */
    private static final long LONGEST_IDLE = TimeUnit.SECONDS.toNanos(30);

    /** How long a release waits for another call of its claim before it breaks that one's connection. */
    private static final long GRACE = TimeUnit.MILLISECONDS.toNanos(100);

    /** Renewals of one call that run at once. */
    private static final int RENEWING = 16;

    private static final long FIRST_NAP = TimeUnit.MILLISECONDS.toNanos(5);
    private static final long LONGEST_NAP = TimeUnit.MILLISECONDS.toNanos(200);

    private final AdvisoryDialect dialect;
    private final BackendContext context;
    private final int limit;

    /** One for each claim and each wait; the sessions of claims are no more than these. */
    private final Semaphore permits;

    private final Semaphore others = new Semaphore(OTHERS, true);
    private final Semaphore queue = new Semaphore(WAITING);

    /** The claims that this client has, or is about to. */
    private final Map<Claim, Seat> seats = new ConcurrentHashMap<>();

    private final Set<Line> lines = ConcurrentHashMap.newKeySet();

    /** Those with no key that nobody uses, the latest used first. */
    private final Deque<Line> idle = new ConcurrentLinkedDeque<>();

    /** In the time of {@link System#nanoTime}; 0 if none is to come. */
    private final AtomicLong nextSweep = new AtomicLong();

    private final ThreadPoolExecutor threads;
    private volatile boolean again;
    private volatile boolean closed;

    /** A session, and for how long the server lets it be idle. */
    private static final class Line {
        final Connected db;
        long lease;

        Line(Connected db, long lease) {
            this.db = db;
            this.lease = lease;
        }

        long age() {
            return System.nanoTime() - db.used;
        }

        long longestIdle() {
            return Math.min(LONGEST_IDLE, TimeUnit.MILLISECONDS.toNanos(lease) / 2);
        }
    }

    /** A claim, or an attempt at one. All but {@code busy} only by who has the turn. */
    private static final class Seat {
        final ReentrantLock turn = new ReentrantLock(true);

        /** The session that the call under way uses; guarded by this seat. */
        private @Nullable Line busy;

        /** The session that has the key; null if none has. */
        @Nullable
        Line line;

        boolean permit;
        boolean granted;
        long token;

        /** Of its latest grant or renewal. */
        long since;

        /** When it has ended unless it was renewed, in the time of {@link System#nanoTime}. */
        long end;

        /** When its lease is over, and the server may end its session at any moment. */
        private long over;

        void lives(long leaseMillis, long end) {
            over = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(leaseMillis);
            this.end = end;
        }

        boolean isOver() {
            return System.nanoTime() - over >= 0;
        }

        synchronized void uses(@Nullable Line line) {
            busy = line;
        }

        /** Breaks the session that the call under way uses, and no other's. */
        synchronized void breakOff() {
            if (busy != null) {
                abort(busy);
            }
        }
    }

    private AdvisoryBackend(AdvisoryDialect dialect, BackendContext context, int limit) {
        this.dialect = dialect;
        this.context = context;
        this.limit = limit;
        permits = new Semaphore(limit, true);
        threads = new ThreadPoolExecutor(0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), task -> {
            Thread thread = new Thread(task, "mortise-jdbc-session");
            thread.setDaemon(true);
            return thread;
        });
    }

    /** Connects at once, so that what is wrong with the database is found out here. */
    static AdvisoryBackend open(AdvisoryDialect dialect, BackendContext context, int limit) {
        AdvisoryBackend backend = new AdvisoryBackend(dialect, context, limit);
        try {
            backend.uninterrupted("open", false, backend.callEnd(), line -> true);
        } catch (RuntimeException e) {
            backend.close();
            throw e;
        }
        return backend;
    }

    @Override
    public Guarantees guarantees() {
        return dialect.guarantees();
    }

    @Override
    public String toString() {
        return dialect.store();
    }

    // ---- Acquire -------------------------------------------------------------------------------------------------

    /**
     * Waits in the server's queue, where eight of a client may; who finds no place is told to come again.
     *
     * <p>A grant that was made before an interrupt was seen is answered all the same. Else an interrupt leaves nothing: the
     * row is written only after the wait, and the session that waited is closed.
     */
    @Override
    public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
        Acquisition acquisition = new Acquisition(claim, patience);
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        while (true) {
            Seat seat = seats.computeIfAbsent(claim, made -> new Seat());
            // Without a look at interrupts where nobody has it: it would be left behind.
            if (!seat.turn.tryLock() && !seat.turn.tryLock(left(acquisition.end), TimeUnit.NANOSECONDS)) {
                throw failed(
                        acquisition.tried + ": another call for this claim takes too long", "ask again", true, null);
            }
            try {
                // It may have been taken out while we waited for the turn.
                if (seats.get(claim) == seat) {
                    return acquisition.run(seat);
                }
            } finally {
                if (!seat.granted) {
                    leave(claim, seat);
                }
                seat.turn.unlock();
            }
        }
    }

    private final class Acquisition {
        private final Claim claim;
        private final String name;
        private final String tried;
        private final Object key;
        private final long lease;

        /** When the caller's patience is over, and when this call must be. */
        private final long patient;

        private final long end;

        /** Whether it waited in the queue for a lock that was free. */
        private boolean waitedInVain;

        /** The last refusal, and when it was read. */
        private long rest;

        private long restRead;

        Acquisition(Claim claim, Duration patience) {
            this.claim = claim;
            lease = Dialect.leaseMillis(dialect, claim);
            name = Names.encode(claim.name());
            tried = "acquire " + name;
            key = dialect.key(name);
            patient = end(patience);
            end = end(patience, context.callTimeout());
        }

        Attempt run(Seat seat) throws InterruptedException {
            if (seat.granted) {
                Grant had = claim.granted(Duration.ofMillis(lease), seat.token, context.nanoTime());
                Kept kept = renew(seat, key, had, callEnd());
                if (kept.lease() == Kept.UNKNOWN) {
                    throw failed(tried + ": its row cannot be renewed now", "ask again", true, null);
                }
                if (kept.lease() > 0) {
                    return Attempt.granted(claim.granted(Duration.ofMillis(kept.lease()), seat.token, seat.since));
                }
                seat.granted = false;
            }
            enter(seat);
            long nap = FIRST_NAP;
            SQLException busy = null;
            while (true) {
                Line line = null;
                try {
                    requireOpen(tried);
                    line = borrow(lease, end);
                    seat.uses(line);
                    Attempt attempt = attempt(seat, line);
                    if (attempt != null) {
                        return attempt;
                    }
                    continue;
                } catch (SQLException e) {
                    discard(line);
                    requireOpen(tried);
                    if (dialect.isBroken(e)) {
                        closeIdle();
                    }
                    boolean inTime = left(end) > Math.min(dialect.leastNanos(), callNanos() / 2) + nap;
                    if (!dialect.isBusy(e) || !inTime) {
                        // What the last connection had no time for says less than why one was asked for again.
                        SQLException why = busy != null && line == null && !inTime ? busy : e;
                        throw failed(
                                tried + ": " + dialect.what(why),
                                dialect.advice(why),
                                line != null && dialect.mayHaveTakenEffect(e),
                                why);
                    }
                    busy = e;
                } catch (RuntimeException | InterruptedException e) {
                    discard(line);
                    throw e;
                } finally {
                    seat.uses(null);
                }
                System.getLogger(AdvisoryBackend.class.getName()).log(System.Logger.Level.DEBUG, tried, busy);
                TimeUnit.NANOSECONDS.sleep(nap / 2 + ThreadLocalRandom.current().nextLong(nap));
                nap = Math.min(2 * nap, LONGEST_NAP);
            }
        }

        /** One session for it, or a clear word within the patience. */
        private void enter(Seat seat) throws InterruptedException {
            if (seat.permit) {
                return;
            }
            // A moment at least: others may be about to give theirs back.
            long wait = Math.max(patient - System.nanoTime(), callNanos() / 4);
            if (!permits.tryAcquire(0, TimeUnit.NANOSECONDS)) {
                for (long until = System.nanoTime() + wait; ; ) {
                    long left = until - System.nanoTime();
                    sweepSeats();
                    if (permits.tryAcquire(Math.min(left, LONGEST_NAP), TimeUnit.NANOSECONDS)) {
                        break;
                    }
                    requireOpen(tried);
                    if (left <= 0) {
                        throw failed(
                                tried + ": all " + limit + " sessions of this client have a lock or wait for one",
                                "raise the option sessions, and max_connections of the server with it; for many or long"
                                        + " holds take strategy=table, which needs no session for each",
                                false,
                                null);
                    }
                }
            }
            seat.permit = true;
        }

        /** One try. Null to try again with another session, because this one is in doubt; it was closed then. */
        private @Nullable Attempt attempt(Seat seat, Line line) throws SQLException, InterruptedException {
            limit(line, end);
            // Before the send: the lease counts from the request that started it.
            long since = context.nanoTime();
            Taken taken = dialect.take(line.db, key, name, claim.owner(), lease);
            if (taken.token() != null) {
                return granted(seat, line, taken.token(), since);
            }
            if (taken.had()) {
                return withKey(seat, line);
            }
            Row row = look(line);
            boolean place = patient - System.nanoTime() >= SHORTEST_WAIT && queue.tryAcquire();
            try {
                for (long nap = FIRST_NAP / 4; !place && nap <= 2 * FIRST_NAP && free(row); nap *= 2) {
                    // Who has the key is about to write the row, or has cleared it and is about to give the key up: a
                    // moment for him.
                    TimeUnit.NANOSECONDS.sleep(nap);
                    limit(line, end);
                    since = context.nanoTime();
                    taken = dialect.take(line.db, key, name, claim.owner(), lease);
                    if (taken.token() != null) {
                        return granted(seat, line, taken.token(), since);
                    }
                    if (taken.had()) {
                        return withKey(seat, line);
                    }
                    row = look(line);
                }
                if (open(row, !place || waitedInVain)) {
                    // Nobody holds it, and the server has not yet taken the key from a session that is dead or cut
                    // off. Or the grant is ours, and its answer got lost together with its session.
                    since = context.nanoTime();
                    Long token = takeRow(dialect.statements().acquire(), line);
                    if (token != null) {
                        giveBack(seat, line);
                        return granted(seat, null, token, since);
                    }
                    row = look(line);
                }
                if (!place) {
                    giveBack(seat, line);
                    return held(row);
                }
                note(row);
                long wait = Math.min(patient - System.nanoTime(), free(row) ? LONGEST_PASSING : LONGEST_WAIT);
                if (!await(line, Math.max(wait, SHORTEST_WAIT))) {
                    // Whether it got the key at the last moment is not known.
                    discard(line);
                    waitedInVain = free(row);
                    return patient - System.nanoTime() < SHORTEST_WAIT ? held() : null;
                }
            } finally {
                if (place) {
                    queue.release();
                }
            }
            limit(line, end);
            since = context.nanoTime();
            Long token = takeRow(dialect.acquireWithKey(), line);
            return token != null ? granted(seat, line, token, since) : withKey(seat, line);
        }

        private boolean free(@Nullable Row row) {
            return row == null || row.owner == null;
        }

        /** Whether it is for this claim to take, whoever has the key: free, ended, or its own. */
        private boolean open(@Nullable Row row, boolean evenIfFree) {
            if (row == null || row.owner == null) {
                return evenIfFree;
            }
            return !row.live() || row.owner.equals(claim.owner());
        }

        /** The session has the key, and the row has an owner who has lost it: its lease is waited out, the key in hand. */
        private Attempt withKey(Seat seat, Line line) throws SQLException, InterruptedException {
            while (true) {
                requireOpen(tried);
                limit(line, end);
                Row row = look(line);
                if (open(row, true)) {
                    long since = context.nanoTime();
                    Long token = takeRow(dialect.acquireWithKey(), line);
                    if (token != null) {
                        return granted(seat, line, token, since);
                    }
                }
                long left = patient - System.nanoTime();
                if (left <= 0) {
                    if (dialect.unlock(line.db, key)) {
                        giveBack(seat, line);
                    } else {
                        discard(line);
                    }
                    return held(row);
                }
                // The session is so never idle for long. With the owner's next renewal it begins anew.
                long rest = row == null ? 0 : TimeUnit.MILLISECONDS.toNanos(row.rest + 1);
                long shortest = Math.min(TimeUnit.MILLISECONDS.toNanos(1), left);
                long longest = Math.min(left, Math.min(GLANCE, TimeUnit.MILLISECONDS.toNanos(lease) / 4));
                TimeUnit.NANOSECONDS.sleep(Math.max(shortest, Math.min(rest, longest)));
            }
        }

        /** True if the session has the key now. */
        private boolean await(Line line, long nanos) throws SQLException, InterruptedException {
            line.db.session.limit(nanos + callNanos());
            CompletableFuture<Boolean> had = new CompletableFuture<>();
            try {
                threads.execute(() -> {
                    try {
                        dialect.await(line.db, key, Math.max(1, TimeUnit.NANOSECONDS.toMillis(nanos)));
                        had.complete(true);
                    } catch (Throwable e) {
                        had.completeExceptionally(e);
                    }
                });
            } catch (RejectedExecutionException e) {
                throw closed(tried);
            }
            try {
                return had.get(nanos + callNanos(), TimeUnit.NANOSECONDS);
            } catch (InterruptedException e) {
                abort(line);
                throw e;
            } catch (TimeoutException e) {
                abort(line);
                throw new SQLException("the server gave no answer while it was waited for", "08006", e);
            } catch (ExecutionException e) {
                if (e.getCause() instanceof SQLException cause) {
                    if (dialect.isBusy(cause)) {
                        return false;
                    }
                    throw cause;
                }
                throw new SQLException("no answer (" + e.getCause() + ")", "08006", e);
            }
        }

        private @Nullable Long takeRow(String sql, Line line) throws SQLException {
            // Tokens are positive: 0 stands for NULL.
            List<Long> tokens =
                    line.db.change(sql, r -> r.getLong(1), dialect.acquireParameters(name, claim.owner(), lease));
            return tokens.isEmpty() || tokens.get(0) == 0 ? null : tokens.get(0);
        }

        private @Nullable Row look(Line line) throws SQLException {
            Row row = AdvisoryBackend.this.look(line, tried, name);
            if (row != null && row.live() && row.rest > row.lease + 1) {
                // Nobody was ever promised more: the clock was set back since. Its own end would come late by as much.
                line.db.change(dialect.statements().clamp(), r -> true, name, String.valueOf(row.owner));
                return AdvisoryBackend.this.look(line, tried, name);
            }
            return row;
        }

        private Attempt granted(Seat seat, @Nullable Line line, long token, long since) {
            seat.granted = true;
            seat.line = line;
            seat.token = token;
            seat.since = since;
            seat.lives(lease, endOf(lease));
            if (line != null) {
                sweepIn(line.longestIdle());
            }
            return Attempt.granted(claim.granted(Duration.ofMillis(lease), token, since));
        }

        private void note(@Nullable Row row) {
            rest = row != null && row.live() ? TimeUnit.MILLISECONDS.toNanos(row.rest) : 0;
            restRead = System.nanoTime();
        }

        private Attempt held(@Nullable Row row) {
            note(row);
            return held();
        }

        private Attempt held() {
            return Attempt.held(PAUSE, Duration.ofNanos(Math.max(0, rest - (System.nanoTime() - restRead))));
        }
    }

    private @Nullable Row look(Line line, String tried, String name) throws SQLException {
        List<Row> rows = line.db.query(dialect.statements().look(), Row::new, name);
        if (rows.isEmpty()) {
            return null;
        }
        rows.get(0).requireOurs(dialect, tried);
        return rows.get(0);
    }

    // ---- Renew ---------------------------------------------------------------------------------------------------

    @Override
    public Renewal renew(Collection<Grant> grants) {
        long end = callEnd();
        Map<Grant, Kept> answers = new ConcurrentHashMap<>();
        Map<Grant, Long> sinces = new ConcurrentHashMap<>();
        Queue<LockStoreException> failures = new ConcurrentLinkedQueue<>();
        // The same twice is one.
        Map<String, Grant> asked = new LinkedHashMap<>();
        grants.forEach(grant -> asked.put(grant.name() + "\0" + grant.owner() + "\0" + grant.token(), grant));
        Queue<Grant> waiting = new ConcurrentLinkedQueue<>(asked.values());
        Runnable work = () -> {
            for (Grant grant = waiting.poll(); grant != null; grant = waiting.poll()) {
                try {
                    renewOne(grant, end, answers, sinces);
                } catch (LockStoreException e) {
                    failures.add(e);
                }
            }
        };
        if (asked.size() == 1) {
            work.run();
        } else {
            together(work, Math.min(RENEWING, asked.size()), end);
        }
        List<Grant> live = new ArrayList<>();
        List<Grant> ended = new ArrayList<>();
        for (Grant grant : asked.values()) {
            Kept kept = answers.get(grant);
            if (kept != null && kept.lease() == 0) {
                ended.add(grant);
            } else if (kept != null && kept.lease() > 0) {
                live.add(grant.renewed(Duration.ofMillis(kept.lease()), Objects.requireNonNull(sinces.get(grant))));
            }
        }
        LockStoreException failure = failures.peek();
        if (failure != null && live.isEmpty() && ended.isEmpty()) {
            throw failure;
        }
        return Renewal.of(live, ended);
    }

    /** On several threads, until all are through or the end has come; who is not through by then goes on for itself. */
    private void together(Runnable work, int width, long end) {
        List<CompletableFuture<?>> all = new ArrayList<>();
        for (int i = 0; i < width; i++) {
            try {
                all.add(CompletableFuture.runAsync(work, threads));
            } catch (RejectedExecutionException e) {
                throw closed("renew");
            }
        }
        boolean interrupted = false;
        while (true) {
            try {
                CompletableFuture.allOf(all.toArray(CompletableFuture[]::new)).get(left(end), TimeUnit.NANOSECONDS);
                break;
            } catch (InterruptedException e) {
                interrupted = true;
            } catch (TimeoutException e) {
                break;
            } catch (ExecutionException e) {
                throw new IllegalStateException(e.getCause());
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void renewOne(Grant grant, long end, Map<Grant, Kept> answers, Map<Grant, Long> sinces) {
        String name = Names.encode(grant.name());
        Seat seat = seats.get(grant.claim());
        if (seat != null && uninterruptedly(() -> seat.turn.tryLock(left(end), TimeUnit.NANOSECONDS))) {
            try {
                if (seat.granted && seat.token == grant.token()) {
                    Kept kept = renew(seat, dialect.key(name), grant, end);
                    if (kept.lease() == 0) {
                        leave(grant.claim(), seat);
                    }
                    sinces.put(grant, seat.since);
                    answers.put(grant, kept);
                    return;
                }
            } finally {
                seat.turn.unlock();
            }
        }
        // Not of this client, or no more: its row tells.
        uninterrupted("renew " + name, true, end, line -> {
            sinces.put(grant, context.nanoTime());
            answers.put(grant, renewRow(line, grant));
            return true;
        });
    }

    private Kept renewRow(Line line, Grant grant) throws SQLException {
        Dialect.Query query = dialect.renew(List.of(grant));
        List<Long> leases = line.db.query(
                query.sql(), r -> Math.max(0, r.getLong(4)), query.parameters().toArray());
        boolean ended = dialect.silenceMeansEnded();
        Dialect.Query whether = leases.isEmpty() && !ended ? dialect.ended(List.of(grant)) : null;
        if (whether != null) {
            ended = !line.db
                    .query(whether.sql(), r -> true, whether.parameters().toArray())
                    .isEmpty();
        }
        return new Kept(leases.isEmpty() ? ended ? 0 : Kept.UNKNOWN : leases.get(0), false);
    }

    /** By who has the seat's turn. Sets its since if the claim is live. Throws if nothing is known of it. */
    private Kept renew(Seat seat, Object key, Grant grant, long end) {
        String tried = "renew " + Names.encode(grant.name());
        long lease = Math.max(1, grant.lease().toMillis());
        SQLException last = null;
        int silent = 0;
        long nap = FIRST_NAP;
        do {
            Line line = seat.line;
            boolean own = line != null;
            boolean known = false;
            Kept kept = new Kept(Kept.UNKNOWN, false);
            try {
                requireOpen(tried);
                if (line == null) {
                    line = borrow(lease, end);
                }
                seat.uses(line);
                limit(line, end);
                long since = context.nanoTime();
                kept = own ? dialect.renew(line.db, key, grant) : renewRow(line, grant);
                known = kept.lease() != Kept.UNKNOWN;
                if (kept.lease() > 0) {
                    seat.since = since;
                    seat.lives(kept.lease(), endOf(kept.lease()));
                }
                if (own) {
                    if (kept.lease() == 0 || !kept.had()) {
                        // It has a key without the row, or the row without a key, which should not be.
                        seat.line = null;
                        discard(line);
                    }
                } else if (kept.lease() > 0 && dialect.tryLock(line.db, key)) {
                    seat.line = line;
                } else {
                    giveBack(seat, line);
                }
                if (known || ++silent > 1) {
                    // Somebody has its row locked, mostly for a commit: once more, and then it is unknown.
                    return kept;
                }
            } catch (SQLException e) {
                last = e;
                // A statement that only could not have the row leaves the session and its key as they were.
                if (!own || !dialect.isBusy(e) || dialect.isBroken(e)) {
                    seat.line = null;
                    discard(line);
                }
                if (known) {
                    return kept;
                }
            } finally {
                seat.uses(null);
            }
            long pause = nap;
            uninterruptedly(() -> {
                TimeUnit.NANOSECONDS.sleep(Math.min(pause, left(end)));
                return true;
            });
            nap = Math.min(2 * nap, LONGEST_NAP);
        } while (left(end) > Math.min(dialect.leastNanos(), callNanos() / 2));
        if (last != null) {
            throw failed(tried + ": " + dialect.what(last), dialect.advice(last), true, last);
        }
        return new Kept(Kept.UNKNOWN, false);
    }

    // ---- Release -------------------------------------------------------------------------------------------------

    @Override
    public boolean release(Claim claim) {
        String name = Names.encode(claim.name());
        long end = callEnd();
        Seat seat = seats.get(claim);
        if (seat != null) {
            if (!uninterruptedly(() -> seat.turn.tryLock(Math.min(GRACE, left(end)), TimeUnit.NANOSECONDS))) {
                // It would end by itself, but late. What it has sent is then overtaken by nothing of this session's.
                seat.breakOff();
                if (!uninterruptedly(() -> seat.turn.tryLock(left(end), TimeUnit.NANOSECONDS))) {
                    throw failed(
                            "release " + name + ": another call for this claim takes too long",
                            "ask again",
                            false,
                            null);
                }
            }
            try {
                if (seat.granted) {
                    return release(claim, name, seat, end);
                }
            } finally {
                seat.turn.unlock();
            }
        }
        return clear(claim, name, end);
    }

    private boolean release(Claim claim, String name, Seat seat, long end) {
        Line line = seat.line;
        seat.line = null;
        SQLException failure = null;
        boolean effect = false;
        if (line != null && seat.isOver()) {
            // It may break under the statement; and nobody would know what came of that.
            discard(line);
            line = null;
        }
        try {
            if (line != null) {
                requireOpen("release " + name);
                seat.uses(line);
                limit(line, end);
                Released released = dialect.release(line.db, dialect.key(name), name, claim.owner());
                if (released.unlocked()) {
                    giveBack(seat, line);
                } else {
                    discard(line);
                }
                return released.live();
            }
        } catch (SQLException e) {
            discard(line);
            failure = e;
            effect = dialect.mayHaveTakenEffect(e);
        } finally {
            seat.uses(null);
            leave(claim, seat);
        }
        // Its session is closed, or was lost before.
        boolean live = clear(claim, name, end);
        if (!live && effect && failure != null) {
            // The first request may have ended it, or not: this one found nothing. Asked again the answer is no.
            throw failed("release " + name + ": " + dialect.what(failure), dialect.advice(failure), true, failure);
        }
        return live;
    }

    /** Clears the row for this owner over any session. */
    private boolean clear(Claim claim, String name, long end) {
        return uninterrupted(
                "release " + name,
                true,
                end,
                line -> line.db
                        .change(dialect.statements().release(), r -> r.getInt(1) == 1, name, claim.owner())
                        .contains(true));
    }

    /** By who has the turn: the claim is none of this client's any more. */
    private void leave(Claim claim, Seat seat) {
        Line line = seat.line;
        if (line != null) {
            seat.line = null;
            discard(line);
        }
        seat.granted = false;
        seats.remove(claim, seat);
        if (seat.permit) {
            seat.permit = false;
            permits.release();
        }
    }

    @Override
    public Optional<Holder> holder(String name) {
        String encoded = Names.encode(Claim.requireName(name));
        String tried = "look at " + encoded;
        Row row = uninterrupted(tried, false, callEnd(), line -> Optional.ofNullable(look(line, tried, encoded)))
                .orElse(null);
        return row != null && row.live()
                ? Optional.of(Holder.of(String.valueOf(row.owner), row.token, Duration.ofMillis(row.rest)))
                : Optional.empty();
    }

    @Override
    public void close() {
        closed = true;
        closeIdle();
        // Those of calls under way, which then fail, and those that have a key: what is left of these claims is their
        // rows.
        lines.forEach(AdvisoryBackend::abort);
        lines.clear();
        threads.shutdown();
    }

    // ---- Sessions ------------------------------------------------------------------------------------------------

    private interface Work<T> {
        T on(Line line) throws SQLException;
    }

    private interface Waiting<T> {
        T now() throws InterruptedException;
    }

    /** An interrupt does not end it; the thread finds itself interrupted afterwards. */
    private static <T> T uninterruptedly(Waiting<T> waiting) {
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return waiting.now();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Over a session without a key, which is left without one; again and again while the database is busy. */
    private <T> T uninterrupted(String tried, boolean writes, long end, Work<T> work) {
        if (!uninterruptedly(() -> others.tryAcquire(left(end), TimeUnit.NANOSECONDS))) {
            throw failed(
                    tried + ": other calls of this client kept its sessions for too long",
                    "look for a slow or hanging server, and for who keeps rows locked",
                    false,
                    null);
        }
        try {
            long nap = FIRST_NAP;
            while (true) {
                Line line = null;
                try {
                    requireOpen(tried);
                    line = borrow(0, end);
                    limit(line, end);
                    T answer = work.on(line);
                    giveBack(line);
                    return answer;
                } catch (SQLException e) {
                    discard(line);
                    requireOpen(tried);
                    if (dialect.isBroken(e)) {
                        closeIdle();
                    }
                    if (!dialect.isBusy(e) || left(end) <= Math.min(dialect.leastNanos(), callNanos() / 2) + nap) {
                        throw failed(
                                tried + ": " + dialect.what(e),
                                dialect.advice(e),
                                writes && line != null && dialect.mayHaveTakenEffect(e),
                                e);
                    }
                } catch (RuntimeException e) {
                    discard(line);
                    throw e;
                }
                long pause = nap / 2 + ThreadLocalRandom.current().nextLong(nap);
                uninterruptedly(() -> {
                    TimeUnit.NANOSECONDS.sleep(pause);
                    return true;
                });
                nap = Math.min(2 * nap, LONGEST_NAP);
            }
        } finally {
            others.release();
        }
    }

    /** A session without a key that works as far as is known, and that the server ends after this lease; 0 for any. */
    private Line borrow(long lease, long end) throws SQLException {
        for (Line line = idle.poll(); line != null; line = idle.poll()) {
            if (line.age() > line.longestIdle()) {
                discard(line);
                continue;
            }
            try {
                // A quarter at most: if it hangs, there must be time left for a new one.
                limit(line, Math.min(end, System.nanoTime() + callNanos() / 4));
                if (lease > 0 && line.lease != lease) {
                    dialect.settle(line.db, lease);
                    line.lease = lease;
                } else if (line.age() > FRESH) {
                    line.db.session.requireAlive();
                }
                return line;
            } catch (SQLException e) {
                System.getLogger(AdvisoryBackend.class.getName()).log(System.Logger.Level.DEBUG, "idle session", e);
                discard(line);
                // The others were not used for even longer.
                closeIdle();
            }
        }
        long settled = lease > 0 ? lease : Math.max(1, 4 * context.callTimeout().toMillis());
        Line line = new Line(new Connected(dialect.open(again, limited(end))), settled);
        lines.add(line);
        boolean kept = false;
        try {
            limit(line, end);
            dialect.settle(line.db, settled);
            again = true;
            kept = true;
            return line;
        } finally {
            if (!kept || closed) {
                discard(line);
            }
        }
    }

    /** How long what follows may take, and how long it may wait for a row. */
    private void limit(Line line, long end) throws SQLException {
        long left = limited(end);
        line.db.session.limit(left);
        // Half of it, so that the database gives up, and says so, before we do.
        line.db.waits = Math.max(1, TimeUnit.NANOSECONDS.toMillis(left / 2));
    }

    private long limited(long end) {
        return Math.max(1, Math.min(end - System.nanoTime(), callNanos()));
    }

    private void giveBack(Seat seat, Line line) {
        // First: from now on it may be another's.
        seat.uses(null);
        giveBack(line);
    }

    /** A session that has no key. */
    private void giveBack(Line line) {
        line.db.used = System.nanoTime();
        idle.push(line);
        if (closed) {
            closeIdle();
        } else {
            sweepIn(line.longestIdle());
        }
    }

    /** A session of which it is not known what it has. */
    private void discard(@Nullable Line line) {
        if (line != null) {
            lines.remove(line);
            // Not its statements one by one: some drivers would send a cancel for one that is under way.
            line.db.session.close();
        }
    }

    /** Ends a session that another thread uses: no statement can be sent over it any more. */
    private static void abort(Line line) {
        try {
            line.db.session.connection().abort(Runnable::run);
        } catch (SQLException e) {
            System.getLogger(AdvisoryBackend.class.getName()).log(System.Logger.Level.DEBUG, "abort", e);
        }
    }

    private void closeIdle() {
        for (Line line = idle.poll(); line != null; line = idle.poll()) {
            discard(line);
        }
    }

    private void sweepIn(long nanos) {
        long at = System.nanoTime() + nanos + 1;
        long before = nextSweep.getAndUpdate(next -> next == 0 || at - next < 0 ? at : next);
        if (!closed && (before == 0 || at - before < 0)) {
            Executor later = CompletableFuture.delayedExecutor(nanos + 1, TimeUnit.NANOSECONDS, threads);
            later.execute(() -> sweep(at));
        }
    }

    /** Closes idle sessions before the server does, and gives up seats whose claims have ended unreleased. */
    private void sweep(long at) {
        if (!nextSweep.compareAndSet(at, 0)) {
            // An earlier one has taken its place, and tells when the next is due.
            return;
        }
        for (Line line : List.copyOf(idle)) {
            if (line.age() > line.longestIdle() && idle.remove(line)) {
                discard(line);
            }
        }
        sweepSeats();
        lines.stream().mapToLong(Line::longestIdle).min().ifPresent(this::sweepIn);
    }

    private void sweepSeats() {
        seats.forEach((claim, seat) -> {
            if (seat.turn.tryLock()) {
                try {
                    if (seat.granted && seat.end - System.nanoTime() < 0) {
                        leave(claim, seat);
                    }
                } finally {
                    seat.turn.unlock();
                }
            }
        });
    }

    // ---- Time and errors -----------------------------------------------------------------------------------------

    /** When a claim that is renewed now has certainly ended by the server's clock. */
    private long endOf(long leaseMillis) {
        return System.nanoTime()
                + dialect.guarantees()
                        .freedWithin(Duration.ofMillis(leaseMillis))
                        .toNanos();
    }

    private long callNanos() {
        return context.callTimeout().toNanos();
    }

    private long callEnd() {
        return System.nanoTime() + callNanos();
    }

    private static long left(long end) {
        return Math.max(0, end - System.nanoTime());
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

    private void requireOpen(String tried) {
        if (closed) {
            throw closed(tried);
        }
    }

    private LockStoreException failed(String tried, String advice, boolean effect, @Nullable Throwable cause) {
        return new LockStoreException(dialect.store(), tried, advice, effect, cause);
    }

    private LockStoreException closed(String tried) {
        return failed(tried + ": this client of the store was closed", "open another", false, null);
    }
}
