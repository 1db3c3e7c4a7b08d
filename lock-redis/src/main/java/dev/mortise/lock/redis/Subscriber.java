package dev.mortise.lock.redis;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

/**
 * Tells waiters of releases, over one connection however many names and waiters there are. It is opened for the first
 * waiter, and closed some seconds after the last.
 *
 * <p>A message is a hint to ask again, no more. So a loss of hints must be noticed or harmless: whoever waits has an
 * acknowledged subscription from before he last asked; when the connection breaks, all are woken, and once more when it is
 * subscribed again; one that is silent for long is asked for a sign of life; and a waiter comes back by himself when the
 * holder's lease would end.
 */
final class Subscriber {
    private static final Logger LOG = System.getLogger(Subscriber.class.getName());

    /** How long a subscription is kept for the next waiter of the name. */
    static final long LINGER = TimeUnit.SECONDS.toNanos(3);

    /** So long a connection may be silent while somebody waits. */
    static final long SILENCE = TimeUnit.SECONDS.toNanos(10);

    private static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(1);

    private final Servers servers;
    private final long callTimeout;

    /** Guards all below. Held for moments; nothing is sent under it. */
    private final ReentrantLock mutex = new ReentrantLock();

    private final Map<String, Topic> topics = new HashMap<>();

    /** Kept by whoever sends, so that what is sent is in the order in which it was decided. Taken before the mutex. */
    private final ReentrantLock sending = new ReentrantLock();

    /** While there is a thread that keeps a connection, or tries to. */
    private boolean running;

    private @Nullable Session session;

    /** How many connections have failed. */
    private long failures;

    private boolean closed;

    /** Whether a refusal was told of. For the one thread that runs. */
    private volatile boolean told;

    Subscriber(Servers servers, long callTimeout) {
        this.servers = servers;
        this.callTimeout = callTimeout;
    }

    /** Who waits for one name. */
    final class Topic {
        private final String channel;
        private final Condition changed = mutex.newCondition();
        private int waiters;
        private boolean asked;
        private boolean acknowledged;
        private long version;
        private long idleSince;

        private Topic(String channel) {
            this.channel = channel;
        }

        /** Moves with every hint. To be read before the store is asked. */
        long version() {
            mutex.lock();
            try {
                return version;
            } finally {
                mutex.unlock();
            }
        }

        private void hint() {
            version++;
            changed.signalAll();
        }
    }

    /** Joins the waiters of a channel. To be left. */
    Topic join(String channel) {
        mutex.lock();
        try {
            Topic topic = topics.computeIfAbsent(channel, Topic::new);
            topic.waiters++;
            return topic;
        } finally {
            mutex.unlock();
        }
    }

    /** The same if hints come already; else null. */
    @Nullable
    Topic joinIfHeard(String channel) {
        mutex.lock();
        try {
            Topic topic = topics.get(channel);
            if (topic == null || !topic.acknowledged) {
                return null;
            }
            topic.waiters++;
            return topic;
        } finally {
            mutex.unlock();
        }
    }

    void leave(Topic topic) {
        mutex.lock();
        try {
            if (--topic.waiters == 0) {
                topic.idleSince = System.nanoTime();
                if (!topic.asked) {
                    topics.remove(topic.channel);
                }
            }
        } finally {
            mutex.unlock();
        }
    }

    /** Whether this client is told of what is published there. */
    boolean hears(String channel) {
        mutex.lock();
        try {
            Topic topic = topics.get(channel);
            return topic != null && topic.acknowledged;
        } finally {
            mutex.unlock();
        }
    }

    boolean isHeard(Topic topic) {
        mutex.lock();
        try {
            return topic.acknowledged;
        } finally {
            mutex.unlock();
        }
    }

    /** Until hints come. False if there is no connection for them, or no time. */
    boolean awaitHeard(Topic topic, Wait wait) throws InterruptedException {
        start();
        send();
        mutex.lock();
        try {
            long before = failures;
            while (!topic.acknowledged && !closed && failures == before && wait.left() > 0) {
                wait.forSignal(topic.changed, Long.MAX_VALUE);
            }
            return topic.acknowledged;
        } finally {
            mutex.unlock();
        }
    }

    /** Until a hint came after this version, or the time is over. */
    void awaitHint(Topic topic, long seen, Wait wait, long nanos) throws InterruptedException {
        long end = System.nanoTime() + Math.min(nanos, Math.max(0, wait.left()));
        mutex.lock();
        try {
            for (long left = end - System.nanoTime();
                    topic.version == seen && !closed && left > 0;
                    left = end - System.nanoTime()) {
                wait.forSignal(topic.changed, left);
            }
        } finally {
            mutex.unlock();
        }
    }

    void close() {
        Session current;
        mutex.lock();
        try {
            closed = true;
            current = session;
            topics.values().forEach(Topic::hint);
        } finally {
            mutex.unlock();
        }
        if (current != null) {
            current.link.kill();
        }
    }

    // ---- The connection ------------------------------------------------------------------------------------------

    private final class Session extends JedisPubSub {
        private final Link link;
        private volatile boolean open;
        private int unanswered;
        private long heard = System.nanoTime();

        Session(Link link) {
            this.link = link;
        }

        /** Under the mutex. From now on the server has to answer in time. */
        private void asks() {
            if (unanswered++ == 0) {
                link.arm(System.nanoTime() + callTimeout);
                link.server.watch();
            }
        }

        /** Under the mutex. */
        private void answered() {
            heard = System.nanoTime();
            if (unanswered > 0 && --unanswered == 0) {
                link.disarm();
            }
        }

        @Override
        public void onSubscribe(String channel, int count) {
            boolean first = !open;
            open = true;
            mutex.lock();
            try {
                answered();
                Topic topic = topics.get(channel);
                if (topic != null && topic.asked && !topic.acknowledged && session == this) {
                    topic.acknowledged = true;
                    topic.hint();
                }
            } finally {
                mutex.unlock();
            }
            if (first) {
                // Who came meanwhile could not send.
                send();
            }
        }

        @Override
        public void onUnsubscribe(String channel, int count) {
            mutex.lock();
            try {
                answered();
            } finally {
                mutex.unlock();
            }
        }

        @Override
        public void onMessage(String channel, String message) {
            mutex.lock();
            try {
                heard = System.nanoTime();
                Topic topic = topics.get(channel);
                if (topic != null) {
                    topic.hint();
                }
            } finally {
                mutex.unlock();
            }
        }
    }

    private void start() {
        mutex.lock();
        try {
            if (running || closed) {
                return;
            }
            running = true;
        } finally {
            mutex.unlock();
        }
        Servers.daemons("mortise-redis-subscribe")
                .newThread(() -> {
                    boolean ended = false;
                    try {
                        run();
                        ended = true;
                    } finally {
                        if (!ended) {
                            stopped();
                        }
                    }
                })
                .start();
    }

    /** By an error: the next waiter tries anew, and those that there are come back. */
    private void stopped() {
        mutex.lock();
        try {
            running = false;
            failures++;
            topics.values().forEach(Topic::hint);
        } finally {
            mutex.unlock();
        }
    }

    /** Keeps a connection as long as there are topics. */
    private void run() {
        long pause = FIRST_PAUSE;
        while (true) {
            boolean worked = false;
            try {
                worked = subscribe();
            } catch (RuntimeException | Trouble | InterruptedException e) {
                boolean refused = e instanceof JedisDataException && !told;
                told |= refused;
                LOG.log(
                        refused ? Level.WARNING : Level.DEBUG,
                        "waiters cannot be told of releases (" + e.getMessage()
                                + "); they ask again and again. The rights"
                                + " that a user needs are listed in docs/stores/redis.md",
                        e);
            }
            pause = worked ? FIRST_PAUSE : Math.min(LONGEST_PAUSE, pause * 2);
            mutex.lock();
            try {
                topics.values().removeIf(topic -> topic.waiters == 0);
                if (topics.isEmpty() || closed) {
                    running = false;
                    return;
                }
            } finally {
                mutex.unlock();
            }
            if (!worked) {
                LockSupport.parkNanos(
                        this, pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2));
            }
        }
    }

    /** Returns when nobody is left who wants hints; true if there was a connection. */
    private boolean subscribe() throws Trouble, InterruptedException {
        Session made = null;
        boolean worked = false;
        try {
            Link link;
            try (Wait wait = Wait.uninterruptible(java.time.Duration.ofNanos(callTimeout))) {
                link = servers.openForHints(wait);
            }
            made = new Session(link);
            String[] channels;
            mutex.lock();
            try {
                topics.values().removeIf(topic -> topic.waiters == 0);
                if (closed || topics.isEmpty()) {
                    worked = true;
                    return true;
                }
                session = made;
                List<String> all = new ArrayList<>();
                for (Topic topic : topics.values()) {
                    topic.asked = true;
                    all.add(topic.channel);
                    made.asks();
                }
                channels = all.toArray(String[]::new);
            } finally {
                mutex.unlock();
            }
            made.proceed(link.connection(), channels);
            worked = true;
            return true;
        } catch (JedisException e) {
            if (made != null && made.open) {
                LOG.log(Level.DEBUG, "the connection for hints of releases broke", e);
                worked = true;
                return true;
            }
            throw e;
        } finally {
            mutex.lock();
            try {
                session = null;
                if (!worked) {
                    failures++;
                }
                for (Topic topic : topics.values()) {
                    topic.asked = false;
                    topic.acknowledged = false;
                    topic.hint();
                }
            } finally {
                mutex.unlock();
            }
            if (made != null) {
                made.link.kill();
                servers.giveBack(made.link);
            }
        }
    }

    /** Subscribes what is not, and unsubscribes what nobody wanted for some time. */
    private void send() {
        sending.lock();
        try {
            List<String> come = new ArrayList<>();
            List<String> go = new ArrayList<>();
            Session current;
            mutex.lock();
            try {
                current = session;
                if (current == null || !current.open) {
                    return;
                }
                long now = System.nanoTime();
                for (Topic topic : List.copyOf(topics.values())) {
                    if (!topic.asked) {
                        topic.asked = true;
                        come.add(topic.channel);
                        current.asks();
                    } else if (topic.waiters == 0 && topic.acknowledged && now - topic.idleSince > LINGER) {
                        topics.remove(topic.channel);
                        go.add(topic.channel);
                        current.asks();
                    }
                }
            } finally {
                mutex.unlock();
            }
            if (!come.isEmpty()) {
                current.subscribe(come.toArray(String[]::new));
            }
            if (!go.isEmpty()) {
                current.unsubscribe(go.toArray(String[]::new));
            }
        } catch (JedisException e) {
            // Its reader notices as well, and wakes all.
            LOG.log(Level.DEBUG, "subscribe", e);
        } finally {
            sending.unlock();
        }
    }

    /**
     * What is due now and then, for the watch of the servers; sends nothing itself.
     *
     * @return work for another thread, or null
     */
    @Nullable
    Runnable chore(long now) {
        mutex.lock();
        try {
            Session current = session;
            if (current == null || !current.open) {
                return null;
            }
            if (topics.values().stream()
                    .anyMatch(t -> t.waiters == 0 && t.acknowledged && now - t.idleSince > LINGER)) {
                return this::send;
            }
            if (current.unanswered == 0 && now - current.heard > SILENCE) {
                // To subscribe what is subscribed changes nothing, and is acknowledged.
                for (Topic topic : topics.values()) {
                    if (topic.acknowledged && topic.waiters > 0) {
                        current.asks();
                        return () -> askForLife(current, topic.channel);
                    }
                }
            }
            return null;
        } finally {
            mutex.unlock();
        }
    }

    private void askForLife(Session current, String channel) {
        sending.lock();
        try {
            current.subscribe(channel);
        } catch (JedisException e) {
            LOG.log(Level.DEBUG, "subscribe again", e);
        } finally {
            sending.unlock();
        }
    }

    /** Whether {@link #chore} may become due. */
    boolean hasChores() {
        mutex.lock();
        try {
            return session != null;
        } finally {
            mutex.unlock();
        }
    }
}
