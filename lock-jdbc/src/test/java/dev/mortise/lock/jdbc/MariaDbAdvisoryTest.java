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
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.TcpProxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The strategy advisory on MariaDB: sessions, their locks and rows, and what is left of them when one of them goes. */
class MariaDbAdvisoryTest {
    private static final Duration LONG = Duration.ofSeconds(20);

    private static MariaDbServer server;

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private MariaDbStore store;
    private LockBackend client;
    private LockBackend rival;

    @BeforeAll
    static void start() {
        server = new MariaDbServer();
    }

    @AfterAll
    static void end() {
        server.close();
    }

    @BeforeEach
    void open() {
        store = new MariaDbStore(server, "advisory");
        client = store.client();
        rival = store.client();
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        store.close();
        assertThat(threads.awaitTermination(30, TimeUnit.SECONDS)).isTrue();
    }

    // ---- The server's side

    private String key(String name) {
        return MariaDbAdvisory.key(store.database, Names.encode(name));
    }

    /** The session that has the name's key; 0 if none has. Seen over another connection. */
    private long having(String name) {
        try {
            return store.number("SELECT IFNULL(IS_USED_LOCK('" + key(name) + "'), 0)");
        } catch (SQLException e) {
            throw new AssertionError(e);
        }
    }

    private long waiting() {
        try {
            return store.number(
                    "SELECT count(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND DB = '"
                            + store.database + "'");
        } catch (SQLException e) {
            throw new AssertionError(e);
        }
    }

    private void terminate(String name) throws SQLException {
        long id = having(name);
        store.change("KILL CONNECTION " + id);
        await().until(() -> having(name) != id);
    }

    private Future<Attempt> waiter(LockBackend backend, Claim claim) {
        return threads.submit(() -> backend.acquire(claim, LONG));
    }

    private static Grant grant(Future<Attempt> waiter) throws Exception {
        return waiter.get(30, TimeUnit.SECONDS).grant().orElseThrow(() -> new AssertionError("not granted"));
    }

    // ---- Keys

    /**
     * The derivation of a key is frozen. It is short enough for MySQL too, without upper case, another one in each database
     * of the server, and the same length for every name (MY-01).
     */
    @Test
    void keysAreForEver() {
        assertThat(MariaDbAdvisory.key("app", "invoice-42"))
                .isEqualTo("mortise_4fec7c7f1e3a391c799d3891002b0b352f794f33");
        assertThat(MariaDbAdvisory.key("app", "a".repeat(1536))).hasSize(48).matches("[a-z0-9_]+");
        assertThat(MariaDbAdvisory.key("app", "a")).isNotEqualTo(MariaDbAdvisory.key("appa", ""));
    }

    /** Two databases of a server do not exclude each other, though GET_LOCK is the whole server's. */
    @Test
    void databasesAreApart() throws Exception {
        try (MariaDbStore other = new MariaDbStore(server, "advisory")) {
            granted(client, claim("n"));
            granted(other.client(), claim("n"));
            assertThat(acquire(rival, claim("n"))).isEmpty();
        }
    }

    /** A held lock has one key, taken once, however often its owner asks; released, it has none (MY-12). */
    @Test
    void oneKeyAClaim() {
        Claim claim = claim("n");
        Grant grant = granted(client, claim);
        long session = having("n");
        assertThat(session).isPositive();
        for (int i = 0; i < 3; i++) {
            assertThat(granted(client, claim).token()).isEqualTo(grant.token());
        }
        granted(client, claim("m"));
        assertThat(having("n")).isEqualTo(session).isNotEqualTo(having("m"));
        assertThat(client.release(claim)).isTrue();
        assertThat(having("n")).isZero();
        assertThat(client.release(claim)).isFalse();
    }

    /** A stranger who has the key, which is another name's by chance or his own: waited for, or passed by; never a grant more. */
    @Test
    void aStrangersKey() throws Exception {
        try (Connection stranger = store.sql();
                Statement statement = stranger.createStatement()) {
            statement.execute("SELECT GET_LOCK('" + key("n") + "', 0)");
            Grant grant = granted(client, claim("n"));
            assertThat(acquire(rival, claim("n"))).isEmpty();
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            assertThat(client.release(grant.claim())).isTrue();
        }
    }

    // ---- Waiting

    /** Who waits is in the server's queue, and gets the lock when it is released, not when its lease ends. */
    @Test
    void waitsInTheQueue() throws Exception {
        Claim held = claim("n");
        granted(client, held);
        Future<Attempt> next = waiter(rival, claim("n"));
        await().until(() -> waiting() == 1);
        long released = System.nanoTime();
        client.release(held);
        Grant grant = grant(next);
        assertThat(System.nanoTime() - released).isLessThan(TimeUnit.SECONDS.toNanos(10));
        assertThat(grant.since() - released).isGreaterThan(-TimeUnit.SECONDS.toNanos(1));
        assertThat(rival.renew(List.of(grant)).live()).hasSize(1);
    }

    /** The whole patience is waited, in fractions of seconds (MY-06); then nothing is left of it. */
    @ParameterizedTest
    @ValueSource(longs = {200, 1_200})
    void patience(long millis) throws Exception {
        granted(client, claim("n"));
        Claim claim = claim("n");
        long start = System.nanoTime();
        assertThat(rival.acquire(claim, Duration.ofMillis(millis)).grant()).isEmpty();
        assertThat(System.nanoTime() - start)
                .isBetween(
                        TimeUnit.MILLISECONDS.toNanos(millis - 60),
                        TimeUnit.MILLISECONDS.toNanos(millis) + CALL_TIMEOUT.toNanos());
        assertThat(rival.release(claim)).isFalse();
        await().until(() -> waiting() == 0);
    }

    /** An interrupted waiter leaves the queue; so do those whose client is closed. */
    @Test
    void waitersLeave() throws Exception {
        granted(client, claim("n"));
        Future<Attempt> waiter = waiter(rival, claim("n"));
        Future<Attempt> other = waiter(rival, claim("n"));
        await().until(() -> waiting() == 2);
        waiter.cancel(true);
        await().until(() -> waiting() == 1);
        rival.close();
        assertThatThrownBy(() -> other.get(10, TimeUnit.SECONDS)).hasStackTraceContaining("closed");
        await().until(() -> waiting() == 0);
    }

    // ---- Sessions that go

    /** The holder's session is killed: nobody else gets in, its token stays, and with a renewal it has the key again. */
    @Test
    void killedUnderALiveHolder() throws Exception {
        Grant grant = granted(client, claim("n"));
        long before = having("n");
        terminate("n");
        assertThat(acquire(rival, claim("n"))).isEmpty();
        Future<Attempt> waiter = waiter(rival, claim("n"));
        Grant renewed = client.renew(List.of(grant)).live().get(0);
        assertThat(renewed.token()).isEqualTo(grant.token());
        assertThat(having("n")).isNotEqualTo(before);
        assertThat(waiter).isNotDone();
        assertThat(client.release(grant.claim())).isTrue();
        assertThat(grant(waiter).token()).isGreaterThan(grant.token());
    }

    /**
     * A holder that is cut off without a word: its key is freed by the server itself within the lease and a second, and the
     * next one is in within the lease and two, also if it looks once and has no patience (MY-04).
     */
    @Test
    void cutOff() throws Exception {
        try (TcpProxy way = new TcpProxy(server.port())) {
            LockBackend far = store.opened(new MariaDbProvider()
                    .open(
                            StoreUri.parse(
                                    "jdbc:mariadb://127.0.0.1:" + way.port() + "/" + store.database,
                                    Map.of("user", "test")),
                            context(Duration.ofMillis(400))));
            Duration lease = Duration.ofSeconds(2);
            Grant grant = granted(far, claim("n", lease));
            long arrived = System.nanoTime();
            way.requests(TcpProxy.Mode.DROP);
            way.replies(TcpProxy.Mode.DROP);
            assertThat(having("n")).isPositive();
            Future<Attempt> waiter = waiter(rival, claim("n"));
            Grant next = grant(waiter);
            assertThat(next.token()).isGreaterThan(grant.token());
            assertThat(next.since() - grant.since()).isGreaterThan(0);
            // Ten times what is needed: this machine has other work.
            assertThat(System.nanoTime() - arrived)
                    .isBetween(lease.toNanos() - 1_000_000, lease.toNanos() + 10_000_000_000L);
            assertThat(rival.release(next.claim())).isTrue();

            way.heal();
            LockBackend again = store.client();
            granted(again, claim("m", lease));
            long session = having("m");
            again.close();
            await().atMost(Duration.ofSeconds(10)).until(() -> having("m") != session);
            await().atMost(Duration.ofSeconds(10))
                    .until(() -> acquire(rival, claim("m")).isPresent());
        }
    }

    /** The row is free while a dead session still has the key: the lock is granted. */
    @Test
    void freeRowWithADeadSessionsKey() throws Exception {
        try (TcpProxy way = new TcpProxy(server.port())) {
            LockBackend far = store.opened(new MariaDbProvider()
                    .open(
                            StoreUri.parse(
                                    "jdbc:mariadb://127.0.0.1:" + way.port() + "/" + store.database,
                                    Map.of("user", "test")),
                            context(Duration.ofMillis(400))));
            Grant grant = granted(far, claim("n"));
            way.requests(TcpProxy.Mode.DROP);
            way.replies(TcpProxy.Mode.DROP);
            // As its own client would over another connection.
            assertThat(rival.release(grant.claim())).isTrue();
            assertThat(having("n")).isPositive();
            assertThat(acquire(rival, claim("n"))).isPresent();
        }
    }

    /** The server is killed with SIGKILL, ten times: what is held stays held, no token repeats or falls. */
    @Test
    void crashes() throws Exception {
        Map<String, Long> last = new HashMap<>();
        LockBackend patient = store.client(Duration.ofSeconds(5));
        Grant held = granted(patient, claim("held", Duration.ofMinutes(10)));
        for (int round = 0; round < 10; round++) {
            String name = "n" + round % 2;
            Claim claim = claim(name, Duration.ofMinutes(1));
            Grant grant = await().atMost(Duration.ofSeconds(60))
                    .ignoreExceptionsInstanceOf(LockStoreException.class)
                    .until(() -> patient.acquire(claim, Duration.ZERO).grant(), Optional::isPresent)
                    .orElseThrow();
            assertThat(grant.token()).isGreaterThan(last.getOrDefault(name, 0L));
            last.put(name, grant.token());
            server.kill();
            server.start();
            LockBackend other = store.client();
            assertThat(acquire(other, claim(name))).isEmpty();
            assertThat(acquire(other, claim("held"))).isEmpty();
            await().atMost(Duration.ofSeconds(60))
                    .ignoreExceptionsInstanceOf(LockStoreException.class)
                    .until(() -> patient.release(claim));
        }
        assertThat(patient.renew(List.of(held)).live()).hasSize(1);
    }

    // ---- Bounds

    /** No session left for a claim: a clear word within the patience; those held are renewed and released as before. */
    @Test
    void sessionsAreBounded() throws Exception {
        LockBackend small = store.advisory(context(CALL_TIMEOUT), 2, UnaryOperator.identity());
        Grant a = granted(small, claim("a"));
        Grant b = granted(small, claim("b"));
        assertThatThrownBy(() -> small.acquire(claim("c"), Duration.ofMillis(100)))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                .hasMessageContaining("option sessions");
        assertThat(small.renew(List.of(a, b)).live()).hasSize(2);
        Future<Attempt> waiter = waiter(small, claim("c"));
        assertThat(small.release(a.claim())).isTrue();
        grant(waiter);
    }
}
