package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The server is killed or stopped. */
class PostgresCrashTest {
    private static PostgresServer server;

    @BeforeAll
    static void start() {
        server = new PostgresServer();
    }

    @AfterAll
    static void end() {
        server.close();
    }

    /**
     * Killed with SIGKILL in the middle of grants, again and again: no token is handed out again or falls, what was held is
     * still held, and clients from before go on by themselves.
     */
    @Test
    void tokensOutliveCrashes() throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        Map<String, Long> last = new ConcurrentHashMap<>();
        try (PostgresStore store = new PostgresStore(server)) {
            LockBackend client = store.client(Duration.ofSeconds(2));
            Grant held = granted(client, claim("held", Duration.ofDays(1)));
            Map<String, List<Claim>> lost = new ConcurrentHashMap<>();
            for (int round = 0; round < TestStore.times(6, 20); round++) {
                AtomicBoolean stop = new AtomicBoolean();
                AtomicInteger grants = new AtomicInteger();
                List<Future<?>> all = new ArrayList<>();
                for (int t = 0; t < 3; t++) {
                    String name = "n" + t;
                    all.add(threads.submit(() -> {
                        List<Claim> unknown = lost.computeIfAbsent(name, n -> new ArrayList<>());
                        while (!stop.get()) {
                            Claim claim = claim(name);
                            try {
                                Optional<Grant> grant =
                                        client.acquire(claim, Duration.ZERO).grant();
                                if (grant.isEmpty()) {
                                    // One that came late, after its release: undone by releasing it once more.
                                    assertThat(unknown).isNotEmpty();
                                    unknown.forEach(client::release);
                                    continue;
                                }
                                long token = grant.get().token();
                                assertThat(token).isGreaterThan(last.getOrDefault(name, 0L));
                                last.put(name, token);
                                grants.incrementAndGet();
                            } catch (LockStoreException e) {
                                // Killed under way: what came of it is not known.
                                unknown.add(claim);
                            }
                            await().atMost(Duration.ofSeconds(60))
                                    .pollInterval(Duration.ofMillis(20))
                                    .ignoreExceptions()
                                    .until(() -> {
                                        client.release(claim);
                                        return true;
                                    });
                        }
                        return null;
                    }));
                }
                await().pollInterval(Duration.ofMillis(2)).until(() -> grants.get() > 10);
                server.kill();
                server.start();
                stop.set(true);
                for (Future<?> each : all) {
                    each.get(90, TimeUnit.SECONDS);
                }
                assertThat(client.renew(List.of(held)).live()).hasSize(1);
            }
        } finally {
            threads.shutdownNow();
        }
        assertThat(last).hasSize(3);
    }

    /**
     * A server that has stopped in the middle of everything, its machine alive: each call ends within its limit, with an
     * outcome that is not known; and what it then does late, the repeated release undoes.
     */
    @Test
    void stoppedServer() throws Exception {
        Duration limit = Duration.ofMillis(700);
        try (PostgresStore store = new PostgresStore(server)) {
            LockBackend client = store.client(limit);
            LockBackend fresh = store.client(limit);
            Grant grant = granted(client, claim("n", Duration.ofSeconds(60)));
            List<Grant> many = new ArrayList<>();
            for (int i = 0; i < 1_000; i++) {
                many.add(claim("a long name, as long as names may become: " + "x".repeat(60) + i)
                        .granted(Duration.ofSeconds(60), i + 1, 0));
            }
            Claim late = claim("m");
            server.signal("STOP");
            try {
                for (Callable<?> call : List.<Callable<?>>of(
                        () -> client.acquire(late, Duration.ZERO),
                        () -> client.renew(List.of(grant)),
                        () -> fresh.renew(many),
                        () -> client.release(grant.claim()),
                        () -> client.adopt(grant, claim("n")),
                        () -> client.holder("n"))) {
                    long start = System.nanoTime();
                    assertThatThrownBy(call::call).isInstanceOf(LockStoreException.class);
                    assertThat(System.nanoTime() - start)
                            .isLessThan(limit.toNanos() + TimeUnit.MILLISECONDS.toNanos(2_500));
                }
            } finally {
                server.signal("CONT");
            }
            await().atMost(Duration.ofSeconds(30)).ignoreExceptions().until(() -> {
                client.release(late);
                return acquire(client, claim("m")).isPresent();
            });
        }
    }
}
