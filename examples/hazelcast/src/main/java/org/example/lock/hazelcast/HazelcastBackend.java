package org.example.lock.hazelcast;

import com.hazelcast.client.HazelcastClientOfflineException;
import com.hazelcast.core.HazelcastException;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceNotActiveException;
import com.hazelcast.map.IMap;
import com.hazelcast.map.listener.EntryUpdatedListener;
import com.hazelcast.nio.serialization.HazelcastSerializationException;
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
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Locks in a map of Hazelcast: each call is one {@link Step} on the row of its name. A wait listens for rows that are freed,
 * asks again when that of its name is, and once a second in case the message was lost.
 */
final class HazelcastBackend implements LockBackend {
    /**
     * Nothing about servers that are lost or cut off: each part of a cluster that falls apart goes on with its copy, and
     * members that end together take rows along, with the tokens. How many may end depends on settings and on luck.
     */
    static final Guarantees GUARANTEES = Guarantees.builder(Consistency.BEST_EFFORT)
            .exclusionSurvives(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS)
            .tokensSurvive(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS)
            .leases(Duration.ofMillis(50), Duration.ofDays(365), Duration.ofMillis(1))
            // A member that takes a row over counts from its arrival.
            .freedWithin(lease -> lease.plusMillis(200))
            .outlivesClient(true)
            .build();

    private static final Duration PAUSE = Duration.ofMillis(20);
    private static final long LOOK_AGAIN = TimeUnit.SECONDS.toNanos(1);
    private static final long RECONNECT = TimeUnit.MILLISECONDS.toNanos(10);

    /** The first call finds connections that are still being made, and members that have just begun. */
    private static final Duration OPEN = Duration.ofSeconds(10);

    private final String store;
    private final IMap<String, Row> rows;
    private final BackendContext context;
    private final Runnable shutdown;
    private final Map<String, Set<Semaphore>> waits = new ConcurrentHashMap<>();
    private final UUID listener;
    private volatile boolean closed;

    private HazelcastBackend(String store, IMap<String, Row> rows, BackendContext context, Runnable shutdown) {
        this.store = store;
        this.rows = rows;
        this.context = context;
        this.shutdown = shutdown;
        EntryUpdatedListener<String, Row> freed =
                event -> waits.getOrDefault(event.getKey(), Set.of()).forEach(Semaphore::release);
        this.listener = rows.addEntryListener(freed, new Step.Freed(), false);
    }

    /**
     * Looks at the settings of the map first.
     *
     * @param shutdown what {@link #close} does at the end
     */
    static HazelcastBackend open(
            String store, HazelcastInstance hazelcast, String map, BackendContext context, Runnable shutdown) {
        try {
            IMap<String, Row> rows = hazelcast.getMap(map);
            HazelcastBackend backend = new HazelcastBackend(store, rows, context, shutdown);
            Duration patience = context.callTimeout().compareTo(OPEN) > 0 ? context.callTimeout() : OPEN;
            String wrong = backend.new Call<>("open", map, new Step.Check(map), patience).answer();
            if (!wrong.isEmpty()) {
                throw new LockStoreException(
                        store,
                        "open: the map " + map + " will not do for locks: " + wrong,
                        "configure every member by HazelcastLocks.configure",
                        false,
                        null);
            }
            return backend;
        } catch (HazelcastException e) {
            throw new LockStoreException(
                    store, "open: " + e, "check that members run, and can be reached from here", false, e);
        }
    }

    @Override
    public Guarantees guarantees() {
        return GUARANTEES;
    }

    @Override
    public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException("before acquire " + claim);
        }
        long end = patience.compareTo(Duration.ofDays(36500)) > 0 ? Long.MAX_VALUE : patience.toNanos();
        long begun = context.nanoTime();
        Semaphore freed = new Semaphore(0);
        if (end > 0) {
            // Before the first look: what is freed after it is not missed.
            waits.computeIfAbsent(claim.name(), name -> ConcurrentHashMap.newKeySet()).add(freed);
        }
        try {
            while (true) {
                freed.drainPermits();
                long since = context.nanoTime();
                Row row = acquire(claim);
                if (row.owner().equals(claim.owner())) {
                    return Attempt.granted(claim.granted(lease(claim.lease()), row.token(), since));
                }
                long rest = Math.max(0, row.rest());
                long left = end - (context.nanoTime() - begun);
                if (left <= 0) {
                    return Attempt.held(PAUSE, Duration.ofNanos(rest));
                }
                long pause = Math.min(left, Math.min(rest + PAUSE.toNanos(), LOOK_AGAIN));
                boolean told = freed.tryAcquire(pause, TimeUnit.NANOSECONDS);
                if (closed) {
                    throw gone("acquire " + claim);
                }
                if (!told && pause == left) {
                    return Attempt.held(PAUSE, Duration.ofNanos(Math.max(0, row.rest())));
                }
            }
        } finally {
            if (end > 0) {
                waits.computeIfPresent(claim.name(), (name, all) -> {
                    all.remove(freed);
                    return all.isEmpty() ? null : all;
                });
            }
        }
    }

    private Row acquire(Claim claim) throws InterruptedException {
        try {
            return call("acquire " + claim, claim.name(), new Step.Acquire(claim.owner(), nanos(claim.lease())))
                    .interruptibly();
        } catch (InterruptedException e) {
            // Behind the acquire; the caller releases too, and waits for it.
            send(claim.name(), new Step.Release(claim.owner()));
            throw e;
        }
    }

    @Override
    public Renewal renew(Collection<Grant> grants) {
        Map<Grant, Long> since = new LinkedHashMap<>();
        Map<Grant, Call<Boolean>> asked = new LinkedHashMap<>();
        for (Grant grant : grants) {
            since.put(grant, context.nanoTime());
            Step<Boolean> step = new Step.Renew(grant.owner(), grant.token(), nanos(grant.lease()));
            asked.put(grant, call("renew " + grant.claim(), grant.name(), step));
        }
        List<Grant> live = new ArrayList<>();
        List<Grant> ended = new ArrayList<>();
        LockStoreException unanswered = null;
        for (Map.Entry<Grant, Call<Boolean>> each : asked.entrySet()) {
            Grant grant = each.getKey();
            try {
                if (each.getValue().answer()) {
                    live.add(grant.renewed(since.get(grant)));
                } else {
                    ended.add(grant);
                }
            } catch (LockStoreException e) {
                unanswered = e;
            }
        }
        if (unanswered != null && live.isEmpty() && ended.isEmpty()) {
            throw unanswered;
        }
        return Renewal.of(live, ended);
    }

    @Override
    public boolean release(Claim claim) {
        return call("release " + claim, claim.name(), new Step.Release(claim.owner())).answer();
    }

    @Override
    public Optional<Grant> adopt(Grant held, Claim heir) {
        long since = context.nanoTime();
        Step<Row> step = new Step.Adopt(held.owner(), held.token(), heir.owner(), nanos(heir.lease()));
        Row row = call("adopt " + heir, heir.name(), step).answer();
        return row == null ? Optional.empty() : Optional.of(heir.granted(lease(heir.lease()), row.token(), since));
    }

    @Override
    public Optional<Holder> holder(String name) {
        Row row = call("look at " + Claim.printable(name), name, new Step.Look()).answer();
        return row == null
                ? Optional.empty()
                : Optional.of(Holder.of(row.owner(), row.token(), Duration.ofNanos(Math.max(0, row.rest()))));
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        waits.values().forEach(all -> all.forEach(Semaphore::release));
        try {
            rows.removeEntryListener(listener);
        } catch (HazelcastException | IllegalStateException e) {
            // The cluster forgets it with this client.
        }
        shutdown.run();
    }

    @Override
    public String toString() {
        return store;
    }

    /** The lease as it is kept: no shorter than the shortest, in whole milliseconds. */
    private static Duration lease(Duration asked) {
        long millis = asked.plusNanos(999_999).toMillis();
        return Duration.ofMillis(Math.max(millis, GUARANTEES.shortestLease().toMillis()));
    }

    private static long nanos(Duration lease) {
        return lease(lease).toNanos();
    }

    private <R> Call<R> call(String what, String name, Step<R> step) {
        return new Call<>(what, name, step, context.callTimeout());
    }

    private <R> CompletableFuture<R> send(String name, Step<R> step) {
        if (closed) {
            return CompletableFuture.failedFuture(new HazelcastInstanceNotActiveException("closed"));
        }
        try {
            return rows.submitToKey(name, step).toCompletableFuture();
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
    }

    private LockStoreException gone(String what) {
        return new LockStoreException(store, what + ": the client is closed", "open another", true, null);
    }

    /** A step that was sent, and the end of the wait for its answer. */
    private final class Call<R> {
        private final String what;
        private final String name;
        private final Step<R> step;
        private final Duration patience;
        private final long deadline;
        private CompletableFuture<R> sent;

        Call(String what, String name, Step<R> step, Duration patience) {
            this.what = what;
            this.name = name;
            this.step = step;
            this.patience = patience;
            this.deadline = System.nanoTime() + patience.toNanos();
            this.sent = send(name, step);
        }

        /** Its thread's interrupt waits: half a release would be worse. */
        R answer() {
            boolean interrupted = false;
            try {
                while (true) {
                    try {
                        return interruptibly();
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

        /** Without a connection to any member nothing was sent: that is tried again, for connections are soon made anew. */
        R interruptibly() throws InterruptedException {
            while (true) {
                try {
                    return sent.get(Math.max(0, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
                } catch (TimeoutException e) {
                    throw new LockStoreException(
                            store,
                            what + ": no answer within " + patience,
                            "check the members, and the network to them",
                            true,
                            e);
                } catch (ExecutionException e) {
                    Throwable cause = e.getCause();
                    boolean offline = cause instanceof HazelcastClientOfflineException;
                    if (!offline || closed || deadline - System.nanoTime() <= RECONNECT) {
                        throw failed(cause);
                    }
                }
                TimeUnit.NANOSECONDS.sleep(RECONNECT);
                sent = send(name, step);
            }
        }

        private LockStoreException failed(Throwable cause) {
            if (closed) {
                return gone(what);
            }
            if (cause instanceof HazelcastClientOfflineException) {
                return new LockStoreException(
                        store,
                        what + ": not connected to any member",
                        "check that members run, and can be reached from here",
                        false,
                        cause);
            }
            return new LockStoreException(
                    store,
                    what + ": " + cause,
                    cause instanceof HazelcastSerializationException
                            ? "put the same lock-hazelcast jar on the class path of every member"
                            : "check the members, and the network to them",
                    true,
                    cause);
        }
    }
}
