package dev.mortise.lock.redlock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Five servers, of which any two fail in every way, and what of it the backend promises to survive. */
class FaultTest {
    private static final Duration LEASE = Duration.ofSeconds(20);

    private static Deployment five;
    private final Holds holds = new Holds();

    @BeforeAll
    static void open() {
        five = Deployment.five();
    }

    @AfterAll
    static void close() {
        five.close();
    }

    @AfterEach
    void heal() {
        for (int i = 0; i < 5; i++) {
            resume(i);
        }
    }

    private static void resume(int i) {
        five.servers.get(i).signal("CONT");
        five.proxies.get(i).heal();
        five.proxies.get(i).cut();
    }

    static Stream<List<Integer>> anyTwo() {
        List<List<Integer>> pairs = new ArrayList<>();
        for (int a = 0; a < 5; a++) {
            for (int b = a + 1; b < 5; b++) {
                pairs.add(List.of(a, b));
            }
        }
        return pairs.stream();
    }

    /** A majority is enough for a grant; whose servers are the ones that fail then has less than a majority left. */
    private Hold atAllFive(LockBackend client, String name) throws InterruptedException {
        while (true) {
            Hold hold = holds.sure(client, name, LEASE);
            long end = System.nanoTime() + Duration.ofSeconds(3).toNanos();
            while (System.nanoTime() - end < 0) {
                if (five.servers.stream()
                        .allMatch(s -> s.ask("EXISTS", Deployment.lockKey(name)).equals(1L))) {
                    return hold;
                }
            }
            holds.release(client, hold);
        }
    }

    /** A lock taken before, one taken after, and one held by another: all as if nothing had happened. */
    private void worksWithout(List<Integer> two, Consumer<Integer> fault) throws InterruptedException {
        LockBackend a = five.client();
        LockBackend b = five.client();
        String name = "two-" + two + "-" + System.nanoTime();
        Hold before = atAllFive(a, name);
        two.forEach(fault);
        await().atMost(Duration.ofSeconds(10)).ignoreExceptions().until(() -> holds.renew(a, before));
        assertThat(holds.take(b, name, LEASE)).as("held by another").isEmpty();
        Hold other = holds.sure(b, name + "-other", LEASE);
        assertThat(holds.release(a, before)).as("released").isTrue();
        Hold after = holds.sure(b, name, LEASE);
        assertThat(after.token).isGreaterThan(before.token);
        await().atMost(Duration.ofSeconds(10)).ignoreExceptions().until(() -> holds.renew(b, after));
        assertThat(holds.release(b, after)).isTrue();
        assertThat(holds.release(b, other)).isTrue();
        assertThat(a.holder(name)).isEmpty();
        a.close();
        b.close();
        holds.judge(false);
    }

    /** The connections are reset and no new ones are taken: what a killed server looks like. */
    @ParameterizedTest
    @MethodSource("anyTwo")
    void anyTwoAreGone(List<Integer> two) throws InterruptedException {
        worksWithout(two, i -> {
            five.proxies.get(i).refuse(true);
            five.proxies.get(i).cut();
        });
    }

    @ParameterizedTest
    @MethodSource("anyTwo")
    void anyTwoAreFrozen(List<Integer> two) throws InterruptedException {
        worksWithout(two, i -> five.servers.get(i).signal("STOP"));
    }

    /** The scripts run, and nobody hears of it. */
    @ParameterizedTest
    @MethodSource("anyTwo")
    void repliesOfAnyTwoAreLost(List<Integer> two) throws InterruptedException {
        worksWithout(two, i -> five.proxies.get(i).replies(TcpProxy.Mode.DROP));
    }

    /** Replies that vanish in the middle of a connection, which goes on: no answer is taken for another call's. */
    @Test
    void answersAreNotMixedUp() throws InterruptedException {
        LockBackend a = five.client();
        LockBackend b = five.client();
        Hold held = holds.sure(b, "mixed", LEASE);
        for (int round = 0; round < 20; round++) {
            five.proxies.forEach(p -> p.replies(TcpProxy.Mode.DROP));
            // Its own answers are lost: yes, five times.
            Thread asks = new Thread(() -> {
                try {
                    a.acquire(Holds.claim("free", LEASE), Duration.ZERO);
                } catch (LockStoreException | InterruptedException e) {
                    // As expected.
                }
            });
            asks.start();
            long end = System.nanoTime() + 20_000_000;
            await().pollInterval(Duration.ofMillis(1)).until(() -> System.nanoTime() - end > 0);
            five.proxies.forEach(TcpProxy::heal);
            try {
                assertThat(holds.take(a, "mixed", LEASE)).isEmpty();
            } catch (LockStoreException e) {
                // No answer is right, too.
            }
            asks.join();
        }
        assertThat(holds.release(b, held)).isTrue();
    }

    /** Fewer than a majority: never "held", but who does not answer and why, in time. */
    @Test
    void withoutAMajorityThereIsNoAnswer() throws InterruptedException {
        LockBackend a = five.client();
        LockBackend b = five.client();
        Hold hold = holds.sure(a, "three", LEASE);
        for (Consumer<Integer> fault : List.<Consumer<Integer>>of(
                i -> five.servers.get(i).signal("STOP"),
                i -> {
                    five.proxies.get(i).refuse(true);
                    five.proxies.get(i).cut();
                },
                i -> five.proxies.get(i).requests(TcpProxy.Mode.HOLD))) {
            for (int i = 0; i < 3; i++) {
                fault.accept(i);
            }
            long start = System.nanoTime();
            LockStoreException e = catchThrowableOfType(
                    LockStoreException.class, () -> b.acquire(Holds.claim("three", LEASE), Duration.ofSeconds(60)));
            assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Deployment.CALL_TIMEOUT);
            for (int i = 0; i < 5; i++) {
                assertThat(e)
                        .hasMessageContaining("127.0.0.1:" + five.proxies.get(i).port() + ": ");
            }
            assertThatThrownBy(() -> a.renew(List.of(hold.grant))).isInstanceOf(LockStoreException.class);
            assertThatThrownBy(() -> b.release(Holds.claim("three", LEASE))).isInstanceOf(LockStoreException.class);
            assertThatThrownBy(() -> b.holder("three")).isInstanceOf(LockStoreException.class);
            for (int i = 0; i < 3; i++) {
                resume(i);
            }
            await().atMost(Duration.ofSeconds(15)).ignoreExceptions().until(() -> holds.renew(a, hold));
            await().atMost(Duration.ofSeconds(15))
                    .ignoreExceptions()
                    .until(() -> holds.take(b, "three", LEASE).isEmpty());
        }
        assertThat(holds.release(a, hold)).isTrue();
        holds.judge(false);
    }

    /** The replies of two are lost and two refuse: nothing of it keeps the next from the lock. */
    @Test
    void failedAttemptLeavesNothing() throws InterruptedException {
        LockBackend a = five.client();
        LockBackend b = five.client();
        for (int i = 0; i < 2; i++) {
            five.proxies.get(i).replies(TcpProxy.Mode.DROP);
            five.proxies.get(i + 2).refuse(true);
            five.proxies.get(i + 2).cut();
        }
        var claim = Holds.claim("leaves", LEASE);
        LockStoreException e = catchThrowableOfType(LockStoreException.class, () -> a.acquire(claim, Duration.ZERO));
        assertThat(e.mayHaveTakenEffect()).isTrue();
        assertThatThrownBy(() -> a.release(claim)).isInstanceOf(LockStoreException.class); // What the engine does.
        for (int i = 0; i < 5; i++) {
            five.proxies.get(i).heal();
            five.proxies.get(i).cut();
        }
        await().atMost(Duration.ofSeconds(15)).ignoreExceptions().until(() -> {
            a.release(claim);
            return true;
        });
        holds.sure(b, "leaves", LEASE);
    }

    /** A request that is under way when its owner gives up arrives in front of its release, and takes nothing. */
    @Test
    void lateRequestIsFollowedByItsRelease() throws InterruptedException {
        LockBackend a = five.client();
        LockBackend b = five.client();
        String name = "late-" + System.nanoTime();
        Hold held = holds.sure(b, name, LEASE);
        // Two get it late; the others say that it is held.
        five.proxies.get(3).requests(TcpProxy.Mode.HOLD);
        five.proxies.get(4).requests(TcpProxy.Mode.HOLD);
        assertThat(holds.take(a, name, LEASE)).isEmpty();
        five.servers.get(3).ask("DEL", Deployment.lockKey(name));
        five.servers.get(4).ask("DEL", Deployment.lockKey(name));
        five.proxies.get(3).heal();
        five.proxies.get(4).heal();
        assertThat(holds.renew(b, held)).isTrue();
        assertThat(holds.release(b, held)).isTrue();
        await().atMost(Duration.ofSeconds(10))
                .untilAsserted(() -> assertThat(five.servers.stream()
                                .map(s -> s.ask("GET", Deployment.lockKey(name)))
                                .toList())
                        .containsOnlyNulls());
    }

    /** Without its scripts a server is given them again, and nothing is lost. */
    @Test
    void scriptsAreFlushed() throws InterruptedException {
        LockBackend a = five.client();
        for (int i = 0; i < 3; i++) {
            Hold hold = holds.sure(a, "scripts", LEASE);
            five.servers.forEach(s -> s.ask("SCRIPT", "FLUSH"));
            assertThat(holds.renew(a, hold)).isTrue();
            five.servers.forEach(s -> s.ask("SCRIPT", "FLUSH"));
            assertThat(holds.release(a, hold)).isTrue();
            five.servers.forEach(s -> s.ask("SCRIPT", "FLUSH"));
        }
        holds.judge(false);
    }

    /**
     * The connections break at any moment, again and again. A release that does not reach a server is sent once more, so
     * that what it should have ended keeps nobody out for a lease.
     */
    @Test
    void connectionsBreak() throws InterruptedException {
        LockBackend a = five.client();
        Duration lease = Duration.ofSeconds(30);
        for (int i = 0; i < 30; i++) {
            Hold hold = holds.sure(a, "broken-" + i % 2, lease);
            five.proxies.get(i % 5).cut();
            five.proxies.get((i + 1) % 5).cut();
            await().atMost(Duration.ofSeconds(30)).ignoreExceptions().until(() -> {
                holds.release(a, hold);
                return true;
            });
        }
        long last = System.nanoTime();
        await().atMost(lease).untilAsserted(() -> {
            for (RedisServer server : five.servers) {
                assertThat(server.ask("EXISTS", Deployment.lockKey("broken-0"), Deployment.lockKey("broken-1")))
                        .isEqualTo(0L);
            }
        });
        assertThat(Duration.ofNanos(System.nanoTime() - last))
                .as("by releases, not by the end of leases")
                .isLessThan(lease.minusSeconds(2));
        holds.judge(false);
    }
}
