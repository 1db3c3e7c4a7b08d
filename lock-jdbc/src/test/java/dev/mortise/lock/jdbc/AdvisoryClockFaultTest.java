package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.ClockShim;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.Load;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.ResourceLock;

/** The server's wall clock is stepped under advisory locks. Tokens survive it, exclusion is not promised. */
// Beside other classes, because most of it is waiting; its methods, which share a server, one after the other.
@Execution(ExecutionMode.CONCURRENT)
@ResourceLock("AdvisoryClockFaultTest")
class AdvisoryClockFaultTest {
    private static final Duration LEASE = Duration.ofMillis(1500);
    private static final Duration DAY = Duration.ofDays(1);

    private static Optional<ClockShim> shim;
    private static Optional<ClockShim.Clock> serverClock;
    private static PostgresServer server;

    private final Stalls clock = new Stalls();
    private Scene scene;

    @BeforeAll
    static void start() {
        shim = ClockShim.compiled();
        serverClock = shim.map(ClockShim::clock);
        server =
                new PostgresServer(serverClock.map(ClockShim.Clock::environment).orElse(Map.of()));
    }

    @AfterAll
    static void stop() {
        server.close();
        shim.ifPresent(ClockShim::close);
    }

    @BeforeEach
    void open() {
        scene = new Scene(server);
    }

    @AfterEach
    void judge() throws Exception {
        step(Duration.ZERO, Duration.ZERO);
        clock.close();
        try {
            scene.holds.judge(true);
        } finally {
            scene.close();
        }
    }

    /** So far from the right time; without a compiler, rows become as much older as the clock would have gone on. */
    private void step(Duration from, Duration to) {
        if (serverClock.isPresent()) {
            serverClock.get().set(to);
        } else {
            server.sql("UPDATE " + scene.store.schema + ".mortise_lock SET until_ms = until_ms - "
                    + to.minus(from).toMillis());
        }
    }

    /** The holder was cut off, and nobody asked until the next day: the first one who does gets in, without patience. */
    @Test
    void theNextDay() throws Exception {
        TcpProxy way = scene.way();
        LockBackend holder = scene.client(way, "holder");
        LockBackend other = scene.client("other");
        Hold first = scene.holds.sure(holder, "n", LEASE);
        way.requests(TcpProxy.Mode.HOLD);
        way.replies(TcpProxy.Mode.HOLD);
        await().until(() -> scene.advisoryLocks() == 0);
        step(Duration.ZERO, DAY);
        Hold next = scene.holds.take(other, "n", LEASE).orElseThrow();
        assertThat(next.token).isGreaterThan(first.token);
        assertThat(scene.holds.renew(other, next)).isTrue();
        step(DAY, Duration.ZERO);
        // And back again: its tokens stay the largest.
        assertThat(scene.holds.release(other, next)).isTrue();
        assertThat(scene.holds.sure(other, "n", LEASE).token).isGreaterThan(next.token);
    }

    /** Set back by a day behind a holder who is gone: nobody waits for a day. */
    @Test
    void setBack() throws Exception {
        LockBackend holder = scene.client("holder");
        LockBackend other = scene.client("other");
        Hold first = scene.holds.sure(holder, "n", LEASE);
        scene.terminate("holder");
        await().until(() -> scene.advisoryLocks() == 0);
        step(Duration.ZERO, DAY.negated());
        long set = clock.now();
        Hold next = scene.holds.sure(other, "n", LEASE);
        assertThat(clock.since(set)).isLessThan(LEASE.plusSeconds(2));
        assertThat(next.token).isGreaterThan(first.token);
        // Not before its time either.
        scene.holds.judge(false);
    }

    /** Set back under a holder who lives: renewals go on, and nobody gets in. */
    @Test
    void setBackUnderALiveHolder() throws Exception {
        LockBackend holder = scene.client("holder");
        LockBackend other = scene.client("other");
        Hold first = scene.holds.sure(holder, "n", LEASE);
        for (int i = 1; i <= 5; i++) {
            step(DAY.multipliedBy(1 - i), DAY.multipliedBy(-i));
            assertThat(scene.holds.renew(holder, first)).isTrue();
            assertThat(scene.holds.take(other, "n", LEASE)).isEmpty();
        }
        assertThat(scene.holds.release(holder, first)).isTrue();
        Hold next = scene.holds.take(other, "n", LEASE).orElseThrow();
        assertThat(next.token).isGreaterThan(first.token);
        scene.holds.judge(false);
    }

    /** Steps both ways all the time: calls end in time, tokens are unique and grow; and all goes on when it is over. */
    @Test
    void underLoad() throws Exception {
        List<LockBackend> clients = List.of(scene.client("one"), scene.client("two"));
        assertThat(clients.get(0).guarantees().exclusionSurvives()).doesNotContain(StoreEvent.STORE_CLOCK_STEP);
        assertThat(clients.get(0).guarantees().tokensSurvive()).contains(StoreEvent.STORE_CLOCK_STEP);
        SplittableRandom random = new SplittableRandom(5);
        try (Load load =
                new Load(scene.holds, clients, List.of("a", "b"), Duration.ofSeconds(2), Scene.CALL_TIMEOUT, true)) {
            load.awaitService(Duration.ofSeconds(20));
            Duration ahead = Duration.ZERO;
            for (int i = 0; i < 25; i++) {
                Duration next = Duration.ofMinutes(random.nextInt(-10, 11));
                step(ahead, next);
                ahead = next;
                TimeUnit.MILLISECONDS.sleep(200);
            }
            step(ahead, Duration.ZERO);
            load.awaitService(Duration.ofSeconds(30));
        }
        assertThat(scene.holds.size()).isGreaterThan(10);
    }
}
