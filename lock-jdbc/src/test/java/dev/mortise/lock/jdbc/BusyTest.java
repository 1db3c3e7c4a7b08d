package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Somebody else keeps a write transaction open in the file: every call is bounded, and its outcome right. */
class BusyTest {
    private static final Duration SHORT = Duration.ofMillis(300);
    private static final Duration LONG = Duration.ofSeconds(20);

    /** More than a call may take beyond its limit on this busy machine; the limits here are far apart. */
    private static final long SLACK = TimeUnit.MILLISECONDS.toNanos(700);

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private SqliteStore store;
    private Connection stranger;

    @BeforeEach
    void open(@TempDir Path folder) throws SQLException {
        store = new SqliteStore(folder);
        store.client();
        stranger = store.sql();
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        store.close();
    }

    private void begin(String kind) throws SQLException {
        try (Statement statement = stranger.createStatement()) {
            statement.execute("BEGIN " + kind);
        }
    }

    private long commit() throws SQLException {
        long before = System.nanoTime();
        try (Statement statement = stranger.createStatement()) {
            statement.execute("COMMIT");
        }
        return before;
    }

    /** Runs the call while the stranger holds his lock, which he gives up when the call has waited for a while. */
    private <T> T meanwhile(String kind, Callable<T> call) throws Exception {
        begin(kind);
        Future<T> future = threads.submit(call);
        long start = System.nanoTime();
        await().pollInterval(Duration.ofMillis(10)).until(() -> System.nanoTime() - start > SHORT.toNanos());
        assertThat(future).isNotDone();
        commit();
        return future.get(10, TimeUnit.SECONDS);
    }

    /** For less than the call timeout: each call waits for its turn, and does what it would have done. */
    @ParameterizedTest
    @ValueSource(strings = {"IMMEDIATE", "EXCLUSIVE"})
    void aWhile(String kind) throws Exception {
        LockBackend client = store.client(LONG);
        Grant grant = meanwhile(kind, () -> granted(client, claim("n")));
        // Not from the first, refused send: since would be too old by the whole wait.
        assertThat(System.nanoTime() - grant.since()).isLessThan(SHORT.toNanos() + SLACK);
        long before = System.nanoTime();
        Grant renewed =
                meanwhile(kind, () -> client.renew(List.of(grant)).live().get(0));
        assertThat(renewed.since() - before).isGreaterThanOrEqualTo(SHORT.toNanos());
        Grant heir = meanwhile(kind, () -> client.adopt(renewed, claim("n")).orElseThrow());
        assertThat(meanwhile(kind, () -> client.release(heir.claim()))).isTrue();
    }

    /** For longer: an exception within the call timeout that says nothing was done, and so it is. */
    @ParameterizedTest
    @ValueSource(strings = {"IMMEDIATE", "EXCLUSIVE"})
    void tooLong(String kind) throws Exception {
        LockBackend client = store.client(SHORT);
        Grant grant = granted(client, claim("held"));
        Claim claim = claim("n");
        begin(kind);
        for (Callable<?> call : List.<Callable<?>>of(
                () -> client.acquire(claim, Duration.ZERO),
                () -> client.renew(List.of(grant)),
                () -> client.release(grant.claim()),
                () -> client.adopt(grant, claim("held")))) {
            long start = System.nanoTime();
            assertThatThrownBy(call::call)
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("write transaction open");
            assertThat(System.nanoTime() - start).isBetween(SHORT.toNanos(), SHORT.toNanos() + SLACK);
        }
        // Readers do not wait for writers.
        assertThat(client.holder("held")).isPresent();
        commit();
        assertThat(client.holder("n")).isEmpty();
        assertThat(client.renew(List.of(grant)).live()).hasSize(1);
    }

    /** An acquire may wait for its turn within its patience as well, and not beyond both. */
    @Test
    void patience() throws Exception {
        LockBackend client = store.client(SHORT);
        begin("IMMEDIATE");
        long start = System.nanoTime();
        assertThatThrownBy(() -> client.acquire(claim("n"), SHORT)).isInstanceOf(LockStoreException.class);
        assertThat(System.nanoTime() - start).isBetween(2 * SHORT.toNanos(), 2 * SHORT.toNanos() + SLACK);
        commit();
    }

    /** A poll of a held lock does not wait for writers: it only reads. */
    @Test
    void pollsGoOn() throws Exception {
        LockBackend client = store.client(SHORT);
        granted(client, claim("n"));
        assertThat(acquire(client, claim("n"))).isEmpty();
        begin("EXCLUSIVE");
        for (int i = 0; i < 10; i++) {
            assertThat(acquire(client, claim("n"))).isEmpty();
        }
        commit();
    }

    /** An acquire that waits for its turn does not keep the connection: other calls of the client go on (RT-10). */
    @Test
    void waitingHoldsUpNobody() throws Exception {
        LockBackend client = store.client(LONG);
        granted(client, claim("held"));
        begin("IMMEDIATE");
        Future<Attempt> waiting = threads.submit(() -> client.acquire(claim("n"), Duration.ofDays(1000)));
        for (int i = 0; i < 20; i++) {
            long start = System.nanoTime();
            assertThat(client.holder("held")).isPresent();
            assertThat(System.nanoTime() - start).isLessThan(SLACK);
        }
        assertThat(waiting).isNotDone();
        commit();
        assertThat(waiting.get(10, TimeUnit.SECONDS).grant()).isPresent();
    }

    /** Close ends a call that waits, however long it wanted to. */
    @Test
    void closeEndsWaits() throws Exception {
        LockBackend client = store.client(Duration.ofSeconds(5));
        begin("IMMEDIATE");
        Future<Attempt> waiting = threads.submit(() -> client.acquire(claim("n"), Duration.ofSeconds(Long.MAX_VALUE)));
        long start = System.nanoTime();
        await().pollInterval(Duration.ofMillis(5)).until(() -> System.nanoTime() - start > 50_000_000);
        client.close();
        assertThatThrownBy(() -> waiting.get(2, TimeUnit.SECONDS))
                .hasCauseInstanceOf(LockStoreException.class)
                .hasMessageContaining("closed");
        commit();
    }

    /** A statement that hangs in the disk: the other calls of the client and close are bounded, and it is closed at last. */
    @Test
    void hangingDisk() throws Exception {
        CountDownLatch hangs = new CountDownLatch(1);
        CountDownLatch over = new CountDownLatch(1);
        AtomicReference<Connection> used = new AtomicReference<>();
        LockBackend client = store.client(SHORT, connection -> {
            used.set(connection);
            return TestStore.observed(connection, sql -> {
                if (sql.startsWith("INSERT")) {
                    hangs.countDown();
                    try {
                        over.await();
                    } catch (InterruptedException e) {
                        throw new SQLException(e);
                    }
                }
            });
        });
        Claim claim = claim("n");
        Future<Attempt> hanging = threads.submit(() -> client.acquire(claim, Duration.ZERO));
        hangs.await();
        for (Callable<?> call : List.<Callable<?>>of(
                () -> client.release(claim), () -> client.acquire(claim("m"), Duration.ZERO), () -> {
                    client.close();
                    return client.holder("n");
                })) {
            long start = System.nanoTime();
            assertThatThrownBy(call::call)
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse());
            assertThat(System.nanoTime() - start).isBetween(SHORT.toNanos(), SHORT.toNanos() + SLACK);
        }
        over.countDown();
        assertThat(hanging.get(10, TimeUnit.SECONDS).grant()).isPresent();
        await().until(() -> used.get().isClosed());
    }

    /** An interrupt ends the wait of an acquire, and nothing is left. */
    @Test
    void interruptEndsTheWait() throws Exception {
        LockBackend client = store.client(LONG);
        begin("IMMEDIATE");
        Claim claim = claim("n");
        CompletableFuture<Throwable> end = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                client.acquire(claim, Duration.ofDays(1000));
                end.complete(null);
            } catch (Throwable e) {
                end.complete(e);
            }
        });
        thread.start();
        await().until(() -> thread.getState() == Thread.State.TIMED_WAITING);
        thread.interrupt();
        assertThat(end.get(2, TimeUnit.SECONDS)).isInstanceOf(InterruptedException.class);
        commit();
        assertThat(client.release(claim)).isFalse();
        granted(client, claim("n"));
    }

    /** Interrupted at any moment, 200 times, with others about: the caller's release leaves nothing, a fresh one gets in. */
    @Test
    void interruptedAtAnyMoment() throws Exception {
        LockBackend client = store.client(LONG);
        AtomicInteger granted = new AtomicInteger();
        AtomicInteger interrupted = new AtomicInteger();
        Future<?> noise = threads.submit(() -> {
            LockBackend other = store.client(LONG);
            while (!Thread.currentThread().isInterrupted()) {
                Claim claim = claim("noise");
                granted(other, claim);
                other.release(claim);
                LockSupport.parkNanos(500_000);
            }
            return null;
        });
        for (int i = 0; i < 200; i++) {
            Claim claim = claim("n");
            Thread thread = new Thread(() -> {
                try {
                    granted.addAndGet((int) client.acquire(claim, Duration.ofSeconds(5)).grant().stream()
                            .count());
                } catch (InterruptedException e) {
                    interrupted.incrementAndGet();
                }
            });
            thread.start();
            long until = System.nanoTime() + ThreadLocalRandom.current().nextLong(3_000_000);
            while (System.nanoTime() < until) {
                Thread.onSpinWait();
            }
            thread.interrupt();
            thread.join();
            client.release(claim);
            Claim fresh = claim("n");
            granted(client, fresh);
            assertThat(client.release(fresh)).isTrue();
        }
        assertThat(granted.get() + interrupted.get()).isEqualTo(200);
        assertThat(granted.get()).isPositive();
        assertThat(interrupted.get()).isPositive();
        noise.cancel(true);
    }

    /** A user's deferred transactions, which read and then write, disturb no lock call (design: 843 of 1,200 failed). */
    @Test
    void deferredTransactionsOfOthers() throws Exception {
        store.change("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER)");
        store.change("INSERT INTO account VALUES (1, 0)");
        Future<Integer> user = threads.submit(() -> {
            int done = 0;
            try (Connection connection = store.sql();
                    Statement statement = connection.createStatement()) {
                connection.setAutoCommit(false);
                while (!Thread.currentThread().isInterrupted()) {
                    try {
                        statement.executeQuery("SELECT cents FROM account").close();
                        statement.executeUpdate("UPDATE account SET cents = cents + 1");
                        connection.commit();
                        done++;
                        LockSupport.parkNanos(200_000);
                    } catch (SQLException e) {
                        connection.rollback();
                    }
                }
            }
            return done;
        });
        LockBackend client = store.client(LONG);
        for (int i = 0; i < 150; i++) {
            Grant grant = granted(client, claim("n"));
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            assertThat(client.release(grant.claim())).isTrue();
        }
        user.cancel(true);
    }

    /** A caller's open or rolled back transaction has no part in a lock call (RT-05, RT-21). */
    @Test
    void transactionsOfTheCaller() throws Exception {
        LockBackend client = store.client(SHORT);
        stranger.setAutoCommit(false);
        try (Statement statement = stranger.createStatement()) {
            statement.executeQuery("SELECT count(*) FROM mortise_lock").close();
        }
        Grant grant = granted(client, claim("n"));
        assertThat(acquire(store.client(), claim("n"))).isEmpty();
        stranger.rollback();
        assertThat(client.renew(List.of(grant)).live()).hasSize(1);
        assertThat(stranger.getAutoCommit()).isFalse();
    }
}
