package dev.mortise.lock.tck;

import dev.mortise.lock.LockStoreException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * The servers of a {@link SketchStore} and the way to them, and what befalls them, in real time. Guarded by the store's
 * monitor.
 */
final class SketchServers {
    private static final Set<Fault> SILENT =
            EnumSet.of(Fault.NETWORK_GONE, Fault.SERVER_STOPPED, Fault.SERVER_KILLED, Fault.DATA_LOST, Fault.DATA_OLD);

    private final SketchStore store;
    private final Wrong wrong;
    private final List<Runnable> kept = new ArrayList<>();
    private Data data = new Data();
    private Data cutOff;
    private Fault lasts;

    /** Clients with a smaller number were connected when the fault began. */
    private int before;

    private int connections;
    private long step;

    /** What a server knows. */
    record Data(
            Map<String, SketchStore.Row> rows, Map<String, Long> tokens, Map<String, List<SketchStore.Row>> queues) {
        Data() {
            this(new LinkedHashMap<>(), new HashMap<>(), new HashMap<>());
        }

        Data copy() {
            Data copy = new Data();
            rows.forEach((key, row) -> copy.rows.put(key, row.copy()));
            copy.tokens.putAll(tokens);
            return copy;
        }
    }

    SketchServers(SketchStore store, Wrong wrong) {
        this.store = store;
        this.wrong = wrong;
    }

    Set<Fault> possible() {
        return wrong == null ? EnumSet.allOf(Fault.class) : wrong.faults;
    }

    /** Of the server that this client is connected to. */
    Data of(int client) {
        return cutOff != null && client < before ? cutOff : data;
    }

    /** How far its wall clock is from where it should be; a right one counts leases by another clock. */
    long step() {
        return wrong == Wrong.LEASE_BY_WALL_CLOCK || wrong == Wrong.TOKEN_BY_WALL_CLOCK ? step : 0;
    }

    /** Grows whenever all connections break. */
    int connections() {
        return connections;
    }

    void connect() {
        if (lasts != null && SILENT.contains(lasts)) {
            throw unanswered("connect");
        }
    }

    LockStoreException unanswered(String what) {
        if (wrong == Wrong.THROWS_ITS_OWN) {
            throw new IllegalStateException("socket closed");
        }
        return new LockStoreException("sketch", what + ": no answer", "ask again", wrong != Wrong.SAYS_NO_EFFECT, null);
    }

    /** A request has come this far: it goes on, or is kept on the way, or lost. */
    void arrive(int client, int connection, Duration callTimeout, Runnable request) {
        if (wrong == Wrong.NEVER_RECONNECTS && connection < connections) {
            throw unanswered("a call over a connection that is broken");
        }
        if (lasts == null) {
            return;
        }
        if (lasts == Fault.LEADER_CUT_OFF && client < before && cutOff == null) {
            throw new LockStoreException("sketch", "a call: no leader", "wait", false, null);
        }
        boolean late = lasts == Fault.REQUESTS_LATE && client < before;
        if (late) {
            kept.add(request);
        }
        if (late || SILENT.contains(lasts)) {
            silence(callTimeout);
            throw unanswered("a call");
        }
    }

    /** Whether an answer to what was sent over this connection reaches its client. */
    void reply(int connection, Duration callTimeout) {
        if (connection != connections) {
            throw unanswered("a call: connection reset");
        }
        if (lasts == Fault.REPLIES_LOST || (lasts != null && SILENT.contains(lasts))) {
            silence(callTimeout);
            throw unanswered("a call");
        }
    }

    private void silence(Duration callTimeout) {
        long until = System.nanoTime() + callTimeout.toNanos();
        Fault now = lasts;
        while ((wrong == Wrong.HANGS && lasts == now) || System.nanoTime() - until < 0) {
            try {
                TimeUnit.NANOSECONDS.timedWait(store, 2_000_000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }

    private void breakConnections() {
        connections++;
        if (wrong == Wrong.CONNECTION_IS_THE_CLAIM) {
            data.rows.clear();
        }
        data.queues.clear();
        store.notifyAll();
    }

    AutoCloseable begin(Fault fault) throws InterruptedException {
        synchronized (store) {
            Data copy = data.copy();
            before = store.clients();
            switch (fault) {
                case CONNECTIONS_BROKEN, MINORITY_KILLED, SERVER_KILLED, DATA_LOST -> breakConnections();
                case DATA_OLD -> {
                    // What is granted meanwhile is not in the copy.
                    pass(100);
                    breakConnections();
                }
                case LEADER_KILLED -> {
                    pass(100);
                    if (wrong == Wrong.REPLICATED_LATER) {
                        data = copy;
                    }
                    if (wrong == Wrong.TOKENS_REPLICATED_LATER) {
                        data.rows.clear();
                        data.tokens.clear();
                        data.tokens.putAll(copy.tokens);
                    }
                    breakConnections();
                }
                case LEADER_CUT_OFF -> {
                    breakConnections();
                    cutOff = wrong == Wrong.SERVES_WHEN_CUT_OFF ? data.copy() : null;
                }
                case CLOCK_FORWARD -> step = TimeUnit.HOURS.toNanos(1);
                case CLOCK_BACK -> step = -TimeUnit.HOURS.toNanos(1);
                default -> {}
            }
            lasts = fault == Fault.CONNECTIONS_BROKEN ? null : fault;
            store.notifyAll();
            return () -> end(fault, copy);
        }
    }

    private void pass(long millis) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        for (long left = 1; left > 0; left = until - System.nanoTime()) {
            TimeUnit.NANOSECONDS.timedWait(store, Math.max(left, 1_000_000));
        }
    }

    private void end(Fault fault, Data copy) {
        synchronized (store) {
            lasts = null;
            cutOff = null;
            step = 0;
            switch (fault) {
                case SERVER_KILLED -> restart();
                case DATA_LOST -> lose(new Data());
                case DATA_OLD -> lose(copy);
                default -> {}
            }
            // The network promises no order: what was sent last, such as an undo, comes first.
            Collections.reverse(kept);
            kept.forEach(Runnable::run);
            kept.clear();
            store.notifyAll();
        }
    }

    private void restart() {
        if (wrong == Wrong.CLAIMS_IN_MEMORY) {
            data.rows.clear();
        }
        if (wrong == Wrong.TOKENS_IN_MEMORY) {
            data.tokens.clear();
        }
        if (wrong == Wrong.TIMERS_IN_MEMORY) {
            data.rows.values().forEach(row -> row.end = Long.MAX_VALUE);
        }
    }

    private void lose(Data left) {
        if (wrong == Wrong.DECLARES_TOO_FEW_TOKENS) {
            left.tokens.putAll(data.tokens); // They live elsewhere.
        }
        data = left;
    }
}
