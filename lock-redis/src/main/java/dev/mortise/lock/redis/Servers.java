package dev.mortise.lock.redis;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.exceptions.JedisAskDataException;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisMovedDataException;

/**
 * The servers that keep one store's locks, and the connections to them: one server, the master of the moment, or the
 * masters of a Cluster, as {@link Layout} says.
 *
 * <p>A call uses a connection for the length of one exchange, never while it waits for a lock. It runs on its caller's
 * thread; what has no time limit of its own (to look up a host, to connect, a TLS handshake, a user's pool) runs on
 * another, and the caller waits for it as long as it has time. A third thread closes connections under calls that are
 * late. Nothing is sent again but after an answer that says that nothing was done.
 */
final class Servers implements AutoCloseable {

    /** Which server keeps what. For any thread. */
    interface Layout extends AutoCloseable {
        /** The server of this slot as far as is known; null if that has to be looked up. Without I/O. */
        @Nullable
        HostAndPort known(int slot);

        /** Looks it up. Takes as long as it takes. */
        HostAndPort lookUp(int slot);

        /** This server failed, or is not what it was: who keeps its slots is to be looked up again. */
        void forget(HostAndPort server);

        /** A server said that another keeps this slot. */
        default void moved(int slot, HostAndPort from, HostAndPort to) {
            forget(from);
        }

        /** All servers that keep something. Takes as long as it takes. */
        Collection<HostAndPort> all();

        /** Whether another server can take over, so that a call looks again before it gives up. */
        boolean changes();

        @Override
        default void close() {}
    }

    /** Makes connections. For any thread; takes as long as it takes. */
    interface Opener {
        /**
         * Connects.
         *
         * @param link to be told of the socket before anything is read or written
         */
        Connection open(HostAndPort server, Link link);

        /** Whether connections are to be kept, and not given back after each call. */
        boolean keeps();
    }

    /** The calls that share some of the connections to each server. */
    enum Lane {
        ACQUIRES,
        RENEWALS,
        OTHERS
    }

    /** One server's connections. */
    final class Server {
        final HostAndPort at;
        private final Deque<Link> idle = new ConcurrentLinkedDeque<>();

        /** Not fair: a call is short, and a fair one costs a change of threads for each. */
        private final Semaphore acquires = new Semaphore(CONNECTIONS);

        private final Semaphore renewals = new Semaphore(RENEWAL_CONNECTIONS);
        private final Semaphore others = new Semaphore(CONNECTIONS);

        private Server(HostAndPort at) {
            this.at = at;
        }

        void watch() {
            Servers.this.watch();
        }

        private Semaphore lane(Lane lane) {
            return switch (lane) {
                case ACQUIRES -> acquires;
                case RENEWALS -> renewals;
                case OTHERS -> others;
            };
        }
    }

    /** So many at a server for acquires, and as many for releases: they must not wait for acquires that hang. */
    private static final int CONNECTIONS = 32;

    private static final int RENEWAL_CONNECTIONS = 2;

    /** One that was not used for longer is tried before it is used: servers and what is between drop idle ones. */
    private static final long FRESH = TimeUnit.SECONDS.toNanos(1);

    /** One that was not used for longer is closed. */
    private static final long IDLE = TimeUnit.SECONDS.toNanos(60);

    /** Between two looks for the server that takes over. */
    private static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(50);

    private static final Set<String> NOT_THE_MASTER =
            Set.of("READONLY", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN");

    private final Layout layout;
    private final Opener opener;
    private final long callTimeout;
    private final Map<HostAndPort, Server> servers = new ConcurrentHashMap<>();
    private final Set<Link> links = ConcurrentHashMap.newKeySet();
    private final ThreadPoolExecutor aside = new ThreadPoolExecutor(
            0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), daemons("mortise-redis-connect"));

    private final Thread watcher = daemons("mortise-redis-watch").newThread(this::watchLinks);
    private volatile boolean watching;
    private volatile @Nullable Subscriber hints;
    private volatile boolean closed;

    Servers(Layout layout, Opener opener, Duration callTimeout) {
        this.layout = layout;
        this.opener = opener;
        this.callTimeout = callTimeout.toNanos();
    }

    /** Once. */
    void start(Subscriber subscriber) {
        hints = subscriber;
        watcher.start();
    }

    static ThreadFactory daemons(String name) {
        AtomicInteger number = new AtomicInteger();
        return task -> {
            Thread thread = new Thread(task, name + "-" + number.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        };
    }

    /** What a call does with its connection. */
    interface Exchange<T> {
        T on(Link link, Wait wait) throws Trouble, InterruptedException;
    }

    /**
     * Runs an exchange with the server of this slot.
     *
     * @throws Trouble if there was no usable answer
     */
    <T> T call(Lane lane, int slot, Wait wait, Exchange<T> exchange) throws Trouble, InterruptedException {
        return call(lane, slot, null, wait, exchange);
    }

    /**
     * The same, at first with the server that is to keep this slot, where the one that still keeps it said so.
     *
     * @param first null for the one that keeps it
     */
    <T> T call(Lane lane, int slot, @Nullable HostAndPort first, Wait wait, Exchange<T> exchange)
            throws Trouble, InterruptedException {
        HostAndPort asked = first;
        boolean moved = false;
        Trouble before = null;
        while (true) {
            Server server;
            try {
                server = server(asked == null ? locate(slot, wait) : asked);
            } catch (Trouble e) {
                throw e.after(before);
            }
            boolean asking = asked != null;
            asked = null;
            boolean sent = false;
            if (!wait.forPermit(server.lane(lane), () -> closed)) {
                throw closed
                        ? closed()
                        : new Trouble(
                                "all connections to " + server.at + " were busy",
                                "look for a slow or hanging server",
                                false,
                                null);
            }
            Link link = null;
            try {
                link = link(server, wait);
                link.asking = asking;
                sent = true;
                return exchange.on(link, wait);
            } catch (JedisAskDataException e) {
                asked = e.getTargetNode();
            } catch (JedisMovedDataException e) {
                layout.moved(slot, server.at, e.getTargetNode());
                if (!layout.changes() || wait.left() <= PAUSE) {
                    throw Trouble.answered(e);
                }
                if (moved) {
                    // Two servers that do not agree yet, and send from one to the other.
                    wait.pause(PAUSE);
                }
                moved = true;
            } catch (JedisDataException e) {
                if (!layout.changes() || !NOT_THE_MASTER.contains(Trouble.code(e)) || wait.left() <= PAUSE) {
                    throw Trouble.answered(e);
                }
                before = before == null ? Trouble.answered(e) : before;
                layout.forget(server.at);
                // Its other connections are to a server that others have left, too.
                dropIdle(server);
                wait.pause(PAUSE);
            } catch (JedisException e) {
                if (link != null) {
                    link.kill();
                }
                dropIdle(server);
                layout.forget(server.at);
                if (closed) {
                    throw sent ? Trouble.disconnected(e, true, server.at.toString()) : closed();
                }
                Trouble trouble = Trouble.disconnected(e, sent, server.at.toString());
                if (sent || !layout.changes() || wait.left() <= PAUSE) {
                    throw trouble.after(before);
                }
                before = before == null ? trouble : before;
                wait.pause(PAUSE);
            } catch (ClassCastException | IndexOutOfBoundsException | NumberFormatException e) {
                if (link != null) {
                    link.kill();
                }
                throw new Trouble("an answer without sense from " + server.at, "see what answers there", sent, e);
            } finally {
                if (link != null) {
                    link.asking = false;
                    giveBack(link);
                }
                server.lane(lane).release();
            }
        }
    }

    private static Trouble closed() {
        return new Trouble("this client of the store was closed", "open another", false, null);
    }

    boolean isClosed() {
        return closed;
    }

    /** The server that keeps this slot. */
    HostAndPort locate(int slot, Wait wait) throws Trouble, InterruptedException {
        HostAndPort known = layout.known(slot);
        if (known != null) {
            return known;
        }
        Trouble before = null;
        while (true) {
            try {
                return aside(wait, () -> layout.lookUp(slot), found -> {});
            } catch (JedisDataException e) {
                throw Trouble.answered(e);
            } catch (JedisException e) {
                Trouble trouble = Trouble.disconnected(e, false, "the servers");
                if (wait.left() <= PAUSE) {
                    throw trouble.after(before);
                }
                before = before == null ? trouble : before;
                wait.pause(PAUSE);
            }
        }
    }

    Collection<HostAndPort> all(Wait wait) throws Trouble, InterruptedException {
        try {
            return aside(wait, layout::all, found -> {});
        } catch (JedisDataException e) {
            throw Trouble.answered(e);
        } catch (JedisException e) {
            throw Trouble.disconnected(e, false, "the servers");
        }
    }

    private Server server(HostAndPort at) {
        return servers.computeIfAbsent(at, Server::new);
    }

    private Link link(Server server, Wait wait) throws Trouble, InterruptedException {
        for (Link link = server.idle.pollFirst(); link != null; link = server.idle.pollFirst()) {
            if (System.nanoTime() - link.used < FRESH || link.isAlive(wait)) {
                return link;
            }
            link.kill();
            links.remove(link);
            // What broke this one broke the others.
            dropIdle(server);
        }
        return open(server, wait);
    }

    /**
     * A connection for hints, to any server: what is published at one is told by all. Where the first cannot be reached, to
     * another: a Cluster goes on naming one that is down. To be given back.
     */
    Link openForHints(Wait wait) throws Trouble, InterruptedException {
        HostAndPort any = another(null);
        HostAndPort first = any == null ? locate(ThreadLocalRandom.current().nextInt(Keys.SLOTS), wait) : any;
        HostAndPort second = another(first);
        if (second == null) {
            return open(first, wait);
        }
        try {
            return open(first, wait.part(Duration.ofNanos(Math.max(1, wait.left() / 2))));
        } catch (Trouble e) {
            if (!e.isSilence() || closed) {
                throw e;
            }
            try {
                return open(second, wait);
            } catch (Trouble again) {
                throw again.after(e);
            }
        }
    }

    /** One that is known, not this one; null if a few guesses do not find any. */
    private @Nullable HostAndPort another(@Nullable HostAndPort not) {
        for (int i = 0; i < 64; i++) {
            HostAndPort at = layout.known(ThreadLocalRandom.current().nextInt(Keys.SLOTS));
            if (at != null && !at.equals(not)) {
                return at;
            }
        }
        return null;
    }

    /** A connection that is nobody else's. To be given back. */
    Link open(HostAndPort at, Wait wait) throws Trouble, InterruptedException {
        try {
            return open(server(at), wait);
        } catch (JedisDataException e) {
            throw Trouble.answered(e);
        } catch (JedisException e) {
            layout.forget(at);
            throw Trouble.disconnected(e, false, at.toString());
        }
    }

    private Link open(Server server, Wait wait) throws Trouble, InterruptedException {
        return aside(wait, () -> openNow(server), this::giveBack);
    }

    private Link openNow(Server server) {
        Link link = new Link(server);
        if (!opener.keeps()) {
            // However long it took to borrow it, it is sound, and whoever gave up waiting gives it back.
            link.opened(opener.open(server.at, link));
            links.add(link);
            if (closed) {
                giveBack(link);
                throw new JedisConnectionException("closed");
            }
            return link;
        }
        link.arm(System.nanoTime() + callTimeout);
        links.add(link);
        watch();
        boolean opened = false;
        try {
            link.opened(opener.open(server.at, link));
            if (!link.disarm() || closed) {
                throw new JedisConnectionException(
                        closed ? "closed" : "no answer in time from " + server.at + " when connecting");
            }
            link.used = System.nanoTime();
            opened = true;
            return link;
        } finally {
            if (!opened) {
                link.kill();
                links.remove(link);
            }
        }
    }

    void giveBack(Link link) {
        if (!opener.keeps()) {
            links.remove(link);
            if (link.isUsable()) {
                link.restore();
                returnTo(link);
            } else {
                // Its pool may connect anew on this occasion, which takes as long as it takes.
                daemons("mortise-redis-return").newThread(() -> returnTo(link)).start();
            }
            return;
        }
        if (!link.isUsable() || closed) {
            link.kill();
            links.remove(link);
            return;
        }
        link.used = System.nanoTime();
        link.server.idle.addFirst(link);
        if (closed) {
            dropIdle(link.server);
        }
    }

    private static void returnTo(Link link) {
        try {
            link.connection().close();
        } catch (JedisException e) {
            System.getLogger(Servers.class.getName())
                    .log(System.Logger.Level.DEBUG, "giving a connection back to its pool", e);
        }
    }

    private void dropIdle(Server server) {
        for (Link link = server.idle.pollFirst(); link != null; link = server.idle.pollFirst()) {
            link.kill();
            links.remove(link);
        }
    }

    // ---- What has no limit of its own ----------------------------------------------------------------------------

    interface Work<T> {
        T now();
    }

    interface Late<T> {
        void came(T result);
    }

    private static final class Result<T> {
        private final CountDownLatch there = new CountDownLatch(1);
        private @Nullable T value;
        private @Nullable RuntimeException failure;
        private boolean abandoned;

        /** False if nobody waits for it any more. */
        synchronized boolean came(@Nullable T value, @Nullable RuntimeException failure) {
            this.value = value;
            this.failure = failure;
            there.countDown();
            return !abandoned;
        }

        /** False if it is there. */
        synchronized boolean abandon() {
            abandoned = there.getCount() > 0;
            return abandoned;
        }
    }

    /** On another thread, which ends by itself. */
    void aside(Runnable work) throws Trouble {
        try {
            aside.execute(work);
        } catch (RejectedExecutionException e) {
            throw closed();
        }
    }

    /** A server said this to one request of several. */
    void learn(int slot, Link link, JedisDataException error) {
        if (error instanceof JedisMovedDataException moved) {
            layout.moved(slot, link.server.at, moved.getTargetNode());
        }
    }

    /** Runs work on another thread while this one waits. */
    <T> T aside(Wait wait, Work<T> work, Late<T> late) throws Trouble, InterruptedException {
        Result<T> result = new Result<>();
        Runnable task = () -> {
            T value = null;
            RuntimeException failure = null;
            try {
                value = work.now();
            } catch (RuntimeException e) {
                failure = e;
            } catch (Throwable e) { // The caller is told of it, whatever it is.
                failure = new JedisException(e);
            }
            if (!result.came(value, failure) && value != null) {
                late.came(value);
            }
        };
        try {
            aside.execute(task);
        } catch (RejectedExecutionException e) {
            throw closed();
        }
        boolean came = false;
        try {
            came = wait.forResult(result.there, () -> closed);
        } finally {
            if (!came && !result.abandon()) {
                // It came at the last moment.
                T value = result.value;
                if (value != null) {
                    late.came(value);
                }
            }
        }
        if (!came) {
            if (closed) {
                throw closed();
            }
            throw new JedisConnectionException("no connection in time");
        }
        if (result.failure != null) {
            throw result.failure;
        }
        return Objects.requireNonNull(result.value);
    }

    // ---- The watch ---------------------------------------------------------------------------------------------

    /** There is a call whose deadline is to be watched. */
    private void watch() {
        if (!watching) {
            watching = true;
            LockSupport.unpark(watcher);
        }
    }

    private void watchLinks() {
        long step = Math.max(TimeUnit.MILLISECONDS.toNanos(1), Math.min(callTimeout / 32, 50_000_000));
        while (!closed) {
            watching = false;
            boolean armed = false;
            long now = System.nanoTime();
            for (Link link : links) {
                armed |= link.isArmed();
                link.killIfLate(now);
            }
            Subscriber subscriber = hints;
            Runnable chore = subscriber == null ? null : subscriber.chore(now);
            if (chore != null) {
                try {
                    aside.execute(chore);
                } catch (RejectedExecutionException e) {
                    return; // This is closed.
                }
            }
            if (armed) {
                watching = true;
                LockSupport.parkNanos(this, step);
            } else if (!watching) {
                closeIdle(now);
                boolean more = subscriber != null && subscriber.hasChores();
                LockSupport.parkNanos(this, more ? Subscriber.LINGER / 3 : IDLE / 4);
            }
        }
    }

    private void closeIdle(long now) {
        for (Server server : servers.values()) {
            // The one used last is the first.
            for (Link link = server.idle.peekLast();
                    link != null && now - link.used > IDLE && server.idle.removeLastOccurrence(link);
                    link = server.idle.peekLast()) {
                link.kill();
                links.remove(link);
            }
        }
    }

    /** Under whoever uses one. */
    @Override
    public void close() {
        closed = true;
        LockSupport.unpark(watcher);
        aside.shutdown();
        List<Link> all = new ArrayList<>(links);
        all.forEach(Link::kill);
        links.removeAll(all);
        servers.values().forEach(this::dropIdle);
        layout.close();
    }
}
