package dev.mortise.lock;

import dev.mortise.lock.Waiter.Terms;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/**
 * The acquires of one client: a line per name, first come first served, whose head alone asks the engine.store, and those that
 * ask once without standing in line. A part of {@link Engine}, under its engine.mutex.
 */
final class Waiters {
    private static final Logger LOG = System.getLogger("dev.mortise.lock");

    /** How much longer than the store's first pause a pause between two questions gets. */
    private static final int LONGEST_PAUSE = 16;

    private final Engine engine;
    private final Map<String, LinkedHashSet<Waiter>> lines = new HashMap<>();
    private final Set<Waiter> outsideLines = new HashSet<>();

    Waiters(Engine engine) {
        this.engine = engine;
    }

    /**
     * Acquires on the calling thread.
     *
     * @param wait whether to wait in line; if not, the store is asked once
     */
    Optional<Lease> acquire(String name, Terms terms, boolean wait, long patience) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        Workers.Here here = engine.workers.here();
        Waiter waiter = start(name, terms, wait, patience, here);
        try {
            here.await(waiter.done);
        } catch (InterruptedException e) {
            abandon(waiter);
            takeBack(waiter.done);
            throw e;
        }
        return Engine.result(waiter.done);
    }

    /** Acquires without a thread of the caller. A lease that comes when the future is already complete is released. */
    CompletableFuture<Optional<Lease>> acquireAsync(String name, Terms terms, long patience) {
        CompletableFuture<Optional<Lease>> given = new CompletableFuture<>();
        Waiter waiter = start(name, terms, true, patience, engine.workers.waiting());
        // On a waiting thread, because the user's own stages run there.
        CompletableFuture<?> unused = waiter.done.whenComplete((lease, error) -> engine.workers
                .waiting()
                .execute(() -> {
                    boolean taken = error != null ? given.completeExceptionally(error) : given.complete(lease);
                    if (!taken) {
                        takeBack(waiter.done);
                    }
                }));
        unused = given.whenComplete((lease, error) -> abandon(waiter));
        return given;
    }

    private Waiter start(String name, Terms terms, boolean wait, long patience, Executor on) {
        Waiter waiter = new Waiter(name, terms, wait && patience > 0, engine.time.nanoTime(), patience, on);
        engine.mutex.lock();
        try {
            if (engine.closed) {
                throw engine.closed();
            }
            if (!waiter.inLine) {
                if (engine.ownHold(name) != null) {
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
                waiter.warning = engine.alarms.at(waiter.start + Nanos.of(terms.lease()), () -> warnOfSelf(waiter));
            }
            if (line.size() == 1) {
                askOrPark(waiter);
            } else {
                waiter.alarm = engine.alarms.at(waiter.end, () -> finish(waiter, Optional.empty(), null));
            }
            return waiter;
        } finally {
            engine.mutex.unlock();
        }
    }

    /**
     * Asks the engine.store, unless this client holds the lock itself: then nobody else can get it, and a place in a queue of
     * the store is the only thing to be had there.
     */
    private void askOrPark(Waiter head) {
        if (!engine.guarantees.fair() && engine.ownHold(head.name) != null) {
            park(head);
        } else {
            ask(head);
        }
    }

    private void park(Waiter head) {
        head.state = Waiter.State.PAUSING;
        engine.alarms.cancel(head.alarm);
        head.alarm = engine.alarms.at(head.end, () -> finish(head, Optional.empty(), null));
    }

    private void ask(Waiter waiter) {
        waiter.asksItself = true;
        Duration left = waiter.left(engine.time.nanoTime());
        Claim claim = begin(waiter, left);
        engine.events.tell(LockEvent.Kind.ATTEMPT, claim, 0, 0, 0, null);
        waiter.call = engine.gateway.acquire(
                claim, left, waiter.on, (attempt, error) -> answered(waiter, claim, attempt, error));
    }

    private Claim begin(Waiter waiter, Duration left) {
        engine.alarms.cancel(waiter.alarm);
        waiter.alarm = null;
        waiter.call = null;
        waiter.state = Waiter.State.CALLING;
        Claim claim = Claim.of(waiter.name, engine.newOwner(), waiter.terms.lease());
        waiter.claim = claim;
        long latest = Nanos.of(left) + 2 * engine.callTimeout;
        if (latest < Nanos.FOREVER) {
            watchForHang(waiter, claim, engine.time.nanoTime() + latest);
        }
        return claim;
    }

    /** Who gets the lock next, if he waits for nothing but this client's own hold; else null. */
    @Nullable
    Waiter next(String name) {
        LinkedHashSet<Waiter> line = lines.get(name);
        Waiter head = line == null ? null : line.iterator().next();
        return head != null
                        && head.state == Waiter.State.PAUSING
                        && !engine.closed
                        && !Nanos.reached(engine.time.nanoTime(), head.end)
                ? head
                : null;
    }

    /** The store is asked for this one by whoever releases; {@link #passed} is to be told of the answer. */
    Claim isAsked(Waiter waiter) {
        waiter.asksItself = false;
        return begin(waiter, Duration.ZERO);
    }

    /** What came of asking for him: an attempt, or none, with what was thrown if it may be on its way. */
    void passed(Waiter waiter, Claim claim, @Nullable Attempt attempt, @Nullable Throwable error) {
        boolean unknown = attempt == null && error != null && Engine.mayHaveTakenEffect(error);
        if (attempt != null || unknown) {
            engine.events.tell(LockEvent.Kind.ATTEMPT, claim, 0, 0, 0, null);
        }
        if (attempt != null) {
            answered(waiter, claim, attempt, null);
            return;
        }
        engine.alarms.cancel(waiter.orphan);
        if (unknown) {
            engine.undos.add(claim, 0, true);
        }
        if (waiter.state == Waiter.State.CALLING && waiter.claim != null && waiter.claim.equals(claim)) {
            // Somebody else's failure is not his: he asks himself.
            if (Nanos.reached(engine.time.nanoTime(), waiter.end)) {
                finish(waiter, Optional.empty(), null);
            } else {
                waiter.pause = 0;
                askOrPark(waiter);
            }
        }
    }

    private void watchForHang(Waiter waiter, Claim claim, long due) {
        waiter.alarm = engine.alarms.at(due, () -> {
            long now = engine.time.nanoTime();
            if (now - due > engine.callTimeout) {
                // This alarm is late itself: the whole process was stopped, and the call with it.
                watchForHang(waiter, claim, now + 2 * engine.callTimeout);
            } else {
                hung(waiter, claim);
            }
        });
    }

    /** The backend has broken its word to come back in time. The line goes on without it. */
    private void hung(Waiter waiter, Claim claim) {
        if (waiter.call != null) {
            waiter.call.interrupt();
        }
        engine.undos.add(claim, 0, true);
        finish(
                waiter,
                Optional.empty(),
                new LockStoreException(
                        engine.store,
                        "acquire of '" + Claim.printable(claim.name()) + "' did not come back",
                        "check that the store answers; nothing stays acquired",
                        true,
                        null));
    }

    private void answered(Waiter waiter, Claim claim, @Nullable Attempt attempt, @Nullable Throwable error) {
        engine.mutex.lock();
        try {
            engine.alarms.cancel(waiter.orphan);
            if (waiter.state == Waiter.State.CALLING) {
                engine.alarms.cancel(waiter.alarm);
            }
            Throwable failure = error;
            Grant grant = null;
            if (failure == null) {
                grant = attempt == null ? null : attempt.grant().orElse(null);
                String wrong = attempt == null ? "it answered null" : grant == null ? null : engine.wrong(grant, claim);
                if (wrong != null) {
                    failure = engine.senseless("acquire", claim.name(), wrong);
                }
            }
            if (failure != null) {
                if (Engine.mayHaveTakenEffect(failure)) {
                    engine.undos.add(claim, 0, true);
                }
                grant = null;
            }
            long now = engine.time.nanoTime();
            if (grant != null) {
                boolean wanted = waiter.state != Waiter.State.DONE && !engine.closed;
                Hold hold = new Hold(grant, waiter.terms.holdAtMost(), now, waiter.threadId, waiter.acquiredHere);
                if (wanted && !Nanos.reached(now, hold.end) && !engine.outdated(grant)) {
                    finish(waiter, Optional.of(engine.hold(hold, now - waiter.start)), null);
                    return;
                }
                // Too late for its deadline, for its caller, or behind a newer one: to be counted on by nobody.
                engine.undos.add(claim, grant.token(), false);
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
            engine.mutex.unlock();
        }
    }

    /** Until the next question: doubled from try to try, never past the known end of the holder's lease or of the wait. */
    private void pause(Waiter head, @Nullable Attempt held, long now) {
        if (engine.ownHold(head.name) != null) {
            park(head);
            return;
        }
        long shortest = held == null ? engine.callTimeout / 16 : Nanos.of(held.pause());
        head.pause = head.pause == 0 ? shortest : Math.min(head.pause * 2, shortest * LONGEST_PAUSE);
        long wake = now + head.pause / 2 + engine.jitter.nextLong(head.pause / 2 + 1);
        if (held != null && held.rest().isPresent()) {
            wake = Nanos.earlier(wake, now + Nanos.of(held.rest().get()) + 1_000_000);
        }
        head.state = Waiter.State.PAUSING;
        engine.alarms.cancel(head.alarm);
        head.alarm = engine.alarms.at(Nanos.earlier(wake, head.end), () -> ask(head));
    }

    /** This client's own hold of the name has ended: whoever is first in line asks now. */
    void wake(String name) {
        LinkedHashSet<Waiter> line = lines.get(name);
        if (line != null) {
            Waiter head = line.iterator().next();
            if (head.state == Waiter.State.PAUSING) {
                head.pause = 0;
                askOrPark(head);
            }
        }
    }

    private void finish(Waiter waiter, Optional<Lease> lease, @Nullable Throwable failure) {
        if (waiter.state == Waiter.State.DONE) {
            return;
        }
        waiter.state = Waiter.State.DONE;
        engine.alarms.cancel(waiter.alarm);
        engine.alarms.cancel(waiter.warning);
        if (lease.isEmpty()) {
            Claim claim = waiter.claim;
            engine.events.waited(
                    waiter.name, claim == null ? "" : claim.owner(), engine.time.nanoTime() - waiter.start, failure);
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
                } else if (wasHead && !engine.closed) {
                    Waiter head = line.iterator().next();
                    engine.alarms.cancel(head.alarm);
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
        engine.mutex.lock();
        try {
            if (waiter.state == Waiter.State.DONE) {
                return;
            }
            abandonCall(waiter);
            finish(waiter, Optional.empty(), null);
        } finally {
            engine.mutex.unlock();
        }
    }

    private void abandonCall(Waiter waiter) {
        Claim claim = waiter.claim;
        // A thread that runs its own calls can only be here when its call has not begun, and never will.
        boolean underWay = !waiter.runsOwnCalls || !waiter.asksItself;
        if (waiter.state == Waiter.State.CALLING && underWay && claim != null) {
            if (waiter.call != null) {
                waiter.call.interrupt();
            }
            // Even if the call never comes back, its claim is not left to itself.
            waiter.orphan = engine.alarms.at(
                    engine.time.nanoTime() + engine.callTimeout, () -> engine.undos.add(claim, 0, true));
        }
    }

    /** Releases the lease of a result that has no taker. */
    private void takeBack(CompletableFuture<Optional<Lease>> done) {
        if (done.isDone() && !done.isCompletedExceptionally()) {
            done.join().ifPresent(lease -> {
                engine.mutex.lock();
                try {
                    Hold hold = lease.hold;
                    if (hold.state == Hold.State.HELD) {
                        engine.giveUp(hold);
                    }
                } finally {
                    engine.mutex.unlock();
                }
            });
        }
    }

    private void warnOfSelf(Waiter waiter) {
        Hold hold = engine.ownHold(waiter.name);
        if (hold != null && hold.threadId == waiter.threadId && waiter.state != Waiter.State.DONE) {
            Throwable both = new Throwable("acquire is waiting here", waiter.acquiredHere);
            both.addSuppressed(hold.acquiredHere);
            LOG.log(
                    Level.WARNING,
                    "a thread waits for the lock '" + Claim.printable(waiter.name)
                            + "' that it acquired itself and still holds:"
                            + " leases are not re-entrant, so it waits for itself",
                    both);
        }
    }

    /** Ends all waits, for good. */
    void close() {
        List<Waiter> all = new ArrayList<>(outsideLines);
        lines.values().forEach(all::addAll);
        for (Waiter waiter : all) {
            if (waiter.state == Waiter.State.CALLING && waiter.call != null) {
                waiter.call.interrupt();
            }
            finish(waiter, Optional.empty(), engine.closed());
        }
    }

    int size(String name) {
        LinkedHashSet<Waiter> line = lines.get(name);
        return line == null ? 0 : line.size();
    }

    /** What this holds on to, for tests of growth. */
    @Override
    public String toString() {
        return "lines " + lines.size() + ", others " + outsideLines.size();
    }
}
