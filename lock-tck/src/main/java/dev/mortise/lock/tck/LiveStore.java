package dev.mortise.lock.tck;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.Providers;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreUri;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * A store that runs already, and that others use: nothing is done to it but what clients do, under names with a prefix, and
 * what its clients have acquired is released when it is closed, whatever has happened before.
 */
final class LiveStore implements Store {
    private static final Option<Duration> CALL_TIMEOUT = Option.duration(
            "call-timeout", "5s", "The longest that a call to the store may take, beyond the patience of an acquire.");

    private final String uri;
    private final Map<String, String> options;
    private final StoreUri parsed;
    private final Providers providers = Providers.find();
    private final String prefix;
    /** Asked for, and not known to have been released. */
    private final Set<Claim> open = ConcurrentHashMap.newKeySet();
    /** Held by calls that acquire, and by the end: none of those is under way then, and none begins later. */
    private final ReadWriteLock gate = new ReentrantReadWriteLock();

    private boolean ended;

    /**
     * A store that is not asked anything yet.
     *
     * @throws IllegalArgumentException if the URI cannot be read, or there is no provider of its scheme
     */
    LiveStore(String uri, Map<String, String> options, String prefix) {
        this.uri = uri;
        this.options = Map.copyOf(options);
        this.prefix = prefix;
        parsed = StoreUri.parse(uri, options);
        providers.of(parsed.scheme());
    }

    @Override
    public LockBackend connect() {
        return new Client(open(parsed.get(CALL_TIMEOUT)));
    }

    private LockBackend open(Duration callTimeout) {
        return providers.open(parsed, List.of(CALL_TIMEOUT), BackendContext.of(System::nanoTime, callTimeout));
    }

    /** Nothing is done behind anybody's back. */
    @Override
    public boolean canEvict() {
        return false;
    }

    @Override
    public void evict(String name) {
        throw new UnsupportedOperationException("in " + parsed + " nothing is evicted");
    }

    @Override
    public Map<String, String> about() {
        Map<String, String> about = new LinkedHashMap<>();
        about.put("store", parsed.toString());
        about.put("served by", providers.of(parsed.scheme()).getClass().getName());
        if (!parsed.options().isEmpty()) {
            // Not their values, some of which are secrets.
            about.put("options", String.join(", ", parsed.options().keySet()));
        }
        about.put("names", prefix + "...");
        return about;
    }

    @Override
    public Optional<String> uri() {
        return Optional.of(uri);
    }

    @Override
    public Map<String, String> options() {
        return options;
    }

    /** Waits for what processes that were killed have held under these names, and releases it. */
    void awaitFree(Collection<String> names, Duration lease) throws InterruptedException {
        if (names.isEmpty()) {
            return;
        }
        try (LockBackend client = connect()) {
            for (String name : names) {
                Claim claim = Claim.of(name, "tck~end~" + System.nanoTime(), lease);
                long end = System.nanoTime()
                        + client.guarantees().freedWithin(lease).multipliedBy(2).toNanos();
                while (client.acquire(claim, Duration.ofNanos(Math.max(0, end - System.nanoTime())))
                                .grant()
                                .isEmpty()
                        && end - System.nanoTime() > 0) {
                    client.release(claim);
                    TimeUnit.MILLISECONDS.sleep(50);
                }
                client.release(claim);
            }
        }
    }

    /**
     * Releases what is left. From its call on, nothing is acquired any more.
     *
     * @throws LockStoreException if the store did not acknowledge it for a minute; what is left ends with its lease
     */
    @Override
    public void close() {
        awaitCalls();
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
        boolean interrupted = Thread.interrupted();
        LockStoreException last = null;
        while (!open.isEmpty() && System.nanoTime() < end) {
            try (LockBackend client = open(parsed.get(CALL_TIMEOUT))) {
                for (Claim claim : List.copyOf(open)) {
                    client.release(claim);
                    open.remove(claim);
                }
            } catch (LockStoreException e) {
                last = e;
                try {
                    TimeUnit.MILLISECONDS.sleep(200);
                } catch (InterruptedException again) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        if (!open.isEmpty() && last != null) {
            throw last;
        }
    }

    /** Within the call timeout acquires under way have come back, and none begins after that. */
    private void awaitCalls() {
        gate.writeLock().lock();
        try {
            ended = true;
        } finally {
            gate.writeLock().unlock();
        }
    }

    /** For people: without secrets. */
    @Override
    public String toString() {
        return parsed.toString();
    }

    /** A client that tells what it has asked for. */
    private final class Client implements LockBackend {
        private final LockBackend client;

        Client(LockBackend client) {
            this.client = client;
        }

        @Override
        public Guarantees guarantees() {
            return client.guarantees();
        }

        private void begin(Claim claim) {
            if (!claim.name().startsWith(prefix)) {
                throw new IllegalStateException("the kit may not touch " + Claim.printable(claim.name()));
            }
            gate.readLock().lock();
            if (ended) {
                gate.readLock().unlock();
                throw new IllegalStateException("the run was ended");
            }
            open.add(claim);
        }

        @Override
        public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
            begin(claim);
            try {
                return client.acquire(claim, patience);
            } finally {
                gate.readLock().unlock();
            }
        }

        @Override
        public Optional<Grant> adopt(Grant held, Claim heir) {
            begin(heir);
            try {
                return client.adopt(held, heir);
            } finally {
                gate.readLock().unlock();
            }
        }

        @Override
        public Renewal renew(Collection<Grant> grants) {
            return client.renew(new ArrayList<>(grants));
        }

        @Override
        public boolean release(Claim claim) {
            boolean live = client.release(claim);
            open.remove(claim);
            return live;
        }

        @Override
        public Optional<Holder> holder(String name) {
            return client.holder(name);
        }

        @Override
        public void close() {
            client.close();
        }
    }
}
