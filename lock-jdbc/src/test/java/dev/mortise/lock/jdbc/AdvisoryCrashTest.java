package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.ClockShim;
import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** The server is killed right after a grant, again and again: no token is handed out again or falls. */
// Beside other classes, because most of it is waiting.
@Execution(ExecutionMode.CONCURRENT)
class AdvisoryCrashTest {
    private static final int CRASHES = TestStore.times(25, 100);
    private static final Duration LEASE = Duration.ofSeconds(30);

    /**
     * What a commit wrote that was not waited for is lost each time: the server writes it late. And it comes back with its
     * clock an hour behind, so that a token can come from nowhere but the row. A second client is in the middle of something
     * at each crash; what it was not told does not count, what it was told does.
     */
    @Test
    void tokensOutliveCrashes() throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        Optional<ClockShim> shim = ClockShim.compiled();
        Optional<ClockShim.Clock> clock = shim.map(ClockShim::clock);
        try (PostgresServer server = new PostgresServer(
                        clock.map(ClockShim.Clock::environment).orElse(Map.of()), "wal_writer_delay=10s");
                Scene scene = new Scene(server)) {
            LockBackend client = scene.client("client");
            LockBackend busy = scene.client("busy");
            AtomicBoolean over = new AtomicBoolean();
            Future<?> traffic = threads.submit(() -> {
                while (!over.get()) {
                    // Shorter than from crash to crash: a release that is lost leaves an orphan, which each step of the
                    // clock
                    // makes begin anew.
                    Hold hold = scene.holds.sure(busy, "busy", Duration.ofMillis(200));
                    boolean unused = answered(() -> scene.holds.release(busy, hold));
                }
                return null;
            });
            List<Long> tokens = new ArrayList<>();
            for (int i = 0; i < CRASHES; i++) {
                Hold hold = scene.holds.sure(client, "n", LEASE);
                server.kill();
                tokens.add(hold.token);
                Duration behind = Duration.ofHours(-1 - i);
                clock.ifPresent(each -> each.set(behind));
                server.start();
                // The row remembers its owner.
                assertThat(answered(() -> client.acquire(Holds.claim("n", LEASE), Duration.ZERO)
                                .grant()
                                .isEmpty()))
                        .isTrue();
                assertThat(answered(() -> scene.holds.release(client, hold))).isTrue();
            }
            over.set(true);
            traffic.get(60, TimeUnit.SECONDS);
            assertThat(tokens).hasSize(CRASHES).doesNotHaveDuplicates().isSorted();
            scene.sound();
        } finally {
            threads.shutdownNow();
            shim.ifPresent(ClockShim::close);
        }
    }

    private static boolean answered(java.util.concurrent.Callable<Boolean> call) {
        return await().atMost(Duration.ofSeconds(60))
                .pollInterval(Duration.ofMillis(5))
                .ignoreExceptionsInstanceOf(LockStoreException.class)
                .until(() -> List.of(call.call()), each -> true)
                .get(0);
    }
}
