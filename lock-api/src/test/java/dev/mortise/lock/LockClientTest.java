package dev.mortise.lock;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client with real threads and the machine's clock. What only counts instants is in {@link EngineTest}. */
@Timeout(120)
class LockClientTest {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final Duration SHORT = Duration.ofMillis(400);

    private final InMemoryBackend store = new InMemoryBackend();

    /** A store that counts, and whose calls can be held up; it can also wait for a release, as a queue would. */
    private static class Watched implements LockBackend {
        final LockBackend store;
        final AtomicInteger acquiring = new AtomicInteger();
        final AtomicInteger mostAcquiring = new AtomicInteger();
        final AtomicInteger acquires = new AtomicInteger();
        final Semaphore mayRelease = new Semaphore(Integer.MAX_VALUE);
        final Semaphore mayRenew = new Semaphore(Integer.MAX_VALUE);
        final boolean waits;
        volatile boolean closed;

        Watched(LockBackend store, boolean waits) {
            this.store = store;
            this.waits = waits;
        }

        @Override
        public Guarantees guarantees() {
            return waits
                    ? Guarantees.builder(Consistency.BEST_EFFORT)
                            .exclusionSurvives(StoreEvent.RELEASE_AND_EXPIRY)
                            .tokensSurvive(StoreEvent.RELEASE_AND_EXPIRY)
                            .leases(Duration.ofMillis(10), Duration.ofDays(1), Duration.ofMillis(1))
                            .freedWithin(lease -> lease)
                            .fair(true)
                            .build()
                    : store.guarantees();
        }

        @Override
        public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
            acquires.incrementAndGet();
            mostAcquiring.accumulateAndGet(acquiring.incrementAndGet(), Math::max);
            try {
                long end = System.nanoTime() + Math.min(patience.toSeconds(), 3600) * 1_000_000_000L;
                while (true) {
                    Attempt attempt = store.acquire(claim, Duration.ZERO);
                    if (!waits || attempt.grant().isPresent() || System.nanoTime() - end >= 0) {
                        return attempt;
                    }
                    if (closed) {
                        throw new LockStoreException("watched", "closed", "open it", true, null);
                    }
                    Thread.sleep(1); // the store's own waiting
                }
            } finally {
                acquiring.decrementAndGet();
            }
        }

        @Override
        public Renewal renew(Collection<Grant> grants) {
            mayRenew.acquireUninterruptibly();
            mayRenew.release();
            return store.renew(grants);
        }

        @Override
        public boolean release(Claim claim) {
            mayRelease.acquireUninterruptibly();
            mayRelease.release();
            return store.release(claim);
        }

        @Override
        public void close() {
            closed = true;
        }
    }

    private LockClient client(LockBackend backend) {
        return LockClient.builder(backend).lease(LONG).build();
    }

    // ------------------------------------------------------------------------------------------------ many at a time

    /** A thousand threads that wait for one name: the store sees one, they are served in order, each alone. */
    @Test
    void aThousandThreads() throws InterruptedException {
        for (boolean waits : new boolean[] {false, true}) {
            Watched watched = new Watched(store, waits);
            try (LockClient locks = client(watched)) {
                Lease first = locks.lock("n").acquire();
                List<Integer> served = Collections.synchronizedList(new ArrayList<>());
                AtomicInteger inside = new AtomicInteger();
                List<Thread> threads = new ArrayList<>();
                for (int i = 0; i < 1000; i++) {
                    int number = i;
                    Thread thread = new Thread(() -> {
                        try {
                            locks.lock("n").run(lease -> {
                                assertThat(inside.incrementAndGet()).isEqualTo(1);
                                served.add(number);
                                inside.decrementAndGet();
                            });
                        } catch (InterruptedException e) {
                            throw new IllegalStateException(e);
                        }
                    });
                    threads.add(thread);
                    thread.start();
                    while (locks.waiting("n") <= i) {
                        Thread.onSpinWait(); // in line before the next one starts, so that the order is known
                    }
                }
                watched.mostAcquiring.set(watched.acquiring.get());
                first.close();
                for (Thread thread : threads) {
                    thread.join();
                }
                assertThat(served).hasSize(1000).isSorted();
                assertThat(watched.mostAcquiring).as("at the store at a time").hasValueLessThanOrEqualTo(1);
            }
        }
    }

    /** Asynchronous waiters, however many, take no thread from the renewals. */
    @Test
    void asynchronousWaitersDoNotStarveRenewals() throws Exception {
        Watched watched = new Watched(store, true);
        try (LockClient holder = LockClient.builder(watched).lease(SHORT).build();
                LockClient locks = LockClient.builder(watched).lease(SHORT).build()) {
            List<Lease> held = new ArrayList<>();
            List<CompletableFuture<Optional<Lease>>> waits = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                held.add(holder.lock("n" + i).acquire());
            }
            for (int i = 0; i < 200; i++) {
                waits.add(locks.lock("n" + i).tryAcquireAsync(LONG));
            }
            held.add(locks.lock("own").acquire());
            await().until(() -> watched.acquiring.get() == 200);
            long until = System.nanoTime() + SHORT.multipliedBy(5).toNanos();
            await().until(() -> System.nanoTime() - until >= 0);
            assertThat(held).allMatch(Lease::isHeld);
            held.forEach(Lease::close);
            for (CompletableFuture<Optional<Lease>> wait : waits) {
                assertThat(wait.get()).isPresent();
            }
        }
    }

    /** A thousand names later no thread, map or alarm has grown; closing leaves no thread. */
    @Test
    void nothingGrows() throws InterruptedException {
        int before = threads();
        LockClient locks = client(store);
        for (int i = 0; i < 1000; i++) {
            try (Lease lease = locks.lock("n" + i).acquire()) {
                assertThat(locks.lock("n" + i).tryAcquire()).isEmpty();
                assertThat(locks.lock("n" + i).tryAcquire(Duration.ofNanos(1))).isEmpty();
                assertThat(lease.isHeld()).isTrue();
            }
        }
        assertThat(locks.contents()).isEqualTo("holds 0, lines 0, others 0, undos 0, heirs 0, alarms 0");
        assertThat(threads() - before).as("threads").isLessThanOrEqualTo(6);
        locks.close();
        await().until(() -> threads() <= before);
    }

    private static int threads() {
        return (int) Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("mortise-"))
                .count();
    }

    // ------------------------------------------------------------------------------------------------------ interrupt

    /** An interrupt ends a wait, between two questions or within one, and leaves nothing: not here, not in the store. */
    @Test
    void interrupt() throws InterruptedException {
        for (boolean waits : new boolean[] {false, true}) {
            Watched watched = new Watched(store, waits);
            try (LockClient holder = client(store);
                    LockClient locks = client(watched)) {
                Lease held = holder.lock("n").acquire();
                for (int i = 0; i < 50; i++) {
                    AtomicReference<Object> outcome = new AtomicReference<>();
                    Thread thread = new Thread(() -> {
                        try {
                            outcome.set(locks.lock("n").acquire());
                        } catch (InterruptedException e) {
                            outcome.set(e);
                        }
                    });
                    thread.start();
                    await().until(() -> locks.waiting("n") == 1);
                    thread.interrupt();
                    thread.join();
                    assertThat(outcome.get()).isInstanceOf(InterruptedException.class);
                }
                held.close();
                try (Lease next = holder.lock("n").tryAcquire().orElseThrow()) {
                    assertThat(next.isHeld()).isTrue();
                }
            }
        }
    }

    /** An interrupt at any moment of an acquire leaves either a lease in the caller's hands or nothing at all. */
    @Test
    void interruptAtAnyMoment() throws InterruptedException {
        try (LockClient locks = client(store);
                LockClient other = client(store)) {
            for (int i = 0; i < 2000; i++) {
                AtomicReference<Lease> lease = new AtomicReference<>();
                Thread thread = new Thread(() -> {
                    try {
                        lease.set(locks.lock("n").acquire());
                    } catch (InterruptedException e) {
                        // nothing was acquired
                    }
                });
                thread.start();
                for (int spin = i % 500 * 20; spin > 0; spin--) {
                    Thread.onSpinWait();
                }
                thread.interrupt();
                thread.join();
                if (lease.get() != null) {
                    lease.get().close();
                }
                Optional<Lease> next = other.lock("n").tryAcquire(Duration.ofSeconds(30));
                assertThat(next).isPresent();
                next.get().close();
            }
        }
    }

    /** A release works on an interrupted thread, and the interrupt is kept. */
    @Test
    void releaseWhenInterrupted() throws InterruptedException {
        try (LockClient locks = client(store)) {
            Lease lease = locks.lock("n").acquire();
            Thread.currentThread().interrupt();
            assertThat(lease.release()).isTrue();
            assertThat(Thread.interrupted()).isTrue();
            Thread.currentThread().interrupt();
            assertThatThrownBy(() -> locks.lock("n").tryAcquire()).isInstanceOf(InterruptedException.class);
            assertThat(store.holder("n")).isEmpty();
        }
    }

    // --------------------------------------------------------------------------------------------------- run and close

    /** run releases after the body, and gives the body's exception; a loss comes after it, or with it. */
    @Test
    void run() throws Exception {
        try (LockClient locks = client(store)) {
            locks.lock("n").run(lease -> assertThat(lease.token()).isPositive());
            assertThat(store.holder("n")).isEmpty();
            assertThatThrownBy(() -> locks.lock("n").run(lease -> {
                        throw new java.io.IOException("mine");
                    }))
                    .isInstanceOf(java.io.IOException.class)
                    .hasNoSuppressedExceptions();
            assertThat(store.holder("n")).isEmpty();
            assertThatThrownBy(() -> locks.lock("n").run(lease -> store.evict("n")))
                    .isInstanceOf(LeaseLostException.class);
            assertThatThrownBy(() -> locks.lock("n").run(lease -> {
                        store.evict("n");
                        throw new java.io.IOException("mine");
                    }))
                    .isInstanceOf(java.io.IOException.class)
                    .satisfies(e -> assertThat(e.getSuppressed()[0]).isInstanceOf(LeaseLostException.class));
            try (Lease held = locks.lock("n").acquire()) {
                assertThat(locks.lock("n").tryRun(lease -> assertThat(lease).isNull()))
                        .isFalse();
                held.ensureHeld();
            }
            assertThat(locks.lock("n").tryRun(Lease::ensureHeld)).isTrue();
        }
    }

    /** Closing ends waits of every kind with a closed client's exception, and releases what is held. */
    @Test
    void closeEndsWaits() throws Exception {
        for (boolean waits : new boolean[] {false, true}) {
            InMemoryBackend memory = new InMemoryBackend();
            try (LockClient holder = client(memory)) {
                Lease held = holder.lock("n").acquire();
                LockClient locks = client(new Watched(memory, waits));
                assertThat(locks.lock("own").acquire().isHeld()).isTrue();
                List<Throwable> thrown = Collections.synchronizedList(new ArrayList<>());
                List<Thread> threads = new ArrayList<>();
                for (int i = 0; i < 5; i++) {
                    Thread thread = new Thread(() -> {
                        try {
                            thrown.add(new AssertionError(locks.lock("n").acquire()));
                        } catch (InterruptedException | RuntimeException e) {
                            thrown.add(e);
                        }
                    });
                    threads.add(thread);
                    thread.start();
                }
                CompletableFuture<Optional<Lease>> async = locks.lock("n").tryAcquireAsync(LONG);
                await().until(() -> locks.waiting("n") == 6);
                locks.close();
                for (Thread thread : threads) {
                    thread.join();
                }
                assertThat(thrown).hasSize(5).allMatch(e -> e instanceof IllegalStateException);
                assertThatThrownBy(async::get)
                        .isInstanceOf(ExecutionException.class)
                        .hasCauseInstanceOf(IllegalStateException.class);
                assertThat(memory.holder("own")).isEmpty();
                assertThatThrownBy(() -> locks.lock("n").tryAcquire()).isInstanceOf(IllegalStateException.class);
                held.close();
            }
        }
    }

    /** Closing waits for a store that hangs no longer than the call timeout. */
    @Test
    void closeIsBounded() throws InterruptedException {
        Watched watched = new Watched(store, false);
        LockClient locks = LockClient.builder(watched).lease(SHORT).build();
        Lease lease = locks.lock("n").acquire();
        watched.mayRelease.drainPermits();
        long start = System.nanoTime();
        locks.close();
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(20));
        assertThat(lease.isHeld()).isFalse();
        watched.mayRelease.release(1000);
    }

    // ----------------------------------------------------------------------------------------------------------- loss

    /** Callbacks that hang and renewals that hang hold up no other lease, nor the news of a loss. */
    @Test
    void hangingUserCode() throws Exception {
        CountDownLatch never = new CountDownLatch(1);
        try (LockClient locks = LockClient.builder(store)
                .lease(SHORT)
                .listener(event -> hang(never))
                .build()) {
            List<Lease> leases = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                leases.add(locks.lock("n" + i).acquire());
            }
            for (int i = 0; i < 10; i++) {
                leases.get(i).onLoss(loss -> hang(never));
                store.evict("n" + i);
            }
            CompletableFuture<Loss> told = leases.get(10).lost().toCompletableFuture();
            store.evict("n10");
            assertThat(told.get(30, SECONDS).reason()).isEqualTo(Loss.Reason.REVOKED);
            long until = System.nanoTime() + SHORT.multipliedBy(4).toNanos();
            await().until(() -> System.nanoTime() - until >= 0);
            assertThat(leases.subList(11, 100)).allMatch(Lease::isHeld);
        } finally {
            never.countDown();
        }
    }

    private static void hang(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** A renewal that hangs ends in a loss at the deadline, not after the hang. */
    @Test
    void hangingRenewal() throws Exception {
        Watched watched = new Watched(store, false);
        try (LockClient locks = LockClient.builder(watched).lease(SHORT).build()) {
            Lease lease = locks.lock("n").acquire();
            watched.mayRenew.drainPermits();
            Loss loss = lease.lost().toCompletableFuture().get(30, SECONDS);
            assertThat(loss.reason()).isEqualTo(Loss.Reason.EXPIRED);
            watched.mayRenew.release(1000);
        }
    }

    /** A thread that waits for the lock that it holds itself is told so, with both places. */
    @Test
    void waitingForOneself() throws InterruptedException {
        List<LogRecord> logged = Collections.synchronizedList(new ArrayList<>());
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                logged.add(record);
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger logger = Logger.getLogger("dev.mortise.lock");
        logger.setUseParentHandlers(false);
        logger.addHandler(handler);
        try (LockClient locks = LockClient.builder(store).lease(SHORT).build()) {
            try (Lease held = locks.lock("n").acquire()) {
                assertThat(locks.lock("n").tryAcquire(SHORT.multipliedBy(2))).isEmpty();
                assertThat(held.isHeld()).isTrue();
            }
            assertThat(logged).hasSize(1);
            assertThat(logged.get(0).getMessage()).contains("waits for itself");
            Throwable both = logged.get(0).getThrown();
            for (Throwable place : List.of(both.getCause(), both.getSuppressed()[0])) {
                assertThat(place.getStackTrace())
                        .anyMatch(f -> f.getMethodName().equals("waitingForOneself"));
            }
        } finally {
            logger.removeHandler(handler);
            logger.setUseParentHandlers(true);
        }
    }

    /** Any thread may release, and two at a time release once. */
    @Test
    void anyThreadReleases() throws Exception {
        try (LockClient locks = client(store)) {
            for (int i = 0; i < 200; i++) {
                Lease lease = locks.lock("n").acquire();
                CompletableFuture<Boolean> other = CompletableFuture.supplyAsync(lease::release);
                boolean mine = lease.release();
                assertThat(mine ^ other.get()).isTrue();
            }
        }
    }

    // ---------------------------------------------------------------------------------------------------- the README's

    /** The example of the README: user code that loses its lease, tested without sleeping. */
    @Test
    void lossInVirtualTime() throws InterruptedException {
        VirtualTime time = new VirtualTime();
        InMemoryBackend memory = new InMemoryBackend(time);
        try (LockClient locks = LockClient.builder(memory).time(time).build()) {
            Lease lease = locks.lock("report").acquire();
            AtomicReference<Loss> loss = new AtomicReference<>();
            lease.onLoss(loss::set);
            memory.evict("report"); // as a failover would
            time.advance(Duration.ofSeconds(11)); // the next renewal finds out
            assertThat(loss.get().reason()).isEqualTo(Loss.Reason.REVOKED);
            assertThatThrownBy(lease::ensureHeld).isInstanceOf(LeaseLostException.class);
        }
    }

    /** In virtual time a wait moves the clock to its own end, and a wait that nothing can end says so. */
    @Test
    void waitInVirtualTime() throws InterruptedException {
        VirtualTime time = new VirtualTime();
        InMemoryBackend memory = new InMemoryBackend(time);
        try (LockClient holder = LockClient.builder(memory).time(time).build();
                LockClient locks = LockClient.builder(memory).time(time).build()) {
            Lease held = holder.lock("n").withoutRenewal().acquire();
            assertThat(locks.lock("n").tryAcquire(Duration.ofSeconds(5))).isEmpty();
            try (Lease next = locks.lock("n").acquire()) {
                assertThat(next.token()).isGreaterThan(held.token());
            }
            assertThat(time.nanoTime()).isBetween(29_000_000_000L, 31_000_000_000L);
        }
    }
}
