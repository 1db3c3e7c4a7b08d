package dev.mortise.lock.redlock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What things cost, counted by the servers: commands, connections, threads. */
class CostTest {
    private static final Duration LEASE = Duration.ofMinutes(5);
    private static final Duration PATIENT = Duration.ofMinutes(1);

    private static Deployment five;
    private final Holds holds = new Holds();

    @BeforeAll
    static void open() {
        // Exact counts on a busy machine: nobody is to lose patience.
        five = new Deployment(5).option("attempt", "1m").option("longest-lease", "10m");
        five.initialise();
        // A release whose script a server has to be taught comes after the next acquire there.
        for (RedisServer server : five.servers) {
            for (Script script : Script.values()) {
                server.ask("SCRIPT", "LOAD", script.text());
            }
        }
    }

    @AfterAll
    static void close() {
        five.close();
    }

    private static long max(String command) {
        return five.servers.stream()
                .mapToLong(s -> s.calls().getOrDefault(command, 0L))
                .max()
                .orElseThrow();
    }

    /** Nothing is under way any more: a fan-out is over for the client when a majority has answered. */
    private static void settle() {
        List<List<Long>> before = new ArrayList<>();
        await().atMost(Duration.ofSeconds(60))
                .pollInterval(Duration.ofMillis(300))
                .until(() -> {
                    before.add(counts("evalsha"));
                    return before.size() > 1 && before.get(before.size() - 1).equals(before.get(before.size() - 2));
                });
    }

    private static List<Long> counts(String command) {
        return five.servers.stream()
                .map(s -> s.calls().getOrDefault(command, 0L))
                .toList();
    }

    private static void all(String command, long calls) {
        await().atMost(Duration.ofSeconds(60))
                .untilAsserted(() -> assertThat(counts(command)).containsOnly(calls));
    }

    @Test
    void oneCallToAcquireAndOneToRelease() throws InterruptedException {
        LockBackend a = five.client(PATIENT);
        holds.release(a, holds.sure(a, "warm", LEASE));
        settle();
        five.resetCalls();
        for (int i = 0; i < 100; i++) {
            Hold hold = holds.take(a, "cost", LEASE).orElseThrow();
            assertThat(holds.release(a, hold)).isTrue();
        }
        settle();
        // Never more than one; none where a majority had answered before this server was asked, on a busy machine.
        assertThat(counts("evalsha")).allMatch(calls -> calls > 150 && calls <= 200);
        assertThat(counts("set")).allMatch(calls -> calls > 150 && calls <= 200);
        assertThat(counts("del")).allMatch(calls -> calls > 50 && calls <= 100);
        assertThat(counts("del").stream().sorted().skip(2)).allMatch(calls -> calls > 90);
        for (RedisServer server : five.servers) {
            assertThat(server.calls()).doesNotContainKeys("eval", "ping", "subscribe", "publish");
        }
        holds.judge(false);
    }

    /** A client whose clock is behind the tokens of others proposes twice, once; then it keeps up. */
    @Test
    void oneCallAlsoWhereOthersHaveFastClocks() throws InterruptedException {
        LockBackend a = five.client(PATIENT);
        LockBackend b = five.client(PATIENT);
        for (int i = 0; i < 3; i++) {
            holds.release(a, holds.sure(a, "turns", LEASE));
            holds.release(b, holds.sure(b, "turns", LEASE));
        }
        settle();
        five.resetCalls();
        for (int i = 0; i < 20; i++) {
            holds.release(a, holds.take(a, "turns", LEASE).orElseThrow());
            holds.release(b, holds.take(b, "turns", LEASE).orElseThrow());
        }
        settle();
        // Two calls for each of forty; a second proposal here and there, by a client that lags by the time of a turn.
        assertThat(max("evalsha")).isBetween(80L, 120L);
        holds.judge(false);
    }

    @Test
    void oneCallToRenewAThousand() throws InterruptedException {
        LockBackend a = five.client(PATIENT);
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            grants.add(holds.sure(a, "many-" + i, LEASE).grant);
        }
        settle();
        five.resetCalls();
        assertThat(a.renew(grants).live()).hasSize(1000);
        all("evalsha", 1);
        all("eval", 0);
        // A server that had the token of another name behind it may have missed one of the thousand.
        assertThat(counts("pexpire")).allMatch(calls -> calls > 900 && calls <= 1000);
        grants.forEach(grant -> a.release(grant.claim()));
    }

    /** Four processes' worth of clients that want one lock: few calls go to losers. */
    @Test
    void fewCallsUnderContention() throws InterruptedException {
        List<LockClient> clients = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            clients.add(LockClient.connect(five.direct(), Map.of("lease", "4m", "call-timeout", "1m")));
        }
        try {
            for (LockClient client : clients) {
                client.lock("warm").run(lease -> {});
            }
            five.resetCalls();
            AtomicInteger acquired = new AtomicInteger();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 16; i++) {
                LockClient client = clients.get(i % 4);
                threads.add(new Thread(() -> {
                    for (int k = 0; k < 12; k++) {
                        try (Lease lease = client.lock("contended").acquire()) {
                            acquired.incrementAndGet();
                        } catch (InterruptedException e) {
                            throw new AssertionError(e);
                        }
                    }
                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            assertThat(acquired).hasValue(192);
            assertThat(max("evalsha")).isLessThan(192 * 10);
        } finally {
            clients.forEach(LockClient::close);
        }
    }

    /** A client costs each server one connection, and itself two threads and the engine's. */
    @Test
    void connectionsAndThreads() throws Exception {
        Set<Thread> before = Thread.getAllStackTraces().keySet();
        List<Integer> connections = five.servers.stream().map(CostTest::clients).toList();
        LockClient client = LockClient.connect(five.direct(), Map.of("lease", "4m", "call-timeout", "1m"));
        try {
            for (int i = 0; i < 200; i++) {
                assertThat(client.lock("threads-" + i).acquire().isHeld()).isTrue();
            }
            for (int i = 0; i < 5; i++) {
                assertThat(clients(five.servers.get(i)) - connections.get(i)).isEqualTo(1);
            }
            Set<String> started = new TreeSet<>(Thread.getAllStackTraces().keySet().stream()
                    .filter(t -> !before.contains(t))
                    .map(Thread::getName)
                    .filter(name -> !name.startsWith("process reaper") && !name.equals("tcp-proxy"))
                    .toList());
            assertThat(started).as(started.toString()).hasSizeLessThanOrEqualTo(20);
            assertThat(started.stream()
                            .filter(n -> n.startsWith("mortise-redlock"))
                            .collect(Collectors.toList()))
                    .hasSize(2);
        } finally {
            client.close();
        }
        await().untilAsserted(() -> {
            for (int i = 0; i < 5; i++) {
                assertThat(clients(five.servers.get(i))).isEqualTo(connections.get(i));
            }
            assertThat(Thread.getAllStackTraces().keySet().stream()
                            .filter(t -> !before.contains(t) && t.getName().startsWith("mortise-redlock"))
                            .toList())
                    .isEmpty();
        });
    }

    private static int clients(RedisServer server) {
        return Integer.parseInt(server.info("clients").get("connected_clients"));
    }

    /** An idle client of one lease: one call a server at a third of the lease, and nothing else. */
    @Test
    void idleCostsNothing() throws Exception {
        try (LockClient client = LockClient.connect(five.direct(), Map.of("lease", "9s"))) {
            Lease lease = client.lock("idle").acquire();
            settle();
            five.resetCalls();
            long start = System.nanoTime();
            await().atMost(Duration.ofSeconds(30)).until(() -> max("evalsha") >= 3);
            long thirds = Duration.ofNanos(System.nanoTime() - start).toMillis() / 3000;
            assertThat(max("evalsha")).isLessThanOrEqualTo(thirds + 2);
            assertThat(lease.isHeld()).isTrue();
            lease.release();
        }
    }

    /** A day after the last use nothing of a name is left: each key of it has its end. */
    @Test
    void nothingGrows() throws InterruptedException {
        LockBackend a = five.client(PATIENT);
        for (int i = 0; i < 20; i++) {
            holds.release(a, holds.sure(a, "grow-" + i, LEASE));
        }
        for (RedisServer server : five.servers) {
            for (Object key : (List<?>) server.ask("KEYS", "*")) {
                if (!key.equals("mortise:redlock")) {
                    assertThat((Long) server.ask("TTL", (String) key))
                            .as(key.toString())
                            .isBetween(0L, 86_400L);
                }
            }
        }
    }
}
