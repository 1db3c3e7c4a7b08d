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
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.mariadb.jdbc.MariaDbDataSource;

/** Other transactions keep rows or the table of MariaDB locked, or break in: calls are bounded, and outcomes right. */
class MariaDbBusyTest {
    private static final Duration SHORT = Duration.ofMillis(600);
    private static final Duration LONG = Duration.ofSeconds(30);

    /** More than a call may take beyond its limit on this busy machine. */
    private static final long SLACK = TimeUnit.MILLISECONDS.toNanos(2_500);

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private MariaDbStore store;
    private Connection stranger;
    private String user;

    @BeforeEach
    void open() throws SQLException {
        store = new MariaDbStore();
        store.client();
        stranger = store.sql();
        stranger.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        stranger.setAutoCommit(false);
        user = store.user("SELECT, INSERT, UPDATE");
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
        return store.client(user, callTimeout);
    }

    /** How many statements of our user wait for a lock in the server now. */
    private long waiting() throws SQLException {
        return store.number("SELECT count(*) FROM information_schema.PROCESSLIST p LEFT JOIN"
                + " information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.ID WHERE p.USER = '" + user
                + "' AND (t.trx_state = 'LOCK WAIT' OR p.STATE LIKE 'Waiting for table%')");
    }

    /** Runs the call while the stranger keeps the row, which he gives up when the call has waited for a while. */
    private <T> T meanwhile(String name, Callable<T> call) throws Exception {
        lock(name);
        long start = System.nanoTime();
        Future<T> future = threads.submit(call);
        await().until(() -> System.nanoTime() - start > 2 * SHORT.toNanos());
        assertThat(future).isNotDone();
        stranger.rollback();
        return future.get(20, TimeUnit.SECONDS);
    }

    /** A row that is locked for less than the call timeout: each call waits, and does what it would have done. */
    @Test
    void aWhile() throws Exception {
        LockBackend client = client(LONG);
        client.release(granted(client, claim("n")).claim());
        Grant grant = meanwhile("n", () -> granted(client, claim("n")));
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
                    .hasMessageContaining("INNODB_TRX");
            assertThat(System.nanoTime() - start).isLessThan(SHORT.toNanos() + SLACK);
        }
        // Polls of what is held, and holder, only read; and another name is in nobody's way (no gap is locked).
        assertThat(acquire(client, claim("held"))).isEmpty();
        assertThat(client.holder("held")).isPresent();
        granted(client, claim("frec"));
        granted(client, claim("hele"));
        await().until(() -> waiting() == 0);
        stranger.rollback();
        assertThat(client.holder("free")).isEmpty();
        assertThat(client.renew(List.of(held)).live()).hasSize(1);
    }

    /** A locked row in a batch is unknown, at once; the others are renewed, and the ended are told (RT-10). */
    @Test
    void renewalsGoOn() throws Exception {
        LockBackend client = client(LONG);
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            grants.add(granted(client, claim("n" + i, Duration.ofSeconds(20))));
        }
        Grant released = grants.get(3);
        client.release(released.claim());
        Grant expired = grants.get(4);
        store.expire("n4");
        store.expire("n51");
        lock("n50");
        lock("n51");
        long start = System.nanoTime();
        Renewal renewal = client.renew(grants);
        assertThat(System.nanoTime() - start).isLessThan(SLACK);
        assertThat(renewal.live()).hasSize(56).extracting(Grant::name).doesNotContain("n50", "n51", "n3", "n4");
        // Somebody could just be renewing n51.
        assertThat(renewal.ended()).containsExactlyInAnyOrder(released, expired);
        Renewal single = client.renew(List.of(grants.get(50)));
        assertThat(single.live()).isEmpty();
        assertThat(single.ended()).isEmpty();
        stranger.rollback();
        Renewal after = client.renew(List.of(grants.get(50), grants.get(51)));
        assertThat(after.live()).extracting(Grant::name).containsExactly("n50");
        assertThat(after.ended()).containsExactly(grants.get(51));
    }

    /** An interrupt ends the wait for a row, and close does; nothing is left. */
    @Test
    void interruptAndClose() throws Exception {
        LockBackend client = client(LONG);
        client.release(granted(client, claim("n")).claim());
        lock("n");
        CompletableFuture<Throwable> end = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                client.acquire(claim("n"), Duration.ofDays(1000));
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
        await().until(() ->
                store.number("SELECT count(*) FROM information_schema.PROCESSLIST WHERE USER = '" + user + "'") == 0);
    }

    /** The clock is read after the wait for a row: what waited past the end of the lease gets nothing. */
    @Test
    void theClockIsReadUnderTheLock() throws Exception {
        LockBackend client = client(LONG);
        Grant grant = granted(client, claim("n", Duration.ofMillis(700)));
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

    private List<Long> sessions(String which) throws SQLException {
        List<Long> ids = new ArrayList<>();
        try (Connection connection = store.sql();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '"
                        + user + "' AND (" + which + ")")) {
            while (rows.next()) {
                ids.add(rows.getLong(1));
            }
        }
        return ids;
    }

    private void kill(String what, String which) throws SQLException {
        for (long id : sessions(which)) {
            try {
                store.change("KILL " + what + " " + id);
            } catch (SQLException e) {
                // It has ended meanwhile.
                // It has ended meanwhile.
                assertThat(e.getErrorCode()).isEqualTo(1094);
            }
        }
    }

    /** A session that is killed in the middle of an acquire: unknown, undone by release, and the client goes on. */
    @Test
    void terminated() throws Exception {
        LockBackend client = client(LONG);
        client.release(granted(client, claim("n")).claim());
        lock("n");
        Claim claim = claim("n");
        Future<Attempt> acquiring = threads.submit(() -> client.acquire(claim, Duration.ZERO));
        await().until(() -> waiting() > 0);
        kill("CONNECTION", "COMMAND IN ('Query', 'Execute')");
        assertThatThrownBy(() -> acquiring.get(20, TimeUnit.SECONDS))
                .hasCauseInstanceOf(LockStoreException.class)
                .satisfies(e -> assertThat(((LockStoreException) e.getCause()).mayHaveTakenEffect())
                        .isTrue());
        stranger.rollback();
        assertThat(client.release(claim)).isFalse();
        granted(client, claim("n"));
    }

    /** Idle sessions that were ended, as by wait_timeout, are noticed before they are used (MY-04, XB-04). */
    @Test
    void idleSessionsAreGone() throws Exception {
        LockBackend client = client(LONG);
        Grant grant = granted(client, claim("n"));
        for (int i = 0; i < 2; i++) {
            assertThat(sessions("TRUE")).isNotEmpty();
            kill("CONNECTION", "TRUE");
            await().until(() -> sessions("TRUE").isEmpty());
            // A renewal is sent at once, and once more.
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            kill("CONNECTION", "TRUE");
            await().until(() -> sessions("TRUE").isEmpty());
            long idle = System.nanoTime();
            await().until(() -> System.nanoTime() - idle > 1_100_000_000L);
            Claim claim = claim("m");
            granted(client, claim);
            assertThat(client.release(claim)).isTrue();
        }
    }

    /** The table locked as a whole, as some maintenance does: calls wait, also those that only read. */
    @Test
    void tableLocked() throws Exception {
        LockBackend client = client(LONG);
        Grant grant = granted(client, claim("n"));
        stranger("LOCK TABLES mortise_lock WRITE");
        Future<Renewal> renewing = threads.submit(() -> client.renew(List.of(grant)));
        Future<Boolean> looking = threads.submit(() -> client.holder("n").isPresent());
        await().until(() -> waiting() >= 2);
        stranger("UNLOCK TABLES");
        assertThat(renewing.get(20, TimeUnit.SECONDS).live()).hasSize(1);
        assertThat(looking.get(20, TimeUnit.SECONDS)).isTrue();
    }

    /** Three of ten statements fail as conflicts do: renewals keep, releases release, and the outcomes are true (RT-06). */
    @Test
    void conflictsAreTriedAgain() throws Exception {
        Random random = new Random(11);
        List<Integer> codes = List.of(1205, 1213, 1969, 1317, 1020);
        AtomicInteger failed = new AtomicInteger();
        LockBackend client = store.client(
                LONG,
                connection -> TestStore.observed(connection, sql -> {
                    synchronized (random) {
                        if (random.nextInt(10) < 3) {
                            failed.incrementAndGet();
                            throw new SQLException("says the test", "HY000", codes.get(random.nextInt(codes.size())));
                        }
                    }
                }));
        List<Future<?>> all = new ArrayList<>();
        for (int t = 0; t < 6; t++) {
            String name = "n" + t;
            all.add(threads.submit(() -> {
                for (int i = 0; i < 30; i++) {
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

    /**
     * Statements and sessions are killed at random instants, for both strategies: no two holders, tokens grow, an outcome
     * that is called certain is so, and in the end every name is free and nobody has a key (MY-07).
     */
    @Test
    void killsAtRandomInstants() throws Exception {
        try (MariaDbStore advisory = new MariaDbStore(MariaDbServer.shared(), "advisory")) {
            advisory.client();
            for (MariaDbStore each : List.of(store, advisory)) {
                each.server.sql(
                        "GRANT SELECT, INSERT, UPDATE ON " + each.database + ".mortise_lock TO " + user + "@'%'");
                killedAtRandom(each);
            }
            await().until(() -> advisory.number("SELECT IFNULL(IS_USED_LOCK('"
                            + MariaDbAdvisory.key(advisory.database, "a") + "'), 0) + IFNULL(IS_USED_LOCK('"
                            + MariaDbAdvisory.key(advisory.database, "b") + "'), 0)")
                    == 0);
        }
    }

    private void killedAtRandom(MariaDbStore where) throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        Map<String, Long> last = new ConcurrentHashMap<>();
        Map<String, AtomicInteger> holders = Map.of("a", new AtomicInteger(), "b", new AtomicInteger());
        AtomicInteger grants = new AtomicInteger();
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            LockBackend own = where.client(user, Duration.ofSeconds(2));
            String name = i % 2 == 0 ? "a" : "b";
            all.add(threads.submit(() -> {
                while (!stop.get()) {
                    Claim claim = claim(name, Duration.ofSeconds(8));
                    boolean undone = false;
                    try {
                        Optional<Grant> grant =
                                own.acquire(claim, Duration.ofMillis(200)).grant();
                        if (grant.isPresent()) {
                            assertThat(holders.get(name).incrementAndGet()).isEqualTo(1);
                            assertThat(grant.get().token()).isGreaterThan(last.getOrDefault(name, 0L));
                            last.put(name, grant.get().token());
                            grants.incrementAndGet();
                            holders.get(name).decrementAndGet();
                        }
                    } catch (LockStoreException e) {
                        undone = !e.mayHaveTakenEffect();
                    }
                    boolean certain = undone;
                    await().atMost(Duration.ofSeconds(20))
                            .pollInterval(Duration.ofMillis(5))
                            .ignoreExceptionsInstanceOf(LockStoreException.class)
                            .until(() -> {
                                boolean was = own.release(claim);
                                assertThat(was && certain)
                                        .as("done, though it said not")
                                        .isFalse();
                                return true;
                            });
                }
                return null;
            }));
        }
        Random random = new Random(6);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(3);
        try (Connection admin = where.sql();
                Statement statement = admin.createStatement()) {
            while (System.nanoTime() - end < 0) {
                for (long id : sessions("COMMAND <> 'Sleep' OR RAND() < 0.1")) {
                    if (random.nextInt(3) > 0) {
                        try {
                            statement.execute((random.nextInt(4) == 0 ? "KILL CONNECTION " : "KILL QUERY ") + id);
                        } catch (SQLException e) {
                            // It has ended meanwhile.
                            assertThat(e.getErrorCode()).isEqualTo(1094);
                        }
                    }
                }
                TimeUnit.MICROSECONDS.sleep(random.nextInt(4_000));
            }
        }
        stop.set(true);
        for (Future<?> each : all) {
            each.get(60, TimeUnit.SECONDS);
        }
        assertThat(grants.get()).isPositive();
        LockBackend after = where.client();
        granted(after, claim("a"));
        granted(after, claim("b"));
        for (String name : List.of("a", "b")) {
            assertThat(after.release(
                            Claim.of(name, after.holder(name).orElseThrow().owner(), LONG)))
                    .isTrue();
        }
    }

    /** Over the application's DataSource a locked row is waited for in the same way, whatever its settings. */
    @Test
    void overADataSource() throws Exception {
        MariaDbDataSource dataSource = dataSource("?sessionVariables=innodb_lock_wait_timeout=50,lock_wait_timeout=50");
        LockBackend client = store.opened(JdbcLocks.table(dataSource, store.database, context(CALL_TIMEOUT)));
        client.release(granted(client, claim("n")).claim());
        Grant grant = meanwhile("n", () -> granted(client, claim("n")));
        assertThat(meanwhile("n", () -> client.release(grant.claim()))).isTrue();
        LockBackend hurried = store.opened(JdbcLocks.table(dataSource, store.database, context(SHORT)));
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

    private MariaDbDataSource dataSource(String options) throws SQLException {
        MariaDbDataSource dataSource = new MariaDbDataSource();
        dataSource.setUrl(store.server.url(store.database) + options);
        dataSource.setUser(user);
        dataSource.setPassword(user);
        return dataSource;
    }

    /** No connection left for the user: tried again within the limit, then said. */
    @Test
    void noConnectionLeft() throws Exception {
        LockBackend client = client(SHORT);
        granted(client, claim("n"));
        client.close();
        store.server.sql("ALTER USER " + user + "@'%' WITH MAX_USER_CONNECTIONS 1");
        try (Connection only = DriverManager.getConnection(store.server.url(store.database), user, user)) {
            assertThat(only.isClosed()).isFalse();
            assertThatThrownBy(() -> client(SHORT))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("no connection left")
                    .hasMessageNotContaining("'" + user + "'");
        }
        await().ignoreExceptions()
                .until(() -> acquire(client(SHORT), claim("m")).isPresent());
    }
}
