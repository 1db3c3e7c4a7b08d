package dev.mortise.lock;

import dev.mortise.lock.spi.Claim;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/** Brings events to the listeners, in order, one at a time, on a thread that nothing else needs. */
final class Events {
    private static final int MOST = 10_000;

    private final String store;
    private final List<LockListener> listeners;
    private final Executor executor;
    private final ArrayDeque<LockEvent> queue = new ArrayDeque<>(); // its own monitor guards it and the next two
    private boolean running;
    private long dropped;

    Events(String store, List<LockListener> listeners, Executor executor) {
        this.store = store;
        this.listeners = List.copyOf(listeners);
        this.executor = executor;
    }

    void tell(LockEvent.Kind kind, Claim claim, long token, long took, long remaining, @Nullable Throwable cause) {
        if (!listeners.isEmpty()) {
            add(kind, claim.name(), claim.owner(), token, took, remaining, cause);
        }
    }

    void waited(String name, String owner, long took, @Nullable Throwable cause) {
        if (!listeners.isEmpty()) {
            add(LockEvent.Kind.WAITED, name, owner, 0, took, 0, cause);
        }
    }

    private void add(
            LockEvent.Kind kind,
            String name,
            String owner,
            long token,
            long took,
            long remaining,
            @Nullable Throwable cause) {
        LockEvent event = new LockEvent(
                kind,
                store,
                name,
                owner,
                token,
                Duration.ofNanos(took),
                Duration.ofNanos(Math.max(0, remaining)),
                cause);
        synchronized (queue) {
            if (queue.size() >= MOST) {
                dropped++;
                return;
            }
            queue.add(event);
            if (running) {
                return;
            }
            running = true;
        }
        executor.execute(this::drain);
    }

    private void drain() {
        while (true) {
            LockEvent event;
            long lost;
            synchronized (queue) {
                event = queue.poll();
                lost = dropped;
                dropped = 0;
                if (event == null) {
                    running = false;
                    return;
                }
            }
            System.Logger log = System.getLogger("dev.mortise.lock");
            if (lost > 0) {
                log.log(Level.WARNING, lost + " events were dropped because a listener of " + store + " is too slow");
            }
            for (LockListener listener : listeners) {
                try {
                    listener.onEvent(event);
                } catch (Throwable e) {
                    log.log(Level.WARNING, "a listener threw at " + event, e);
                }
            }
        }
    }
}
