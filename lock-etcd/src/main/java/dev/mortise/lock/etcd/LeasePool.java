package dev.mortise.lock.etcd;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Leases of etcd without a key on them, by their length, so that an acquire need not ask for one first. A few are kept alive
 * here for a minute after their last use. One that was handed out is the claim's, and is not touched here. For any thread.
 */
class LeasePool implements AutoCloseable {
    /** How many of a length are kept alive; what comes back beyond that is left to end by itself. */
    private static final int KEPT = 16;

    private static final long IDLE = TimeUnit.MINUTES.toNanos(1);

    private final Wire wire;
    private final LongSupplier ticker;
    private final Map<Long, Deque<Lease>> idle = new HashMap<>();
    private @Nullable ScheduledThreadPoolExecutor keeper;
    private @Nullable ScheduledFuture<?> next;
    private boolean closed;

    /** A lease of etcd: how long it may be counted on. */
    static final class Lease {
        final long id;

        /** As etcd gave it. */
        final long seconds;

        /** When it was asked for by its maker. */
        final long asked;

        /** Before the send of the last request known to have started or restarted it, by the client's ticker. */
        private long since;

        /** The same of a proof of life of which it is not known yet whether a leader has answered it; see {@link Wire.Proof}. */
        private long pending;

        private long pendingTerm;
        private long pendingCame;

        private long idleFrom;

        Lease(long id, long seconds, long asked, long since) {
            this.id = id;
            this.seconds = seconds;
            this.asked = asked;
            this.since = since;
            pending = since;
        }

        synchronized long since() {
            return since;
        }

        Duration length() {
            return Duration.ofSeconds(seconds);
        }

        /** A proof of life that was sent then has been answered now. */
        synchronized void beaten(long sent, Wire.Proof proof) {
            if (proof.seconds() > 0 && sent - pending > 0) {
                pending = sent;
                pendingTerm = proof.term();
                pendingCame = System.nanoTime();
            }
        }

        /**
         * Something that a majority stands behind has been answered.
         *
         * @param term in the answer
         * @param sent when it was sent, by {@link System#nanoTime()}
         */
        synchronized void verify(long term, long sent) {
            if (pending != since && sent - pendingCame >= 0) {
                if (pendingTerm == term) {
                    since = pending;
                } else {
                    pending = since;
                }
            }
        }

        /** A proof of life that was sent then counts. */
        synchronized void proven(long sent) {
            if (sent - since > 0) {
                since = sent;
                pending = sent - pending > 0 ? sent : pending;
            }
        }

        /** Since its last proof of life that counts. */
        synchronized long age(long now) {
            return now - since;
        }

        /** Since its last proof of life that may count. */
        synchronized long ageIfVerified(long now) {
            return now - pending;
        }

        long nanos() {
            return TimeUnit.SECONDS.toNanos(seconds);
        }
    }

    LeasePool(Wire wire, LongSupplier ticker) {
        this.wire = wire;
        this.ticker = ticker;
    }

    /**
     * A lease that nobody else has, with three quarters of its length before it if its last proof of life counts.
     *
     * @param seconds how long
     */
    Lease take(long seconds, Limit limit) throws Trouble, InterruptedException {
        while (true) {
            Lease lease = poll(seconds);
            if (lease == null) {
                return make(seconds, limit);
            }
            long now = ticker.getAsLong();
            if (lease.ageIfVerified(now) < lease.nanos() / 4) {
                return lease;
            }
            Wire.Proof proof = wire.beat(lease.id).await(limit.part(limit.left() / 2));
            if (proof.seconds() > 0) {
                lease.beaten(now, proof);
                return lease;
            }
        }
    }

    /** A new one, whatever is idle. */
    Lease make(long seconds, Limit limit) throws Trouble, InterruptedException {
        long since = ticker.getAsLong();
        Wire.Granted granted = wire.grant(seconds, limit);
        return new Lease(granted.id(), granted.seconds(), seconds, since);
    }

    private synchronized @Nullable Lease poll(long seconds) {
        Deque<Lease> those = idle.get(seconds);
        return those == null ? null : those.pollLast();
    }

    /**
     * Takes it back, if it can be used again.
     *
     * @param sure whether it has no key on it, and no request that is still on its way can put one there
     * @return false if its caller has to end it
     */
    boolean takesBack(Lease lease, boolean sure) {
        if (sure) {
            giveBack(lease);
        }
        return sure;
    }

    /** What has no key on it, nor ever gets one by a request that is still on its way. */
    synchronized void giveBack(Lease lease) {
        if (closed) {
            return;
        }
        Deque<Lease> those = idle.computeIfAbsent(lease.asked, seconds -> new ArrayDeque<>());
        lease.idleFrom = System.nanoTime();
        those.addLast(lease);
        if (those.size() > KEPT) {
            those.pollFirst();
        }
        if (next == null) {
            schedule();
        }
    }

    private void schedule() {
        long shortest = idle.keySet().stream().mapToLong(each -> each).min().orElse(1);
        ScheduledThreadPoolExecutor executor = keeper;
        if (executor == null) {
            executor = new ScheduledThreadPoolExecutor(1, work -> {
                Thread thread = new Thread(work, "mortise-etcd-pool");
                thread.setDaemon(true);
                return thread;
            });
            executor.setKeepAliveTime(10, TimeUnit.SECONDS);
            executor.allowCoreThreadTimeOut(true);
            executor.setRemoveOnCancelPolicy(true);
            executor.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
            keeper = executor;
        }
        next = executor.schedule(this::keep, Math.max(150, shortest * 1000 / 6), TimeUnit.MILLISECONDS);
    }

    /** Proofs of life for what is due; what is not answered is not used again. */
    private void keep() {
        List<Lease> due = new ArrayList<>();
        synchronized (this) {
            long now = ticker.getAsLong();
            long clock = System.nanoTime();
            for (Iterator<Deque<Lease>> all = idle.values().iterator(); all.hasNext(); ) {
                Deque<Lease> those = all.next();
                those.removeIf(lease -> {
                    if (clock - lease.idleFrom > IDLE) {
                        return true;
                    }
                    if (lease.ageIfVerified(now) > lease.nanos() / 8) {
                        due.add(lease);
                        return true;
                    }
                    return false;
                });
                if (those.isEmpty() && due.isEmpty()) {
                    all.remove();
                }
            }
        }
        try {
            beat(due);
        } finally {
            synchronized (this) {
                next = null;
                if (!closed && !idle.isEmpty()) {
                    schedule();
                }
            }
        }
    }

    private void beat(List<Lease> due) {
        long sent = ticker.getAsLong();
        List<Wire.Beat> beats = due.stream().map(lease -> wire.beat(lease.id)).toList();
        Limit limit = Limit.interruptible(Duration.ofSeconds(1));
        for (int i = 0; i < due.size(); i++) {
            try {
                Wire.Proof proof = beats.get(i).await(limit);
                if (proof.seconds() > 0) {
                    Lease lease = due.get(i);
                    lease.beaten(sent, proof);
                    synchronized (this) {
                        Deque<Lease> those = idle.computeIfAbsent(lease.asked, seconds -> new ArrayDeque<>());
                        if (!closed && those.size() < KEPT) {
                            // Behind those that came back meanwhile, which are used first.
                            those.addFirst(lease);
                        }
                    }
                }
            } catch (InterruptedException e) {
                return; // Closed.
            }
        }
    }

    @Override
    public synchronized void close() {
        closed = true;
        idle.clear();
        if (keeper != null) {
            keeper.shutdownNow();
        }
    }
}
