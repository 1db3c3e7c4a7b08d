package dev.mortise.lock.redlock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.ClockShim;
import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.redlock.Node.Terms;
import dev.mortise.lock.redlock.Protocol.Outcome;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;

/** What clocks can do: those of servers let two hold the lock, and a token makes it harmless; those of clients nothing. */
class ClockTest {
    private static final Duration LEASE = Duration.ofSeconds(20);
    private final Holds holds = new Holds();

    /** A resource that refuses, at reads and writes, every token smaller than the largest it has seen. */
    private static final class Resource {
        private long largest;

        synchronized boolean accepts(long token) {
            largest = Math.max(largest, token);
            return token == largest;
        }
    }

    /**
     * The published critique: the clock of a server jumps, a second client gets a majority with its help, and both believe
     * that they hold the lock. Five servers; the first client has it at A, B, C; C's clock jumps; the second gets C, D, E.
     */
    @Test
    void clockJumpLetsTwoHoldItAndTheResourceRefusesTheOlder() throws InterruptedException {
        try (Deployment five = Deployment.five()) {
            LockBackend one = five.client();
            LockBackend two = five.client();
            five.servers.get(3).signal("STOP");
            five.servers.get(4).signal("STOP");
            Hold first = holds.sure(one, "x", LEASE);
            five.servers.get(3).signal("CONT");
            five.servers.get(4).signal("CONT");
            await().atMost(Duration.ofSeconds(20)).until(() -> {
                // What they were asked meanwhile has arrived by now.
                five.servers.get(3).ask("DEL", Deployment.lockKey("x"));
                five.servers.get(4).ask("DEL", Deployment.lockKey("x"));
                five.servers.get(2).ask("PEXPIRE", Deployment.lockKey("x"), "1");
                return holds.take(two, "x", LEASE).isPresent();
            });
            long both = System.nanoTime();
            assertThat(first.until - both).as("both count on it").isPositive();
            Resource resource = new Resource();
            long younger = latest(two);
            assertThat(younger).isGreaterThan(first.token);
            assertThat(resource.accepts(first.token)).isTrue();
            assertThat(resource.accepts(younger)).isTrue();
            assertThat(resource.accepts(first.token)).as("the older").isFalse();
            // Nor does the older come back to life.
            assertThat(one.renew(List.of(first.grant)).live()).isEmpty();
            holds.judge(true);
        }
    }

    private static long latest(LockBackend client) {
        return client.holder("x").orElseThrow().token();
    }

    /** The other half of it: the holder sleeps through the end of its lease, and writes when it wakes. */
    @Test
    void pausedHolderIsRefusedByTheResource() throws InterruptedException {
        try (Deployment five = Deployment.five()) {
            LockBackend one = five.client();
            LockBackend two = five.client();
            Hold first = holds.sure(one, "x", Duration.ofMillis(400));
            Hold second = holds.sure(two, "x", LEASE);
            Resource resource = new Resource();
            assertThat(resource.accepts(second.token)).isTrue();
            assertThat(resource.accepts(first.token)).isFalse();
            assertThat(one.release(first.claim)).isFalse();
            assertThat(holds.renew(two, second)).isTrue();
            holds.judge(false);
        }
    }

    /**
     * Servers' clocks step by minutes, both ways, all the time: two may hold it, tokens are unique and grow. A key that
     * would live longer by such a step is cut to a longest lease, so that it is granted again soon.
     */
    @Test
    void clocksOfServersStep() throws Exception {
        Optional<ClockShim> shim = ClockShim.compiled();
        List<ClockShim.Clock> clocks = new ArrayList<>();
        try (Deployment five = new Deployment(0).option("attempt", "2s").option("longest-lease", "2s")) {
            for (int i = 0; i < 5; i++) {
                shim.ifPresent(made -> clocks.add(made.clock()));
                five.add(
                        shim.isEmpty()
                                ? new RedisServer()
                                : new RedisServer(clocks.get(i).environment()));
            }
            five.initialise();
            if (shim.isPresent()) {
                long before = (Long) clock(five.servers.get(0));
                clocks.get(0).set(Duration.ofMinutes(10));
                await().until(() -> (Long) clock(five.servers.get(0)) - before >= 600);
                clocks.get(0).set(Duration.ZERO);
            }
            LockBackend[] clients = {five.client(), five.client(), five.client()};
            SplittableRandom random = new SplittableRandom(1);
            long end = System.nanoTime() + Duration.ofSeconds(8).toNanos();
            for (int i = 0; System.nanoTime() - end < 0; i++) {
                Hold hold = holds.sure(clients[i % 3], "x", Duration.ofMillis(1500));
                int server = random.nextInt(5);
                if (shim.isPresent()) {
                    clocks.get(server).set(Duration.ofMinutes(random.nextInt(-10, 11)));
                } else {
                    five.servers.get(server).ask("PEXPIRE", Deployment.lockKey("x"), "1");
                }
                if (random.nextBoolean()) {
                    clients[i % 3].release(hold.claim);
                }
            }
            assertThat(holds.size()).isGreaterThan(5);
            holds.judge(true);
        }
        shim.ifPresent(ClockShim::close);
    }

    private static Object clock(RedisServer server) {
        return Long.valueOf((String) ((List<?>) server.ask("TIME")).get(0));
    }

    // ------------------------------------------------------------------------------------------------- clients' clocks

    /** The client's half with a wall clock of its own. */
    private static final class Client implements AutoCloseable {
        final Connector connector = new Connector();
        final Protocol protocol;

        Client(Deployment deployment, LongSupplier wallMicros) {
            RedisNode.Twins twins = new RedisNode.Twins();
            List<Node> nodes = new ArrayList<>();
            for (RedisServer server : deployment.servers) {
                nodes.add(new RedisNode(
                        connector.link("127.0.0.1", server.port(), false, null, null, 0, 5_000_000_000L), twins));
            }
            protocol = new Protocol(
                    nodes,
                    new Terms(20_000, 60_000),
                    true,
                    System::nanoTime,
                    wallMicros,
                    connector.alarm(),
                    5_000_000_000L,
                    line -> {});
        }

        Outcome acquire(String name, String owner) throws Exception {
            return protocol.acquire(name, owner, 30_000, 15_000_000_000L)
                    .outcome
                    .get(60, TimeUnit.SECONDS);
        }

        @Override
        public void close() {
            protocol.close();
            connector.close();
        }
    }

    private static Deployment patient() {
        Deployment five = new Deployment(5).option("attempt", "20s").option("longest-lease", "60s");
        five.initialise();
        return five;
    }

    private static long wall() {
        return System.currentTimeMillis() * 1000;
    }

    /** Clients propose the very same token at the same time: it is granted to one of them at most. */
    @Test
    void sameTokenIsProposedByTwo() throws Exception {
        try (Deployment five = patient()) {
            // Beyond the floor of the new deployment, and the same for all.
            long floor = Long.parseLong((String) five.servers.get(0).ask("HGET", "mortise:redlock", "floor"));
            long[] token = {floor};
            int granted = 0;
            for (int i = 0; i < 40; i++) {
                token[0] += 1000;
                long same = token[0];
                String name = "same-" + i % 3;
                Map<Long, String> tokens = new ConcurrentHashMap<>();
                // New ones each time, which have not seen any token.
                try (Client a = new Client(five, () -> same);
                        Client b = new Client(five, () -> same)) {
                    List<CompletableFuture<Boolean>> both = new ArrayList<>();
                    for (Client client : List.of(a, b)) {
                        String owner = "o" + i + (client == a ? "a" : "b");
                        both.add(CompletableFuture.supplyAsync(
                                () -> {
                                    try {
                                        if (client.acquire(name, owner) instanceof Outcome.Granted g) {
                                            assertThat(tokens.putIfAbsent(g.token(), owner))
                                                    .as("one token twice")
                                                    .isNull();
                                            return true;
                                        }
                                        return false;
                                    } catch (Exception e) {
                                        throw new AssertionError(e);
                                    }
                                },
                                work -> new Thread(work).start()));
                    }
                    for (CompletableFuture<Boolean> each : both) {
                        granted += each.get() ? 1 : 0;
                    }
                    assertThat(tokens.size()).as("holders").isLessThanOrEqualTo(1);
                    a.protocol.release(name, "o" + i + "a").get(60, TimeUnit.SECONDS);
                    b.protocol.release(name, "o" + i + "b").get(60, TimeUnit.SECONDS);
                }
            }
            assertThat(granted).isPositive();
        }
    }

    /** Clients' clocks are minutes and years apart, and step: tokens grow, and nobody is kept out. */
    @Test
    void clocksOfClientsAreWrong() throws Exception {
        try (Deployment five = patient()) {
            long[] steps = new long[4];
            Client[] clients = new Client[4];
            SplittableRandom random = new SplittableRandom(2);
            try {
                for (int i = 0; i < 4; i++) {
                    int me = i;
                    clients[i] = new Client(five, () -> wall() + steps[me]);
                }
                steps[0] = -600_000_000L;
                steps[1] = 600_000_000L;
                steps[2] = 10L * 365 * 86_400_000_000L;
                steps[3] = -wall() + 1;
                long last = 0;
                for (int i = 0; i < 80; i++) {
                    int who = random.nextInt(4);
                    if (random.nextInt(10) == 0 && who < 2) {
                        steps[who] = random.nextLong(-600_000_000L, 600_000_000L);
                    }
                    Outcome outcome = clients[who].acquire("x", "o" + i);
                    assertThat(outcome).as("client %s", who).isInstanceOf(Outcome.Granted.class);
                    long token = ((Outcome.Granted) outcome).token();
                    assertThat(token).isGreaterThan(last);
                    // A clock that is years ahead does not take the tokens with it.
                    assertThat(token).isLessThan(wall() + 3 * Protocol.AHEAD_MICROS);
                    last = token;
                    assertThat(clients[who].protocol.release("x", "o" + i).get(60, TimeUnit.SECONDS))
                            .isTrue();
                }
            } finally {
                for (Client client : clients) {
                    client.close();
                }
            }
        }
    }
}
