package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.Load;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.TcpProxy;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Calls that fail behind their effect inside the server: what they left is gone within its bound, through the same client
 * too, and nothing is unlocked twice (PG-03, PG-12, PG-13, PG-14, PG-18, HP-01, RT-05, RT-06, RT-17).
 */
// Beside other classes, because most of it is waiting; its methods, which share a server, one after the other.
@Execution(ExecutionMode.CONCURRENT)
@ResourceLock("AdvisoryEffectFaultTest")
class AdvisoryEffectFaultTest {
    private static final Duration LEASE = Duration.ofMillis(1500);
    private static final Duration BOUND = LEASE.plusSeconds(2);

    private static PostgresServer server;

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Stalls clock = new Stalls();
    private Scene scene;

    @BeforeAll
    static void start() {
        server = new PostgresServer("max_locks_per_transaction=10", "max_connections=60");
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @BeforeEach
    void open() {
        scene = new Scene(server);
        // Makes the table.
        scene.client("first").close();
    }

    @AfterEach
    void judge() throws Exception {
        threads.shutdownNow();
        clock.close();
        try {
            scene.sound();
        } finally {
            scene.close();
        }
    }

    private void nothingIsLeft() {
        long now = clock.now();
        await().pollInterval(Duration.ofMillis(10)).until(() -> {
            int left = scene.advisoryLocks();
            assertThat(clock.since(now)).as("%s locks are left", left).isLessThan(BOUND);
            return left == 0;
        });
    }

    /**
     * Somebody keeps the name's row locked: the try has the advisory lock, and not the row. It fails in time and says that
     * it did nothing, and the advisory lock goes free while the row is still locked.
     */
    @Test
    void theRowIsLocked() throws Exception {
        LockBackend client = scene.client("client");
        LockBackend other = scene.client("other");
        Duration longer = Duration.ofSeconds(30);
        for (int i = 0; i < 3; i++) {
            Hold before = scene.holds.sure(client, "n", longer);
            assertThat(scene.holds.release(client, before)).isTrue();
            try (Connection stranger = scene.store.sql();
                    Statement statement = stranger.createStatement()) {
                stranger.setAutoCommit(false);
                statement.execute("SELECT * FROM mortise_lock WHERE name = 'n' FOR UPDATE");
                Claim claim = Holds.claim("n", longer);
                long start = clock.now();
                assertThatThrownBy(() -> client.acquire(claim, Duration.ZERO))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("pg_stat_activity");
                assertThat(clock.since(start)).isLessThan(Scene.CALL_TIMEOUT.plusSeconds(2));
                nothingIsLeft();
                stranger.rollback();
            }
            // Nothing comes late, and the same client gets it as well as another.
            Hold after = scene.holds.sure(i == 0 ? other : client, "n", longer);
            assertThat(after.token).isGreaterThan(before.token);
            assertThat(scene.holds.release(i == 0 ? other : client, after)).isTrue();
            nothingIsLeft();
        }
    }

    /**
     * Somebody locks the row of a held lock: renewals are unknown, and a release fails and is repeated. Its session, of which
     * nobody knows what it has, is closed at once, and not when the lease is over.
     */
    @Test
    void theRowOfAHolderIsLocked() throws Exception {
        LockBackend client = scene.client("client");
        LockBackend other = scene.client("other");
        Duration longer = Duration.ofSeconds(30);
        Hold first = scene.holds.sure(client, "n", longer);
        try (Connection stranger = scene.store.sql();
                Statement statement = stranger.createStatement()) {
            stranger.setAutoCommit(false);
            statement.execute("SELECT * FROM mortise_lock WHERE name = 'n' FOR UPDATE");
            try {
                assertThat(scene.holds.renew(client, first)).isFalse();
            } catch (LockStoreException e) {
                // Unknown, said in the other way.
            }
            assertThatThrownBy(() -> scene.holds.release(client, first)).isInstanceOf(LockStoreException.class);
            nothingIsLeft();
            stranger.rollback();
        }
        assertThat(client.release(first.claim)).isTrue();
        Hold next = scene.holds.sure(other, "n", longer);
        assertThat(client.release(first.claim)).isFalse();
        assertThat(scene.holds.renew(other, next)).isTrue();
    }

    /** The reply to each kind of request is lost, the connection with it. */
    @ParameterizedTest
    @ValueSource(strings = {"advisory_lock", "UPDATE", "advisory_unlock", "INSERT"})
    void repliesAreLost(String statement) throws Exception {
        TcpProxy way = scene.way();
        LockBackend client = scene.client(way, "client");
        LockBackend other = scene.client("other");
        AtomicInteger lost = new AtomicInteger();
        for (int i = 0; i < 6; i++) {
            way.loseReplyTo(request -> {
                boolean fits = request.contains(statement);
                lost.addAndGet(fits ? 1 : 0);
                return fits;
            });
            long start = clock.now();
            Hold hold = scene.holds.sure(client, "n", LEASE);
            assertThat(clock.since(start)).isLessThan(BOUND);
            boolean renewed = i % 2 == 0 && unless(() -> scene.holds.renew(client, hold));
            boolean released = unless(() -> scene.holds.release(client, hold));
            assertThat(renewed || released || lost.get() > 0).isTrue();
            // Released for sure: another one gets it at once, not after the lease.
            start = clock.now();
            Hold next = scene.holds.sure(other, "n", LEASE);
            assertThat(clock.since(start)).isLessThan(LEASE);
            assertThat(scene.holds.release(other, next)).isTrue();
            way.heal();
        }
        assertThat(lost).as("requests with %s", statement).hasPositiveValue();
        nothingIsLeft();
    }

    private static boolean unless(java.util.concurrent.Callable<Boolean> call) {
        return await().atMost(Duration.ofSeconds(20))
                .pollInterval(Duration.ofMillis(20))
                .ignoreExceptionsInstanceOf(LockStoreException.class)
                .until(() -> List.of(call.call()), each -> true)
                .get(0);
    }

    /**
     * Statements are cancelled, sessions are terminated and callers are interrupted at any moment, by roles whose defaults
     * are as unfit as may be. When all is over nothing is left.
     */
    @Test
    void brokenOffAtAnyMoment() throws Exception {
        List<String> roles = List.of(
                role("default_transaction_isolation = 'serializable'"),
                role("default_transaction_isolation = 'repeatable read'", "default_transaction_read_only = on"),
                role("statement_timeout = '1ms'", "lock_timeout = '1ms'", "idle_session_timeout = '50ms'"));
        List<LockBackend> clients = new ArrayList<>();
        for (String role : roles) {
            clients.add(client(role));
        }
        AtomicBoolean over = new AtomicBoolean();
        AtomicInteger cancelled = new AtomicInteger();
        Future<?> cancels = threads.submit(() -> cancel(over, cancelled));
        Future<?> interrupts = threads.submit(() -> interrupted(clients.get(0), over));
        try (Load load = new Load(
                scene.holds, clients, List.of("a", "b", "c"), Duration.ofSeconds(2), Scene.CALL_TIMEOUT, true)) {
            for (int i = 0; i < 4; i++) {
                load.awaitService(Duration.ofSeconds(30));
            }
            await().atMost(Duration.ofSeconds(60)).until(() -> cancelled.get() > TestStore.times(30, 100));
            over.set(true);
            cancels.get(20, TimeUnit.SECONDS);
            interrupts.get(20, TimeUnit.SECONDS);
            load.awaitService(Duration.ofSeconds(30));
        }
        nothingIsLeft();
    }

    private LockBackend client(String role) {
        return Scene.surely(
                () -> scene.open(server.port(), "client", Scene.CALL_TIMEOUT, "user", role, "password", role));
    }

    private String role(String... settings) {
        String role = scene.store.role(true, settings);
        server.sql("GRANT SELECT, INSERT, UPDATE ON " + scene.store.schema + ".mortise_lock TO " + role);
        return role;
    }

    /** Whatever a session of theirs does now; now and then the session itself. */
    private Void cancel(AtomicBoolean over, AtomicInteger cancelled) throws SQLException, InterruptedException {
        Random random = new Random(3);
        try (Connection connection = server.connect();
                Statement statement = connection.createStatement()) {
            while (!over.get()) {
                String how = random.nextInt(20) == 0 ? "pg_terminate_backend" : "pg_cancel_backend";
                try (ResultSet rows = statement.executeQuery("SELECT count(" + how
                        + "(pid)) FROM pg_stat_activity WHERE application_name = 'client' AND state = 'active'")) {
                    rows.next();
                    cancelled.addAndGet(rows.getInt(1));
                }
                TimeUnit.MICROSECONDS.sleep(random.nextInt(6000));
            }
        }
        return null;
    }

    /** Takes what nobody else wants, from a thread that is interrupted again and again. */
    private Void interrupted(LockBackend client, AtomicBoolean over) throws InterruptedException {
        Random random = new Random(4);
        Thread taker = new Thread(() -> {
            while (!over.get()) {
                Claim claim = Holds.claim("interrupted", LEASE);
                try {
                    Optional<Hold> hold = scene.holds.take(client, claim, Duration.ofMillis(100));
                    hold.ifPresent(each -> each.until = Math.min(each.until, System.nanoTime()));
                } catch (InterruptedException | LockStoreException e) {
                    // It may have taken effect: released below, as the engine does.
                }
                undo(client, claim);
            }
        });
        taker.start();
        while (!over.get()) {
            TimeUnit.MICROSECONDS.sleep(random.nextInt(20_000));
            taker.interrupt();
        }
        taker.join(20_000);
        assertThat(taker.isAlive()).isFalse();
        return null;
    }

    private void undo(LockBackend client, Claim claim) {
        for (int i = 0; i < 100; i++) {
            try {
                boolean unused = client.release(claim);
                return;
            } catch (LockStoreException e) {
                // Again.
            }
        }
    }

    /** A session that somebody else fills the server's table of locks with: said so, and over when he is gone (PG-18). */
    @Test
    void theServersTableOfLocksIsFull() throws Exception {
        LockBackend client = scene.client("client");
        Hold held = scene.holds.sure(client, "held", Duration.ofSeconds(20));
        try (Connection stranger = scene.store.sql();
                Statement statement = stranger.createStatement()) {
            assertThatThrownBy(() -> statement.execute("SELECT pg_advisory_lock(i) FROM generate_series(1, 100000) i"))
                    .isInstanceOfSatisfying(
                            SQLException.class, e -> assertThat(e.getSQLState()).isEqualTo("53200"));
            assertThatThrownBy(() -> {
                        for (int i = 0; i < 20; i++) {
                            client.acquire(Holds.claim("n" + i, LEASE), Duration.ZERO);
                        }
                    })
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("max_locks_per_transaction");
        }
        await().ignoreExceptionsInstanceOf(LockStoreException.class).until(() -> scene.holds.renew(client, held));
        Hold hold = scene.holds.sure(client, "n19", LEASE);
        assertThat(scene.holds.release(client, hold)).isTrue();
        assertThat(scene.holds.release(client, held)).isTrue();
    }

    /** No connection left at the server, for this role or for all: said in time; with one free again it goes on (PG-07). */
    @Test
    void noConnectionIsLeft() throws Exception {
        String role = role();
        LockBackend client = client(role);
        Hold held = scene.holds.sure(client, "held", Duration.ofSeconds(20));
        server.sql("ALTER ROLE " + role + " CONNECTION LIMIT 1");
        Claim claim = Holds.claim("n", LEASE);
        long start = clock.now();
        assertThatThrownBy(() -> {
                    for (int i = 0; i < 10; i++) {
                        client.acquire(Holds.claim("n" + i, Duration.ofSeconds(7)), Duration.ofMillis(300));
                    }
                })
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                .hasMessageContaining("no connection left")
                .hasMessageContaining("max_connections")
                .hasMessageNotContaining(role);
        assertThat(clock.since(start)).isLessThan(Duration.ofSeconds(14));
        // What is held needs none: it is renewed on its own.
        assertThat(scene.holds.renew(client, held)).isTrue();
        server.sql("ALTER ROLE " + role + " CONNECTION LIMIT -1");
        assertThat(scene.holds.take(client, claim)).isPresent();
        assertThat(scene.holds.renew(client, held)).isTrue();
    }

    /** A stranger's session that has the same key, in either form, keeps nobody out: the row tells who has it (PG-10). */
    @Test
    void strangersWithOurKey() throws Exception {
        LockBackend client = scene.client("client");
        Hold hold = scene.holds.sure(client, "n", LEASE);
        String key = " FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted";
        String asOne = server.text("SELECT (classid::bigint << 32) | objid::bigint" + key);
        String asTwo = server.text("SELECT classid::bigint::bit(32)::int || ', ' || objid::bigint::bit(32)::int" + key);
        assertThat(scene.holds.release(client, hold)).isTrue();
        try (Connection stranger = scene.store.sql();
                Statement statement = stranger.createStatement()) {
            statement.execute("SELECT pg_advisory_lock(" + asTwo + ")");
            Hold next = scene.holds.take(client, "n", LEASE).orElseThrow();
            assertThat(scene.holds.release(client, next)).isTrue();
            statement.execute("SELECT pg_advisory_lock(" + asOne + ")");
            next = scene.holds.sure(client, "n", LEASE);
            assertThat(scene.holds.renew(client, next)).isTrue();
            assertThat(scene.holds.take(scene.client("other"), "n", LEASE)).isEmpty();
            assertThat(scene.holds.release(client, next)).isTrue();
            statement.execute("SELECT pg_advisory_unlock_all()");
            assertThat(scene.holds.take(client, "n", LEASE)).isPresent();
        }
    }
}
