package dev.mortise.lock;

import dev.mortise.lock.Waiter.Terms;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Renewal;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.lang.ref.WeakReference;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What is the same for all stores: deadlines, renewal, loss, waiting lines, and the undoing of whatever the store has not
 * confirmed to have ended.
 *
 * <p>A state machine under one mutex, which is held for moments only: calls to the store and to user code are handed to
 * {@link Gateway} and {@link Workers} and come back as further steps. Time comes from {@link TimeSource} alone.
 *
 * <p>Where the rules come from: the deadline counted from before the request is Redlock's validity time; loss by the
 * local deadline and never by the server's word is what Chubby's clients do (Burrows 2006, section 2.8); an owner id per
 * attempt and the undo of unknown outcomes follow Jepsen's etcd lock test.
 */
final class Engine {
    private static final Logger LOG = System.getLogger("dev.mortise.lock");
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final Base64.Encoder BASE64 = Base64.getUrlEncoder().withoutPadding();

    final String store;
    final Guarantees guarantees;
    final TimeSource time;
    final Gateway gateway;
    final Workers workers;
    final long callTimeout;
    private final String label;
    final Events events;
    final SplittableRandom jitter;

    final ReentrantLock mutex = new ReentrantLock();
    final Alarms alarms;
    final Waiters waiters = new Waiters(this);
    final Undos undos = new Undos(this);
    private final Map<String, Hold> holds = new HashMap<>();
    private final Map<String, Heir> heirs = new HashMap<>();
    boolean closed;

    Engine(
            String store,
            Guarantees guarantees,
            TimeSource time,
            Gateway gateway,
            Workers workers,
            Duration callTimeout,
            String label,
            List<LockListener> listeners) {
        this.store = store;
        this.guarantees = guarantees;
        this.time = time;
        this.gateway = gateway;
        this.workers = workers;
        this.callTimeout = Nanos.of(callTimeout);
        this.label = label;
        this.events = new Events(store, listeners, workers.waiting());
        // With a clock of a test's own, a run that can be repeated.
        this.jitter = time instanceof SystemTime ? new SplittableRandom() : new SplittableRandom(label.hashCode());
        this.alarms = new Alarms(time, this::ring);
    }

    private void ring(long target) {
        mutex.lock();
        try {
            if (!closed) {
                alarms.ringDue(target);
            }
        } finally {
            mutex.unlock();
        }
    }

    String newOwner() {
        byte[] bits = new byte[16];
        RANDOM.nextBytes(bits);
        return label + "~" + BASE64.encodeToString(bits);
    }

    /** This client's live hold of the name, if there is one. */
    @Nullable
    Hold ownHold(String name) {
        Hold hold = holds.get(name);
        if (hold != null && Nanos.reached(time.nanoTime(), hold.end)) {
            lose(hold, Loss.Reason.EXPIRED);
            return null;
        }
        return hold;
    }

    /** Whether this client holds a later grant of the name, so that this one, answered late, must have ended. */
    boolean outdated(Grant grant) {
        Hold newer = ownHold(grant.name());
        return newer != null && newer.token > grant.token();
    }

    static Optional<Lease> result(CompletableFuture<Optional<Lease>> done) throws InterruptedException {
        try {
            return done.join();
        } catch (CompletionException e) {
            Throwable cause = e.getCause();
            if (cause instanceof InterruptedException interrupted) {
                throw interrupted;
            }
            if (cause instanceof RuntimeException failure) {
                throw failure;
            }
            if (cause instanceof Error error) {
                throw error;
            }
            throw e;
        }
    }

    /** What is senseless about a grant, or null. */
    @Nullable
    String wrong(Grant grant, Claim claim) {
        if (!grant.claim().equals(claim)) {
            return "it granted " + grant + " for " + claim;
        }
        if (!Nanos.reached(time.nanoTime(), grant.since())) {
            return "its 'since' lies in the future";
        }
        return null;
    }

    LockStoreException senseless(String call, String name, String wrong) {
        return new LockStoreException(
                store,
                call + " of '" + Claim.printable(name) + "': " + wrong,
                "this is a fault of the backend; report it",
                true,
                null);
    }

    static boolean mayHaveTakenEffect(Throwable failure) {
        return !(failure instanceof LockStoreException known) || known.mayHaveTakenEffect();
    }

    /** The time from now within which the store ends this claim by itself, if it is still to arrive there. */
    long freed(Claim claim) {
        return Nanos.of(guarantees.freedWithin(claim.lease())) + callTimeout;
    }

    /** Ends a hold that nobody took. */
    void giveUp(Hold hold) {
        end(hold, Hold.State.RELEASED);
        undos.add(hold.claim, hold.token, false);
        waiters.wake(hold.claim.name());
    }

    // ------------------------------------------------------------------------------------------------ hold and renew

    Lease hold(Hold hold, long took) {
        String name = hold.claim.name();
        Hold before = holds.get(name);
        if (before != null) {
            // The store gave the lock away again, so the earlier grant has ended, whether anybody has said so or not.
            lose(before, Loss.Reason.REVOKED);
        }
        Lease lease = new Lease(this, hold);
        hold.handle = new WeakReference<>(lease);
        holds.put(name, hold);
        setAlarm(hold);
        events.tell(LockEvent.Kind.ACQUIRED, hold.claim, hold.token, took, hold.end - time.nanoTime(), null);
        return lease;
    }

    private void setAlarm(Hold hold) {
        alarms.cancel(hold.alarm);
        long at = hold.inFlight ? hold.end : Nanos.earlier(hold.nextLook, hold.end);
        hold.alarm = alarms.at(at, () -> look(hold));
    }

    private void look(Hold hold) {
        long now = time.nanoTime();
        if (hold.state != Hold.State.HELD) {
            return;
        }
        if (Nanos.reached(now, hold.end)) {
            lose(hold, Loss.Reason.EXPIRED);
        } else if (hold.inFlight || !Nanos.reached(now, hold.nextLook)) {
            setAlarm(hold);
        } else {
            renewDue(now);
        }
    }

    /** One call for all that is due by now or soon. */
    private void renewDue(long now) {
        List<Hold> batch = new ArrayList<>();
        for (Hold hold : List.copyOf(holds.values())) {
            if (hold.inFlight || !Nanos.reached(now + hold.slack(), hold.nextLook) || Nanos.reached(now, hold.end)) {
                continue;
            }
            if (hold.handle.get() == null) {
                leaked(hold);
            } else if (hold.needsRenewal()) {
                batch.add(hold);
            } else {
                hold.nextLook = now + Nanos.of(hold.grant.lease()) / 3;
                setAlarm(hold);
            }
        }
        if (!batch.isEmpty()) {
            renew(batch, workers.renewals());
        }
    }

    private void renew(List<Hold> batch, Executor on) {
        List<Grant> grants = new ArrayList<>(batch.size());
        for (Hold hold : batch) {
            hold.inFlight = true;
            setAlarm(hold);
            grants.add(hold.grant);
        }
        gateway.renew(List.copyOf(grants), on, (renewal, error) -> renewed(batch, renewal, error));
    }

    private void renewed(List<Hold> batch, @Nullable Renewal renewal, @Nullable Throwable error) {
        mutex.lock();
        try {
            Map<Claim, Grant> live = new HashMap<>();
            Set<Claim> ended = new HashSet<>();
            Throwable failure = error;
            if (renewal != null) {
                renewal.live().forEach(grant -> live.put(grant.claim(), grant));
                renewal.ended().forEach(grant -> ended.add(grant.claim()));
            } else if (failure == null) {
                failure = senseless("renew", batch.get(0).claim.name(), "it answered null");
            }
            long now = time.nanoTime();
            for (Hold hold : batch) {
                hold.inFlight = false;
                CompletableFuture<Void> landed = hold.landed;
                hold.landed = null;
                if (hold.state == Hold.State.HELD) {
                    judge(hold, live.get(hold.claim), ended.contains(hold.claim), failure, now);
                }
                if (landed != null) {
                    landed.complete(null);
                }
            }
        } finally {
            mutex.unlock();
        }
    }

    /** Live, ended, or unknown: the third answer neither lengthens the lease nor ends it. */
    private void judge(Hold hold, @Nullable Grant live, boolean ended, @Nullable Throwable failure, long now) {
        if (Nanos.reached(now, hold.end)) {
            lose(hold, Loss.Reason.EXPIRED); // whatever the answer says: a lost lease does not come back
            return;
        }
        if (ended) {
            lose(hold, Loss.Reason.REVOKED);
            return;
        }
        if (live != null && live.token() == hold.token && Nanos.reached(now, live.since())) {
            hold.renewed(live);
            // A backend whose renewals are no younger than what they renew is not asked in a loop.
            hold.nextLook = Nanos.later(hold.nextLook, now + hold.slack());
            setAlarm(hold);
            events.tell(LockEvent.Kind.RENEWED, hold.claim, hold.token, 0, hold.end - now, null);
            return;
        }
        Throwable why = failure;
        if (live != null) {
            why = senseless("renew", hold.claim.name(), "it answered " + live + " for token " + hold.token);
        }
        long lease = Nanos.of(hold.grant.lease());
        long longest = lease / 10;
        long backOff = Math.min(longest, (lease / 60) << Math.min(hold.unanswered, 10));
        hold.unanswered++;
        hold.nextLook = now + backOff / 2 + jitter.nextLong(backOff / 2 + 1);
        setAlarm(hold);
        events.tell(LockEvent.Kind.UNCERTAIN, hold.claim, hold.token, 0, hold.end - now, why);
    }

    // ----------------------------------------------------------------------------------------------------- the end

    /** Takes the hold out of everything; what the store still has of it is the caller's to undo. */
    private void end(Hold hold, Hold.State state) {
        hold.state = state;
        holds.remove(hold.claim.name(), hold);
        alarms.cancel(hold.alarm);
        hold.alarm = null;
        if (hold.landed != null) {
            hold.landed.complete(null); // a renewal that hangs must not hold up whoever waits for it
        }
        if (state != Hold.State.LOST) {
            hold.onLoss.clear();
            hold.lost = null;
            hold.keep = null;
        }
    }

    private void lose(Hold hold, Loss.Reason reason) {
        Loss loss = new Loss(hold.claim.name(), hold.token, reason, store);
        hold.loss = loss;
        end(hold, Hold.State.LOST);
        long now = time.nanoTime();
        events.tell(LockEvent.Kind.LOST, hold.claim, hold.token, now - hold.acquiredAt, 0, null);
        CompletableFuture<Loss> lost = hold.lost;
        hold.lost = null;
        if (lost != null) {
            workers.waiting().execute(() -> lost.complete(loss));
        }
        for (Consumer<? super Loss> callback : hold.onLoss) {
            tell(callback, loss);
        }
        hold.onLoss.clear();
        hold.keep = null;
        // Also after REVOKED: where a claim lives in a connection, something of it may be left there.
        undos.add(hold.claim, hold.token, false);
        waiters.wake(hold.claim.name());
    }

    private void tell(Consumer<? super Loss> callback, Loss loss) {
        workers.waiting().execute(() -> {
            try {
                callback.accept(loss);
            } catch (Throwable e) {
                LOG.log(Level.WARNING, "a callback for the loss of '" + Claim.printable(loss.name()) + "' threw", e);
            }
        });
    }

    private void leaked(Hold hold) {
        LOG.log(
                Level.WARNING,
                "the lease of '" + Claim.printable(hold.claim.name()) + "' with token " + hold.token
                        + " was dropped without being released; it is released now. Use try-with-resources",
                hold.acquiredHere);
        long now = time.nanoTime();
        events.tell(LockEvent.Kind.LEAKED, hold.claim, hold.token, now - hold.acquiredAt, hold.end - now, null);
        giveUp(hold);
    }

    boolean isHeld(Hold hold) {
        if (hold.state != Hold.State.HELD) {
            return false;
        }
        if (!Nanos.reached(time.nanoTime(), hold.end)) {
            return true;
        }
        // Decided under the mutex, so that a renewal just confirmed cannot make false true again.
        mutex.lock();
        try {
            if (hold.state == Hold.State.HELD && Nanos.reached(time.nanoTime(), hold.end)) {
                lose(hold, Loss.Reason.EXPIRED);
            }
            return hold.state == Hold.State.HELD;
        } finally {
            mutex.unlock();
        }
    }

    Duration remaining(Hold hold) {
        long left = hold.end - time.nanoTime();
        return left > 0 && isHeld(hold) ? Duration.ofNanos(left) : Duration.ZERO;
    }

    Optional<Loss> loss(Hold hold) {
        mutex.lock();
        try {
            return Optional.ofNullable(hold.loss);
        } finally {
            mutex.unlock();
        }
    }

    void onLoss(Lease lease, Consumer<? super Loss> callback) {
        Hold hold = lease.hold;
        boolean held = isHeld(hold);
        mutex.lock();
        try {
            if (hold.loss != null) {
                tell(callback, hold.loss);
            } else if (held && hold.state == Hold.State.HELD) {
                hold.onLoss.add(callback);
                hold.keep = lease;
            }
        } finally {
            mutex.unlock();
        }
    }

    CompletableFuture<Loss> lost(Lease lease) {
        Hold hold = lease.hold;
        boolean held = isHeld(hold);
        mutex.lock();
        try {
            if (hold.loss != null) {
                return CompletableFuture.completedFuture(hold.loss);
            }
            if (!held || hold.state != Hold.State.HELD) {
                return new CompletableFuture<>();
            }
            hold.keep = lease;
            if (hold.lost == null) {
                hold.lost = new CompletableFuture<>();
            }
            return hold.lost;
        } finally {
            mutex.unlock();
        }
    }

    /**
     * Ends the claim, on the calling thread.
     *
     * @return whether the store ended a live grant; false if it had ended before
     * @throws LockStoreException if the store did not acknowledge; it is asked again in the background
     */
    boolean release(Hold hold) {
        Workers.Here here = workers.here();
        CompletableFuture<Boolean> done = release(hold, here);
        here.awaitUninterruptibly(done);
        try {
            return done.join();
        } catch (CompletionException e) {
            if (e.getCause() instanceof LockStoreException known) {
                throw known;
            }
            throw new LockStoreException(
                    store,
                    "release of '" + Claim.printable(hold.claim.name()) + "' failed",
                    "it is repeated until the store acknowledges or the lease must have ended",
                    true,
                    e.getCause());
        }
    }

    CompletableFuture<Boolean> release(Hold hold, Executor on) {
        CompletableFuture<Boolean> done = new CompletableFuture<>();
        boolean held = isHeld(hold);
        mutex.lock();
        try {
            if (held && hold.state == Hold.State.HELD) {
                end(hold, Hold.State.RELEASED);
                Waiter next = waiters.next(hold.claim.name());
                if (next == null) {
                    gateway.release(hold.claim, on, (live, error) -> released(hold, live, error, done));
                } else {
                    Claim claim = waiters.isAsked(next);
                    gateway.release(hold.claim, claim, on, (live, attempt, error) -> {
                        mutex.lock();
                        try {
                            released(hold, live, error, done);
                            waiters.passed(next, claim, attempt, error);
                        } finally {
                            mutex.unlock();
                        }
                    });
                }
            } else {
                done.complete(false);
            }
        } finally {
            mutex.unlock();
        }
        return done;
    }

    private void released(
            Hold hold, @Nullable Boolean live, @Nullable Throwable error, CompletableFuture<Boolean> done) {
        mutex.lock();
        try {
            long now = time.nanoTime();
            if (error == null && live == null) {
                error = senseless("release", hold.claim.name(), "it answered null");
            }
            if (error != null) {
                events.tell(LockEvent.Kind.UNRELEASED, hold.claim, hold.token, now - hold.acquiredAt, 0, error);
                undos.add(hold.claim, hold.token, false);
                waiters.wake(hold.claim.name());
                done.completeExceptionally(error);
                return;
            }
            if (Boolean.FALSE.equals(live)) {
                // The store had ended it before: that is a loss, only nobody had noticed.
                Loss loss = new Loss(hold.claim.name(), hold.token, Loss.Reason.REVOKED, store);
                hold.loss = loss;
                events.tell(LockEvent.Kind.LOST, hold.claim, hold.token, now - hold.acquiredAt, 0, null);
            } else {
                events.tell(LockEvent.Kind.RELEASED, hold.claim, hold.token, now - hold.acquiredAt, 0, null);
            }
            waiters.wake(hold.claim.name());
            done.complete(live);
        } finally {
            mutex.unlock();
        }
    }

    // ---------------------------------------------------------------------------------------------- detach and adopt

    /** The heir of a ticket: kept until the store has answered, so that asking again is asking for the same. */
    private record Heir(Claim claim, Alarms.Alarm forget) {}

    Ticket detach(Hold hold) {
        if (!guarantees.outlivesClient()) {
            throw new IllegalStateException("leases of " + store
                    + " die with their client and cannot be detached; a store that can is one whose"
                    + " guarantees say outlivesClient, such as jdbc:sqlite");
        }
        Workers.Here here = workers.here();
        while (true) {
            CompletableFuture<Void> landed = new CompletableFuture<>();
            Grant before;
            boolean ours = false;
            requireHeld(hold);
            mutex.lock();
            try {
                before = hold.grant;
                if (hold.state != Hold.State.HELD) {
                    continue; // to learn why
                }
                if (hold.landed != null) {
                    landed = hold.landed;
                } else {
                    hold.landed = landed;
                }
                // At most one renewal of a grant is in flight: where there is one, that one first.
                if (!hold.inFlight) {
                    ours = true;
                    renew(List.of(hold), here);
                }
            } finally {
                mutex.unlock();
            }
            here.awaitUninterruptibly(landed);
            if (ours) {
                return detached(hold, before);
            }
        }
    }

    private Ticket detached(Hold hold, Grant before) {
        requireHeld(hold);
        mutex.lock();
        try {
            if (hold.state != Hold.State.HELD || hold.grant == before) {
                throw new LockStoreException(
                        store,
                        "the renewal that must come before a hand-over of '" + Claim.printable(hold.claim.name())
                                + "' was not confirmed",
                        "the lease goes on; try again",
                        true,
                        null);
            }
            end(hold, Hold.State.DETACHED);
            long now = time.nanoTime();
            events.tell(LockEvent.Kind.RELEASED, hold.claim, hold.token, now - hold.acquiredAt, hold.end - now, null);
            waiters.wake(hold.claim.name());
            return new Ticket(hold.claim.name(), hold.claim.owner(), hold.token, hold.grant.lease());
        } finally {
            mutex.unlock();
        }
    }

    void requireHeld(Hold hold) {
        if (isHeld(hold)) {
            return;
        }
        Optional<Loss> loss = loss(hold);
        if (loss.isPresent()) {
            throw new LeaseLostException(loss.get());
        }
        throw new IllegalStateException("the lease of '" + Claim.printable(hold.claim.name()) + "' with token "
                + hold.token + " was " + (hold.state == Hold.State.DETACHED ? "detached" : "released"));
    }

    Optional<Lease> adopt(Ticket ticket, String ticketText, Terms terms) {
        Claim heldClaim = Claim.of(ticket.name(), ticket.owner(), ticket.lease());
        Workers.Here here = workers.here();
        CompletableFuture<Optional<Lease>> done = new CompletableFuture<>();
        Throwable adoptedHere = new Throwable("adopt was called here");
        long thread = Thread.currentThread().getId();
        mutex.lock();
        try {
            if (closed) {
                throw closed();
            }
            long now = time.nanoTime();
            Claim heir = heirs.computeIfAbsent(ticketText, text -> {
                        long keep = 2 * (freed(heldClaim) + Nanos.of(terms.lease()));
                        Alarms.Alarm forget = alarms.at(now + keep, () -> heirs.remove(text));
                        return new Heir(Claim.of(ticket.name(), newOwner(), terms.lease()), forget);
                    })
                    .claim();
            Grant held = heldClaim.granted(ticket.lease(), ticket.token(), now);
            gateway.adopt(
                    held, heir, here, (grant, error) -> { // a null grant without an error: the ticket is worth nothing
                        mutex.lock();
                        try {
                            adopted(ticketText, heir, terms, grant, error, thread, adoptedHere, done);
                        } finally {
                            mutex.unlock();
                        }
                    });
        } finally {
            mutex.unlock();
        }
        here.awaitUninterruptibly(done);
        try {
            return result(done);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // adopt does not wait, so a backend cannot have been interrupted
        }
    }

    private void adopted(
            String ticket,
            Claim claim,
            Terms terms,
            @Nullable Grant grant,
            @Nullable Throwable error,
            long thread,
            Throwable acquiredHere,
            CompletableFuture<Optional<Lease>> done) {
        Throwable failure = error;
        if (failure == null && grant != null) {
            String wrong = wrong(grant, claim);
            failure = wrong == null ? null : senseless("adopt", claim.name(), wrong);
        }
        if (failure != null) {
            done.completeExceptionally(failure); // the heir is kept
            return;
        }
        Heir heir = heirs.remove(ticket);
        if (heir == null || !heir.claim().equals(claim)) {
            done.complete(Optional.empty()); // another thread with the same ticket was answered first, and is the heir
            return;
        }
        alarms.cancel(heir.forget());
        if (grant == null) {
            done.complete(Optional.empty());
            return;
        }
        long now = time.nanoTime();
        Hold hold = new Hold(grant, terms.holdAtMost(), now, thread, acquiredHere);
        if (closed || Nanos.reached(now, hold.end) || outdated(grant)) {
            undos.add(claim, grant.token(), false);
            done.complete(Optional.empty());
            return;
        }
        done.complete(Optional.of(hold(hold, 0)));
    }

    // ------------------------------------------------------------------------------------------------------- close

    IllegalStateException closed() {
        return new IllegalStateException("this client of " + store + " is closed");
    }

    void requireOpen() {
        mutex.lock();
        try {
            if (closed) {
                throw closed();
            }
        } finally {
            mutex.unlock();
        }
    }

    /**
     * Ends waits, releases what is held, and waits for the store's word at most the call timeout.
     *
     * @return false if it was closed before
     */
    boolean close() {
        CompletableFuture<Void> allUndone = new CompletableFuture<>();
        mutex.lock();
        try {
            if (closed) {
                return false;
            }
            closed = true;
            waiters.close();
            alarms.clear();
            heirs.clear();
            for (Hold hold : List.copyOf(holds.values())) {
                long now = time.nanoTime();
                end(hold, Hold.State.RELEASED);
                events.tell(LockEvent.Kind.RELEASED, hold.claim, hold.token, now - hold.acquiredAt, 0, null);
                undos.add(hold.claim, hold.token, false);
            }
            undos.hurry(allUndone);
            time.schedule(Duration.ofNanos(callTimeout), () -> allUndone.complete(null));
        } finally {
            mutex.unlock();
        }
        workers.here().awaitUninterruptibly(allUndone);
        return true;
    }

    void closeWorkers() {
        workers.close();
    }

    // ------------------------------------------------------------------------------------------------------ for tests

    int waiting(String name) {
        mutex.lock();
        try {
            return waiters.size(name);
        } finally {
            mutex.unlock();
        }
    }

    /** What the engine holds on to, for tests of growth. */
    String contents() {
        mutex.lock();
        try {
            return "holds " + holds.size() + ", " + waiters + ", undos " + undos.size() + ", heirs " + heirs.size()
                    + ", alarms " + alarms.size();
        } finally {
            mutex.unlock();
        }
    }
}
