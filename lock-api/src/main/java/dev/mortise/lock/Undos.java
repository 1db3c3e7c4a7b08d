package dev.mortise.lock;

import dev.mortise.lock.spi.Claim;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/**
 * The claims that must not live, whatever the store made of them: acquires without an answer, lost leases, dropped handles,
 * late grants. Each is released until the store acknowledges, or until it must have ended by itself. A part of {@link
 * Engine}, under its mutex.
 */
final class Undos {
    private static final Logger LOG = System.getLogger("dev.mortise.lock");

    private final Engine engine;
    private final Set<Undo> undos = new LinkedHashSet<>();
    private @Nullable CompletableFuture<Void> allDone;

    Undos(Engine engine) {
        this.engine = engine;
    }

    private static final class Undo {
        final Claim claim;
        final long token;
        boolean again;
        long giveUp;
        int failures;

        /** The number of the call under way, or zero: what a call answers after it was given up counts for nothing. */
        int calling;

        int calls;

        Undo(Claim claim, long token, boolean again, long giveUp) {
            this.claim = claim;
            this.token = token;
            this.again = again;
            this.giveUp = giveUp;
        }
    }

    /**
     * Undoes a claim.
     *
     * @param again for an acquire whose answer never came: it may still arrive at the engine.store, after its undo, so it is
     *     undone once more a lease later
     */
    void add(Claim claim, long token, boolean again) {
        Undo undo = new Undo(claim, token, again, engine.time.nanoTime() + engine.freed(claim));
        undos.add(undo);
        send(undo);
    }

    private void send(Undo undo) {
        if (undo.calling != 0 || !undos.contains(undo)) {
            return;
        }
        int call = ++undo.calls;
        undo.calling = call;
        LockStoreException hung = new LockStoreException(
                engine.store,
                "release of " + undo.claim + " did not come back",
                "check that the store answers",
                true,
                null);
        Alarms.Alarm alarm =
                engine.alarms.at(engine.time.nanoTime() + 2 * engine.callTimeout, () -> undone(undo, call, hung));
        // One that waited for a thread so long that it was given up meanwhile is not sent any more.
        Executor current = task -> engine.workers.undos().execute(() -> {
            if (isCurrent(undo, call)) {
                task.run();
            }
        });
        engine.gateway.release(undo.claim, current, (live, error) -> {
            Throwable failure = error;
            if (failure == null && live == null) {
                failure = engine.senseless("release", undo.claim.name(), "it answered null");
            }
            engine.mutex.lock();
            try {
                engine.alarms.cancel(alarm);
                undone(undo, call, failure);
            } finally {
                engine.mutex.unlock();
            }
        });
    }

    private boolean isCurrent(Undo undo, int call) {
        engine.mutex.lock();
        try {
            return undo.calling == call && undos.contains(undo);
        } finally {
            engine.mutex.unlock();
        }
    }

    private void undone(Undo undo, int call, @Nullable Throwable error) {
        if (undo.calling != call) {
            return;
        }
        undo.calling = 0;
        long now = engine.time.nanoTime();
        if (error == null) {
            if (undo.again && !engine.closed) {
                undo.again = false;
                undo.failures = 0;
                long lease = Nanos.of(undo.claim.lease());
                undo.giveUp = now + lease + engine.freed(undo.claim);
                engine.alarms.at(now + lease, () -> send(undo));
            } else {
                forget(undo);
            }
            return;
        }
        engine.events.tell(LockEvent.Kind.UNRELEASED, undo.claim, undo.token, 0, 0, error);
        if (engine.closed || Nanos.reached(now, undo.giveUp)) {
            LOG.log(
                    Level.WARNING,
                    engine.store + " did not acknowledge the release of " + undo.claim
                            + "; the claim ends by itself within "
                            + engine.guarantees.freedWithin(undo.claim.lease()),
                    error);
            forget(undo);
            return;
        }
        long backOff =
                Math.min(Nanos.of(undo.claim.lease()) / 3, (engine.callTimeout / 16) << Math.min(undo.failures, 10));
        undo.failures++;
        engine.alarms.at(now + Math.max(backOff, 1), () -> send(undo));
    }

    private void forget(Undo undo) {
        undos.remove(undo);
        if (allDone != null && undos.isEmpty()) {
            allDone.complete(null);
        }
    }

    /** Sends all that wait for their next turn now, and completes {@code done} when nothing is left to be undone. */
    void hurry(CompletableFuture<Void> done) {
        allDone = done;
        List.copyOf(undos).forEach(this::send);
        if (undos.isEmpty()) {
            done.complete(null);
        }
    }

    int size() {
        return undos.size();
    }
}
