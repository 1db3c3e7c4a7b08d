package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.context;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.postgresql.ds.PGSimpleDataSource;

/** Other transactions keep rows or the table locked, or break in: every call is bounded, and its outcome right. */
class PostgresBusyTest {
    private static final Duration SHORT = Duration.ofMillis(600);
    private static final Duration LONG = Duration.ofSeconds(30);

    /** More than a call may take beyond its limit on this busy machine. */
    private static final long SLACK = TimeUnit.MILLISECONDS.toNanos(2_500);

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private PostgresStore store;
    private Connection stranger;
    private String role;

    @BeforeEach
    void open() throws SQLException {
        store = new PostgresStore();
        store.client();
        stranger = store.sql();
        stranger.setAutoCommit(false);
        role = store.role(true);
        store.server.sql("GRANT SELECT, INSERT, UPDATE ON " + store.schema + ".mortise_lock TO " + role);
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        store.close();
    }

    private void stranger(String sql) throws SQLException {
        try (Statement statement = stranger.createStatement()) {
            statement.execute(sql);
        }
    }

    private void lock(String name) throws SQLException {
        stranger("SELECT * FROM mortise_lock WHERE name = '" + name + "' FOR UPDATE");
    }

    private LockBackend client(Duration callTimeout) {
        return store.client(role, callTimeout);
    }

    /** How many statements of our role wait for a lock in the server now. */
    private int waiting() {
        return Integer.parseInt(store.server.text(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = '" + role + "' AND wait_event_type = 'Lock'"));
    }

    /** Runs the call while the stranger keeps the row, which he gives up when the call has waited for a while. */
    private <T> T meanwhile(String name, Callable<T> call) throws Exception {
        lock(name);
        long start = System.nanoTime();
        Future<T> future = threads.submit(call);
        await().until(() -> System.nanoTime() - start > SHORT.toNanos());
        assertThat(future).isNotDone();
        stranger.rollback();
        return future.get(20, TimeUnit.SECONDS);
    }

    /** A row that is locked for less than the call timeout: each call waits, and does what it would have done. */
    @Test
    void aWhile() throws Exception {
        LockBackend client = client(LONG);
        Grant first = granted(client, claim("n"));
        client.release(first.claim());
        Grant grant = meanwhile("n", () -> granted(client, claim("n")));
        // Not from the first try: since would be too old by the whole wait.
        assertThat(System.nanoTime() - grant.since()).isLessThan(SLACK);
        Grant heir = meanwhile("n", () -> client.adopt(grant, claim("n")).orElseThrow());
        assertThat(meanwhile("n", () -> client.release(heir.claim()))).isTrue();
    }

    /** For longer: an exception within the limit that says nothing was done, and so it is, for good. */
    @Test
    void tooLong() throws Exception {
        LockBackend client = client(SHORT);
        Grant held = granted(client, claim("held"));
        client.release(granted(client, claim("free")).claim());
        Claim claim = claim("free");
        lock("held");
        lock("free");
        for (Callable<?> call : List.<Callable<?>>of(
                () -> client.acquire(claim, Duration.ZERO),
                () -> client.release(held.claim()),
                () -> client.adopt(held, claim("held")))) {
            long start = System.nanoTime();
            assertThatThrownBy(call::call)
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("pg_stat_activity");
            assertThat(System.nanoTime() - start).isLessThan(SHORT.toNanos() + SLACK);
        }
        // Polls of what is held, and holder, only read.
        assertThat(acquire(client, claim("held"))).isEmpty();
        assertThat(client.holder("held")).isPresent();
        await().until(() -> waiting() == 0);
        stranger.rollback();
        assertThat(client.holder("free")).isEmpty();
        assertThat(client.renew(List.of(held)).live()).hasSize(1);
    }

    /** A locked row in a batch is unknown, at once; the others are renewed (RT-10). */
    @Test
    void renewalsGoOn() throws Exception {
        LockBackend client = client(LONG);
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            grants.add(granted(client, claim("n" + i, Duration.ofSeconds(20))));
        }
        Grant released = grants.get(3);
        client.release(released.claim());
        lock("n50");
        long start = System.nanoTime();
        Renewal renewal = client.renew(grants);
        assertThat(System.nanoTime() - start).isLessThan(SLACK);
        assertThat(renewal.live()).hasSize(98).extracting(Grant::name).doesNotContain("n50", "n3");
        assertThat(renewal.ended()).containsExactly(released);
        Renewal single = client.renew(List.of(grants.get(50)));
        assertThat(single.live()).isEmpty();
        assertThat(single.ended()).isEmpty();
        stranger.rollback();
        assertThat(client.renew(List.of(grants.get(50))).live()).hasSize(1);
    }

    /** Many acquires that wait for locked rows take no session from renewals, releases and looks (RT-10). */
    @Test
    void waitersHoldUpNobody() throws Exception {
        LockBackend client = client(LONG);
        Grant grant = granted(client, claim("held"));
        for (int i = 0; i < 20; i++) {
            client.release(granted(client, claim("n" + i)).claim());
        }
        stranger("SELECT * FROM mortise_lock WHERE owner IS NULL FOR UPDATE");
        List<Future<Attempt>> waiters = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            Claim claim = claim("n" + i);
            waiters.add(threads.submit(() -> client.acquire(claim, Duration.ofDays(1))));
        }
        await().until(() -> waiting() >= 4);
        for (int i = 0; i < 5; i++) {
            long start = System.nanoTime();
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            assertThat(client.holder("held")).isPresent();
            assertThat(client.release(claim("other"))).isFalse();
            assertThat(System.nanoTime() - start).isLessThan(SLACK);
        }
        assertThat(waiters).noneMatch(Future::isDone);
        stranger.rollback();
        for (Future<Attempt> each : waiters) {
            assertThat(each.get(20, TimeUnit.SECONDS).grant()).isPresent();
        }
    }

    /** An interrupt ends the wait for a row, and close does; nothing is left. */
    @Test
    void interruptAndClose() throws Exception {
        LockBackend client = client(LONG);
        client.release(granted(client, claim("n")).claim());
        lock("n");
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
        await().until(() -> waiting() > 0);
        thread.interrupt();
        assertThat(end.get(10, TimeUnit.SECONDS)).isInstanceOf(InterruptedException.class);
        Future<Attempt> waiter = threads.submit(() -> client.acquire(claim("n"), Duration.ofDays(1000)));
        await().until(() -> waiting() > 0);
        client.close();
        assertThatThrownBy(() -> waiter.get(10, TimeUnit.SECONDS))
                .hasCauseInstanceOf(LockStoreException.class)
                .hasMessageContaining("closed");
        await().until(() -> waiting() == 0);
        stranger.rollback();
        assertThat(store.client().holder("n")).isEmpty();
        await().until(() -> store.number("SELECT count(*) FROM pg_stat_activity WHERE usename = '" + role + "'") == 0);
    }

    /** The clock is read after the wait for a row: an adopt that waited past the end of the lease gets nothing. */
    @Test
    void theClockIsReadUnderTheLock() throws Exception {
        LockBackend client = client(LONG);
        Grant grant = granted(client, claim("n", Duration.ofSeconds(1)));
        lock("n");
        Future<Boolean> adopted =
                threads.submit(() -> client.adopt(grant, claim("n")).isPresent());
        await().until(() -> waiting() > 0);
        await().until(() -> client.holder("n").isEmpty());
        stranger.rollback();
        assertThat(adopted.get(20, TimeUnit.SECONDS)).isFalse();

        client.release(grant.claim());
        lock("n");
        Future<Grant> acquired = threads.submit(() -> granted(client, claim("n")));
        await().until(() -> waiting() > 0);
        long released = store.number("SELECT " + store.now());
        stranger.rollback();
        acquired.get(20, TimeUnit.SECONDS);
        assertThat(store.number("SELECT until_ms - lease_ms - 1 FROM mortise_lock"))
                .isGreaterThanOrEqualTo(released);
    }

    /** A session that is terminated in the middle of an acquire: unknown, undone by release, and the client goes on. */
    @Test
    void terminated() throws Exception {
        LockBackend client = client(LONG);
        client.release(granted(client, claim("n")).claim());
        lock("n");
        Claim claim = claim("n");
        Future<Attempt> acquiring = threads.submit(() -> client.acquire(claim, Duration.ZERO));
        await().until(() -> terminate("wait_event_type = 'Lock'") > 0);
        assertThatThrownBy(() -> acquiring.get(20, TimeUnit.SECONDS))
                .hasCauseInstanceOf(LockStoreException.class)
                .satisfies(e -> assertThat(((LockStoreException) e.getCause()).mayHaveTakenEffect())
                        .isTrue());
        stranger.rollback();
        assertThat(client.release(claim)).isFalse();
        granted(client, claim("n"));
    }

    private int terminate(String which) throws SQLException {
        return (int) store.number("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '"
                + role + "' AND " + which);
    }

    /** Idle sessions that were ended are noticed before they are used, and a renewal goes over another (PG-04, XB-04). */
    @Test
    void idleSessionsAreGone() throws Exception {
        LockBackend client = client(LONG);
        Grant grant = granted(client, claim("n"));
        for (int i = 0; i < 3; i++) {
            assertThat(terminate("true")).isPositive();
            await().until(() -> terminate("true") == 0);
            // A renewal is sent at once, and once more.
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            assertThat(terminate("true")).isPositive();
            await().until(() -> terminate("true") == 0);
            long idle = System.nanoTime();
            await().until(() -> System.nanoTime() - idle > 1_100_000_000L);
            Claim claim = claim("m");
            granted(client, claim);
            assertThat(client.release(claim)).isTrue();
        }
    }

    /** A statement that the server cancels was not done, and is done again. */
    @Test
    void cancelled() throws Exception {
        LockBackend client = client(LONG);
        client.release(granted(client, claim("n")).claim());
        lock("n");
        Future<Attempt> acquiring = threads.submit(() -> client.acquire(claim("n"), Duration.ZERO));
        await().until(() -> store.number("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE usename = '"
                        + role + "' AND wait_event_type = 'Lock'")
                > 0);
        stranger.rollback();
        assertThat(acquiring.get(20, TimeUnit.SECONDS).grant()).isPresent();
    }

    /** Deadlocks with a stranger who locks a row and then the table: he or we are the victim, and we try again (RT-06). */
    @Test
    void deadlocksAreTriedAgain() throws Exception {
        store.server.sql(
                "ALTER ROLE " + role + " SET deadlock_timeout = '120ms'",
                // Our waits then do not end before the server looks for deadlocks.
                "ALTER ROLE " + role + " SET lock_timeout = '10s'");
        LockBackend client = client(LONG);
        Claim first = claim("n");
        granted(client, first);
        client.release(first);
        long before = deadlocks();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(40);
        do {
            lock("n");
            Claim claim = claim("n");
            Future<Attempt> acquiring = threads.submit(() -> client.acquire(claim, Duration.ZERO));
            await().pollInterval(Duration.ofMillis(2)).until(() -> waiting() > 0);
            try {
                stranger("LOCK TABLE mortise_lock IN ACCESS EXCLUSIVE MODE");
            } catch (SQLException e) {
                assertThat(e.getSQLState()).isEqualTo("40P01");
            }
            stranger.rollback();
            assertThat(acquiring.get(30, TimeUnit.SECONDS).grant()).isPresent();
            assertThat(client.release(claim)).isTrue();
        } while (deadlocks() == before && System.nanoTime() < end);
        assertThat(deadlocks()).isGreaterThan(before);
    }

    private long deadlocks() throws SQLException {
        return store.number("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'");
    }

    /** The table locked as a whole, as some maintenance does: calls wait, also those that only read. */
    @Test
    void tableLocked() throws Exception {
        LockBackend client = client(LONG);
        Grant grant = granted(client, claim("n"));
        stranger("LOCK TABLE mortise_lock IN ACCESS EXCLUSIVE MODE");
        Future<Renewal> renewing = threads.submit(() -> client.renew(List.of(grant)));
        Future<Boolean> looking = threads.submit(() -> client.holder("n").isPresent());
        await().until(() -> waiting() >= 2);
        stranger.rollback();
        assertThat(renewing.get(20, TimeUnit.SECONDS).live()).hasSize(1);
        assertThat(looking.get(20, TimeUnit.SECONDS)).isTrue();
    }

    /** Three of ten statements fail as conflicts do: renewals keep, releases release, and the outcomes are true (RT-06). */
    @Test
    void conflictsAreTriedAgain() throws Exception {
        Random random = new Random(11);
        List<String> states = List.of("40001", "40P01", "55P03", "57014");
        AtomicInteger failed = new AtomicInteger();
        LockBackend client = store.client(
                LONG,
                connection -> TestStore.observed(connection, sql -> {
                    synchronized (random) {
                        if (sql.contains("mortise_lock") && !sql.contains("pg_class") && random.nextInt(10) < 3) {
                            failed.incrementAndGet();
                            throw new SQLException("says the test", states.get(random.nextInt(states.size())));
                        }
                    }
                }));
        List<Future<?>> all = new ArrayList<>();
        for (int t = 0; t < 6; t++) {
            String name = "n" + t;
            all.add(threads.submit(() -> {
                for (int i = 0; i < 40; i++) {
                    Grant grant = granted(client, claim(name));
                    assertThat(acquire(client, claim(name))).isEmpty();
                    assertThat(client.renew(List.of(grant)).live()).hasSize(1);
                    Grant heir = client.adopt(grant, claim(name)).orElseThrow();
                    assertThat(client.release(heir.claim())).isTrue();
                }
                return null;
            }));
        }
        for (Future<?> each : all) {
            each.get(60, TimeUnit.SECONDS);
        }
        assertThat(failed).hasValueGreaterThan(100);
    }

    /** Over the application's DataSource a locked row is waited for in the same way, whatever its lock_timeout. */
    @Test
    void overADataSource() throws Exception {
        PGSimpleDataSource dataSource = dataSource();
        LockBackend client = store.opened(JdbcLocks.table(dataSource, store.schema, context(CALL_TIMEOUT)));
        client.release(granted(client, claim("n")).claim());
        Grant grant = meanwhile("n", () -> granted(client, claim("n")));
        assertThat(meanwhile("n", () -> client.release(grant.claim()))).isTrue();
        LockBackend hurried = store.opened(JdbcLocks.table(dataSource, store.schema, context(SHORT)));
        lock("n");
        long start = System.nanoTime();
        assertThatThrownBy(() -> granted(hurried, claim("n")))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isFalse());
        assertThat(System.nanoTime() - start).isLessThan(SHORT.toNanos() + SLACK);
        await().until(() -> waiting() == 0);
        stranger.rollback();
        assertThat(hurried.holder("n")).isEmpty();
    }

    /** A statement that its role's statement_timeout ends was not done: said so, with the setting's name. */
    @Test
    void statementTimeout() throws Exception {
        store.server.sql("ALTER ROLE " + role + " SET statement_timeout = '150ms'");
        LockBackend client = store.opened(JdbcLocks.table(dataSource(), store.schema, context(SHORT)));
        client.release(granted(client, claim("n")).claim());
        lock("n");
        assertThatThrownBy(() -> granted(client, claim("n")))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                .hasMessageContaining("statement_timeout");
        await().until(() -> waiting() == 0);
        stranger.rollback();
        assertThat(client.holder("n")).isEmpty();
    }

    private PGSimpleDataSource dataSource() {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(store.server.url());
        dataSource.setUser(role);
        dataSource.setPassword(role);
        return dataSource;
    }

    /** No connection left at the server: tried again within the limit, then said. */
    @Test
    void noConnectionLeft() throws Exception {
        LockBackend client = client(SHORT);
        granted(client, claim("n"));
        client.close();
        store.server.sql("ALTER ROLE " + role + " CONNECTION LIMIT 1");
        try (Connection only = DriverManager.getConnection(store.server.url(), role, role)) {
            assertThat(only.isClosed()).isFalse();
            assertThatThrownBy(() -> client(SHORT))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("no connection left")
                    .hasMessageNotContaining(role);
        }
        await().ignoreExceptions()
                .until(() -> acquire(client(SHORT), claim("m")).isPresent());
    }
}
