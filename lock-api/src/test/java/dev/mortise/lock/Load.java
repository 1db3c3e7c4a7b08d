package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
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
    private volatile boolean over;

    /**
     * Starts it.
     *
     * @param clients each with two threads
     * @param callTimeout theirs
     */
    public Load(Holds holds, List<LockBackend> clients, List<String> names, Duration lease, Duration callTimeout) {
        this.holds = holds;
        this.lease = lease;
        this.callTimeout = callTimeout;
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

    private void live(LockBackend client, List<String> names, SplittableRandom random, AtomicLong count) {
        while (!over) {
            try {
                Claim claim = Holds.claim(names.get(random.nextInt(names.size())), lease);
                Duration patience = Duration.ofMillis(random.nextInt(3) * 200L);
                Optional<Hold> hold = Optional.empty();
                long start = System.nanoTime();
                try {
                    hold = holds.take(client, claim, patience);
                } catch (LockStoreException e) {
                    undo(client, claim);
                    TimeUnit.MILLISECONDS.sleep(20);
                    continue;
                } finally {
                    inTime("acquire", start, patience);
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
        // Most are short; some live as long as their renewals get through, up to three leases.
        long end = hold.given + random.nextLong(random.nextInt(4) == 0 ? 3 * lease.toNanos() : lease.toNanos() / 10);
        while (!over && System.nanoTime() - Math.min(end, hold.until) < 0) {
            TimeUnit.MILLISECONDS.sleep(Math.min(lease.toMillis() / 6, 10 + random.nextInt(100)));
            long deadline = hold.until;
            try {
                long start = System.nanoTime();
                boolean live = holds.renew(client, hold);
                inTime("renew", start, Duration.ZERO);
                if (!live && hold.until - deadline < 0) {
                    // Told that it has ended, before it could have: somebody ended it who may not.
                    wrong.add(new AssertionError("ended before its time: " + hold + ", deadline " + deadline));
                }
            } catch (LockStoreException e) {
                // Unknown: asked again, until the deadline.
            }
        }
        try {
            boolean unused = holds.release(client, hold);
        } catch (LockStoreException e) {
            undo(client, hold.claim);
        }
    }

    /** Until it is acknowledged, or must have ended. */
    private void undo(LockBackend client, Claim claim) throws InterruptedException {
        long end = System.nanoTime() + 2 * lease.toNanos();
        while (System.nanoTime() - end < 0) {
            long start = System.nanoTime();
            try {
                boolean unused = client.release(claim);
                return;
            } catch (LockStoreException e) {
                TimeUnit.MILLISECONDS.sleep(20);
            } finally {
                inTime("release", start, Duration.ZERO);
            }
        }
    }

    private void inTime(String call, long start, Duration more) {
        Duration took = Duration.ofNanos(System.nanoTime() - start);
        if (took.compareTo(callTimeout.plus(more).plus(SLACK)) > 0) {
            wrong.add(new AssertionError(call + " took " + took));
        }
    }

    /** Every client has been granted something that it asked for after now. */
    public void awaitService(Duration within) {
        awaitService(within, grants.size());
    }

    /** The first so many clients. */
    public void awaitService(Duration within, int clients) {
        // One may be under way.
        List<Long> before = grants.stream().map(count -> count.get() + 4).toList();
        await().atMost(within).untilAsserted(() -> {
            assertThat(wrong).isEmpty();
            for (int i = 0; i < clients; i++) {
                assertThat(grants.get(i).get()).as("grants of client %s", i).isGreaterThanOrEqualTo(before.get(i));
            }
        });
    }

    /** Until now. */
    public long grants(int client) {
        return grants.get(client).get();
    }

    /** Ends it, and tells what was wrong, which the holds do not show. */
    @Override
    public void close() {
        over = true;
        for (Thread thread : threads) {
            try {
                thread.join(callTimeout.plus(lease.multipliedBy(4)).plusSeconds(20).toMillis());
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            assertThat(thread.isAlive()).as("a call does not end").isFalse();
        }
        assertThat(wrong).isEmpty();
    }
}
