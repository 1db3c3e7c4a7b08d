package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.Load;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
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

/** A PgBouncer is between: where a session does not stay with its connection, nobody is let in (PG-01, PG-02, HP-01). */
// Beside other classes, because most of it is waiting; its methods, which share a server, one after the other.
@Execution(ExecutionMode.CONCURRENT)
@ResourceLock("PgBouncerTest")
class PgBouncerTest {
    private static final Duration LEASE = Duration.ofMillis(1500);

    private static PostgresServer server;

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Stalls clock = new Stalls();
    private Scene scene;

    @BeforeAll
    static void start() {
        server = new PostgresServer();
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

    private LockBackend through(PgBouncer bouncer, String client) {
        return scene.open(scene.url(bouncer.port(), client), Duration.ofSeconds(3));
    }

    /** Sessions change under us. Refused at once, also where each of our connections happens to come to the same one. */
    @ParameterizedTest
    @ValueSource(strings = {"transaction", "statement"})
    void transactionsArePooled(String mode) throws Exception {
        try (PgBouncer bouncer = new PgBouncer(
                server, "pool_mode = " + mode, "ignore_startup_parameters = extra_float_digits,options")) {
            for (int i = 0; i < 3; i++) {
                assertThatThrownBy(() -> through(bouncer, "pooled"))
                        .isInstanceOfSatisfying(
                                LockStoreException.class,
                                e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                        .hasMessageContaining("proxy")
                        .hasMessageContaining("pool_mode=session")
                        .hasMessageContaining("strategy=table");
            }
            assertThat(scene.advisoryLocks()).isZero();
            // The table needs no session.
            LockBackend table = scene.open(
                    scene.url(bouncer.port(), "table") + "&prepareThreshold=0",
                    Map.of("strategy", "table", "schema", scene.schema(), "user", "test"),
                    Duration.ofSeconds(3));
            Hold hold = scene.holds.sure(table, "n", LEASE);
            assertThat(scene.holds.renew(table, hold)).isTrue();
            assertThat(scene.holds.release(table, hold)).isTrue();
        }
    }

    /** The same while others use the same pool, so that sessions come in any order. */
    @Test
    void aBusyPoolOfTransactions() throws Exception {
        try (PgBouncer bouncer = new PgBouncer(
                server,
                "pool_mode = transaction",
                "default_pool_size = 5",
                "ignore_startup_parameters = extra_float_digits,options")) {
            List<Future<?>> others = new java.util.ArrayList<>();
            java.util.concurrent.atomic.AtomicBoolean over = new java.util.concurrent.atomic.AtomicBoolean();
            for (int t = 0; t < 4; t++) {
                others.add(threads.submit(() -> {
                    try (java.sql.Connection connection = java.sql.DriverManager.getConnection(
                                    scene.url(bouncer.port(), "app") + "&user=test&prepareThreshold=0");
                            java.sql.Statement statement = connection.createStatement()) {
                        while (!over.get()) {
                            statement.execute("SELECT pg_sleep(random() / 500)");
                        }
                    }
                    return null;
                }));
            }
            try {
                for (int i = 0; i < 10; i++) {
                    assertThatThrownBy(() -> through(bouncer, "pooled"))
                            .isInstanceOf(LockStoreException.class)
                            .hasMessageContaining("proxy");
                }
            } finally {
                over.set(true);
            }
            for (Future<?> each : others) {
                each.get(20, TimeUnit.SECONDS);
            }
            assertThat(scene.advisoryLocks()).isZero();
        }
    }

    /** A session stays with its connection; it is used again by the next one, reset or not. */
    @ParameterizedTest
    @ValueSource(strings = {"server_reset_query = DISCARD ALL", "server_reset_query ="})
    void sessionsArePooled(String reset) throws Exception {
        try (PgBouncer bouncer = new PgBouncer(
                server,
                "pool_mode = session",
                "default_pool_size = 12",
                reset,
                "ignore_startup_parameters = extra_float_digits,options")) {
            LockBackend one = Scene.surely(() -> through(bouncer, "one"));
            LockBackend two = Scene.surely(() -> through(bouncer, "two"));
            LockBackend direct = scene.client("direct");
            Hold first = scene.holds.sure(one, "n", LEASE);
            assertThat(scene.holds.take(two, "n", LEASE)).isEmpty();
            assertThat(scene.holds.take(direct, "n", LEASE)).isEmpty();
            assertThat(scene.holds.renew(one, first)).isTrue();
            // In the server's queue.
            Future<Attempt> waiting =
                    threads.submit(() -> two.acquire(Holds.claim("n", LEASE), Duration.ofSeconds(20)));
            assertThat(scene.holds.release(one, first)).isTrue();
            Attempt attempt = waiting.get(20, TimeUnit.SECONDS);
            assertThat(attempt.grant()).isPresent();
            assertThat(attempt.grant().orElseThrow().token()).isGreaterThan(first.token);
            assertThat(two.release(attempt.grant().orElseThrow().claim())).isTrue();
            // A holder that closes without releasing: its session is in the pool, its lock is not.
            LockBackend three = Scene.surely(() -> through(bouncer, "three"));
            Hold left = scene.holds.sure(three, "n", LEASE);
            three.close();
            long closed = clock.now();
            Hold next = scene.holds.sure(two, "n", LEASE);
            assertThat(clock.since(closed)).isLessThan(LEASE.plusSeconds(2));
            assertThat(next.token).isGreaterThan(left.token);
            assertThat(scene.holds.release(two, next)).isTrue();
            // Sessions are used by one after the other, and are never wrong.
            try (Load load = new Load(
                    scene.holds,
                    List.of(one, two, direct),
                    List.of("a", "b"),
                    Duration.ofSeconds(2),
                    Duration.ofSeconds(3),
                    false)) {
                load.awaitService(Duration.ofSeconds(30));
                load.awaitService(Duration.ofSeconds(30));
            }
        }
        // Ended by the server, if by nobody else.
        await().atMost(Duration.ofSeconds(10)).until(() -> scene.advisoryLocks() == 0);
    }

    /** The holder is cut off from the bouncer, which does not notice: the server ends the session behind it all the same. */
    @Test
    void aSilentHolderBehindASessionPool() throws Exception {
        try (PgBouncer bouncer = new PgBouncer(
                        server,
                        "pool_mode = session",
                        "default_pool_size = 12",
                        "server_reset_query =",
                        "ignore_startup_parameters = extra_float_digits,options");
                TcpProxy way = new TcpProxy(bouncer.port())) {
            LockBackend cut = scene.open(scene.url(way.port(), "cut"), Duration.ofSeconds(3));
            LockBackend direct = scene.client("direct");
            Hold first = scene.holds.sure(cut, "n", LEASE);
            way.requests(TcpProxy.Mode.HOLD);
            way.replies(TcpProxy.Mode.HOLD);
            long gone = clock.now();
            await().pollInterval(Duration.ofMillis(10)).until(() -> scene.advisoryLocks() == 0);
            assertThat(clock.since(gone)).isLessThan(LEASE.plusSeconds(1));
            Hold next = scene.holds.sure(direct, "n", LEASE);
            assertThat(clock.since(gone)).isLessThan(LEASE.plusSeconds(2));
            assertThat(next.token).isGreaterThan(first.token);
        }
    }

    /** A bouncer that takes no start-up options says so, in words that lead to its setting. */
    @ParameterizedTest
    @ValueSource(strings = {"session", "transaction", "statement"})
    void startUpOptionsAreNotTaken(String mode) throws Exception {
        try (PgBouncer bouncer = new PgBouncer(server, "pool_mode = " + mode)) {
            assertThatThrownBy(() -> through(bouncer, "refused"))
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("ignore_startup_parameters = extra_float_digits,options");
        }
    }
}
