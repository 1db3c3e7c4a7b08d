package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.Load;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.ResourceLock;

/**
 * A stand-by takes over under load. With a synchronous one nothing is lost, whether the old primary is dead, or lives and is
 * still reached by its clients; with an asynchronous one two can hold a lock, which is not promised, and shown here.
 */
// Beside other classes, because most of it is waiting; its methods, which share a server, one after the other.
@Execution(ExecutionMode.CONCURRENT)
@ResourceLock("AdvisoryFailoverTest")
class AdvisoryFailoverTest {
    private static final Duration LEASE = Duration.ofSeconds(2);
    private static final List<String> NAMES = List.of("a", "b", "c");
    private static final Duration SERVICE = Duration.ofSeconds(30);

    /** What a primary needs to have a stand-by; the log is kept for it. */
    private static final String[] SETTINGS = {"wal_level=replica", "max_wal_senders=4", "wal_keep_size=64MB"};

    private static PostgresServer primary;

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private Scene scene;
    private TcpProxy replication;
    private PostgresServer standby;

    @BeforeAll
    static void start() {
        primary = new PostgresServer(SETTINGS);
    }

    @AfterAll
    static void stop() {
        primary.close();
    }

    @BeforeEach
    void open() {
        scene = new Scene(primary);
        // Makes the table.
        scene.client("first").close();
        replication = scene.way();
        standby = PostgresServer.standby(replication.port(), SETTINGS);
        await().until(() -> "streaming".equals(primary.text("SELECT state FROM pg_stat_replication")));
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        primary.sql("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()");
        standby.close();
        scene.close();
    }

    private void synchronous() {
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()");
        await().until(() -> "sync".equals(primary.text("SELECT sync_state FROM pg_stat_replication")));
    }

    /** Of both, and asked again which of them is the primary without the driver's pause of ten seconds. */
    private LockBackend ofBoth(String client) {
        return of("jdbc:postgresql://127.0.0.1:" + primary.port() + ",127.0.0.1:" + standby.port()
                + "/postgres?targetServerType=primary&hostRecheckSeconds=0&ApplicationName=" + client);
    }

    private LockBackend of(PostgresServer server, String client) {
        return of(scene.url(server.port(), client));
    }

    private LockBackend of(String url) {
        return Scene.surely(() -> scene.open(url, Scene.CALL_TIMEOUT));
    }

    private Load load(LockBackend... clients) {
        Load load = new Load(scene.holds, List.of(clients), NAMES, LEASE, Scene.CALL_TIMEOUT, true);
        load.awaitService(SERVICE);
        return load;
    }

    /** Holders who count on what the dead primary gave them keep it, and tokens go on where they were. */
    @Test
    void synchronousAndTheOldOneIsDead() throws Exception {
        synchronous();
        LockBackend client = ofBoth("one");
        try (Load load = load(ofBoth("two"), ofBoth("three"))) {
            List<Hold> held = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                held.add(scene.holds.sure(client, "held" + i, LEASE));
            }
            assertThat(scene.holds.renew(client, held.get(0))).isTrue();
            primary.kill();
            standby.promote();
            for (Hold hold : held) {
                Hold next = scene.holds.sure(client, hold.claim.name(), LEASE);
                assertThat(next.token).isGreaterThan(hold.token);
            }
            load.awaitService(SERVICE);
        } finally {
            primary.start();
        }
        scene.holds.judge(false);
    }

    /**
     * The old primary is cut off from the new one, and not from its clients: it confirms nothing any more, neither a grant
     * nor a renewal, also when somebody breaks off its waits for the stand-by, whose commits then succeed with a warning.
     */
    @Test
    void synchronousAndTheOldOneLives() throws Exception {
        synchronous();
        LockBackend old = of(primary, "old");
        List<Hold> held = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            held.add(scene.holds.sure(old, "held" + i, LEASE));
        }
        AtomicBoolean over = new AtomicBoolean();
        Future<?> cancels = null;
        Load there = load(of(primary, "old2"), of(primary, "old3"));
        try {
            replication.requests(TcpProxy.Mode.HOLD);
            replication.replies(TcpProxy.Mode.HOLD);
            replication.refuse(true);
            standby.promote();
            cancels = threads.submit(() -> {
                while (!over.get()) {
                    primary.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
                    TimeUnit.MILLISECONDS.sleep(30);
                }
                return null;
            });
            Future<?> renewals = threads.submit(() -> {
                while (held.stream().anyMatch(hold -> System.nanoTime() - hold.until < 0)) {
                    for (Hold hold : held) {
                        try {
                            boolean unused = scene.holds.renew(old, hold);
                        } catch (LockStoreException e) {
                            // Unknown.
                        }
                    }
                    TimeUnit.MILLISECONDS.sleep(50);
                }
                return null;
            });
            try (Load here = load(of(standby, "new1"), of(standby, "new2"))) {
                LockBackend client = of(standby, "new");
                long before = there.grants(0) + there.grants(1);
                for (Hold hold : held) {
                    Hold next = scene.holds.sure(client, hold.claim.name(), LEASE);
                    assertThat(next.token).isGreaterThan(hold.token);
                }
                renewals.get(30, TimeUnit.SECONDS);
                here.awaitService(SERVICE);
                // One may have been on its way when it was cut off.
                assertThat(there.grants(0) + there.grants(1) - before).isLessThanOrEqualTo(4);
            }
        } finally {
            // Before the old one need not ask the stand-by any more.
            there.close();
            over.set(true);
            if (cancels != null) {
                cancels.get(30, TimeUnit.SECONDS);
            }
        }
        scene.holds.judge(false);
    }

    /**
     * An asynchronous stand-by lacks the last grants: it gives the same lock to somebody else, and the old primary, if it
     * lives, goes on too. So neither exclusion nor tokens are promised through a failover.
     */
    @Test
    void asynchronous() throws Exception {
        LockBackend old = of(primary, "old");
        Hold before = scene.holds.sure(old, "n", LEASE);
        assertThat(scene.holds.release(old, before)).isTrue();
        await().until(() ->
                "t".equals(primary.text("SELECT replay_lsn >= pg_current_wal_insert_lsn() FROM pg_stat_replication")));
        // Its log does not reach the stand-by any more.
        replication.replies(TcpProxy.Mode.HOLD);
        Duration longer = Duration.ofSeconds(30);
        Hold first = scene.holds.sure(old, "n", longer);
        standby.promote();
        LockBackend client = of(standby, "new");
        Hold second = scene.holds.sure(client, "n", longer);
        assertThat(first.until - second.given).as("both count on it").isPositive();
        // By the floor in the clock, where the servers' clocks agree.
        assertThat(second.token).isGreaterThan(first.token);
        assertThat(scene.holds.renew(old, first)).isTrue();
        assertThat(scene.holds.renew(client, second)).isTrue();
        // The old one goes on with tokens of its own.
        assertThat(scene.holds.release(old, first)).isTrue();
        Hold third = scene.holds.sure(old, "n", longer);
        assertThat(third.token).isGreaterThan(first.token);
        assertThat(scene.holds.renew(client, second)).isTrue();
        assertThat(client.guarantees().exclusionSurvives()).doesNotContain(StoreEvent.FAILOVER);
        assertThat(client.guarantees().tokensSurvive()).doesNotContain(StoreEvent.FAILOVER);
        Claim claim = Holds.claim("m", LEASE);
        assertThat(client.acquire(claim, Duration.ZERO).grant()).isPresent();
    }
}
