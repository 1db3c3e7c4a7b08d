package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.Load;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Sessions end while their holders live and count on their locks, and holders end while their sessions live: nobody gets in
 * beside a holder, and nobody waits longer than the lease for one who is gone (PG-02, PG-04, RT-11, RT-12, XB-04).
 */
abstract class AdvisoryFaults {
    private static final Duration LEASE = Duration.ofSeconds(1);

    /** Of a process of its own, which must not be late with a renewal because the machine is busy. */
    private static final Duration CHILD_LEASE = Duration.ofMillis(1800);

    /** With which the server ends an idle session after its time is up. */
    private static final Duration LAG = Duration.ofSeconds(1);

    /** In which somebody else notices, and takes it. */
    private static final Duration TAKE = Duration.ofSeconds(2);

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Stalls clock = new Stalls();
    private AdvisoryScene scene;

    abstract AdvisoryScene scene();

    @BeforeEach
    void open() {
        scene = scene();
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

    /** What takes a session from its holder. Broken connections, and servers that stand still, are the kit's to cause. */
    enum Fault {
        TERMINATED {
            @Override
            void strike(AdvisoryScene scene) {
                scene.terminate("holder");
            }
        },
        /** The holder's, where it has one of its own. */
        PROCESS_KILLED {
            @Override
            void strike(AdvisoryScene scene) {
                scene.killProcess("holder");
            }
        },
        RESTARTED {
            @Override
            void strike(AdvisoryScene scene) {
                scene.restart();
            }
        },
        SERVER_KILLED {
            @Override
            void strike(AdvisoryScene scene) {
                scene.crash();
            }
        };

        abstract void strike(AdvisoryScene scene);
    }

    /** The holder lives and believes; it renews nothing, and knows nothing. The next one is in after it, and soon after. */
    @ParameterizedTest
    @EnumSource(Fault.class)
    void theSessionIsLost(Fault fault) throws Exception {
        LockBackend holder = scene.client("holder");
        LockBackend other = scene.client("other");
        Hold first = scene.holds.sure(holder, "n", LEASE);
        assertThat(scene.sessions("holder", true)).hasSize(1);
        fault.strike(scene);
        long struck = clock.now();
        Claim claim = Holds.claim("n", LEASE);
        await().pollInterval(Duration.ofMillis(5))
                .until(() -> scene.sessions("holder", true).isEmpty());
        Hold next = scene.holds.sure(other, "n", LEASE);
        assertThat(clock.since(struck)).isLessThan(LEASE.plus(TAKE));
        // The old one neither gets it back nor disturbs the new one.
        assertThat(unless(() -> scene.holds.renew(holder, first))).isFalse();
        assertThat(unless(() -> holder.release(first.claim))).isFalse();
        assertThat(scene.holds.renew(other, next)).isTrue();
        assertThat(scene.holds.release(other, next)).isTrue();
        assertThat(scene.holds.take(holder, claim)).isPresent();
    }

    /** What has no answer is asked again: a connection that was lost is made anew. */
    private static boolean unless(java.util.concurrent.Callable<Boolean> call) {
        return await().atMost(Duration.ofSeconds(20))
                .ignoreExceptionsInstanceOf(LockStoreException.class)
                .until(() -> List.of(call.call()), each -> true)
                .get(0);
    }

    /** The same, while the holder renews: whatever it is told, it is true. */
    @ParameterizedTest
    @EnumSource(Fault.class)
    void theSessionIsLostUnderRenewals(Fault fault) throws Exception {
        LockBackend holder = scene.client("holder");
        LockBackend other = scene.client("other");
        Hold first = scene.holds.sure(holder, "n", LEASE);
        Future<?> renewing = threads.submit(() -> {
            while (System.nanoTime() - first.until < 0) {
                try {
                    boolean unused = scene.holds.renew(holder, first);
                } catch (LockStoreException e) {
                    // Unknown.
                }
                TimeUnit.MILLISECONDS.sleep(LEASE.toMillis() / 10);
            }
            return null;
        });
        long renewedUntil = System.nanoTime() + LEASE.toNanos() / 2;
        await().pollInterval(Duration.ofMillis(5)).until(() -> System.nanoTime() - renewedUntil > 0);
        Hold[] next = new Hold[1];
        Future<?> taking = threads.submit(() -> next[0] = scene.holds.sure(other, "n", LEASE));
        fault.strike(scene);
        // If the claim went on, over another session, its holder keeps it until it is made to stop.
        long later = System.nanoTime() + LEASE.multipliedBy(2).toNanos();
        await().atMost(Duration.ofSeconds(20))
                .pollInterval(Duration.ofMillis(5))
                .until(() -> taking.isDone() || System.nanoTime() - later > 0);
        if (!taking.isDone()) {
            assertThat(unless(() -> scene.holds.release(holder, first))).isTrue();
        }
        taking.get(20, TimeUnit.SECONDS);
        assertThat(next[0].token).isGreaterThan(first.token);
        renewing.get(20, TimeUnit.SECONDS);
    }

    /**
     * A renewal counts when it is answered: also if the memory of the server is lost right after that, and with it every
     * commit that did not wait for the disk. A killed process does not change when the server began.
     */
    @ParameterizedTest
    @EnumSource(
            value = Fault.class,
            names = {"PROCESS_KILLED", "SERVER_KILLED"})
    void theLastRenewalIsNotForgotten(Fault fault) throws Exception {
        LockBackend holder = scene.client("holder");
        LockBackend other = scene.client("other");
        for (int i = 0; i < 2; i++) {
            Hold first = scene.holds.sure(holder, "n" + i, LEASE);
            long renew = first.given + LEASE.toNanos() * 2 / 3;
            await().pollInterval(Duration.ofMillis(2)).until(() -> System.nanoTime() - renew > 0);
            assertThat(scene.holds.renew(holder, first)).isTrue();
            fault.strike(scene);
            Hold next = scene.holds.sure(other, "n" + i, LEASE);
            assertThat(next.given - first.until).isNotNegative();
        }
    }

    /** Clients that take, renew and release all the time, through one fault after the other. */
    @Test
    void underLoad() throws Exception {
        TcpProxy way = scene.way();
        List<LockBackend> clients =
                List.of(scene.client("holder"), scene.client(way, "holder2"), scene.client("holder3"));
        // A session that is lost may take its claim with it, before its time.
        try (Load load = new Load(
                scene.holds,
                clients,
                List.of("a", "b", "c"),
                Duration.ofSeconds(2),
                AdvisoryScene.CALL_TIMEOUT,
                true)) {
            load.awaitService(Duration.ofSeconds(20));
            for (Fault fault : Fault.values()) {
                fault.strike(scene);
                load.awaitService(Duration.ofSeconds(20));
            }
            way.requests(TcpProxy.Mode.HOLD);
            way.replies(TcpProxy.Mode.HOLD);
            load.awaitService(Duration.ofSeconds(20), 0, 1);
            way.heal();
            load.awaitService(Duration.ofSeconds(20));
        }
    }

    /**
     * Holders in processes of their own: one is stopped, one is killed, one is cut off and never heard of again. The server
     * ends their sessions by its own clock; whoever asks then gets in, also if nobody has asked before.
     */
    @Test
    void theHolderIsGone() throws Exception {
        TcpProxy cutOff = scene.way();
        Map<String, Child> children = new HashMap<>();
        Map<String, List<String>> said = new HashMap<>();
        LockBackend other = scene.client("other");
        LockBackend late = scene.client("late");
        List<String> kinds = List.of("stopped", "killed", "cut");
        try {
            for (String kind : kinds) {
                int port = kind.equals("cut") ? cutOff.port() : scene.port();
                children.put(
                        kind,
                        Child.start(
                                List.of(),
                                AdvisoryHolder.class,
                                scene.url(port, kind),
                                String.join(
                                        ",",
                                        scene.options(kind).entrySet().stream()
                                                .map(Object::toString)
                                                .toList()),
                                String.valueOf(CHILD_LEASE.toMillis()),
                                kind + "-watched",
                                kind + "-alone"));
            }
            for (String kind : kinds) {
                said.put(kind, new ArrayList<>());
                await().atMost(Duration.ofSeconds(60)).untilAsserted(() -> {
                    listen(children.get(kind), said.get(kind));
                    assertThat(said.get(kind)).anyMatch(line -> line.startsWith("GRANT " + kind + "-alone"));
                });
                assertThat(scene.sessions(kind, true)).as("%s", said).hasSize(2);
            }
            children.get("stopped").signal("STOP");
            cutOff.requests(TcpProxy.Mode.HOLD);
            cutOff.replies(TcpProxy.Mode.HOLD);
            children.get("killed").kill();
            long gone = clock.now();
            Map<String, Long> freed = new HashMap<>();
            Map<String, Long> taken = new HashMap<>();
            Map<String, Hold> next = new HashMap<>();
            await().atMost(Duration.ofSeconds(30))
                    .pollInterval(Duration.ofMillis(5))
                    .until(() -> {
                        for (String kind : kinds) {
                            if (!freed.containsKey(kind)
                                    && scene.sessions(kind, true).isEmpty()) {
                                freed.put(kind, clock.now() - gone);
                            }
                            if (!taken.containsKey(kind)) {
                                scene.holds
                                        .take(other, kind + "-watched", Duration.ofSeconds(20))
                                        .ifPresent(hold -> {
                                            taken.put(kind, clock.now() - gone);
                                            next.put(kind, hold);
                                        });
                            }
                        }
                        return freed.size() == 3 && taken.size() == 3;
                    });
            assertThat(freed.values())
                    .allSatisfy(nanos -> assertThat(Duration.ofNanos(nanos)).isLessThan(CHILD_LEASE.plus(LAG)));
            assertThat(taken.values())
                    .allSatisfy(nanos -> assertThat(Duration.ofNanos(nanos)).isLessThan(CHILD_LEASE.plus(TAKE)));
            await().until(() -> clock.since(gone).compareTo(CHILD_LEASE.plus(TAKE)) > 0);
            for (String kind : kinds) {
                // The first to look, long after, once.
                assertThat(scene.holds.take(late, kind + "-alone", CHILD_LEASE)).isPresent();
            }
            // By what they said last; a holder that cannot say any more was not told of more either.
            for (String kind : kinds) {
                listen(children.get(kind), said.get(kind));
                for (String line : said.get(kind)) {
                    String[] words = line.split(" ", -1);
                    if (words.length == 4 && words[1].endsWith("-watched")) {
                        assertThat(next.get(kind).given - Long.parseLong(words[3]))
                                .as(line)
                                .isNotNegative();
                        assertThat(next.get(kind).token).isGreaterThan(Long.parseLong(words[2]));
                    }
                }
            }
            // Those that go on have lost everything, and cannot end what the next one has.
            children.get("stopped").signal("CONT");
            cutOff.heal();
            for (String kind : List.of("stopped", "cut")) {
                List<String> rest = children.get(kind).rest();
                assertThat(rest).contains("LOST " + kind + "-watched false", "LOST " + kind + "-alone false");
                assertThat(rest).noneMatch(line -> line.startsWith("RENEW"));
                assertThat(scene.holds.renew(other, next.get(kind))).isTrue();
            }
        } finally {
            children.values().forEach(Child::close);
        }
    }

    private static void listen(Child child, List<String> said) throws InterruptedException {
        for (String line = child.line(1); line != null; line = child.line(1)) {
            said.add(line);
        }
    }

    /** Failures of one name behind each other, with leases of every length, over sessions that are used again. */
    @Test
    void chainsOfFailures() throws Exception {
        List<Future<?>> all = new ArrayList<>();
        List<TcpProxy> ways = new ArrayList<>();
        List<LockBackend> clients = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            ways.add(scene.way());
            clients.add(scene.client(ways.get(i), "holder"));
        }
        long[] leases = {600, 2000, 300, 1000, 2000, 600, 1500};
        for (int n = 0; n < 4; n++) {
            String name = "chain" + n;
            Random random = new Random(n);
            all.add(threads.submit(() -> {
                Hold last = null;
                for (long millis : leases) {
                    Duration lease = Duration.ofMillis(millis);
                    int client = random.nextInt(3);
                    long asked = clock.now();
                    Hold hold = scene.holds.sure(clients.get(client), name, lease);
                    if (last != null) {
                        // By the lease of the one before, and of a try of this one that had no answer.
                        assertThat(clock.since(asked))
                                .isLessThan(last.claim.lease().plus(lease).plus(TAKE));
                    }
                    last = hold;
                    switch (random.nextInt(3)) {
                        case 0 -> ways.get(client).cut();
                        case 1 -> scene.terminate("holder");
                        default -> {
                            // Nobody renews it.
                        }
                    }
                }
                return null;
            }));
        }
        for (Future<?> each : all) {
            each.get(60, TimeUnit.SECONDS);
        }
    }

    /** One that is cut off while it waits in the server's queue is given the lock there, and is passed over in time. */
    @Test
    void aWaiterIsCutOff() throws Exception {
        LockBackend holder = scene.client("holder");
        TcpProxy way = scene.way();
        LockBackend lost = scene.open(way.port(), "lost", Duration.ofSeconds(3));
        LockBackend other = scene.client("other");
        Hold first = scene.holds.sure(holder, "n", Duration.ofSeconds(20));
        Claim claim = Holds.claim("n", LEASE);
        Future<Attempt> waiting = threads.submit(() -> lost.acquire(claim, Duration.ofSeconds(6)));
        await().until(() -> !scene.sessions("lost", false).isEmpty());
        way.requests(TcpProxy.Mode.HOLD);
        way.replies(TcpProxy.Mode.HOLD);
        assertThat(scene.holds.release(holder, first)).isTrue();
        long released = clock.now();
        Hold next = scene.holds.sure(other, "n", LEASE);
        assertThat(clock.since(released)).isLessThan(LEASE.plus(TAKE));
        assertThat(next.token).isGreaterThan(first.token);
        try {
            Attempt attempt = waiting.get(20, TimeUnit.SECONDS);
            assertThat(attempt.grant()).isEmpty();
        } catch (java.util.concurrent.ExecutionException e) {
            assertThat(e.getCause()).isInstanceOf(LockStoreException.class);
        }
        way.heal();
        assertThat(unless(() -> lost.release(claim))).isFalse();
    }

    /** From one client to the other through the server's queue: soon, because it was released, and not when the lease ends. */
    @Test
    void handOffs() throws Exception {
        LockBackend[] clients = {scene.client("one"), scene.client("two"), scene.client("three")};
        Duration longer = Duration.ofSeconds(20);
        List<Future<?>> all = new ArrayList<>();
        for (LockBackend client : clients) {
            all.add(threads.submit(() -> {
                for (int i = 0; i < TestStore.times(20, 60); i++) {
                    long asked = clock.now();
                    Optional<Hold> hold = Optional.empty();
                    while (hold.isEmpty()) {
                        // A wait may end before its patience does.
                        hold = scene.holds.take(client, Holds.claim("n", longer), longer);
                        assertThat(clock.since(asked)).isLessThan(Duration.ofSeconds(5));
                    }
                    assertThat(scene.holds.release(client, hold.get())).isTrue();
                }
                return null;
            }));
        }
        for (Future<?> each : all) {
            each.get(60, TimeUnit.SECONDS);
        }
    }
}
