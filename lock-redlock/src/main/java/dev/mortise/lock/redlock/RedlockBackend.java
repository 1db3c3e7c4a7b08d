package dev.mortise.lock.redlock;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.redlock.Node.Kept;
import dev.mortise.lock.redlock.Protocol.Acquisition;
import dev.mortise.lock.redlock.Protocol.Outcome;
import dev.mortise.lock.redlock.Protocol.State;
import dev.mortise.lock.redlock.Protocol.Unavailable;
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
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The {@link Protocol} as a backend: blocks on its futures, and says in words what it answers. */
final class RedlockBackend implements LockBackend {
    static final Duration SHORTEST_LEASE = Duration.ofMillis(100);
    static final Duration LONGEST_LEASE = Duration.ofSeconds(30);
    static final Duration ATTEMPT = Duration.ofSeconds(1);

    /** How late a server can be in letting a key go. */
    private static final Duration GRAIN = Duration.ofMillis(50);

    /**
     * How soon a loser may come back; the caller lengthens it from try to try, at random. A few round trips: sooner, two
     * who split the servers between them would do so again.
     */
    private static final Duration SHORTEST_PAUSE = Duration.ofMillis(4);

    private static final Duration LONGEST_PAUSE = Duration.ofMillis(200);

    private final String store;
    private final Protocol protocol;
    private final BackendContext context;
    private final Guarantees guarantees;
    private final long longestMillis;
    private final Runnable onClose;

    /** How long a fan-out lately took, in nanoseconds; smoothed. A race between writers costs a sample. */
    private volatile long roundTrip = 250_000;

    private volatile boolean closed;

    /**
     * A backend of a protocol that has started.
     *
     * @param store as people know it, without secrets
     */
    RedlockBackend(String store, Protocol protocol, BackendContext context, Runnable onClose) {
        this.store = store;
        this.protocol = protocol;
        this.context = context;
        this.longestMillis = protocol.terms().longestMillis();
        this.guarantees = guarantees(Duration.ofMillis(longestMillis));
        this.onClose = onClose;
    }

    static Guarantees guarantees(Duration longest) {
        return Guarantees.builder(Consistency.QUORUM)
                .exclusionSurvives(
                        StoreEvent.RELEASE_AND_EXPIRY,
                        StoreEvent.CLIENT_CRASH,
                        StoreEvent.CONNECTION_LOSS,
                        StoreEvent.STORE_RESTART,
                        StoreEvent.RESTART_WITHOUT_DATA,
                        StoreEvent.MINORITY_LOSS)
                .tokensSurvive(
                        StoreEvent.RELEASE_AND_EXPIRY,
                        StoreEvent.CLIENT_CRASH,
                        StoreEvent.CONNECTION_LOSS,
                        StoreEvent.STORE_RESTART,
                        StoreEvent.RESTART_WITHOUT_DATA,
                        StoreEvent.MINORITY_LOSS,
                        StoreEvent.STORE_CLOCK_STEP)
                .leases(SHORTEST_LEASE, longest, Duration.ofMillis(1))
                .freedWithin(lease -> lease.plus(GRAIN))
                .build();
    }

    /** How long a client waits for one server: far below the lease, and so that an acquire ends in its time. */
    static long nodeTimeout(BackendContext context, long attemptMillis) {
        long call = nanos(context.callTimeout());
        return Math.max(1_000_000, Math.min(attemptMillis * 1_000_000 / 2, call / 4));
    }

    private static long nanos(Duration duration) {
        return duration.compareTo(Duration.ofDays(1)) > 0 ? Duration.ofDays(1).toNanos() : duration.toNanos();
    }

    @Override
    public Guarantees guarantees() {
        return guarantees;
    }

    @Override
    public String toString() {
        return store;
    }

    @Override
    public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
        String tried = "acquire " + Claim.printable(claim.name());
        long lease = leaseMillis(claim);
        requireOpen(tried);
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        long start = context.nanoTime();
        Acquisition acquisition =
                protocol.acquire(claim.name(), claim.owner(), lease, nanos(context.callTimeout()) / 2);
        Outcome outcome;
        try {
            outcome = acquisition.outcome.get(nanos(context.callTimeout()), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            undo(acquisition, claim);
            throw e;
        } catch (TimeoutException e) {
            acquisition.abandon();
            throw new LockStoreException(
                    store, tried + ": no decision in time", "find out why this client is slow", true, e);
        } catch (ExecutionException e) {
            throw failure(tried, e);
        }
        if (outcome instanceof Outcome.Granted granted) {
            long before = roundTrip;
            roundTrip = before + (Math.min(context.nanoTime() - start, nanos(LONGEST_PAUSE)) - before) / 8;
            return Attempt.granted(claim.granted(Duration.ofMillis(lease), granted.token(), granted.since()));
        }
        long rest = ((Outcome.Held) outcome).restMillis();
        return rest < 0 ? Attempt.held(pause()) : Attempt.held(pause(), Duration.ofMillis(rest));
    }

    private Duration pause() {
        long pause = 4 * roundTrip;
        return Duration.ofNanos(Math.max(SHORTEST_PAUSE.toNanos(), Math.min(LONGEST_PAUSE.toNanos(), pause)));
    }

    /** The thread was interrupted: gives back what the attempt has, within the call timeout. */
    private void undo(Acquisition acquisition, Claim claim) {
        acquisition.abandon();
        CompletableFuture<?> undone = acquisition
                .outcome
                .handle((outcome, failure) -> outcome)
                .thenCompose(outcome -> outcome instanceof Outcome.Granted
                        ? protocol.release(claim.name(), claim.owner()).thenApply(x -> outcome)
                        : CompletableFuture.completedFuture(outcome));
        try {
            undone.get(nanos(context.callTimeout()) / 2, TimeUnit.NANOSECONDS);
        } catch (InterruptedException | ExecutionException | TimeoutException e) {
            // The caller releases, too.
            System.getLogger(RedlockBackend.class.getName()).log(System.Logger.Level.DEBUG, "undo " + claim, e);
        }
    }

    @Override
    public Renewal renew(Collection<Grant> grants) {
        if (grants.isEmpty()) {
            return Renewal.of(List.of(), List.of());
        }
        String tried = "renew " + grants.size() + (grants.size() == 1 ? " lease" : " leases");
        requireOpen(tried);
        List<Grant> asked = List.copyOf(grants);
        List<Kept> kept = new ArrayList<>(asked.size());
        long[] deadlines = new long[asked.size()];
        for (int i = 0; i < deadlines.length; i++) {
            Grant grant = asked.get(i);
            long lease = grant.lease().toMillis();
            kept.add(new Kept(grant.name(), grant.owner(), grant.token(), lease));
            deadlines[i] = grant.since() + lease * 1_000_000 - Protocol.margin(lease);
        }
        Protocol.Renewal renewal = await(tried, protocol.renew(kept, deadlines));
        List<Grant> live = new ArrayList<>();
        List<Grant> ended = new ArrayList<>();
        for (int i = 0; i < deadlines.length; i++) {
            State state = renewal.states().get(i);
            if (state == State.LIVE) {
                live.add(asked.get(i).renewed(renewal.since()));
            } else if (state == State.ENDED) {
                ended.add(asked.get(i));
            }
        }
        return Renewal.of(live, ended);
    }

    @Override
    public boolean release(Claim claim) {
        String tried = "release " + Claim.printable(claim.name());
        requireOpen(tried);
        return await(tried, protocol.release(claim.name(), claim.owner()));
    }

    @Override
    public Optional<Holder> holder(String name) {
        String tried = "holder " + Claim.printable(Claim.requireName(name));
        requireOpen(tried);
        return await(tried, protocol.holder(name))
                .map(look -> Holder.of(look.owner(), look.token(), Duration.ofMillis(Math.max(0, look.restMillis()))));
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            protocol.close();
            onClose.run();
        }
    }

    /** Waits for something that the protocol ends by itself; through interrupts, which belong to acquire. */
    private <T> T await(String tried, CompletableFuture<T> future) {
        boolean interrupted = false;
        long end = context.nanoTime() + nanos(context.callTimeout());
        try {
            while (true) {
                try {
                    return future.get(Math.max(0, end - context.nanoTime()), TimeUnit.NANOSECONDS);
                } catch (InterruptedException e) {
                    interrupted = true;
                } catch (TimeoutException e) {
                    throw new LockStoreException(
                            store, tried + ": no decision in time", "find out why this client is slow", true, e);
                } catch (ExecutionException e) {
                    throw failure(tried, e);
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private LockStoreException failure(String tried, ExecutionException e) {
        return failure(store, tried, Protocol.cause(e.getCause() == null ? e : e.getCause()));
    }

    static LockStoreException failure(String store, String tried, Throwable cause) {
        if (cause instanceof Unavailable unavailable) {
            return new LockStoreException(
                    store,
                    tried + ": " + unavailable.getMessage(),
                    unavailable.advice(),
                    unavailable.mayHaveTakenEffect(),
                    null);
        }
        return new LockStoreException(store, tried + ": " + cause, "report this as a defect", true, cause);
    }

    private void requireOpen(String tried) {
        if (closed) {
            throw new LockStoreException(store, tried + ": the client is closed", "open a new one", false, null);
        }
    }

    private long leaseMillis(Claim claim) {
        Duration lease = claim.lease();
        if (lease.compareTo(Duration.ofMillis(longestMillis)) > 0) {
            throw new IllegalArgumentException(
                    "lease " + lease + " is longer than the deployment allows: " + Duration.ofMillis(longestMillis));
        }
        // Up, because a holder counts on no less.
        long millis = lease.plusNanos(999_999).toMillis();
        return Math.max(millis, 1);
    }
}
