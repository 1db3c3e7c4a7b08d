package dev.mortise.lock;

import com.google.errorprone.annotations.CheckReturnValue;
import dev.mortise.lock.Waiter.Terms;
import dev.mortise.lock.spi.Claim;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * A name to be locked, and the terms of its leases. Holds no state: made from {@link LockClient#lock}, as often as one
 * likes, and shared by any threads.
 *
 * <p><b>Waiting.</b> A call waits for its <em>patience</em>, counted from the call, and asks the store whatever the
 * patience. Callers that wait for one name in one client form a line, first come first served, whose head alone talks to
 * the store; two clients, also of one process, do not share a line. An interrupt ends a wait with {@link
 * InterruptedException}, and nothing is left behind in the store.
 *
 * <p><b>Errors.</b> That somebody else holds the lock is an empty result. {@link LockStoreException}: the store did not
 * answer; whether or not the request took effect, the client sees to it that nothing stays acquired. {@link
 * IllegalStateException}: the client is closed.
 */
@CheckReturnValue
public final class DistributedLock {
    private final Engine engine;
    private final LockClient client;
    private final String name;
    private final Duration lease;
    private final long holdAtMost;

    DistributedLock(LockClient client, Engine engine, String name, Duration lease, long holdAtMost) {
        this.client = client;
        this.engine = engine;
        this.name = name;
        this.lease = lease;
        this.holdAtMost = holdAtMost;
    }

    public String name() {
        return name;
    }

    /**
     * The same lock with another lease: how long the store keeps the lock for a holder of which it hears nothing more.
     * Raised to the store's shortest and rounded up to its unit.
     *
     * @throws IllegalArgumentException if it is below four call timeouts (too short to try a renewal again), or above the
     *     store's longest
     */
    public DistributedLock withLease(Duration lease) {
        return new DistributedLock(client, engine, name, client.requireLease(lease), holdAtMost);
    }

    /**
     * The same lock, whose leases end by themselves one lease after they were acquired, as if by {@link #holdAtMost}.
     * Where the store's own lease is shorter, it is renewed underneath until then.
     */
    public DistributedLock withoutRenewal() {
        return holdAtMost(lease);
    }

    /**
     * The same lock, whose leases end at most this long after they were acquired, however long the holder needs: he is
     * told as of any {@linkplain Loss loss}.
     *
     * @throws IllegalArgumentException if it is not positive
     */
    public DistributedLock holdAtMost(Duration most) {
        if (most.isNegative() || most.isZero()) {
            throw new IllegalArgumentException("holdAtMost must be positive: " + most);
        }
        return new DistributedLock(client, engine, name, lease, Nanos.of(most));
    }

    private Terms terms() {
        return new Terms(lease, holdAtMost);
    }

    private static long patience(Duration patience) {
        if (patience.isNegative()) {
            throw new IllegalArgumentException("patience must not be negative: " + patience);
        }
        return Nanos.of(patience);
    }

    /**
     * Asks once, without waiting for a release or for others in this client. If this client holds the lock itself, the
     * store is not asked.
     *
     * @return the lease, or empty if the lock is held
     */
    public Optional<Lease> tryAcquire() throws InterruptedException {
        return engine.waiters.acquire(name, terms(), false, 0);
    }

    /**
     * Waits for at most {@code patience}. The answer comes within that and one call timeout.
     *
     * @return the lease, or empty if the lock was held all that time
     */
    public Optional<Lease> tryAcquire(Duration patience) throws InterruptedException {
        return engine.waiters.acquire(name, terms(), true, patience(patience));
    }

    /** Waits as long as it takes. */
    public Lease acquire() throws InterruptedException {
        return engine.waiters
                .acquire(name, terms(), true, Nanos.FOREVER)
                .orElseThrow(() ->
                        new IllegalStateException("73 years were not enough to acquire " + Claim.printable(name)));
    }

    /**
     * As {@link #tryAcquire(Duration)}, without a thread of the caller. A lease that arrives when the future is complete
     * already, by a cancel, a timeout or in any other way, is released; completing it ends the wait.
     */
    public CompletableFuture<Optional<Lease>> tryAcquireAsync(Duration patience) {
        return engine.waiters.acquireAsync(name, terms(), patience(patience));
    }

    /**
     * Waits for the lock, runs the body, and releases.
     *
     * @throws LeaseLostException after the body, if the lease was lost meanwhile: what the body did may have been done
     *     beside another holder. If the body threw, that is thrown, with the loss as a suppressed exception
     */
    public <E extends Exception> void run(LockBody<E> body) throws E, InterruptedException {
        Objects.requireNonNull(body, "body");
        run(acquire(), body);
    }

    /**
     * As {@link #run}, but gives up at once if the lock is held.
     *
     * @return false if the lock is held and the body was not run
     */
    public <E extends Exception> boolean tryRun(LockBody<E> body) throws E, InterruptedException {
        Objects.requireNonNull(body, "body");
        Optional<Lease> lease = tryAcquire();
        if (lease.isEmpty()) {
            return false;
        }
        run(lease.get(), body);
        return true;
    }

    private static <E extends Exception> void run(Lease lease, LockBody<E> body) throws E {
        try {
            body.run(lease);
        } catch (Throwable e) {
            lease.close();
            lease.loss().ifPresent(loss -> e.addSuppressed(new LeaseLostException(loss)));
            throw e;
        }
        lease.close();
        Optional<Loss> loss = lease.loss();
        if (loss.isPresent()) {
            throw new LeaseLostException(loss.get());
        }
    }

    /**
     * Takes over a lease that was {@linkplain Lease#detach() detached}, ahead of everybody who waits, with a new, larger
     * token. A ticket works once. After a {@link LockStoreException} call again with the same ticket: it is then the same
     * heir that asks.
     *
     * @return the lease, or empty if the ticket was used, or its lease has ended
     * @throws IllegalArgumentException if the ticket is damaged, or for another name
     */
    public Optional<Lease> adopt(String ticket) {
        Ticket parsed = Ticket.parse(ticket);
        if (!parsed.name().equals(name)) {
            throw new IllegalArgumentException("ticket is for another lock than '" + Claim.printable(name) + "'");
        }
        return engine.adopt(parsed, ticket, terms());
    }

    @Override
    public String toString() {
        return "lock '" + Claim.printable(name) + "' in " + engine.store;
    }
}
