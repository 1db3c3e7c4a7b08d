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
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Servers that lose their memory, or come back with an old one, while locks are held. */
class MemoryTest {
    private static final Duration LONGEST = Duration.ofSeconds(4);
    private static final Duration LEASE = Duration.ofSeconds(4);
    private static final Duration SOON = Duration.ofSeconds(30);

    private final Holds holds = new Holds();
    private Deployment five;

    private Deployment five() {
        five = new Deployment(5).option("attempt", "2s").option("longest-lease", "4s");
        five.initialise();
        return five;
    }

    @AfterEach
    void close() {
        if (five != null) {
            five.close();
        }
    }

    private static boolean remembers(RedisServer server) {
        return server.ask("HGET", "mortise:redlock", "run") != null;
    }

    private boolean renewed(LockBackend client, Hold hold) {
        try {
            return holds.renew(client, hold);
        } catch (LockStoreException e) {
            return false;
        }
    }

    /** Keeps the lock as the engine would, at a third of the lease, until this is so. */
    private void holdUntil(LockBackend client, Hold hold, java.util.function.BooleanSupplier so) {
        await().atMost(SOON).pollInterval(Duration.ofMillis(300)).until(() -> {
            assertThat(renewed(client, hold)).as("still held").isTrue();
            return so.getAsBoolean();
        });
    }

    /** One that held a grant comes back empty: it stays out, joins, and votes again, and the lock stays with its holder. */
    @Test
    void oneComesBackEmpty() throws InterruptedException {
        five();
        LockBackend a = five.client();
        LockBackend b = five.client();
        Hold hold = holds.sure(a, "x", LEASE);
        // Only two others hold it besides: without the first no majority would be left.
        for (int i = 3; i < 5; i++) {
            five.servers.get(i).ask("DEL", Deployment.lockKey("x"));
        }
        RedisServer lost = five.servers.get(0);
        lost.kill();
        lost.wipe();
        lost.start();
        for (int i = 0; i < 20; i++) {
            assertThat(holds.take(b, "x", LEASE))
                    .as("two others are free, and the empty one does not vote")
                    .isEmpty();
        }
        await().atMost(SOON).until(() -> {
            assertThat(holds.take(b, "x", LEASE).isPresent() && System.nanoTime() - hold.until < 0)
                    .as("two holders")
                    .isFalse();
            return remembers(lost) && System.nanoTime() - hold.until >= 0;
        });
        await().atMost(SOON)
                .ignoreExceptions()
                .until(() ->
                        holds.take(b, "y", LEASE).map(h -> holds.release(b, h)).orElse(false));
        holds.judge(false);
        long floor = Long.parseLong((String) lost.ask("HGET", "mortise:redlock", "floor"));
        assertThat(floor).as("floor").isGreaterThanOrEqualTo(hold.token);
    }

    /** The holder renews on the others meanwhile, and the joined server counts for the next. */
    @Test
    void holderLivesThroughIt() throws InterruptedException {
        five();
        LockBackend a = five.client();
        LockBackend b = five.client();
        Hold hold = holds.sure(a, "x", LEASE);
        RedisServer lost = five.servers.get(2);
        lost.ask("FLUSHALL");
        holdUntil(a, hold, () -> {
            try {
                assertThat(holds.take(b, "x", LEASE)).isEmpty();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            return remembers(lost);
        });
        assertThat(holds.release(a, hold)).isTrue();
        // It votes: with it, and without two others, there is a majority.
        await().atMost(SOON).ignoreExceptions().until(() -> {
            five.servers.get(0).signal("STOP");
            five.servers.get(1).signal("STOP");
            try {
                return holds.take(b, "x", LEASE).isPresent();
            } finally {
                five.servers.get(0).signal("CONT");
                five.servers.get(1).signal("CONT");
            }
        });
        holds.judge(false);
    }

    /** A server killed and started from an old snapshot has old fences and an old holder: it does not believe itself. */
    @Test
    void oneComesBackWithOldData() throws InterruptedException {
        five();
        LockBackend a = five.client();
        LockBackend b = five.client();
        Hold old = holds.sure(a, "x", LEASE);
        RedisServer rolled = five.servers.get(1);
        rolled.ask("SAVE");
        assertThat(holds.release(a, old)).isTrue();
        // Granted by the one that will forget it, and by two others.
        five.servers.get(3).signal("STOP");
        five.servers.get(4).signal("STOP");
        Hold hold = holds.sure(a, "x", LEASE);
        five.servers.get(3).signal("CONT");
        five.servers.get(4).signal("CONT");
        five.servers.get(3).ask("DEL", Deployment.lockKey("x"));
        five.servers.get(4).ask("DEL", Deployment.lockKey("x"));
        rolled.kill();
        rolled.start();
        assertThat(rolled.ask("GET", Deployment.fenceKey("x")))
                .as("the old fence")
                .isEqualTo("" + old.token);
        for (int i = 0; i < 10; i++) {
            assertThat(holds.take(b, "x", LEASE)).isEmpty();
        }
        holds.sure(b, "x", LEASE);
        holds.judge(false);
        await().atMost(SOON).ignoreExceptions().until(() -> {
            holds.take(b, "y", LEASE);
            return Long.parseLong((String) rolled.ask("HGET", "mortise:redlock", "floor")) >= hold.token;
        });
    }

    /** All are flushed while a lock is held: nobody gets it before a longest lease has gone by, and then a larger token. */
    @Test
    void allAreFlushed() throws InterruptedException {
        five();
        LockBackend a = five.client();
        LockBackend b = five.client();
        Hold hold = holds.sure(a, "x", LEASE);
        five.servers.forEach(s -> s.ask("FLUSHALL"));
        long flushed = System.nanoTime();
        LockStoreException e =
                catchThrowableOfType(LockStoreException.class, () -> b.acquire(Holds.claim("x", LEASE), Duration.ZERO));
        assertThat(e).hasMessageContaining("has lost its memory");
        assertThat(renewed(a, hold)).as("nobody knows of it").isFalse();
        Hold next = holds.sure(b, "x", LEASE);
        assertThat(next.given - flushed).as("a longest lease later").isGreaterThanOrEqualTo(LONGEST.toNanos());
        assertThat(next.token).isGreaterThan(hold.token);
        holds.judge(false);
    }

    /** All flushed, and an operator who says that it does not matter. */
    @Test
    void operatorNeedNotWait() throws InterruptedException {
        five();
        LockBackend a = five.client();
        Hold hold = holds.sure(a, "x", LEASE);
        five.servers.forEach(s -> s.ask("FLUSHALL"));
        assertThat(five.initialise()).hasSize(5).allMatch(line -> line.contains("new memory"));
        Hold next = holds.sure(a, "x", LEASE);
        assertThat(next.token).isGreaterThan(hold.token);
        assertThat(five.initialise()).containsExactly("nothing to do: every server that answers remembers");
        holds.judge(true); // The overlap is what the operator has answered for.
    }

    /** More than a minority lost, and not all: no join finds enough, nothing goes on by itself, and an operator mends it. */
    @Test
    void moreThanAMinorityIsLost() throws InterruptedException {
        five();
        LockBackend a = five.client();
        Hold hold = holds.sure(a, "x", LEASE);
        for (int i = 0; i < 3; i++) {
            five.servers.get(i).ask("FLUSHALL");
        }
        long end = System.nanoTime() + LONGEST.plusSeconds(2).toNanos();
        await().atMost(SOON).until(() -> {
            assertThatThrownBy(() -> a.acquire(Holds.claim("x", LEASE), Duration.ZERO))
                    .isInstanceOf(LockStoreException.class);
            return System.nanoTime() - end > 0;
        });
        assertThatThrownBy(five::client)
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("mortise init")
                .hasMessageContaining("only 2 of 5 servers remember");
        assertThat(five.initialise()).hasSize(3);
        assertThat(holds.sure(a, "x", LEASE).token).isGreaterThan(hold.token);
        holds.judge(false);
    }

    /** A new deployment begins a longest lease after it was first seen, whoever comes, and however many. */
    @Test
    void newDeployment() throws Exception {
        five = new Deployment(5).option("attempt", "2s").option("longest-lease", "4s");
        long start = System.nanoTime();
        List<CompletableFuture<LockBackend>> opening = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            opening.add(CompletableFuture.supplyAsync(five::client, work -> new Thread(work).start()));
        }
        for (CompletableFuture<LockBackend> each : opening) {
            LockBackend client = each.get(60, TimeUnit.SECONDS);
            assertThat(client.guarantees().longestLease()).isEqualTo(LONGEST);
            assertThat(System.nanoTime() - start).isGreaterThanOrEqualTo(LONGEST.toNanos());
            Hold hold = holds.sure(client, "x", LEASE);
            assertThat(holds.release(client, hold)).isTrue();
        }
        holds.judge(false);
        // The terms are the deployment's: others are refused, and who names none has these.
        assertThatThrownBy(five.option("longest-lease", "5s")::client)
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("longest lease 5000 ms")
                .hasMessageContaining("longest lease 4000 ms");
        LockBackend other = five.opened(new RedlockProvider()
                .open(
                        dev.mortise.lock.spi.StoreUri.parse(five.text(), java.util.Map.of()),
                        Deployment.context(Deployment.CALL_TIMEOUT)));
        assertThat(other.guarantees().longestLease()).isEqualTo(LONGEST);
        assertThatThrownBy(() -> other.acquire(Holds.claim("x", Duration.ofMillis(4001)), Duration.ZERO))
                .isInstanceOf(IllegalArgumentException.class);
    }

    /** A fence is kept for a day; without it the largest token of any name stands in. */
    @Test
    void fenceIsGone() throws InterruptedException {
        five();
        LockBackend a = five.client();
        LockBackend slow = five.client();
        Hold hold = holds.sure(a, "x", LEASE);
        for (RedisServer server : five.servers) {
            if (server.ask("EXISTS", Deployment.lockKey("x")).equals(1L)) {
                long ttl = (Long) server.ask("TTL", Deployment.fenceKey("x"));
                assertThat(ttl).isBetween(86_400L - 3600, 86_400L);
            }
        }
        assertThat(holds.release(a, hold)).isTrue();
        five.servers.forEach(s -> s.ask("DEL", Deployment.fenceKey("x")));
        Hold next = holds.sure(slow, "x", LEASE);
        assertThat(next.token).isGreaterThan(hold.token);
        holds.judge(false);
    }

    /** A server whose clock was set back does not stay out for longer than a longest lease. */
    @Test
    void readyFarAheadIsCut() throws InterruptedException {
        five();
        for (RedisServer server : five.servers) {
            server.ask("HSET", "mortise:redlock", "ready", "9000000000000000");
        }
        LockBackend a = five.client();
        long start = System.nanoTime();
        holds.sure(a, "x", LEASE);
        assertThat(System.nanoTime() - start).isGreaterThan(LONGEST.toNanos() / 2);
    }
}
