package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Clients that take, renew and release locks of a few names, as the engine does it, while a test breaks the store: what has
 * no answer is undone until that is acknowledged, and counted on until its deadline. For the test's thread.
 */
public final class Load implements AutoCloseable {
    /** What a call may take beyond its patience and the call timeout, on a busy machine. */
    private static final Duration SLACK = Duration.ofSeconds(2);

    private final Holds holds;
    private final Duration lease;
    private final Duration callTimeout;
    private final List<Thread> threads = new ArrayList<>();
    private final List<AtomicLong> grants = new ArrayList<>();
    private final List<Throwable> wrong = new CopyOnWriteArrayList<>();

    /** Until when the call that a thread is in must have ended. */
    private final Map<Thread, Long> limits = new ConcurrentHashMap<>();

    /** So long this machine has not let its processes run, in which no call can end. */
    private final AtomicLong stalled = new AtomicLong();

    /** Whether the store is known to end leases early in what is done to it. */
    private final boolean earlyEnds;

    private final AtomicLong early = new AtomicLong();
    private volatile boolean over;

    /**
     * Starts it.
     *
     * @param clients each with two threads
     * @param callTimeout theirs
     */
    public Load(Holds holds, List<LockBackend> clients, List<String> names, Duration lease, Duration callTimeout) {
        this(holds, clients, names, lease, callTimeout, false);
    }

    /**
     * The same.
     *
     * @param earlyEnds whether leases that end before their time are counted only, and not wrong
     */
    public Load(
            Holds holds,
            List<LockBackend> clients,
            List<String> names,
            Duration lease,
            Duration callTimeout,
            boolean earlyEnds) {
        this.earlyEnds = earlyEnds;
        this.holds = holds;
        this.lease = lease;
        this.callTimeout = callTimeout;
        Thread pulse = new Thread(this::pulse, "pulse");
        pulse.setDaemon(true);
        threads.add(pulse);
        pulse.start();
        SplittableRandom seeds = new SplittableRandom();
        for (LockBackend client : clients) {
            AtomicLong count = new AtomicLong();
            grants.add(count);
            for (int i = 0; i < 2; i++) {
                SplittableRandom random = seeds.split();
                Thread thread = new Thread(() -> live(client, names, random, count), "load");
                thread.setDaemon(true);
                threads.add(thread);
                thread.start();
            }
        }
    }

    private void pulse() {
        long last = System.nanoTime();
        while (!over) {
            try {
                TimeUnit.MILLISECONDS.sleep(10);
            } catch (InterruptedException e) {
                return;
            }
            long now = System.nanoTime();
            stalled.addAndGet(Math.max(0, now - last - TimeUnit.MILLISECONDS.toNanos(20)));
            last = now;
            limits.forEach((thread, limit) -> {
                if (now() - limit > 0 && limits.remove(thread, limit)) {
                    AssertionError late = new AssertionError("a call does not end");
                    late.setStackTrace(thread.getStackTrace());
                    wrong.add(late);
                }
            });
        }
    }

    private void live(LockBackend client, List<String> names, SplittableRandom random, AtomicLong count) {
        while (!over) {
            try {
                Claim claim = Holds.claim(names.get(random.nextInt(names.size())), lease);
                Duration patience = Duration.ofMillis(random.nextInt(3) * 200L);
                Optional<Hold> hold = Optional.empty();
                begun(patience);
                try {
                    hold = holds.take(client, claim, patience);
                } catch (LockStoreException e) {
                    undo(client, claim);
                    TimeUnit.MILLISECONDS.sleep(20);
                    continue;
                } finally {
                    ended();
                }
                if (hold.isPresent()) {
                    count.incrementAndGet();
                    hold(client, hold.get(), random);
                }
            } catch (InterruptedException e) {
                return;
            } catch (RuntimeException | AssertionError e) {
                wrong.add(e);
                return;
            }
        }
    }

    private void hold(LockBackend client, Hold hold, SplittableRandom random) throws InterruptedException {
        // Most are short; some live as long as their renewals get through, up to two leases.
        long end = hold.given + random.nextLong(random.nextInt(6) == 0 ? 2 * lease.toNanos() : lease.toNanos() / 10);
        while (!over && System.nanoTime() - Math.min(end, hold.until) < 0) {
            TimeUnit.MILLISECONDS.sleep(Math.min(lease.toMillis() / 6, 10 + random.nextInt(100)));
            long deadline = hold.until;
            try {
                begun(Duration.ZERO);
                boolean live = holds.renew(client, hold);
                if (!live && hold.until - deadline < 0) {
                    // Told that it has ended, before it could have: somebody ended it who may not.
                    early.incrementAndGet();
                    if (!earlyEnds) {
                        wrong.add(new AssertionError("ended before its time: " + hold + ", deadline " + deadline));
                    }
                }
            } catch (LockStoreException e) {
                // Unknown: asked again, until the deadline.
            } finally {
                ended();
            }
        }
        begun(Duration.ZERO);
        try {
            boolean unused = holds.release(client, hold);
            ended();
        } catch (LockStoreException e) {
            undo(client, hold.claim);
        }
    }

    /** Until it is acknowledged, or must have ended. */
    private void undo(LockBackend client, Claim claim) throws InterruptedException {
        long end = System.nanoTime() + 2 * lease.toNanos();
        while (System.nanoTime() - end < 0) {
            begun(Duration.ZERO);
            try {
                boolean unused = client.release(claim);
                return;
            } catch (LockStoreException e) {
                TimeUnit.MILLISECONDS.sleep(20);
            } finally {
                ended();
            }
        }
    }

    /** On a clock that stands still while nothing runs. */
    private long now() {
        return System.nanoTime() - stalled.get();
    }

    /** From here to {@link #ended} this thread is in a call that must end by itself. */
    private void begun(Duration patience) {
        limits.put(
                Thread.currentThread(),
                now() + callTimeout.plus(patience).plus(SLACK).toNanos());
    }

    private void ended() {
        limits.remove(Thread.currentThread());
    }

    private void requireSound() {
        if (!wrong.isEmpty()) {
            throw new AssertionError("wrong " + wrong.size() + " times, first: " + wrong.get(0), wrong.get(0));
        }
    }

    /** Every client is granted something that it asks for after now. */
    public void awaitService(Duration within) {
        awaitService(within, 0, grants.size());
    }

    /** The same for these clients, from the first of them to before the last. */
    public void awaitService(Duration within, int from, int to) {
        // Each of its threads may have one under way.
        List<Long> enough = grants.stream().map(count -> count.get() + 3).toList();
        await().atMost(within).untilAsserted(() -> {
            requireSound();
            for (int i = from; i < to; i++) {
                assertThat(grants.get(i).get()).as("grants of client %s", i).isGreaterThanOrEqualTo(enough.get(i));
            }
        });
    }

    /** How many leases ended before their time. */
    public long early() {
        return early.get();
    }

    /** So many has it had until now. */
    public long grants(int client) {
        return grants.get(client).get();
    }

    /** Ends it, and tells what was wrong, which the holds do not show. */
    @Override
    public void close() {
        over = true;
        for (Thread thread : threads) {
            try {
                thread.join(
                        callTimeout.plus(lease.multipliedBy(4)).plusSeconds(20).toMillis());
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            assertThat(thread.isAlive()).as("a call does not end").isFalse();
        }
        requireSound();
    }
}
