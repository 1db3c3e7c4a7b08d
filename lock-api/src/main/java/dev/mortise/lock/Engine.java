package dev.mortise.lock;

import dev.mortise.lock.Waiter.Terms;
import dev.mortise.lock.spi.Attempt;
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
import java.util.LinkedHashSet;
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

    /** How much longer than the store's first pause a pause between two questions gets. */
    private static final int LONGEST_PAUSE = 16;

    final String store;
    final Guarantees guarantees;
    final TimeSource time;
    private final Gateway gateway;
    private final Workers workers;
    private final long callTimeout;
    private final String label;
    private final Events events;
    private final SplittableRandom jitter;

    private final ReentrantLock mutex = new ReentrantLock();
    private final Alarms alarms;
    private final Map<String, Hold> holds = new HashMap<>();
    private final Map<String, LinkedHashSet<Waiter>> lines = new HashMap<>();
    private final Set<Waiter> outsideLines = new HashSet<>();
    private final Set<Undo> undos = new LinkedHashSet<>();
    private final Map<String, Heir> heirs = new HashMap<>();
    private boolean closed;
    private @Nullable CompletableFuture<Void> undone;

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
        this.jitter = time instanceof VirtualTime ? new SplittableRandom(1) : new SplittableRandom();
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

    private String newOwner() {
        byte[] bits = new byte[16];
        RANDOM.nextBytes(bits);
        return label + "~" + BASE64.encodeToString(bits);
    }

    // ---------------------------------------------------------------------------------------------------- acquire

    /**
     * Acquires on the calling thread.
     *
     * @param wait whether to wait in line; if not, the store is asked once
     */
    Optional<Lease> acquire(String name, Terms terms, boolean wait, long patience) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        Workers.Here here = workers.here();
        Waiter waiter = start(name, terms, wait, patience, here);
        try {
            here.await(waiter.done);
        } catch (InterruptedException e) {
            abandon(waiter);
            takeBack(waiter.done);
            throw e;
        }
        return result(waiter.done);
    }

    /** Acquires without a thread of the caller. A lease that comes when the future is already complete is released. */
    CompletableFuture<Optional<Lease>> acquireAsync(String name, Terms terms, long patience) {
        CompletableFuture<Optional<Lease>> given = new CompletableFuture<>();
        Waiter waiter = start(name, terms, true, patience, workers.waiting());
        // On a waiting thread, because the user's own stages run there.
        CompletableFuture<?> unused =
                waiter.done.whenComplete((lease, error) -> workers.waiting().execute(() -> {
                    boolean taken = error != null ? given.completeExceptionally(error) : given.complete(lease);
                    if (!taken) {
                        takeBack(waiter.done);
                    }
                }));
        unused = given.whenComplete((lease, error) -> abandon(waiter));
        return given;
    }

    private Waiter start(String name, Terms terms, boolean wait, long patience, Executor on) {
        Waiter waiter = new Waiter(name, terms, wait && patience > 0, time.nanoTime(), patience, on);
        mutex.lock();
        try {
            if (closed) {
                throw closed();
            }
            if (!waiter.inLine) {
                if (ownHold(name) != null) {
                    finish(waiter, Optional.empty(), null);
                } else {
                    outsideLines.add(waiter);
                    ask(waiter);
                }
                return waiter;
            }
            LinkedHashSet<Waiter> line = lines.computeIfAbsent(name, n -> new LinkedHashSet<>());
            line.add(waiter);
            if (patience > Nanos.of(terms.lease()) && waiter.runsOwnCalls) {
                waiter.warning = alarms.at(waiter.start + Nanos.of(terms.lease()), () -> warnOfSelf(waiter));
            }
            if (line.size() == 1) {
                askOrPark(waiter);
            } else {
                waiter.alarm = alarms.at(waiter.end, () -> finish(waiter, Optional.empty(), null));
            }
            return waiter;
        } finally {
            mutex.unlock();
        }
    }

    /** This client's live hold of the name, if there is one. */
    private @Nullable Hold ownHold(String name) {
        Hold hold = holds.get(name);
        if (hold != null && Nanos.reached(time.nanoTime(), hold.end)) {
            lose(hold, Loss.Reason.EXPIRED);
            return null;
        }
        return hold;
    }

    /**
     * Asks the store, unless this client holds the lock itself: then nobody else can get it, and a place in a queue of
     * the store is the only thing to be had there.
     */
    private void askOrPark(Waiter head) {
        if (!guarantees.fair() && ownHold(head.name) != null) {
            park(head);
        } else {
            ask(head);
        }
    }

    private void park(Waiter head) {
        head.state = Waiter.State.PAUSING;
        alarms.cancel(head.alarm);
        head.alarm = alarms.at(head.end, () -> finish(head, Optional.empty(), null));
    }

    private void ask(Waiter waiter) {
        alarms.cancel(waiter.alarm);
        waiter.alarm = null;
        waiter.state = Waiter.State.CALLING;
        Claim claim = Claim.of(waiter.name, newOwner(), waiter.terms.lease());
        waiter.claim = claim;
        long now = time.nanoTime();
        events.tell(LockEvent.Kind.ATTEMPT, claim, 0, 0, 0, null);
        waiter.call = gateway.acquire(
                claim, waiter.left(now), waiter.on, (attempt, error) -> answered(waiter, claim, attempt, error));
    }

    private void answered(Waiter waiter, Claim claim, @Nullable Attempt attempt, @Nullable Throwable error) {
        mutex.lock();
        try {
            alarms.cancel(waiter.orphan);
            Throwable failure = error;
            Grant grant = null;
            if (failure == null) {
                grant = attempt == null ? null : attempt.grant().orElse(null);
                String wrong = attempt == null ? "it answered null" : grant == null ? null : wrong(grant, claim);
                if (wrong != null) {
                    failure = senseless("acquire", claim.name(), wrong);
                }
            }
            if (failure != null) {
                if (mayHaveTakenEffect(failure)) {
                    undo(claim, 0, true);
                }
                grant = null;
            }
            long now = time.nanoTime();
            if (grant != null) {
                boolean wanted = waiter.state != Waiter.State.DONE && !closed;
                Hold hold = new Hold(grant, waiter.terms.holdAtMost(), now, waiter.threadId, waiter.acquiredHere);
                if (wanted && !Nanos.reached(now, hold.end)) {
                    finish(waiter, Optional.of(hold(hold, now - waiter.start)), null);
                    return;
                }
                // Too late for its deadline or for its caller: to be counted on by nobody.
                undo(claim, grant.token(), false);
            }
            if (waiter.state == Waiter.State.DONE) {
                return;
            }
            if (failure != null) {
                finish(waiter, Optional.empty(), failure);
            } else if (!waiter.inLine || Nanos.reached(now, waiter.end)) {
                finish(waiter, Optional.empty(), null);
            } else {
                pause(waiter, grant == null ? attempt : null, now);
            }
        } finally {
            mutex.unlock();
        }
    }

    /** Until the next question: doubled from try to try, never past the known end of the holder's lease or of the wait. */
    private void pause(Waiter head, @Nullable Attempt held, long now) {
        if (ownHold(head.name) != null) {
            park(head);
            return;
        }
        long shortest = held == null ? callTimeout / 16 : Nanos.of(held.pause());
        head.pause = head.pause == 0 ? shortest : Math.min(head.pause * 2, shortest * LONGEST_PAUSE);
        long wake = now + head.pause / 2 + jitter.nextLong(head.pause / 2 + 1);
        if (held != null && held.rest().isPresent()) {
            wake = Nanos.earlier(wake, now + Nanos.of(held.rest().get()) + 1_000_000);
        }
        head.state = Waiter.State.PAUSING;
        alarms.cancel(head.alarm);
        head.alarm = alarms.at(Nanos.earlier(wake, head.end), () -> ask(head));
    }

    /** This client's own hold of the name has ended: whoever is first in line asks now. */
    private void wake(String name) {
        LinkedHashSet<Waiter> line = lines.get(name);
        if (line != null) {
            Waiter head = line.iterator().next();
            if (head.state == Waiter.State.PAUSING) {
                head.pause = 0;
                ask(head);
            }
        }
    }

    private void finish(Waiter waiter, Optional<Lease> lease, @Nullable Throwable failure) {
        if (waiter.state == Waiter.State.DONE) {
            return;
        }
        waiter.state = Waiter.State.DONE;
        alarms.cancel(waiter.alarm);
        alarms.cancel(waiter.warning);
        if (lease.isEmpty()) {
            Claim claim = waiter.claim;
            events.waited(waiter.name, claim == null ? "" : claim.owner(), time.nanoTime() - waiter.start, failure);
        }
        if (!waiter.inLine) {
            outsideLines.remove(waiter);
        } else {
            LinkedHashSet<Waiter> line = lines.get(waiter.name);
            if (line != null) {
                boolean wasHead = line.iterator().next() == waiter;
                line.remove(waiter);
                if (line.isEmpty()) {
                    lines.remove(waiter.name);
                } else if (wasHead && !closed) {
                    Waiter head = line.iterator().next();
                    alarms.cancel(head.alarm);
                    askOrPark(head);
                }
            }
        }
        if (failure != null) {
            waiter.done.completeExceptionally(failure);
        } else {
            waiter.done.complete(lease);
        }
    }

    /** Nobody waits for this any more. What its call to the store brings is undone when it comes. */
    private void abandon(Waiter waiter) {
        mutex.lock();
        try {
            if (waiter.state == Waiter.State.DONE) {
                return;
            }
            abandonCall(waiter);
            finish(waiter, Optional.empty(), null);
        } finally {
            mutex.unlock();
        }
    }

    private void abandonCall(Waiter waiter) {
        Claim claim = waiter.claim;
        // A thread that runs its own calls can only be here when its call has not begun, and never will.
        if (waiter.state == Waiter.State.CALLING && !waiter.runsOwnCalls && claim != null) {
            if (waiter.call != null) {
                waiter.call.interrupt();
            }
            // Even if the call never comes back, its claim is not left to itself.
            waiter.orphan = alarms.at(time.nanoTime() + callTimeout, () -> undo(claim, 0, true));
        }
    }

    /** Releases the lease of a result that has no taker. */
    private void takeBack(CompletableFuture<Optional<Lease>> done) {
        if (done.isDone() && !done.isCompletedExceptionally()) {
            done.join().ifPresent(lease -> {
                mutex.lock();
                try {
                    Hold hold = lease.hold;
                    if (hold.state == Hold.State.HELD) {
                        end(hold, Hold.State.RELEASED);
                        undo(hold.claim, hold.token, false);
                        wake(hold.claim.name());
                    }
                } finally {
                    mutex.unlock();
                }
            });
        }
    }

    private static Optional<Lease> result(CompletableFuture<Optional<Lease>> done) throws InterruptedException {
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

    private void warnOfSelf(Waiter waiter) {
        Hold hold = ownHold(waiter.name);
        if (hold != null && hold.threadId == waiter.threadId && waiter.state != Waiter.State.DONE) {
            Throwable both = new Throwable("acquire is waiting here", waiter.acquiredHere);
            both.addSuppressed(hold.acquiredHere);
            LOG.log(
                    Level.WARNING,
                    "a thread waits for the lock '" + waiter.name + "' that it acquired itself and still holds:"
                            + " leases are not re-entrant, so it waits for itself",
                    both);
        }
    }

    /** What is senseless about a grant, or null. */
    private @Nullable String wrong(Grant grant, Claim claim) {
        if (!grant.claim().equals(claim)) {
            return "it granted " + grant + " for " + claim;
        }
        if (!Nanos.reached(time.nanoTime(), grant.since())) {
            return "its 'since' lies in the future";
        }
        return null;
    }

    private LockStoreException senseless(String call, String name, String wrong) {
        return new LockStoreException(
                store, call + " of '" + name + "': " + wrong, "this is a fault of the backend; report it", true, null);
    }

    private static boolean mayHaveTakenEffect(Throwable failure) {
        return !(failure instanceof LockStoreException known) || known.mayHaveTakenEffect();
    }

    // ------------------------------------------------------------------------------------------------ hold and renew

    private Lease hold(Hold hold, long took) {
        String name = hold.claim.name();
        Hold before = holds.get(name);
        if (before != null) {
            // The store gave the lock away, so the earlier grant is gone, whether anybody has said so or not.
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
        undo(hold.claim, hold.token, false);
        wake(hold.claim.name());
    }

    private void tell(Consumer<? super Loss> callback, Loss loss) {
        workers.waiting().execute(() -> {
            try {
                callback.accept(loss);
            } catch (Throwable e) {
                LOG.log(Level.WARNING, "a callback for the loss of '" + loss.name() + "' threw", e);
            }
        });
    }

    private void leaked(Hold hold) {
        LOG.log(
                Level.WARNING,
                "the lease of '" + hold.claim.name() + "' with token " + hold.token
                        + " was dropped without being released; it is released now. Use try-with-resources",
                hold.acquiredHere);
        long now = time.nanoTime();
        end(hold, Hold.State.RELEASED);
        events.tell(LockEvent.Kind.LEAKED, hold.claim, hold.token, now - hold.acquiredAt, hold.end - now, null);
        undo(hold.claim, hold.token, false);
        wake(hold.claim.name());
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
        if (!isHeld(hold)) {
            return false;
        }
        Workers.Here here = workers.here();
        CompletableFuture<Boolean> done = new CompletableFuture<>();
        mutex.lock();
        try {
            if (hold.state != Hold.State.HELD) {
                return false;
            }
            end(hold, Hold.State.RELEASED);
            gateway.release(hold.claim, here, (live, error) -> released(hold, live, error, done));
        } finally {
            mutex.unlock();
        }
        here.awaitUninterruptibly(done);
        try {
            return done.join();
        } catch (CompletionException e) {
            if (e.getCause() instanceof LockStoreException known) {
                throw known;
            }
            throw new LockStoreException(
                    store,
                    "release of '" + hold.claim.name() + "' failed",
                    "it is repeated until the store acknowledges or the lease must have ended",
                    true,
                    e.getCause());
        }
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
                undo(hold.claim, hold.token, false);
                wake(hold.claim.name());
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
            wake(hold.claim.name());
            done.complete(live);
        } finally {
            mutex.unlock();
        }
    }

    // -------------------------------------------------------------------------------------------------------- undo

    /** A claim that must not live: released until the store acknowledges, or until it must have ended by itself. */
    private static final class Undo {
        final Claim claim;
        final long token;
        boolean again;
        long giveUp;
        int failures;
        boolean calling;

        Undo(Claim claim, long token, boolean again, long giveUp) {
            this.claim = claim;
            this.token = token;
            this.again = again;
            this.giveUp = giveUp;
        }
    }

    private long freed(Claim claim) {
        return Nanos.of(guarantees.freedWithin(claim.lease())) + callTimeout;
    }

    /**
     * Undoes a claim.
     *
     * @param again for an acquire whose answer never came: it may still arrive at the store, after its undo, so it is
     *     undone once more a lease later
     */
    private void undo(Claim claim, long token, boolean again) {
        Undo undo = new Undo(claim, token, again, time.nanoTime() + freed(claim));
        undos.add(undo);
        send(undo);
    }

    private void send(Undo undo) {
        if (undo.calling || !undos.contains(undo)) {
            return;
        }
        undo.calling = true;
        gateway.release(undo.claim, workers.undos(), (live, error) -> undone(undo, error));
    }

    private void undone(Undo undo, @Nullable Throwable error) {
        mutex.lock();
        try {
            undo.calling = false;
            long now = time.nanoTime();
            if (error == null) {
                if (undo.again && !closed) {
                    undo.again = false;
                    undo.failures = 0;
                    long lease = Nanos.of(undo.claim.lease());
                    undo.giveUp = now + lease + freed(undo.claim);
                    alarms.at(now + lease, () -> send(undo));
                } else {
                    forget(undo);
                }
                return;
            }
            events.tell(LockEvent.Kind.UNRELEASED, undo.claim, undo.token, 0, 0, error);
            if (closed || Nanos.reached(now, undo.giveUp)) {
                LOG.log(
                        Level.WARNING,
                        store + " did not acknowledge the release of " + undo.claim
                                + "; the claim ends by itself within "
                                + guarantees.freedWithin(undo.claim.lease()),
                        error);
                forget(undo);
                return;
            }
            long backOff =
                    Math.min(Nanos.of(undo.claim.lease()) / 3, (callTimeout / 16) << Math.min(undo.failures, 10));
            undo.failures++;
            alarms.at(now + Math.max(backOff, 1), () -> send(undo));
        } finally {
            mutex.unlock();
        }
    }

    private void forget(Undo undo) {
        undos.remove(undo);
        if (undone != null && undos.isEmpty()) {
            undone.complete(null);
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
                        "the renewal that must come before a hand-over of '" + hold.claim.name()
                                + "' was not confirmed",
                        "the lease goes on; try again",
                        true,
                        null);
            }
            end(hold, Hold.State.DETACHED);
            long now = time.nanoTime();
            events.tell(LockEvent.Kind.RELEASED, hold.claim, hold.token, now - hold.acquiredAt, hold.end - now, null);
            wake(hold.claim.name());
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
        throw new IllegalStateException("the lease of '" + hold.claim.name() + "' with token " + hold.token + " was "
                + (hold.state == Hold.State.DETACHED ? "detached" : "released"));
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
        if (closed || Nanos.reached(now, hold.end)) {
            undo(claim, grant.token(), false);
            done.complete(Optional.empty());
            return;
        }
        done.complete(Optional.of(hold(hold, 0)));
    }

    // ------------------------------------------------------------------------------------------------------- close

    private IllegalStateException closed() {
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
            List<Waiter> waiters = new ArrayList<>(outsideLines);
            lines.values().forEach(waiters::addAll);
            for (Waiter waiter : waiters) {
                if (waiter.state == Waiter.State.CALLING && waiter.call != null) {
                    waiter.call.interrupt();
                }
                finish(waiter, Optional.empty(), closed());
            }
            alarms.clear();
            heirs.clear();
            undone = allUndone;
            for (Hold hold : List.copyOf(holds.values())) {
                long now = time.nanoTime();
                end(hold, Hold.State.RELEASED);
                events.tell(LockEvent.Kind.RELEASED, hold.claim, hold.token, now - hold.acquiredAt, 0, null);
                undo(hold.claim, hold.token, false);
            }
            List.copyOf(undos).forEach(this::send); // those that waited for their next turn have it now
            if (undos.isEmpty()) {
                allUndone.complete(null);
            } else {
                time.schedule(Duration.ofNanos(callTimeout), () -> allUndone.complete(null));
            }
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

    /** What the engine holds on to, for tests of growth. */
    String contents() {
        mutex.lock();
        try {
            return "holds " + holds.size() + ", lines " + lines.size() + ", others " + outsideLines.size() + ", undos "
                    + undos.size() + ", heirs " + heirs.size() + ", alarms " + alarms.size();
        } finally {
            mutex.unlock();
        }
    }
}
