package dev.mortise.lock.zookeeper;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.zookeeper.Session.Reply;
import java.io.IOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.data.Stat;
import org.jspecify.annotations.Nullable;

/**
 * Locks in ZooKeeper. A claim is an ephemeral sequential node in the lock's container, with the owner in its name; the first has
 * the lock, each of the others watches the one before it, and its {@code czxid} is the token.
 *
 * <p>The queue of such nodes is the recipe of ZooKeeper's own documentation. What differs: node and queue are asked for in one
 * go; nothing but answered writes counts as a sign of life ({@link Proof}); each claim has an end of its own, whatever its session
 * does; and a node whose making was not answered is found again by its owner's name, or removed by it.
 */
final class ZooKeeperBackend implements LockBackend {
    private static final Logger LOG = System.getLogger("dev.mortise.lock.zookeeper");

    static final Duration LONGEST_LEASE = Duration.ofDays(1);

    /** What is asked for, if nothing else is. */
    static final Duration SHORTEST_LEASE = Duration.ofSeconds(1);

    /** Of a server with the default {@code tickTime}, 2 s, and the default {@code minSessionTimeout}, two ticks. */
    static final Duration USUAL_SHORTEST = Duration.ofSeconds(4);

    /** Numbers from here on are not used: after 2^31 the server gives the same one to all. */
    static final long LAST_NUMBER = Integer.MAX_VALUE - 1_000_000L;

    private static final Duration PAUSE = Duration.ofMillis(50);
    private static final long FOREVER = Long.MAX_VALUE / 4;

    private final String store;
    private final Connector connector;
    private final Paths paths;
    private final BackendContext context;
    private final long callTimeout;
    private final long lastNumber;
    private final Guarantees guarantees;
    private final long shortest;
    private final long tau;

    private final Map<String, Entry> entries = new ConcurrentHashMap<>();

    /** By container: who asks for the lock, to whom this client's own holder can pass it. The last one, if there are several. */
    private final Map<String, Entry> asking = new ConcurrentHashMap<>();

    private final ReentrantLock lock = new ReentrantLock();

    /** By lease: the one that new claims live on. Guarded by {@link #lock}. */
    private final Map<Long, Session> current = new HashMap<>();

    /** Those that only old claims live on. Guarded by {@link #lock}. */
    private final List<Session> old = new ArrayList<>();

    private final ScheduledExecutorService keeper;
    private final AtomicBoolean toldOfLease = new AtomicBoolean();
    private volatile boolean closed;

    /** What is promised with servers whose shortest session is this. */
    static Guarantees guarantees(Duration shortestSession) {
        StoreEvent[] events = {
            StoreEvent.RELEASE_AND_EXPIRY,
            StoreEvent.CLIENT_CRASH,
            StoreEvent.CONNECTION_LOSS,
            StoreEvent.STORE_RESTART,
            StoreEvent.FAILOVER,
            StoreEvent.MINORITY_LOSS,
            StoreEvent.STORE_CLOCK_STEP
        };
        return Guarantees.builder(Consistency.CONSENSUS)
                .exclusionSurvives(events)
                .tokensSurvive(events)
                .leases(shortestSession, LONGEST_LEASE, Duration.ofMillis(1))
                // A session of twice the lease, which the leader ends up to a tick late; a tick is half of the
                // shortest.
                .freedWithin(lease -> (lease.compareTo(shortestSession) < 0 ? shortestSession : lease)
                        .multipliedBy(5)
                        .dividedBy(2)
                        .plusMillis(300))
                .fair(true)
                .outlivesClient(false)
                .build();
    }

    /** Connects, looks what sessions the servers give, and makes the root if it is not there. */
    static ZooKeeperBackend open(
            String store, Connector connector, String chroot, Duration shortestLease, BackendContext context) {
        return open(store, connector, chroot, shortestLease, context, LAST_NUMBER);
    }

    static ZooKeeperBackend open(
            String store,
            Connector connector,
            String chroot,
            Duration shortestLease,
            BackendContext context,
            long lastNumber) {
        Paths paths = new Paths(chroot);
        long limit = System.nanoTime() + context.callTimeout().toNanos();
        int asked = (int) shortestLease.toMillis();
        try {
            while (true) {
                // The library gives a connection no more time than that, and rests for up to a second before the next.
                boolean last = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(2L * asked) - limit >= 0;
                Session first =
                        new Session(connector, 0, asked, connector.addresses().size(), 1, context::nanoTime);
                try {
                    long until = last ? limit : System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(asked);
                    if (!get(first.opened(), until)) {
                        throw first.isRefused()
                                ? Trouble.answered(Code.AUTHFAILED.intValue(), paths.root())
                                : Trouble.silence("the session ended at once");
                    }
                    Duration shortest = Duration.ofNanos(first.timeout());
                    Reply root = new Layout(paths, chroot, connector.rights()).ensure(first, limit);
                    if (!root.is(Code.SESSIONEXPIRED)) {
                        return new ZooKeeperBackend(store, connector, paths, shortest, context, lastNumber);
                    }
                } catch (TimeoutException e) {
                    if (!last) {
                        if (limit - System.nanoTime() < callTimeoutShare(context) * 2) {
                            asked = Math.min(asked * 4, 60_000); // Slow, and not so short then.
                        }
                        continue;
                    }
                    throw Trouble.silence(
                            "no session within " + context.callTimeout().toMillis() + " ms ("
                                    + connector.whyNot((int)
                                            Math.max(50, context.callTimeout().toMillis() / 8)) + ")");
                } finally {
                    if (first.opened().isDone()) {
                        first.close(callTimeoutShare(context));
                    } else {
                        closeElsewhere(first, context.callTimeout().toNanos());
                    }
                }
            }
        } catch (Trouble e) {
            throw new LockStoreException(store, "open: " + e.getMessage(), e.advice(), false, e);
        } catch (IOException e) {
            throw new LockStoreException(
                    store, "open: " + e.getMessage(), "see whether the address is right", false, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LockStoreException(store, "open: interrupted", "try again", false, e);
        }
    }

    private static long callTimeoutShare(BackendContext context) {
        return context.callTimeout().toNanos() / 4;
    }

    private ZooKeeperBackend(
            String store,
            Connector connector,
            Paths paths,
            Duration shortestSession,
            BackendContext context,
            long lastNumber) {
        this.store = store;
        this.connector = connector;
        this.paths = paths;
        this.context = context;
        this.lastNumber = lastNumber;
        callTimeout = context.callTimeout().toNanos();
        guarantees = guarantees(shortestSession);
        shortest = shortestSession.toNanos();
        tau = shortest / 4;
        ScheduledThreadPoolExecutor one = new ScheduledThreadPoolExecutor(1, work -> {
            Thread thread = new Thread(work, "mortise-zookeeper-keeper");
            thread.setDaemon(true);
            return thread;
        });
        one.setRemoveOnCancelPolicy(true);
        keeper = one;
        long each = Math.max(5_000_000, Math.min(shortest / 10, 400_000_000));
        Object unused = keeper.scheduleWithFixedDelay(this::tend, each, each, TimeUnit.NANOSECONDS);
    }

    @Override
    public Guarantees guarantees() {
        return guarantees;
    }

    @Override
    public String toString() {
        return store;
    }

    /** For tests: what is held on to. */
    String contents() {
        lock.lock();
        try {
            return "claims " + entries.size() + ", sessions " + (current.size() + old.size());
        } finally {
            lock.unlock();
        }
    }

    // -------------------------------------------------------------------------------------------------- sessions

    private long lease(Claim claim) {
        if (claim.lease().compareTo(LONGEST_LEASE) > 0) {
            throw new IllegalArgumentException("lease is longer than " + LONGEST_LEASE + ": " + claim.lease());
        }
        long millis = (claim.lease().toNanos() + 999_999) / 1_000_000;
        return Math.max(TimeUnit.MILLISECONDS.toNanos(millis), shortest);
    }

    /** What of the lease asked for the servers' longest session lets through. */
    private static long given(Session session) {
        return Math.min(session.lease, session.timeout() / 2);
    }

    /** A session on which a new claim has most of its lease before it. Counts one user of it more. */
    private Session sessionFor(long lease, long limit) throws Trouble, InterruptedException {
        while (true) {
            Session session;
            lock.lock();
            try {
                requireOpen();
                session = current.get(lease);
                if (session != null && isStale(session)) {
                    old.add(session);
                    session = null;
                }
                if (session == null) {
                    long asked = TimeUnit.NANOSECONDS.toMillis(lease * 2);
                    int parts = (int) Math.max(1, Math.min(100, 2 * lease / Math.max(1, callTimeout / 2)));
                    session = new Session(
                            connector, lease, (int) Math.min(asked, Integer.MAX_VALUE), parts, tau, context::nanoTime);
                    current.put(lease, session);
                }
                session.users.incrementAndGet();
            } catch (IOException e) {
                throw new Trouble(String.valueOf(e.getMessage()), "see whether the address is right", false, e);
            } finally {
                lock.unlock();
            }
            boolean fine = false;
            try {
                if (get(session.opened(), limit) && !session.isDead()) {
                    if (given(session) < lease && toldOfLease.compareAndSet(false, true)) {
                        LOG.log(
                                Level.WARNING,
                                store + ": leases of " + lease / 1_000_000 + " ms were asked for, and are "
                                        + given(session) / 1_000_000
                                        + " ms: the servers' longest session (maxSessionTimeout) is "
                                        + session.timeout() / 1_000_000 + " ms, and must be twice the lease");
                    }
                    fine = true;
                    return session;
                }
                if (session.isRefused()) {
                    throw Trouble.answered(Code.AUTHFAILED.intValue(), paths.root());
                }
            } catch (TimeoutException e) {
                throw new Trouble(
                        "no session in time",
                        "check that a majority of the servers runs and can be reached",
                        false,
                        null);
            } finally {
                if (!fine) {
                    session.users.decrementAndGet();
                }
            }
            if (System.nanoTime() - limit >= 0) {
                throw new Trouble("sessions end at once", "see the log of the servers", false, null);
            }
        }
    }

    private boolean isStale(Session session) {
        if (session.isDead()) {
            return true;
        }
        long now = context.nanoTime();
        if (!session.proof.isOpened()) {
            // Not earlier than somebody has waited for it in vain: it may be about to be there.
            return now - session.made() > Math.max(session.lease, 2 * callTimeout);
        }
        return session.proof.end() - now < given(session) / 10 * 6;
    }

    private void requireOpen() throws Trouble {
        if (closed) {
            throw new Trouble("this client of the store was closed", "open another", false, null);
        }
    }

    /** The claim is gone, or never came. */
    private void drop(Entry entry) {
        synchronized (entry) {
            entries.remove(entry.claim.owner(), entry);
            if (entry.session != null) {
                entry.session.users.decrementAndGet();
                entry.session = null;
            }
        }
    }

    // --------------------------------------------------------------------------------------------------- the keeper

    /** Removes claims whose end has come, keeps sessions alive that others wait on, and ends those that nobody uses. */
    private void tend() {
        try {
            long now = context.nanoTime();
            Map<Session, Entry> waiting = new HashMap<>();
            for (Entry entry : entries.values()) {
                tend(entry, now, waiting);
            }
            waiting.forEach((session, entry) -> {
                String path = entry.path;
                // A slow answer is no reason to ask again at each look.
                if (path != null
                        && now - session.lastWrite() > given(session) / 3
                        && now - session.lastBeat > given(session) / 12) {
                    session.lastBeat = now;
                    Object unused = session.write(path, data(entry));
                }
            });
            List<Session> done = new ArrayList<>();
            lock.lock();
            try {
                current.values().forEach(session -> session.askAgain(callTimeout));
                old.forEach(session -> session.askAgain(callTimeout));
                current.values().removeIf(session -> {
                    long idle = now - session.lastAnswer();
                    boolean unused = session.users.get() == 0
                            && (session.isDead() || idle > Math.max(session.lease, callTimeout));
                    if (unused) {
                        done.add(session);
                    }
                    return unused;
                });
                old.removeIf(session -> session.users.get() == 0 && done.add(session));
            } finally {
                lock.unlock();
            }
            done.forEach(session -> closeElsewhere(session, callTimeout));
        } catch (RuntimeException e) {
            LOG.log(Level.WARNING, store + ": looking after the sessions failed; it is done again", e);
        }
    }

    private void tend(Entry entry, long now, Map<Session, Entry> waiting) {
        synchronized (entry) {
            Session session = entry.session;
            if (session != null && session.isExpired() && !entry.busy) {
                drop(entry);
                return;
            }
            if (entry.busy) {
                if (entry.waiting && session != null && !session.isDead()) {
                    waiting.putIfAbsent(session, entry);
                }
                return;
            }
            if (entry.hasEnd && now - entry.end >= 0) {
                entry.over = true;
            }
            if (!entry.over || entry.removing) {
                return;
            }
        }
        Object unused = remove(entry);
    }

    /** It waits for the server. */
    private static Thread closeElsewhere(Session session, long nanos) {
        Thread thread = new Thread(() -> session.close(nanos), "mortise-zookeeper-close");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    // ------------------------------------------------------------------------------------------------------ acquire

    private static byte[] data(Entry entry) {
        return String.valueOf(entry.claim.lease().toMillis()).getBytes(StandardCharsets.US_ASCII);
    }

    private static long nanos(Duration d) {
        if (d.toSeconds() >= FOREVER / 1_000_000_000) {
            return FOREVER;
        }
        return d.isNegative() ? 0 : d.toNanos();
    }

    @Override
    public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
        long lease = lease(claim);
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        long start = System.nanoTime();
        long end = start + nanos(patience);
        Entry entry = new Entry(claim, paths);
        Entry known = entries.putIfAbsent(claim.owner(), entry);
        if (known != null) {
            synchronized (known) {
                if (known.busy) {
                    throw failed(
                            "acquire",
                            claim.name(),
                            new Trouble(
                                    "an acquire of this owner is under way",
                                    "make a new claim for a new attempt",
                                    true,
                                    null));
                }
                if (known.over) {
                    throw failed(
                            "acquire",
                            claim.name(),
                            new Trouble(
                                    "this owner was released before",
                                    "make a new claim for a new attempt",
                                    false,
                                    null));
                }
                known.busy = true;
            }
            entry = known;
        }
        boolean fine = false;
        asking.put(entry.container, entry);
        try {
            Attempt attempt = new Acquire(entry, lease, end, start + callTimeout).run();
            fine = true;
            return attempt;
        } catch (Trouble e) {
            throw failed("acquire", claim.name(), e);
        } finally {
            boolean unused = asking.remove(entry.container, entry);
            idle(entry, lease, fine);
        }
    }

    /** An acquire is over. What is left of it without a grant ends a lease later at the latest. */
    private void idle(Entry entry, long lease, boolean fine) {
        synchronized (entry) {
            entry.busy = false;
            entry.waiting = false;
            entry.passed = null;
            if (!fine && !entry.hasEnd) {
                entry.endsAt(context.nanoTime() + lease);
            }
            if (entry.session == null || entries.get(entry.claim.owner()) != entry) {
                drop(entry);
            }
        }
    }

    /** One call, on the thread of its caller. */
    private final class Acquire {
        private final Entry entry;
        private final long lease;
        private final long end;

        /** For what must be answered at once. */
        private final long limit;

        private List<String> queue = List.of();

        /** Before the send of what showed the own node alive. A grant counts from there, and not for longer than is proven. */
        private long sent;

        Acquire(Entry entry, long lease, long end, long limit) {
            this.entry = entry;
            this.lease = lease;
            this.end = end;
            this.limit = limit;
        }

        Attempt run() throws Trouble, InterruptedException {
            boolean withdraw = true;
            try {
                long until = limit;
                int lost = 0;
                boolean place = entry.session != null && placeKept();
                while (true) {
                    if (place || takePlace(until)) {
                        Attempt attempt = inLine();
                        if (attempt != null) {
                            withdraw = false;
                            return attempt;
                        }
                    }
                    // It was removed, or has ended with its session: once more, and not for ever.
                    place = false;
                    leave();
                    long now = System.nanoTime();
                    if (++lost > 20 || (now - limit >= 0 && now - end >= 0)) {
                        throw Trouble.silence("its place in the queue was lost again and again");
                    }
                    until = now - limit < 0 ? limit : earlier(now + callTimeout, end + callTimeout);
                }
            } catch (Trouble e) {
                withdraw = false;
                throw e;
            } finally {
                if (withdraw) {
                    withdraw(entry); // Interrupted. The caller releases as well.
                }
            }
        }

        /** Nothing of this claim is on its session any more. */
        private void leave() {
            synchronized (entry) {
                Session session = entry.session;
                if (session != null) {
                    session.users.decrementAndGet();
                }
                entry.session = null;
                entry.path = null;
                entry.token = 0;
                entry.granted = false;
                entry.hasEnd = false;
                entry.passed = null;
            }
        }

        /** Asked again: whether the node of before is still there. */
        private boolean placeKept() throws Trouble, InterruptedException {
            Session session = entry.session;
            if (session == null || session.isDead()) {
                return false;
            }
            if (entry.path == null && !find(session)) {
                return false;
            }
            return confirm(session, limit);
        }

        private boolean takePlace(long until) throws Trouble, InterruptedException {
            Session session = sessionFor(lease, until);
            CompletableFuture<Reply> create;
            CompletableFuture<Reply> list;
            synchronized (entry) {
                entry.session = session;
                requireNotOver();
                create = session.create(entry.prefix, data(entry), connector.rights());
                list = session.children(entry.container);
            }
            Reply made = answer(session, create, until);
            for (int i = 0; made.is(Code.NONODE) || made.is(Code.NODEEXISTS); i++) {
                if (i > 100 || System.nanoTime() - until >= 0) {
                    throw Trouble.answered(made.code(), entry.container);
                }
                if (made.is(Code.NONODE)) {
                    made = answer(
                            session,
                            session.createBoth(entry.container, entry.prefix, data(entry), connector.rights()),
                            until);
                    if (made.is(Code.NONODE)) {
                        Reply root = new Layout(paths, "", connector.rights()).ensure(session, until);
                        made = root.isFine() ? made : root;
                    }
                } else {
                    made = answer(session, session.create(entry.prefix, data(entry), connector.rights()), until);
                }
                list = session.children(entry.container);
            }
            if (made.is(Code.SESSIONEXPIRED)) {
                requireOpen();
                return false; // With its session it ended too, or never will be.
            }
            if (made.isToBeSentAgain()) {
                // It may be there or not. It is never made again unless it is certain that it is not.
                if (!find(session)) {
                    throw Trouble.silence("the connection broke before the answer came");
                }
                return confirm(session, until);
            }
            String path = made.path();
            if (!made.isFine() || path == null) {
                throw Trouble.answered(made.code(), entry.container);
            }
            sent = made.sent();
            synchronized (entry) {
                entry.path = path;
            }
            Stat stat = made.stat();
            if (stat == null) {
                Reply read = again(session, () -> session.exists(path), until);
                if (!read.isFine()) {
                    return false;
                }
                stat = read.stat();
            }
            if (!isOurs(session, stat)) {
                return false;
            }
            synchronized (entry) {
                entry.token = stat == null ? 0 : stat.getCzxid();
            }
            Reply children = answer(session, list, until);
            if (children.isToBeSentAgain()) {
                children = again(session, () -> session.children(entry.container), until);
            }
            return queue(children);
        }

        private boolean isOurs(Session session, @Nullable Stat stat) {
            return stat != null && stat.getEphemeralOwner() == session.id();
        }

        private boolean queue(Reply children) throws Trouble {
            if (children.is(Code.NONODE) || children.is(Code.SESSIONEXPIRED)) {
                return false;
            }
            if (!children.isFine()) {
                throw Trouble.answered(children.code(), entry.container);
            }
            queue = children.children();
            return true;
        }

        private void requireNotOver() throws Trouble {
            if (entry.over) {
                throw new Trouble("this owner was released before", "make a new claim for a new attempt", false, null);
            }
        }

        /** By its name: the node of which nobody told. */
        private boolean find(Session session) throws Trouble, InterruptedException {
            String mine = Paths.last(entry.prefix);
            while (true) {
                CompletableFuture<Reply> sync = session.sync(entry.container);
                Reply list = answer(session, session.children(entry.container), limit);
                Reply synced = answer(session, sync, limit);
                if (list.isToBeSentAgain() || synced.isToBeSentAgain()) {
                    waitForConnection(session, limit);
                    continue;
                }
                if (!list.isFine()) {
                    return false;
                }
                String first = Paths.first(list.children().stream()
                        .filter(node -> node.startsWith(mine))
                        .toList());
                if (first == null) {
                    return false;
                }
                synchronized (entry) {
                    entry.path = entry.container + "/" + first;
                    entry.token = 0;
                }
                return true;
            }
        }

        /** A write to the own node, and the queue behind it. False if the node is there no more. */
        private boolean confirm(Session session, long until) throws Trouble, InterruptedException {
            String path = entry.path;
            if (path == null) {
                return false;
            }
            while (true) {
                CompletableFuture<Reply> write = session.write(path, data(entry));
                CompletableFuture<Reply> list = session.children(entry.container);
                Reply written = answer(session, write, until);
                Reply children = answer(session, list, until);
                if (written.isToBeSentAgain() || children.isToBeSentAgain()) {
                    waitForConnection(session, until);
                    continue;
                }
                if (written.is(Code.NONODE) || written.is(Code.SESSIONEXPIRED)) {
                    return false;
                }
                Stat stat = written.stat();
                if (!written.isFine()) {
                    throw Trouble.answered(written.code(), path);
                }
                synchronized (entry) {
                    if (!isOurs(session, stat)
                            || stat == null
                            || (entry.token != 0 && entry.token != stat.getCzxid())) {
                        return false;
                    }
                    entry.token = stat.getCzxid();
                }
                sent = written.sent();
                return queue(children);
            }
        }

        /** Whether the session is certain to live for most of a lease from now: then the own node is there as long. */
        private boolean isProven(Session session) {
            return session.proof.end() - context.nanoTime() > given(session) / 4 * 3;
        }

        /**
         * The queue, as new as what told that somebody has left it. Who has left does not come back, and nobody comes before the
         * own node: an old answer says less, and nothing wrong. False if the node is there no more.
         */
        private boolean look(Session session, long until) throws Trouble, InterruptedException {
            long asked = context.nanoTime();
            Reply children = again(session, () -> session.children(entry.container), until);
            sent = asked;
            return queue(children);
        }

        /** A grant or a refusal; null if the place was lost. */
        private @Nullable Attempt inLine() throws Trouble, InterruptedException {
            while (true) {
                Session session = entry.session;
                String path = entry.path;
                if (session == null || path == null) {
                    return null;
                }
                String own = Paths.last(path);
                if (!queue.contains(own)) {
                    return null;
                }
                long number = Paths.number(own);
                if (number < 0 || number >= lastNumber) {
                    return numbersAreUsedUp(session);
                }
                String before = Paths.before(number, queue);
                if (before == null) {
                    return Attempt.granted(granted(session));
                }
                if (isPassed(session, before)) {
                    continue;
                }
                if (System.nanoTime() - end >= 0) {
                    return refused();
                }
                if (!awaitTurn(session, entry.container + "/" + before)) {
                    return session.isDead() ? null : refused();
                }
                if (isPassed(session, before)) {
                    continue;
                }
                long until = earlier(System.nanoTime() + callTimeout, laterOf(limit, end + callTimeout));
                if (!(isProven(session) ? look(session, until) : confirm(session, until))) {
                    return null;
                }
            }
        }

        /**
         * Whether the one before was this client's own, has been removed over the same session, and the queue was read behind
         * that: then the removal is the write that the own node, which is in the queue that was read, is as alive as.
         */
        private boolean isPassed(Session session, String before) throws InterruptedException {
            Entry.Passed passed = entry.passed;
            if (passed == null || !passed.node().equals(before)) {
                return false;
            }
            entry.passed = null;
            long until = System.nanoTime() + callTimeout;
            try {
                Reply delete = get(passed.delete(), until);
                Reply list = get(passed.list(), until);
                if (!delete.isFine() || !list.isFine() || session != entry.session) {
                    return false;
                }
                sent = laterOf(sent, delete.sent());
                queue = list.children();
                return true;
            } catch (TimeoutException e) {
                return false; // Whoever removes it gives the connection up; this one looks for itself.
            }
        }

        private Grant granted(Session session) throws Trouble {
            long length = given(session);
            long since = earlier(sent, session.proof.end() - length);
            synchronized (entry) {
                requireNotOver();
                entry.granted = true;
                entry.endsAt(ownEnd(since, length));
                return entry.claim.granted(Duration.ofNanos(length), entry.token, since);
            }
        }

        /** Leaves the queue; only then it is a refusal. */
        private Attempt refused() throws Trouble, InterruptedException {
            if (!removed(entry, laterOf(limit, end + callTimeout), true)) {
                throw Trouble.silence("its place in the queue could not be given up");
            }
            return Attempt.held(PAUSE);
        }

        /** True when the one before is gone, or may be; false when time is over, or the session. */
        private boolean awaitTurn(Session session, String before) throws Trouble, InterruptedException {
            CompletableFuture<Void> gone = new CompletableFuture<>();
            Watcher watcher = event -> {
                // Broken connections are not its end: the library watches on over the next one.
                if (event.getType() != Watcher.Event.EventType.None) {
                    gone.complete(null);
                }
            };
            boolean watched = false;
            try {
                while (true) {
                    requireOpen();
                    if (session.isDead()) {
                        return false;
                    }
                    if (!watched) {
                        // Not exists(), which would go on watching for a node that never comes.
                        Reply there = answer(session, session.watch(before, watcher), laterOf(limit, end));
                        if (there.is(Code.NONODE)) {
                            return true;
                        }
                        if (there.isToBeSentAgain()) {
                            waitForConnection(session, laterOf(limit, end));
                            continue;
                        }
                        if (there.is(Code.SESSIONEXPIRED)) {
                            return false;
                        }
                        if (!there.isFine()) {
                            throw Trouble.answered(there.code(), before);
                        }
                        watched = true;
                        tellOfStranger(before, there.stat());
                        synchronized (entry) {
                            entry.waiting = true;
                            entry.turn = new Entry.Turn(Paths.last(before), gone);
                            Entry.Passed passed = entry.passed;
                            if (passed != null && passed.node().equals(Paths.last(before))) {
                                gone.complete(null);
                            }
                        }
                    }
                    long left = end - System.nanoTime();
                    if (left <= 0) {
                        return false;
                    }
                    if (context.nanoTime() - session.proof.end() > given(session)
                            && context.nanoTime() - session.lastAnswer() > callTimeout) {
                        throw Trouble.silence("no answer for longer than its session lives");
                    }
                    try {
                        // Now and then it looks whether there still is a session to wait on.
                        gone.get(Math.min(left, Math.max(50_000_000, given(session) / 4)), TimeUnit.NANOSECONDS);
                        return true;
                    } catch (TimeoutException e) {
                        // Go on.
                    } catch (ExecutionException e) {
                        throw new IllegalStateException(e);
                    }
                }
            } finally {
                synchronized (entry) {
                    entry.waiting = false;
                    entry.turn = null;
                }
                if (watched && !gone.isDone()) {
                    session.forget(before, watcher);
                }
            }
        }

        private void tellOfStranger(String path, @Nullable Stat stat) {
            if (stat != null && stat.getEphemeralOwner() == 0) {
                LOG.log(
                        Level.WARNING,
                        store + ": " + path
                                + " belongs to no session, and is in the way of all who wait behind it until"
                                + " somebody removes it");
            }
        }

        /**
         * Of 2^31 claims: the container must go, which it can when it is empty. Nobody is granted anything by such a number, so
         * it will be.
         */
        private @Nullable Attempt numbersAreUsedUp(Session session) throws Trouble, InterruptedException {
            if (!removed(entry, System.nanoTime() + callTimeout, false)) {
                throw Trouble.silence("its place in the queue could not be given up");
            }
            Reply reply = answer(session, session.delete(entry.container), System.nanoTime() + callTimeout);
            if (reply.isFine() || reply.is(Code.NONODE)) {
                return null;
            }
            long left = end - System.nanoTime();
            if (left <= 0) {
                drop(entry);
                return Attempt.held(PAUSE);
            }
            TimeUnit.NANOSECONDS.sleep(Math.min(left, PAUSE.toNanos()));
            return null;
        }

        // -------------------------------------------------------------------------------------------------- answers

        private Reply again(Session session, Supplier<CompletableFuture<Reply>> ask, long until)
                throws Trouble, InterruptedException {
            while (true) {
                Reply reply = answer(session, ask.get(), until);
                if (!reply.isToBeSentAgain()) {
                    return reply;
                }
                waitForConnection(session, until);
            }
        }

        private Reply answer(Session session, CompletableFuture<Reply> reply, long until)
                throws Trouble, InterruptedException {
            long asked = context.nanoTime();
            try {
                return get(reply, until);
            } catch (TimeoutException e) {
                session.kick(asked);
                throw Trouble.silence("no answer in time");
            }
        }

        private void waitForConnection(Session session, long until) throws Trouble, InterruptedException {
            long left = until - System.nanoTime();
            if (left <= 0) {
                throw Trouble.silence("no connection in time");
            }
            requireOpen();
            session.awaitConnected(Math.min(left, 100_000_000));
        }
    }

    private static long laterOf(long a, long b) {
        return a - b >= 0 ? a : b;
    }

    private static long earlier(long a, long b) {
        return a - b <= 0 ? a : b;
    }

    /** When this client removes a claim that was not renewed: a little after its holder has stopped to count on it. */
    private static long ownEnd(long since, long length) {
        return since + length + length / 64 + 1_000_000;
    }

    private static <T> T get(CompletableFuture<T> future, long until) throws TimeoutException, InterruptedException {
        try {
            return future.get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (ExecutionException e) {
            throw new IllegalStateException(e.getCause());
        }
    }

    // ------------------------------------------------------------------------------------------------------ release

    /**
     * What came of a removal.
     *
     * @param known whether nothing is left for certain
     * @param deleted whether there was something
     */
    private record Removal(boolean known, boolean deleted, int code) {}

    /** Asks the server to remove all of a claim, behind whatever was sent for it. Does not wait. */
    private CompletableFuture<Removal> remove(Entry entry) {
        Session session;
        String path;
        synchronized (entry) {
            session = entry.session;
            path = entry.path;
            if (session == null || session.isExpired() || session.isRefused()) {
                if (!entry.busy) {
                    drop(entry);
                }
                return CompletableFuture.completedFuture(new Removal(true, false, 0));
            }
            entry.removing = true;
        }
        CompletableFuture<Removal> removal = path != null
                ? delete(entry, session, path, asking.get(entry.container)).thenApply(reply -> removal(reply, session))
                : removeByName(entry, session);
        return removal.whenComplete((result, failure) -> {
            synchronized (entry) {
                entry.removing = false;
                if (result != null && result.known && !entry.busy) {
                    drop(entry);
                }
            }
        });
    }

    /** And reads the queue behind it for whoever asks for the lock on the same session, who then need not do so himself. */
    private static CompletableFuture<Reply> delete(Entry entry, Session session, String path, @Nullable Entry next) {
        if (next == null || next == entry) {
            return session.delete(path);
        }
        synchronized (next) {
            CompletableFuture<Reply> delete = session.delete(path);
            // Its own node was sent for, or it would not have that session; so it is in what is read now.
            if (next.session == session && next.busy && !next.over) {
                CompletableFuture<Reply> list = session.children(entry.container);
                next.passed = new Entry.Passed(Paths.last(path), delete, list);
                Entry.Turn turn = next.turn;
                if (turn != null && turn.node().equals(Paths.last(path))) {
                    CompletableFuture<Reply> unused =
                            list.whenComplete((reply, failure) -> turn.come().complete(null));
                }
            }
            return delete;
        }
    }

    private static Removal removal(Reply reply, Session session) {
        boolean known =
                reply.isFine() || reply.is(Code.NONODE) || (reply.is(Code.SESSIONEXPIRED) && session.isExpired());
        return new Removal(known, reply.isFine(), reply.code());
    }

    private CompletableFuture<Removal> removeByName(Entry entry, Session session) {
        String mine = Paths.last(entry.prefix);
        CompletableFuture<Reply> sync = session.sync(entry.container);
        CompletableFuture<Reply> list = session.children(entry.container);
        return sync.thenCombine(list, (synced, children) -> synced.isToBeSentAgain() ? synced : children)
                .thenCompose(children -> {
                    if (!children.isFine()) {
                        return CompletableFuture.completedFuture(removal(children, session));
                    }
                    CompletableFuture<Removal> all =
                            CompletableFuture.completedFuture(new Removal(true, false, Code.OK.intValue()));
                    for (String node : children.children()) {
                        if (node.startsWith(mine) && Paths.number(node) >= 0) {
                            CompletableFuture<Reply> delete = session.delete(entry.container + "/" + node);
                            all = all.thenCombine(delete, (before, reply) -> {
                                Removal one = removal(reply, session);
                                return new Removal(
                                        before.known && one.known,
                                        before.deleted || one.deleted,
                                        one.known ? before.code : one.code);
                            });
                        }
                    }
                    return all;
                });
    }

    /** Tries until the limit. */
    private boolean removed(Entry entry, long limit, boolean dropped) throws Trouble, InterruptedException {
        while (true) {
            Removal removal = tryToRemove(entry, limit);
            if (removal != null && removal.known) {
                if (dropped) {
                    drop(entry);
                }
                return true;
            }
            if (removal == null || System.nanoTime() - limit >= 0) {
                return false;
            }
            again(entry, removal, limit);
        }
    }

    private @Nullable Removal tryToRemove(Entry entry, long limit) throws InterruptedException {
        long asked = context.nanoTime();
        Session session = entry.session;
        try {
            return get(remove(entry), limit);
        } catch (TimeoutException e) {
            if (session != null) {
                session.kick(asked);
            }
            return null;
        }
    }

    private void again(Entry entry, Removal removal, long limit) throws Trouble, InterruptedException {
        Session session = entry.session;
        Code code = Code.get(removal.code);
        boolean broken = code == Code.CONNECTIONLOSS
                || code == Code.SESSIONEXPIRED
                || code == Code.SESSIONMOVED
                || code == Code.OPERATIONTIMEOUT;
        if (!broken) {
            throw Trouble.answered(removal.code, entry.path == null ? entry.container : entry.path);
        }
        requireOpen();
        if (session != null) {
            session.awaitConnected(Math.min(limit - System.nanoTime(), 100_000_000));
        }
    }

    /** For a thread that was interrupted: at most the call timeout. */
    private void withdraw(Entry entry) {
        boolean interrupted = Thread.interrupted();
        long limit = System.nanoTime() + callTimeout;
        synchronized (entry) {
            entry.over = true;
        }
        try {
            if (removed(entry, limit, true)) {
                return;
            }
        } catch (Trouble e) {
            LOG.log(Level.DEBUG, "an acquire that nobody waits for any more is not undone yet", e);
        } catch (InterruptedException e) {
            interrupted = true;
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    @Override
    public boolean release(Claim claim) {
        Entry entry = entries.get(claim.owner());
        if (entry == null || !entry.claim.equals(claim)) {
            if (closed) {
                throw failed("release", claim.name(), closedTrouble());
            }
            return false;
        }
        boolean live;
        synchronized (entry) {
            live = entry.granted && !entry.over;
            entry.over = true;
        }
        long limit = System.nanoTime() + callTimeout;
        boolean interrupted = false;
        Trouble trouble = null;
        boolean mine;
        boolean unanswered = false;
        try {
            while (true) {
                try {
                    requireOpen();
                    Removal removal = tryToRemove(entry, limit);
                    if (removal != null && removal.known) {
                        // It was there, and is not since it was asked to go: that was this call, whose answer was lost.
                        mine = removal.deleted || (unanswered && removal.code == Code.NONODE.intValue());
                        if (!entry.busy) {
                            drop(entry);
                        }
                        return live && mine;
                    }
                    if (removal == null || System.nanoTime() - limit >= 0) {
                        trouble = Trouble.silence("no answer in time");
                        break;
                    }
                    unanswered = removal.code == Code.CONNECTIONLOSS.intValue();
                    again(entry, removal, limit);
                } catch (InterruptedException e) {
                    interrupted = true; // It ends within the call timeout all the same.
                } catch (Trouble e) {
                    trouble = e;
                    break;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
        // It is removed by the keeper, too, until that is acknowledged.
        throw failed("release", claim.name(), trouble);
    }

    // -------------------------------------------------------------------------------------------------------- renew

    /** One session's part of a renewal. */
    private final class Batch {
        final Session session;
        final List<Grant> grants = new ArrayList<>();
        final List<Entry> claims = new ArrayList<>();
        private final List<CompletableFuture<Reply>> replies = new ArrayList<>();
        private long asked;

        Batch(Session session) {
            this.session = session;
        }

        /** A write for the first, which proves the session; reads behind it for the others, as new as it. */
        void send() {
            asked = context.nanoTime();
            replies.clear();
            for (Entry entry : claims) {
                String path = String.valueOf(entry.path);
                replies.add(replies.isEmpty() ? session.write(path, data(entry)) : session.exists(path));
            }
        }

        /** Answers what is known by then. */
        void await(long limit, List<Grant> live, List<Grant> ended) throws InterruptedException {
            while (!grants.isEmpty()) {
                if (session.isExpired()) {
                    claims.forEach(ZooKeeperBackend.this::drop);
                    ended.addAll(grants);
                    return;
                }
                Reply first;
                try {
                    first = get(replies.get(0), limit);
                    if (first.isFine() && isOf(claims.get(0), first.stat())) {
                        judge(first, limit, live, ended);
                        return;
                    }
                } catch (TimeoutException e) {
                    session.kick(asked);
                    return;
                }
                if (first.isFine() || first.is(Code.NONODE)) {
                    // Not a sign of life of the session: the next one is asked for it.
                    drop(claims.remove(0));
                    ended.add(grants.remove(0));
                } else if (first.isToBeSentAgain() && limit - System.nanoTime() > 0) {
                    session.awaitConnected(Math.min(limit - System.nanoTime(), 100_000_000));
                } else if (!first.is(Code.SESSIONEXPIRED) || !session.isExpired()) {
                    return;
                }
                if (!grants.isEmpty()) {
                    send();
                }
            }
        }

        private void judge(Reply write, long limit, List<Grant> live, List<Grant> ended) throws InterruptedException {
            long length = given(session);
            long since = earlier(write.sent(), session.proof.end() - length);
            for (int i = 0; i < grants.size(); i++) {
                Entry entry = claims.get(i);
                Grant grant = grants.get(i);
                Reply reply;
                try {
                    reply = get(replies.get(i), limit);
                } catch (TimeoutException e) {
                    return;
                }
                boolean there = reply.isFine() && isOf(entry, reply.stat());
                if (!there && !reply.isFine() && !reply.is(Code.NONODE)) {
                    continue;
                }
                synchronized (entry) {
                    if (there && entry.over) {
                        continue; // It is being removed, and has not ended until it is.
                    }
                    if (there) {
                        entry.endsAt(laterOf(entry.end, ownEnd(since, length)));
                        live.add(grant.renewed(Duration.ofNanos(length), since));
                        continue;
                    }
                }
                drop(entry);
                ended.add(grant);
            }
        }

        private boolean isOf(Entry entry, @Nullable Stat stat) {
            return stat != null && stat.getEphemeralOwner() == session.id() && stat.getCzxid() == entry.token;
        }
    }

    @Override
    public Renewal renew(Collection<Grant> grants) {
        List<Grant> live = new ArrayList<>();
        List<Grant> ended = new ArrayList<>();
        Map<Session, Batch> batches = new LinkedHashMap<>();
        if (closed) {
            throw failed("renew", "", closedTrouble());
        }
        long now = context.nanoTime();
        for (Grant grant : grants) {
            Entry entry = entries.get(grant.owner());
            if (entry == null || !entry.claim.equals(grant.claim())) {
                ended.add(grant);
                continue;
            }
            synchronized (entry) {
                Session session = entry.session;
                if (entry.hasEnd && now - entry.end >= 0) {
                    entry.over = true;
                }
                if (session == null || !entry.granted || entry.token != grant.token()) {
                    ended.add(grant);
                } else if (session.isExpired()) {
                    drop(entry);
                    ended.add(grant);
                } else if (!entry.over) {
                    Batch batch = batches.computeIfAbsent(session, Batch::new);
                    batch.grants.add(grant);
                    batch.claims.add(entry);
                }
            }
        }
        batches.values().forEach(Batch::send);
        long limit = System.nanoTime() + callTimeout;
        boolean interrupted = false;
        for (Batch batch : batches.values()) {
            try {
                batch.await(limit, live, ended);
            } catch (InterruptedException e) {
                interrupted = true; // Those not judged are unknown.
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        if (live.isEmpty() && ended.isEmpty() && !grants.isEmpty()) {
            throw failed(
                    "renew",
                    grants.iterator().next().name()
                            + (grants.size() > 1 ? " and " + (grants.size() - 1) + " others" : ""),
                    Trouble.silence("no answer in time"));
        }
        return Renewal.of(live, ended);
    }

    // ------------------------------------------------------------------------------------------------- look and close

    @Override
    public Optional<Holder> holder(String name) {
        Claim.requireName(name);
        String container = paths.container(name);
        long limit = System.nanoTime() + callTimeout;
        try {
            Session session = sessionFor(Math.max(shortest, TimeUnit.SECONDS.toNanos(10)), limit);
            try {
                while (true) {
                    CompletableFuture<Reply> sync = session.sync(container);
                    Reply list = get(session.children(container), limit);
                    Reply synced = get(sync, limit);
                    String first = list.isFine() ? Paths.first(list.children()) : null;
                    if (list.is(Code.NONODE) || (list.isFine() && first == null)) {
                        return Optional.empty();
                    }
                    Reply node = first == null ? list : get(session.read(container + "/" + first), limit);
                    Stat stat = node.stat();
                    if (first != null && node.isFine() && stat != null) {
                        String owner = Paths.owner(first);
                        return Optional.of(Holder.of(
                                owner == null ? first : owner,
                                stat.getCzxid(),
                                Duration.ofMillis(millis(node.data()))));
                    }
                    if (!node.is(Code.NONODE) && !node.isToBeSentAgain() && !synced.isToBeSentAgain()) {
                        throw Trouble.answered(node.code(), container);
                    }
                    if (!node.is(Code.NONODE)) {
                        session.awaitConnected(Math.min(Math.max(1, limit - System.nanoTime()), 100_000_000));
                    }
                }
            } finally {
                session.users.decrementAndGet();
            }
        } catch (TimeoutException e) {
            throw failed("look at", name, Trouble.silence("no answer in time"));
        } catch (Trouble e) {
            throw failed("look at", name, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw failed("look at", name, Trouble.silence("interrupted"));
        }
    }

    private static long millis(String text) {
        return text.matches("\\d{1,12}") ? Long.parseLong(text) : 0;
    }

    private static Trouble closedTrouble() {
        return new Trouble("this client of the store was closed", "open another", false, null);
    }

    private LockStoreException failed(String call, String name, Trouble e) {
        return new LockStoreException(
                store,
                call + " '" + Claim.printable(name) + "': " + e.getMessage(),
                e.advice(),
                e.mayHaveTakenEffect(),
                e.getCause() == null ? e : e.getCause());
    }

    @Override
    public void close() {
        List<Session> all = new ArrayList<>();
        lock.lock();
        try {
            if (closed) {
                return;
            }
            closed = true;
            all.addAll(current.values());
            all.addAll(old);
            current.clear();
            old.clear();
        } finally {
            lock.unlock();
        }
        keeper.shutdownNow();
        List<Thread> threads = new ArrayList<>();
        for (Session session : all) {
            threads.add(closeElsewhere(session, callTimeout));
        }
        long limit = System.nanoTime() + callTimeout;
        for (Thread thread : threads) {
            try {
                thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(limit - System.nanoTime())));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
        }
        entries.clear();
    }
}
