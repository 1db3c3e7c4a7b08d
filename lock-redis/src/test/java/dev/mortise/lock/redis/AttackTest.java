package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/**
 * Clients that hold, renew, hand over, give up and forget, over networks that cut, delay, hold back and lose, with a server
 * that is stopped for moments: for some seconds, from a seed that is told. Nobody looks at a clock of the server.
 */
class AttackTest {
    private static final Duration LEASE = Duration.ofMillis(400);
    private static final Duration CALL_TIMEOUT = Duration.ofMillis(300);
    private static final List<String> NAMES = List.of("one", "two");

    /** The time in which somebody counted on a lock: as short as he knew it. */
    private record Hold(String name, long token, long asked, long from, long to) {}

    private final List<Hold> holds = Collections.synchronizedList(new ArrayList<>());
    private final List<Throwable> wrong = Collections.synchronizedList(new ArrayList<>());
    private volatile boolean over;

    private static long deadline(Grant grant) {
        long lease = grant.lease().toNanos();
        return grant.since() + lease - (lease / 100 + 2_000_000);
    }

    /** One client's life. */
    private void live(RedisBackend backend, Random random) {
        while (!over) {
            String name = NAMES.get(random.nextInt(NAMES.size()));
            Claim claim = ScriptsTest.claim(name, LEASE);
            long asked = System.nanoTime();
            try {
                Grant grant = backend.acquire(claim, Duration.ofMillis(random.nextInt(400)))
                        .grant()
                        .orElse(null);
                if (grant != null) {
                    hold(backend, grant, asked, random);
                }
            } catch (LockStoreException e) {
                if (random.nextBoolean()) {
                    releaseQuietly(backend, claim);
                }
            } catch (InterruptedException e) {
                releaseQuietly(backend, claim);
            } catch (RuntimeException | AssertionError e) {
                wrong.add(e);
            }
        }
    }

    private void hold(RedisBackend backend, Grant granted, long asked, Random random) throws InterruptedException {
        Grant grant = granted;
        long from = System.nanoTime();
        long to = from;
        for (int i = random.nextInt(4); i >= 0; i--) {
            TimeUnit.MILLISECONDS.sleep(random.nextInt(120));
            long now = System.nanoTime();
            if (now - deadline(grant) >= 0) {
                to = deadline(grant);
                i = 0;
                continue;
            }
            to = now;
            try {
                Renewal renewal = backend.renew(List.of(grant));
                if (!renewal.ended().isEmpty()) {
                    // Told of the loss before the deadline: within what is declared, nobody else ends a lease.
                    if (System.nanoTime() - deadline(grant) < 0) {
                        wrong.add(new AssertionError("ended before its time: " + grant));
                    }
                    break;
                }
                if (!renewal.live().isEmpty()) {
                    grant = renewal.live().get(0);
                }
            } catch (LockStoreException e) {
                // Unknown: counts on what he has.
            }
        }
        int what = random.nextInt(10);
        if (what == 0) {
            // Forgets it, and counts on it to the end.
            to = Math.max(to, deadline(grant));
            holds.add(new Hold(grant.name(), grant.token(), asked, from, to));
            return;
        }
        holds.add(new Hold(grant.name(), grant.token(), asked, from, to));
        if (what == 1) {
            long adopts = System.nanoTime();
            Claim heir = ScriptsTest.claim(grant.name(), LEASE);
            try {
                Grant taken = backend.adopt(grant, heir).orElse(null);
                if (taken != null) {
                    holds.add(new Hold(taken.name(), taken.token(), adopts, System.nanoTime(), System.nanoTime()));
                    releaseQuietly(backend, heir);
                }
            } catch (LockStoreException e) {
                releaseQuietly(backend, heir);
            }
        }
        releaseQuietly(backend, grant.claim());
    }

    private static void releaseQuietly(RedisBackend backend, Claim claim) {
        try {
            boolean unused = backend.release(claim);
        } catch (LockStoreException e) {
            // It ends by itself.
        }
    }

    /** A call timeout that fits a lease as short as this is short for a machine that is just starting. */
    private static RedisBackend connect(TcpProxy network) {
        return await().atMost(Duration.ofSeconds(30))
                .ignoreExceptions()
                .until(() -> RedisStore.connect(network.port(), CALL_TIMEOUT, Map.of()), backend -> backend != null);
    }

    private void attack(RedisServer server, long seed, long seconds, Consumer<Random> trouble) throws Exception {
        List<TcpProxy> networks = new ArrayList<>();
        List<RedisBackend> backends = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        try {
            for (int i = 0; i < 3; i++) {
                TcpProxy network = new TcpProxy(server.port());
                networks.add(network);
                RedisBackend backend = connect(network);
                backends.add(backend);
                for (int t = 0; t < 3; t++) {
                    Random random = new Random(seed + 10L * i + t);
                    Thread thread = new Thread(() -> live(backend, random));
                    thread.start();
                    threads.add(thread);
                }
            }
            Random random = new Random(seed - 1);
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
            while (System.nanoTime() - end < 0) {
                TcpProxy network = networks.get(random.nextInt(networks.size()));
                switch (random.nextInt(8)) {
                    case 0 -> network.cut();
                    case 1 -> network.loseReplyTo(request -> request.contains("EVAL"));
                    case 2 -> network.requests(TcpProxy.Mode.HOLD);
                    case 3 -> network.replies(TcpProxy.Mode.DROP);
                    case 4 -> network.delayReplies(Duration.ofMillis(random.nextInt(200)));
                    case 5 -> threads.get(random.nextInt(threads.size())).interrupt();
                    case 6 -> trouble.accept(random);
                    default -> network.heal();
                }
                TimeUnit.MILLISECONDS.sleep(random.nextInt(60));
                if (random.nextInt(3) == 0) {
                    networks.get(random.nextInt(networks.size())).heal();
                }
            }
        } finally {
            over = true;
            networks.forEach(TcpProxy::heal);
            for (Thread thread : threads) {
                thread.join(20_000);
                assertThat(thread.isAlive()).isFalse();
            }
            backends.forEach(RedisBackend::close);
            networks.forEach(TcpProxy::close);
        }
    }

    private static void assertGrowing(List<Hold> all) {
        assertThat(all).extracting(Hold::token).doesNotHaveDuplicates();
        List<Hold> byAnswer =
                all.stream().sorted(Comparator.comparingLong(Hold::from)).toList();
        for (Hold later : all) {
            for (Hold earlier : byAnswer) {
                if (earlier.from() - later.asked() >= 0) {
                    break;
                }
                assertThat(later.token()).as("%s after %s", later, earlier).isGreaterThan(earlier.token());
            }
        }
    }

    @Test
    void withinWhatIsDeclaredNobodyOverlaps() throws Exception {
        long seed = Long.getLong("mortise.attack.seed", System.nanoTime());
        try (RedisServer server = new RedisServer()) {
            attack(server, seed, 8, random -> {
                switch (random.nextInt(4)) {
                    case 0 -> server.ask("SCRIPT", "FLUSH");
                    case 1 -> server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
                    case 2 -> server.ask("CLIENT", "KILL", "TYPE", "pubsub");
                    default -> {
                        server.signal("STOP");
                        try {
                            TimeUnit.MILLISECONDS.sleep(random.nextInt(500));
                        } catch (InterruptedException e) {
                            throw new IllegalStateException(e);
                        } finally {
                            server.signal("CONT");
                        }
                    }
                }
            });
            assertThat(wrong).as("seed %d", seed).isEmpty();
            assertThat(holds.size()).as("seed %d", seed).isGreaterThan(20);
            for (String name : NAMES) {
                List<Hold> all = holds.stream()
                        .filter(hold -> hold.name().equals(name))
                        .sorted(Comparator.comparingLong(Hold::from))
                        .toList();
                assertGrowing(all);
                for (int i = 1; i < all.size(); i++) {
                    assertThat(all.get(i).from() - all.get(i - 1).to())
                            .as("seed %d: %s beside %s", seed, all.get(i), all.get(i - 1))
                            .isGreaterThanOrEqualTo(0);
                    assertThat(all.get(i).token()).isGreaterThan(all.get(i - 1).token());
                }
            }
            // Nothing is stuck, and every key that is left ends.
            await().untilAsserted(() -> {
                for (String name : NAMES) {
                    assertThat(server.ask("EXISTS", Keys.of(Keys.PREFIX, name).lock()))
                            .isEqualTo(0L);
                }
            });
            for (Object key : (List<?>) server.ask("KEYS", "*")) {
                assertThat((Long) server.ask("PTTL", (String) key))
                        .as("%s", key)
                        .isPositive();
            }
        }
    }

    /** Flushed and restarted without its data again and again: holders overlap, tokens grow all the same. */
    @Test
    void tokensGrowWhateverIsLost() throws Exception {
        long seed = Long.getLong("mortise.attack.seed", System.nanoTime());
        try (RedisServer server = new RedisServer()) {
            attack(server, seed, 6, random -> {
                if (random.nextBoolean()) {
                    server.ask("FLUSHALL");
                } else {
                    server.kill();
                    server.start();
                }
            });
            assertThat(holds.size()).as("seed %d", seed).isGreaterThan(20);
            for (String name : NAMES) {
                assertGrowing(
                        holds.stream().filter(hold -> hold.name().equals(name)).toList());
            }
        }
    }
}
