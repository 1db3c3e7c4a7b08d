package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.attempt;
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
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The strategy advisory on PostgreSQL: sessions, keys and rows, and what is left of them when one of them goes. */
class PostgresAdvisoryTest {
    private static final Duration SHORT = Duration.ofMillis(600);
    private static final Duration LONG = Duration.ofSeconds(20);

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private PostgresStore store;
    private LockBackend client;
    private LockBackend rival;
    private Connection admin;

    @BeforeEach
    void open() throws SQLException {
        store = new PostgresStore(PostgresServer.shared(), "advisory");
        admin = store.sql();
        client = store.client();
        rival = store.client();
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        store.close();
        assertThat(threads.awaitTermination(30, TimeUnit.SECONDS)).isTrue();
    }

    // ---- The server's side ---------------------------------------------------------------------------------------

    private long key(String name) {
        return AdvisoryDialect.hash(store.schema, Names.encode(name));
    }

    private String locks(String name, boolean granted) {
        return "FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32) | objid::bigint = "
                + key(name) + " AND " + (granted ? "" : "NOT ") + "granted";
    }

    /** Over one connection, because to connect takes as long as a short lease, on a busy machine. */
    private synchronized long number(String sql) {
        try (Statement statement = admin.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            return rows.next() ? rows.getLong(1) : 0;
        } catch (SQLException e) {
            throw new AssertionError(e);
        }
    }

    private long having(String name) {
        return number("SELECT count(*) " + locks(name, true));
    }

    private long waiting(String name) {
        return number("SELECT count(*) " + locks(name, false));
    }

    /** Ends the session that has the key, if the server has not done so itself, and returns when it has ended. */
    private void terminate(String name) {
        number("SELECT pg_terminate_backend(pid, 10000)::int " + locks(name, true));
        assertThat(having(name)).isZero();
    }

    private LockBackend losing(Predicate<String> loses) {
        return store.client(CALL_TIMEOUT, connection -> TestStore.losing(connection, loses));
    }

    private Future<Attempt> waiter(LockBackend backend, Claim claim, Duration patience) {
        return threads.submit(() -> backend.acquire(claim, patience));
    }

    private static Grant grant(Future<Attempt> waiter) throws Exception {
        return waiter.get(30, TimeUnit.SECONDS).grant().orElseThrow(() -> new AssertionError("not granted"));
    }

    // ---- Keys ----------------------------------------------------------------------------------------------------

    /** The derivation of a key is frozen: with another, two versions would not exclude each other in the queue. */
    @Test
    void keysAreForEver() {
        assertThat(AdvisoryDialect.hash("public", "invoice-42")).isEqualTo(-7237136346490622620L);
        assertThat(AdvisoryDialect.hash("public", "a")).isNotEqualTo(AdvisoryDialect.hash("publica", ""));
    }

    /** A stranger, or another name, has this number as a key: it costs a moment, and decides nothing. */
    @Test
    void aStrangersKey() throws Exception {
        try (Connection stranger = store.sql();
                Statement statement = stranger.createStatement()) {
            statement.execute("SELECT pg_advisory_lock(" + key("n") + ")");
            Claim claim = claim("n");
            Grant grant = granted(client, claim);
            assertThat(acquire(rival, claim("n"))).isEmpty();
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            assertThat(client.release(claim)).isTrue();
            grant(waiter(rival, claim("n"), LONG));
            // It was not taken from the stranger.
            assertThat(having("n")).isEqualTo(1);
            // The same bits as two numbers are another key.
            statement.execute("SELECT pg_advisory_lock(" + (int) (key("m") >> 32) + ", " + (int) key("m") + ")");
            granted(client, claim("m"));
            assertThat(having("m")).isEqualTo(1);
        }
    }

    // ---- A session that dies while its holder lives --------------------------------------------------------------

    /** The holder's session is ended: nobody else gets in, and the holder goes on with its token, and with the key. */
    @Test
    void holderOutlivesItsSession() {
        Claim claim = claim("n");
        Grant grant = granted(client, claim);
        for (int i = 0; i < 3; i++) {
            terminate("n");
            assertThat(having("n")).isZero();
            Attempt refused = attempt(rival, claim("n"));
            assertThat(refused.grant()).isEmpty();
            assertThat(refused.rest().orElseThrow()).isBetween(Duration.ofSeconds(20), TestStore.LEASE);
            // The one who looked has given the key back.
            assertThat(having("n")).isZero();
            assertThat(client.renew(List.of(grant)).live())
                    .singleElement()
                    .satisfies(live -> assertThat(live.token()).isEqualTo(grant.token()));
            assertThat(having("n")).isEqualTo(1);
        }
        assertThat(client.release(claim)).isTrue();
        assertThat(having("n")).isZero();
        assertThat(granted(rival, claim("n")).token()).isGreaterThan(grant.token());
    }

    /**
     * Another one waits in the queue, and gets the key when the holder's session dies: it waits out the lease, however
     * often the holder renews it without a key, and its own session is not idle meanwhile.
     */
    @Test
    void waiterWithTheKeyWaitsForTheRow() throws Exception {
        Duration lease = Duration.ofSeconds(4);
        Claim held = claim("n", lease);
        Grant grant = granted(client, held);
        Claim next = claim("n", Duration.ofMillis(300));
        Future<Attempt> waiter = waiter(rival, next, LONG);
        await().until(() -> waiting("n") == 1);
        assertThat(client.renew(List.of(grant)).live()).hasSize(1);
        number("SELECT pg_terminate_backend(pid, 10000)::int " + locks("n", true));
        await().until(() -> having("n") == 1 && waiting("n") == 0);
        long end = grant.since() + lease.toNanos() + TimeUnit.MILLISECONDS.toNanos(500);
        Grant renewed = grant;
        while (System.nanoTime() - end < 0) {
            List<Grant> live = client.renew(List.of(renewed)).live();
            assertThat(live).hasSize(1);
            renewed = live.get(0);
            TimeUnit.MILLISECONDS.sleep(50);
        }
        assertThat(waiter).isNotDone();
        assertThat(client.release(held)).isTrue();
        assertThat(grant(waiter).token()).isGreaterThan(grant.token());
        assertThat(rival.release(next)).isTrue();
        assertThat(having("n")).isZero();
    }

    /** Two orphans in a row, with unequal leases: each is waited out to its own end, and not longer. */
    @Test
    void orphansInARow() throws Exception {
        long token = 0;
        for (Duration lease : List.of(Duration.ofMillis(1200), Duration.ofMillis(600), Duration.ofMillis(900))) {
            Grant grant = grant(waiter(client, claim("n", lease), LONG));
            assertThat(grant.token()).isGreaterThan(token);
            token = grant.token();
            terminate("n");
            Grant next = grant(waiter(rival, claim("n", SHORT), LONG));
            assertThat(next.since()).isGreaterThan(grant.since() + lease.toNanos() - 1_000_000);
            assertThat(next.token()).isGreaterThan(token);
            token = next.token();
            terminate("n");
        }
    }

    /** Neither renewed nor released, and its client alive: the server takes the key back, and the row ends. */
    @Test
    void silentHolderLosesKeyAndRow() throws Exception {
        long before = System.nanoTime();
        Grant grant = granted(client, claim("n", SHORT));
        assertThat(having("n")).isEqualTo(1);
        await().pollInterval(Duration.ofMillis(5)).until(() -> having("n") == 0);
        assertThat(System.nanoTime() - before).isGreaterThan(SHORT.toNanos());
        // Whoever looks first gets it, with no patience at all.
        await().pollInterval(Duration.ofMillis(5))
                .until(() -> acquire(rival, claim("n")).isPresent());
        assertThat(client.renew(List.of(grant)).ended()).containsExactly(grant);
        assertThat(client.release(grant.claim())).isFalse();
    }

    /** The lock is free, and a session that nobody uses any more has its key: neither who tries nor who waits is kept. */
    @ParameterizedTest
    @ValueSource(ints = {0, 10_000})
    void keyOfADeadSession(int patience) throws Exception {
        Claim claim = claim("n");
        Grant cutOff = granted(client, claim);
        assertThat(rival.release(claim)).isTrue();
        assertThat(having("n")).isEqualTo(1);
        long start = System.nanoTime();
        Grant next =
                rival.acquire(claim("n"), Duration.ofMillis(patience)).grant().orElseThrow();
        assertThat(next.token()).isGreaterThan(cutOff.token());
        assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(10));
        assertThat(client.renew(List.of(cutOff)).ended()).hasSize(1);
        await().until(() -> having("n") == 0);
        assertThat(rival.renew(List.of(next)).live()).hasSize(1);
        assertThat(having("n")).isEqualTo(1);
    }

    /** The row has ended, and the key is still there: the next one does not wait for it, and the late holder learns it. */
    @Test
    void lateKey() throws Exception {
        Grant late = granted(client, claim("n"));
        store.expire("n");
        Claim claim = claim("n");
        Grant next = granted(rival, claim);
        assertThat(next.token()).isGreaterThan(late.token());
        assertThat(client.renew(List.of(late)).ended()).containsExactly(late);
        // Its session is closed, and its process at the server ends a moment later.
        await().until(() -> having("n") == 0);
        assertThat(client.release(late.claim())).isFalse();
        // And the next one has the key from its first renewal on.
        assertThat(rival.renew(List.of(next)).live()).hasSize(1);
        assertThat(having("n")).isEqualTo(1);
        assertThat(rival.release(claim)).isTrue();
    }

    // ---- Answers that are lost -----------------------------------------------------------------------------------

    /** The grant's commit is there and its answer is not: asked again it is the same grant; released, the lock is free. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void answerOfAGrantLost(boolean again) {
        AtomicBoolean lose = new AtomicBoolean(true);
        LockBackend unlucky = losing(sql -> sql.contains("INSERT INTO") && lose.getAndSet(false));
        Claim claim = claim("n");
        assertThatThrownBy(() -> unlucky.acquire(claim, Duration.ZERO))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isTrue());
        long token = number("SELECT token FROM mortise_lock");
        assertThat(acquire(rival, claim("n"))).isEmpty();
        if (again) {
            assertThat(granted(unlucky, claim).token()).isEqualTo(token);
        }
        assertThat(unlucky.release(claim)).isTrue();
        await().until(() -> having("n") == 0);
        assertThat(granted(rival, claim("n")).token()).isGreaterThan(token);
    }

    /** Released, and the answer lost: it is said so; asked again it is no, and the lock is free, and unlocked once. */
    @Test
    void answerOfAReleaseLost() {
        AtomicBoolean lose = new AtomicBoolean(true);
        LockBackend unlucky = losing(sql -> sql.contains("pg_advisory_unlock") && lose.getAndSet(false));
        Claim claim = claim("n");
        granted(unlucky, claim);
        assertThatThrownBy(() -> unlucky.release(claim))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isTrue());
        assertThat(unlucky.release(claim)).isFalse();
        assertThat(acquire(rival, claim("n"))).isPresent();
        assertThat(having("n")).isEqualTo(1);
    }

    /** The session died before the release: its row is cleared over another. */
    @Test
    void releaseAfterTheSession() {
        Claim claim = claim("n");
        granted(client, claim);
        terminate("n");
        // Its connection is known to be broken only by the request, whose outcome is then not known: a second one
        // tells.
        await().ignoreExceptions().until(() -> client.release(claim));
        assertThat(acquire(rival, claim("n"))).isPresent();
    }

    /** A renewal without an answer costs the session, and neither the lease nor the key. */
    @Test
    void answerOfARenewalLost() {
        AtomicBoolean lose = new AtomicBoolean();
        LockBackend unlucky = losing(sql -> sql.contains("SKIP LOCKED") && lose.getAndSet(false));
        Grant grant = granted(unlucky, claim("n"));
        lose.set(true);
        assertThat(unlucky.renew(List.of(grant)).live()).hasSize(1);
        await().until(() -> {
            assertThat(unlucky.renew(List.of(grant)).live()).hasSize(1);
            return having("n") == 1;
        });
    }

    // ---- Waiting -------------------------------------------------------------------------------------------------

    /** In the server's queue the first to come is the first to be served; nobody polls. */
    @Test
    void queue() throws Exception {
        Claim first = claim("n");
        granted(client, first);
        List<LockBackend> clients = new ArrayList<>();
        List<Claim> claims = new ArrayList<>();
        List<Future<Attempt>> waiters = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            int place = i;
            clients.add(store.client());
            claims.add(claim("n"));
            waiters.add(waiter(clients.get(i), claims.get(i), LONG));
            await().until(() -> waiting("n") == place + 1);
        }
        client.release(first);
        long token = 0;
        for (int i = 0; i < 4; i++) {
            Grant grant = grant(waiters.get(i));
            assertThat(grant.token()).isGreaterThan(token);
            token = grant.token();
            for (int later = i + 1; later < 4; later++) {
                assertThat(waiters.get(later)).isNotDone();
            }
            clients.get(i).release(claims.get(i));
        }
    }

    /** A wait is as long as the patience, whatever the call timeout and the role's own limits are: nobody loses his place. */
    @Test
    void waitIsNotCutShort() throws Exception {
        String role = store.role(true, "statement_timeout = '300ms'", "lock_timeout = '200ms'");
        store.server.sql("GRANT SELECT, INSERT, UPDATE ON " + store.schema + ".mortise_lock TO " + role);
        LockBackend hasty = store.client(role, Duration.ofMillis(1_500));
        Claim held = claim("n");
        granted(client, held);
        Future<Attempt> waiter = waiter(hasty, claim("n"), LONG);
        await().until(() -> waiting("n") == 1);
        long pid = number("SELECT pid " + locks("n", false));
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(2_500);
        await().pollInterval(Duration.ofMillis(50)).until(() -> {
            assertThat(number("SELECT pid " + locks("n", false))).isEqualTo(pid);
            return System.nanoTime() - end > 0;
        });
        client.release(held);
        grant(waiter);
        assertThat(number("SELECT pid " + locks("n", true))).isEqualTo(pid);
    }

    /** The patience ends in the queue: refused, with nothing left in it. */
    @Test
    void patienceEnds() throws Exception {
        granted(client, claim("n"));
        for (int i = 0; i < 3; i++) {
            long start = System.nanoTime();
            Attempt refused = rival.acquire(claim("n"), Duration.ofMillis(200));
            assertThat(refused.grant()).isEmpty();
            assertThat(System.nanoTime() - start).isBetween(TimeUnit.MILLISECONDS.toNanos(180), CALL_TIMEOUT.toNanos());
            assertThat(refused.rest().orElseThrow()).isLessThanOrEqualTo(TestStore.LEASE);
        }
        await().until(() -> waiting("n") == 0);
        assertThat(having("n")).isEqualTo(1);
    }

    /** An interrupt in the queue ends the wait; the server forgets the waiter, and the next one in it gets the lock. */
    @Test
    void interrupt() throws Exception {
        Claim held = claim("n");
        granted(client, held);
        Claim claim = claim("n");
        Future<Attempt> waiter = waiter(rival, claim, LONG);
        await().until(() -> waiting("n") == 1);
        Future<Attempt> next = waiter(store.client(), claim("n"), LONG);
        await().until(() -> waiting("n") == 2);
        AtomicBoolean interrupted = new AtomicBoolean();
        Claim third = claim("n");
        Thread thread = new Thread(() -> {
            try {
                rival.acquire(third, LONG);
            } catch (InterruptedException e) {
                interrupted.set(true);
            }
        });
        thread.start();
        await().until(() -> waiting("n") == 3);
        thread.interrupt();
        thread.join(10_000);
        assertThat(interrupted).isTrue();
        assertThat(rival.release(third)).isFalse();
        await().until(() -> waiting("n") == 2);
        waiter.cancel(true);
        await().until(() -> waiting("n") == 1);
        client.release(held);
        grant(next);
    }

    /** A release from another thread ends the wait of its own acquire; close() ends all of the client's. */
    @Test
    void waitsAreEndedByReleaseAndClose() throws Exception {
        granted(client, claim("n"));
        Claim claim = claim("n");
        Future<Attempt> released = waiter(rival, claim, LONG);
        Future<Attempt> closed = waiter(rival, claim("n"), LONG);
        await().until(() -> waiting("n") == 2);
        assertThat(rival.release(claim)).isFalse();
        assertThatThrownBy(() -> released.get(10, TimeUnit.SECONDS))
                .isInstanceOf(ExecutionException.class)
                .hasCauseInstanceOf(LockStoreException.class);
        rival.close();
        assertThatThrownBy(() -> closed.get(10, TimeUnit.SECONDS))
                .isInstanceOf(ExecutionException.class)
                .hasCauseInstanceOf(LockStoreException.class)
                .hasStackTraceContaining("closed");
        assertThatThrownBy(() -> acquire(rival, claim("n"))).hasMessageContaining("closed");
        await().until(() -> waiting("n") == 0);
    }

    /** Eight wait in the server; who comes later is told "held", and costs nothing there. */
    @Test
    void noMoreThanEightWait() throws Exception {
        for (int i = 0; i < AdvisoryBackend.WAITING; i++) {
            granted(client, claim("n" + i));
            assertThat(waiter(rival, claim("n" + i), LONG)).isNotNull();
        }
        String all = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        await().until(() -> number(all) == AdvisoryBackend.WAITING);
        granted(client, claim("m"));
        assertThat(waiter(rival, claim("m"), LONG).get(10, TimeUnit.SECONDS).grant())
                .isEmpty();
        // And what needs no wait is as before.
        granted(rival, claim("free"));
        assertThat(number(all)).isEqualTo(AdvisoryBackend.WAITING);
        rival.close();
    }

    // ---- Bounds --------------------------------------------------------------------------------------------------

    /** No session left for a claim: a clear word within the patience; those held are renewed and released as before. */
    @Test
    void sessionsAreBounded() throws Exception {
        LockBackend small = store.opened(store.advisory(context(CALL_TIMEOUT), 2, UnaryOperator.identity()));
        Claim first = claim("a");
        Grant a = granted(small, first);
        Grant b = granted(small, claim("b"));
        long start = System.nanoTime();
        assertThatThrownBy(() -> small.acquire(claim("c"), Duration.ofMillis(100)))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                .hasMessageContaining("all 2 sessions")
                .hasMessageContaining("option sessions")
                .hasMessageContaining("strategy=table");
        assertThat(System.nanoTime() - start).isLessThan(CALL_TIMEOUT.toNanos());
        assertThat(small.renew(List.of(a, b)).live()).hasSize(2);
        assertThat(small.holder("a")).isPresent();
        Future<Attempt> waiter = waiter(small, claim("c"), LONG);
        assertThat(small.release(first)).isTrue();
        grant(waiter);
    }

    /** The server has no connection left for the role: said so, within the patience and the call timeout. */
    @Test
    void serverIsFull() throws Exception {
        String role = store.role(true);
        store.server.sql("GRANT SELECT, INSERT, UPDATE ON " + store.schema + ".mortise_lock TO " + role);
        store.server.sql("ALTER ROLE " + role + " CONNECTION LIMIT 2");
        LockBackend limited = store.client(role, Duration.ofSeconds(2));
        Grant a = granted(limited, claim("a"));
        Grant b = granted(limited, claim("b"));
        assertThatThrownBy(() -> limited.acquire(claim("c"), Duration.ofMillis(50)))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                .hasMessageContaining("no connection left")
                .hasMessageContaining("max_connections");
        assertThat(limited.renew(List.of(a, b)).live()).hasSize(2);
        assertThat(limited.release(a.claim())).isTrue();
        granted(limited, claim("c"));
    }

    /** Idle sessions are closed by us after half a lease, and not left for the server to end. */
    @Test
    void idleSessionsAreClosed() {
        String role = store.role(true);
        store.server.sql("GRANT SELECT, INSERT, UPDATE ON " + store.schema + ".mortise_lock TO " + role);
        LockBackend own = store.client(role, CALL_TIMEOUT);
        String sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = '" + role + "'";
        List<Claim> claims = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            claims.add(claim("n" + i, Duration.ofSeconds(4)));
            granted(own, claims.get(i));
        }
        assertThat(number(sessions)).isEqualTo(5);
        claims.forEach(own::release);
        await().atMost(Duration.ofSeconds(10)).until(() -> number(sessions) == 0);
        // No word of the server's, and it goes on as if nothing had been.
        granted(own, claim("n"));
        assertThat(number(sessions)).isEqualTo(1);
    }

    /** A claim that was left to itself gives its session back, too. */
    @Test
    void forgottenClaimsGiveTheirSessionsBack() throws Exception {
        LockBackend small = store.opened(store.advisory(context(CALL_TIMEOUT), 1, UnaryOperator.identity()));
        for (int i = 0; i < 3; i++) {
            assertThat(small.acquire(claim("n" + i, Duration.ofMillis(200)), Duration.ofSeconds(10))
                            .grant())
                    .isPresent();
        }
    }

    // ---- Faults inside of the server -----------------------------------------------------------------------------

    /** Its row is locked by somebody else: no grant, and the key is free again, also through the same client. */
    @Test
    void rowLockedFromOutside() throws Exception {
        Claim before = claim("n");
        granted(client, before);
        client.release(before);
        LockBackend hasty = store.client(Duration.ofSeconds(2));
        try (Connection stranger = store.sql();
                Statement statement = stranger.createStatement()) {
            stranger.setAutoCommit(false);
            statement.execute("SELECT * FROM mortise_lock WHERE name = 'n' FOR UPDATE");
            Claim claim = claim("n");
            assertThatThrownBy(() -> hasty.acquire(claim, Duration.ZERO))
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("locked");
            stranger.rollback();
            await().until(() -> having("n") == 0);
            assertThat(hasty.release(claim)).isFalse();
        }
        granted(hasty, claim("n"));
    }

    /** A holder's row is locked by somebody else: its renewal is unknown, then goes on over its own session. */
    @Test
    void heldRowLockedFromOutside() throws Exception {
        Grant grant = granted(client, claim("n"));
        Grant other = granted(client, claim("m"));
        try (Connection stranger = store.sql();
                Statement statement = stranger.createStatement()) {
            stranger.setAutoCommit(false);
            statement.execute("SELECT * FROM mortise_lock WHERE name = 'n' FOR UPDATE");
            assertThat(client.renew(List.of(grant, other)).live())
                    .extracting(Grant::name)
                    .containsExactly("m");
            assertThat(client.renew(List.of(grant, other)).ended()).isEmpty();
            stranger.rollback();
        }
        assertThat(client.renew(List.of(grant, other)).live()).hasSize(2);
        assertThat(having("n")).isEqualTo(1);
    }

    /**
     * Statements cancelled and sessions ended at random instants, while clients lock and release: no two holders, tokens
     * grow, and in the end nobody has a key, and every name is free.
     */
    @Test
    void cancelsAtRandomInstants() throws Exception {
        String role = store.role(true, "default_transaction_isolation = 'serializable'");
        store.server.sql("GRANT SELECT, INSERT, UPDATE ON " + store.schema + ".mortise_lock TO " + role);
        AtomicBoolean stop = new AtomicBoolean();
        Map<String, Long> last = new java.util.concurrent.ConcurrentHashMap<>();
        Map<String, AtomicInteger> holders = Map.of("a", new AtomicInteger(), "b", new AtomicInteger());
        AtomicInteger grants = new AtomicInteger();
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            LockBackend own = store.client(role, Duration.ofSeconds(2));
            String name = i % 2 == 0 ? "a" : "b";
            boolean waits = i < 2;
            all.add(threads.submit(() -> {
                while (!stop.get()) {
                    Claim claim = claim(name, Duration.ofSeconds(8));
                    try {
                        Optional<Grant> grant = own.acquire(claim, waits ? Duration.ofSeconds(1) : Duration.ZERO)
                                .grant();
                        if (grant.isPresent()) {
                            assertThat(holders.get(name).incrementAndGet()).isEqualTo(1);
                            assertThat(grant.get().token()).isGreaterThan(last.getOrDefault(name, 0L));
                            last.put(name, grant.get().token());
                            grants.incrementAndGet();
                            holders.get(name).decrementAndGet();
                        }
                    } catch (LockStoreException e) {
                        // Released below all the same.
                    }
                    await().atMost(Duration.ofSeconds(20))
                            .ignoreExceptionsInstanceOf(LockStoreException.class)
                            .until(() -> {
                                own.release(claim);
                                return true;
                            });
                }
                return null;
            }));
        }
        Random random = new Random(6);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(4);
        try (Connection assassin = store.sql();
                Statement statement = assassin.createStatement()) {
            while (System.nanoTime() - end < 0) {
                String act = random.nextInt(4) == 0 ? "pg_terminate_backend" : "pg_cancel_backend";
                statement.execute("SELECT " + act + "(pid) FROM pg_stat_activity WHERE usename = '" + role
                        + "' AND random() < 0.5");
                TimeUnit.MICROSECONDS.sleep(random.nextInt(8_000));
            }
        }
        stop.set(true);
        for (Future<?> each : all) {
            each.get(60, TimeUnit.SECONDS);
        }
        assertThat(grants.get()).isPositive();
        await().until(() -> having("a") + having("b") + waiting("a") + waiting("b") == 0);
        granted(client, claim("a"));
        granted(client, claim("b"));
    }

    // ---- Rows ----------------------------------------------------------------------------------------------------

    /** A row of the other strategy is refused with both named, in both directions, held or free, and no key is kept. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void otherStrategy(boolean held) {
        LockBackend table = store.opened(new PostgresProvider()
                .open(store.uri(Map.of("strategy", "table", "user", "test")), context(CALL_TIMEOUT)));
        Claim claim = claim("t");
        granted(table, claim);
        Claim advisory = claim("a");
        granted(client, advisory);
        if (!held) {
            table.release(claim);
            client.release(advisory);
        }
        assertThatThrownBy(() -> client.acquire(claim("t"), Duration.ZERO))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("strategy table")
                .hasMessageContaining("strategy advisory");
        await().until(() -> having("t") == 0);
        assertThatThrownBy(() -> table.acquire(claim("a"), Duration.ZERO))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("strategy table")
                .hasMessageContaining("strategy advisory");
        assertThat(client.release(claim)).isFalse();
        assertThat(number("SELECT count(*) FROM mortise_lock WHERE strategy = 'table'"))
                .isEqualTo(1);
    }

    /** A row written before the clock was set back ends one lease from now, and not a year later. */
    @Test
    void clockSetBack() throws Exception {
        granted(client, claim("n", Duration.ofMillis(500)));
        terminate("n");
        store.change("UPDATE mortise_lock SET until_ms = until_ms + 31536000000");
        grant(waiter(rival, claim("n"), Duration.ofSeconds(10)));
    }

    /** What is renewed late has ended, also if nobody came: it is not revived. */
    @Test
    void lateRenewal() throws Exception {
        Grant grant = granted(client, claim("n"));
        store.expire("n");
        assertThat(client.renew(List.of(grant)).ended()).containsExactly(grant);
        assertThat(client.renew(List.of(grant)).ended()).containsExactly(grant);
        await().until(() -> having("n") == 0);
        assertThat(granted(client, grant.claim()).token()).isGreaterThan(grant.token());
    }

    /** Asked again for a live owner: the same token, one key, taken once. */
    @Test
    void askedAgain() {
        Claim claim = claim("n");
        Grant grant = granted(client, claim);
        for (int i = 0; i < 5; i++) {
            assertThat(granted(client, claim).token()).isEqualTo(grant.token());
        }
        assertThat(client.release(claim)).isTrue();
        // Taken twice it would still be there.
        assertThat(having("n")).isZero();
        assertThat(client.release(claim)).isFalse();
    }
}
