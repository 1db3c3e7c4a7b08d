package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Waiting for a release: one connection, no polling, and no wake-up that is lost for ever. */
class WaitingTest {
    private static final Duration LONG = Duration.ofSeconds(60);

    private RedisStore store;
    private RedisBackend holder;
    private RedisBackend waiter;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    @BeforeEach
    void start() throws InterruptedException {
        store = new RedisStore();
        // The holder is not behind the network that fails.
        holder = RedisStore.connect(store.server.port(), RedisStore.CALL_TIMEOUT, Map.of());
        waiter = store.connect();
        // So that the server has the scripts, and each run of them is one request.
        holder.release(hold("scripts").claim());
    }

    @AfterEach
    void stop() throws InterruptedException {
        threads.shutdownNow();
        waiter.close();
        holder.close();
        store.close();
        assertThat(threads.awaitTermination(20, TimeUnit.SECONDS)).isTrue();
    }

    private Grant hold(String name) throws InterruptedException {
        return hold(name, LONG);
    }

    private Grant hold(String name, Duration lease) throws InterruptedException {
        return holder.acquire(ScriptsTest.claim(name, lease), Duration.ZERO)
                .grant()
                .orElseThrow();
    }

    /** As the engine does it: a backend that cannot be told of a release may come back early. */
    private Future<Attempt> wait(String name, Duration patience) {
        return threads.submit(() -> {
            long end = System.nanoTime() + patience.toNanos();
            while (true) {
                long left = end - System.nanoTime();
                Attempt attempt = waiter.acquire(ScriptsTest.claim(name), Duration.ofNanos(Math.max(0, left)));
                if (attempt.grant().isPresent() || left <= 0 || end - System.nanoTime() <= 0) {
                    return attempt;
                }
                TimeUnit.NANOSECONDS.sleep(attempt.pause().toNanos());
            }
        });
    }

    private long subscribers() {
        return count("TYPE", "PUBSUB");
    }

    private long count(String... more) {
        List<String> words = new ArrayList<>(List.of("CLIENT", "LIST"));
        words.addAll(List.of(more));
        return ((String) store.server.ask(words.toArray(String[]::new)))
                .lines()
                .filter(line -> !line.isBlank())
                .count();
    }

    private List<?> channels() {
        return (List<?>) store.server.ask("PUBSUB", "CHANNELS");
    }

    private long tries() {
        Map<String, Long> calls = store.server.calls();
        return calls.getOrDefault("evalsha", 0L) + calls.getOrDefault("eval", 0L);
    }

    private static Grant granted(Future<Attempt> wait) throws Exception {
        return wait.get(20, TimeUnit.SECONDS).grant().orElseThrow();
    }

    @Test
    void aReleaseWakes() throws Exception {
        Grant held = hold("a");
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> channels().size() == 1);
        holder.release(held.claim());
        assertThat(granted(wait).token()).isGreaterThan(held.token());
    }

    @Test
    void whoDoesNotWaitSubscribesToNothing() throws Exception {
        Grant held = hold("a");
        for (int i = 0; i < 10; i++) {
            assertThat(waiter.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant())
                    .isEmpty();
            Grant free = waiter.acquire(ScriptsTest.claim("free"), LONG).grant().orElseThrow();
            waiter.release(free.claim());
        }
        assertThat(store.server.calls()).doesNotContainKey("subscribe");
        assertThat(held).isNotNull();
    }

    @Test
    void waitersCostTheServerNothing() throws Exception {
        store.server.ask("CONFIG", "RESETSTAT");
        List<Grant> held = new ArrayList<>();
        List<Future<Attempt>> waits = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            held.add(hold("n-" + i));
        }
        for (int i = 0; i < 200; i++) {
            waits.add(wait("n-" + i, LONG));
        }
        await().atMost(Duration.ofSeconds(20)).until(() -> channels().size() == 200);
        // Each has asked again since.
        await().atMost(Duration.ofSeconds(20)).until(() -> tries() >= 200 + 200 + 200);
        assertThat(subscribers()).isEqualTo(1);
        assertThat(tries()).isEqualTo(600);
        store.server.ask("CONFIG", "RESETSTAT");
        TimeUnit.MILLISECONDS.sleep(1500);
        assertThat(ScriptsTest.commands(store.server)).isEmpty();
        for (Grant each : held) {
            holder.release(each.claim());
        }
        for (Future<Attempt> each : waits) {
            granted(each);
        }
    }

    /** Until hints come: on a busy machine a short time may be over before. */
    private void waitInVain(String name) throws InterruptedException {
        do {
            assertThat(waiter.acquire(ScriptsTest.claim(name), Duration.ofMillis(300))
                            .grant())
                    .isEmpty();
        } while (channels().size() != 1);
    }

    @Test
    void theConnectionIsGivenUpWhenNobodyWaits() throws Exception {
        Grant held = hold("a");
        waitInVain("a");
        assertThat(subscribers()).isEqualTo(1);
        await().atMost(Duration.ofSeconds(30)).until(() -> channels().isEmpty() && subscribers() == 0);
        // And comes back.
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> channels().size() == 1);
        holder.release(held.claim());
        granted(wait);
    }

    @Test
    void aKeptSubscriptionSavesTheSecondQuestion() throws Exception {
        Grant held = hold("a");
        waitInVain("a");
        store.server.ask("CONFIG", "RESETSTAT");
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> tries() == 1);
        holder.release(held.claim());
        granted(wait);
        assertThat(store.server.calls()).doesNotContainKeys("subscribe", "unsubscribe");
        // The waiter's first question, the release, the waiter's second.
        assertThat(tries()).isEqualTo(3);
    }

    /** Between the question and the subscription somebody released: nobody is told, and nobody needs to be. */
    @Test
    void aReleaseBeforeTheSubscriptionIsNotMissed() throws Exception {
        for (int i = 0; i < 20; i++) {
            Grant held = hold("r-" + i);
            Future<Attempt> wait = wait("r-" + i, LONG);
            long soon = System.nanoTime() + TimeUnit.MICROSECONDS.toNanos(200L * i);
            while (System.nanoTime() - soon < 0) {
                Thread.onSpinWait();
            }
            holder.release(held.claim());
            granted(wait);
        }
    }

    /** The acknowledgement of the subscription is late, and the release comes before it. */
    @Test
    void aReleaseBehindASlowAcknowledgementIsNotMissed() throws Exception {
        Grant held = hold("a");
        store.network.delayReplies(Duration.ofMillis(300));
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> channels().size() == 1);
        holder.release(held.claim());
        granted(wait);
    }

    @Test
    void aBrokenConnectionWakesAndComesBack() throws Exception {
        Grant held = hold("a");
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> channels().size() == 1);
        // The release falls into the gap.
        store.network.refuse(true);
        store.network.cut();
        holder.release(held.claim());
        store.network.refuse(false);
        try {
            granted(wait);
        } catch (ExecutionException e) {
            // Its question ran into the gap: told as what it is.
            assertThat(e.getCause()).isInstanceOf(LockStoreException.class);
        }
        Grant other = hold("b");
        Future<Attempt> again = wait("b", LONG);
        await().until(() -> channels().contains(Keys.of(Keys.PREFIX, "b").channel()));
        holder.release(other.claim());
        granted(again);
    }

    /** The server ends the subscriber's connection alone, at the very moment of the release. */
    @Test
    void aKilledSubscriberLosesNothing() throws Exception {
        for (int i = 0; i < 10; i++) {
            String name = "k-" + i;
            Grant held = hold(name);
            Future<Attempt> wait = wait(name, LONG);
            await().until(() -> channels().contains(Keys.of(Keys.PREFIX, name).channel()));
            store.server.ask("CLIENT", "KILL", "TYPE", "pubsub");
            holder.release(held.claim());
            granted(wait);
        }
    }

    /** The message is dropped: the end of the holder's lease is when the waiter comes back by himself. */
    @Test
    void aDroppedMessageCostsAtMostTheLease() throws Exception {
        Grant held = hold("a", Duration.ofSeconds(2));
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> channels().size() == 1);
        await().until(() -> tries() >= 3);
        // Deleted, and not told to anybody.
        store.evict("a");
        long start = System.nanoTime();
        granted(wait);
        assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(4));
        assertThat(held).isNotNull();
    }

    /** A holder that renews is asked for once a lease, no more. */
    @Test
    void atMostOnePollForEachRestOfALease() throws Exception {
        Grant held = hold("a", Duration.ofSeconds(1));
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> channels().size() == 1);
        store.server.ask("CONFIG", "RESETSTAT");
        int renewals = 0;
        long start = System.nanoTime();
        while (System.nanoTime() - start < TimeUnit.SECONDS.toNanos(4)) {
            assertThat(holder.renew(List.of(held)).live()).hasSize(1);
            renewals++;
            TimeUnit.MILLISECONDS.sleep(200);
        }
        long lasted = System.nanoTime() - start;
        // A question finds what is left after the last renewal, which is at least half of the lease on a slow machine.
        assertThat(tries() - renewals).isBetween(1L, 2 + lasted / TimeUnit.MILLISECONDS.toNanos(400));
        holder.release(held.claim());
        granted(wait);
    }

    @Test
    void anEndedLeaseWakes() throws Exception {
        Grant held = hold("a", Duration.ofMillis(700));
        long start = System.nanoTime();
        assertThat(granted(wait("a", LONG)).token()).isGreaterThan(held.token());
        assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(10));
    }

    @Test
    void patienceEnds() throws Exception {
        hold("a");
        long start = System.nanoTime();
        Attempt attempt = wait("a", Duration.ofMillis(300)).get(20, TimeUnit.SECONDS);
        assertThat(attempt.grant()).isEmpty();
        assertThat(attempt.rest().orElseThrow()).isGreaterThan(Duration.ofSeconds(30));
        assertThat(System.nanoTime() - start).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(300));
    }

    @Test
    void anInterruptEndsTheWait() throws Exception {
        hold("a");
        CompletableFuture<Boolean> flag = new CompletableFuture<>();
        CompletableFuture<Throwable> thrown = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                waiter.acquire(ScriptsTest.claim("a"), LONG);
            } catch (Throwable e) {
                flag.complete(Thread.currentThread().isInterrupted());
                thrown.complete(e);
            }
        });
        thread.start();
        await().until(() -> channels().size() == 1);
        thread.interrupt();
        assertThat(thrown.get(10, TimeUnit.SECONDS)).isInstanceOf(InterruptedException.class);
        assertThat(flag.get()).isFalse();
    }

    @Test
    void closeEndsWaits() throws Exception {
        hold("a");
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> channels().size() == 1);
        waiter.close();
        assertThatThrownBy(() -> wait.get(10, TimeUnit.SECONDS)).hasRootCauseInstanceOf(LockStoreException.class);
        await().until(() -> subscribers() == 0);
        assertThatThrownBy(() -> waiter.acquire(ScriptsTest.claim("a"), LONG))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("closed");
        await().until(() -> Thread.getAllStackTraces().keySet().stream()
                .noneMatch(t -> t.getName().startsWith("mortise-redis-subscribe")));
    }

    /** A black hole between the subscriber and the server is noticed, although nothing is ever sent to it. */
    @Test
    void aSilentConnectionIsNoticed() throws Exception {
        Grant held = hold("a", Duration.ofMinutes(5));
        Future<Attempt> wait = wait("a", Duration.ofMinutes(5));
        await().until(() -> channels().size() == 1);
        // Requests go on: by the end of the connection the server is to learn that it was given up.
        store.network.replies(TcpProxy.Mode.DROP);
        holder.release(held.claim());
        // After a while it is asked for a sign of life, and given up when there is none.
        await().atMost(Duration.ofSeconds(40)).until(() -> subscribers() == 0);
        store.network.heal();
        try {
            granted(wait);
        } catch (ExecutionException e) {
            // Woken, it asked, and had no answer.
            assertThat(e.getCause()).isInstanceOf(LockStoreException.class);
        }
    }

    /** A user without the right to subscribe waits all the same: the engine asks again and again. */
    @Test
    void whoMayNotSubscribeIsToldToComeBack() throws Exception {
        store.server.ask("ACL", "SETUSER", "poor", "on", ">secret", "~mortise:*", "+@all", "resetchannels");
        try (RedisBackend poor = RedisStore.connect(
                store.server.port(), RedisStore.CALL_TIMEOUT, Map.of("user", "poor", "password", "secret"))) {
            Grant held =
                    poor.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant().orElseThrow();
            long start = System.nanoTime();
            Attempt attempt = poor.acquire(ScriptsTest.claim("a"), LONG);
            assertThat(attempt.grant()).isEmpty();
            assertThat(attempt.pause()).isLessThan(Duration.ofSeconds(1));
            assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(20));
            // Nor may he publish; it is released all the same.
            assertThat(poor.release(held.claim())).isTrue();
            Claim next = ScriptsTest.claim("a");
            assertThat(poor.acquire(next, LONG).grant()).isPresent();
        }
    }

    /** Who releases would otherwise be the first to ask, each time. */
    @Test
    void whoReleasesLetsOthersFirst() throws Exception {
        Grant held = hold("a");
        assertThat(holder.release(held.claim())).isTrue();
        assertThat(holder.letsOthersFirst("a")).isFalse();
        held = hold("a");
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> channels().size() == 1);
        assertThat(holder.release(held.claim())).isTrue();
        assertThat(holder.letsOthersFirst("a")).isTrue();
        Grant next = granted(wait);
        // Its own subscription, kept for a while, is nobody else's.
        assertThat(waiter.release(next.claim())).isTrue();
        assertThat(waiter.letsOthersFirst("a")).isFalse();
        // Once; and then all is as it was.
        Grant again = holder.acquire(ScriptsTest.claim("a"), LONG).grant().orElseThrow();
        assertThat(holder.letsOthersFirst("a")).isFalse();
        assertThat(holder.release(again.claim())).isTrue();
    }

    @Test
    void manyWaitersOfOneNameGetItOneAfterTheOther() throws Exception {
        Grant held = hold("a");
        List<Future<Long>> waits = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            waits.add(threads.submit(() -> {
                Grant grant = wait("a", LONG).get().grant().orElseThrow();
                assertThat(waiter.release(grant.claim())).isTrue();
                return grant.token();
            }));
        }
        await().until(() -> channels().size() == 1);
        holder.release(held.claim());
        List<Long> tokens = new ArrayList<>();
        for (Future<Long> each : waits) {
            tokens.add(each.get(30, TimeUnit.SECONDS));
        }
        assertThat(tokens).doesNotHaveDuplicates();
        assertThat(subscribers()).isLessThanOrEqualTo(1);
    }

    // ---- Passing on -----------------------------------------------------------------------------------------------

    private Attempt passOn(RedisBackend backend, Claim from, Claim to, boolean live) {
        List<Attempt> passed = new ArrayList<>();
        assertThat(backend.release(from, to, passed::add)).isEqualTo(live);
        return passed.isEmpty() ? null : passed.get(0);
    }

    /** Those of one client who wait get it from one another: a packet for each, and nobody subscribes to anything. */
    @Test
    void aReleaseAsksForTheNextOfItsClient() throws Exception {
        try (LockClient client = LockClient.connect("redis://127.0.0.1:" + store.server.port())) {
            Lease first = client.lock("a").acquire();
            List<Future<Long>> waits = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                waits.add(client.lock("a").tryAcquireAsync(LONG).thenApply(lease -> {
                    try (Lease each = lease.orElseThrow()) {
                        return each.token();
                    }
                }));
            }
            long scripts = tries();
            long packets = Long.parseLong(store.server.info("stats").get("total_reads_processed"));
            first.close();
            List<Long> tokens = new ArrayList<>(List.of(first.token()));
            for (Future<Long> wait : waits) {
                tokens.add(wait.get(60, TimeUnit.SECONDS));
            }
            assertThat(tokens).isSorted().doesNotHaveDuplicates();
            assertThat(tries() - scripts).isEqualTo(20 + 21);
            // 21, and some for the looks themselves and for connections that had been idle; two for each would be 41.
            assertThat(Long.parseLong(store.server.info("stats").get("total_reads_processed")) - packets)
                    .isLessThan(32);
            assertThat(subscribers()).isZero();
        }
    }

    @Test
    void whatIsPassedOnIsAGrantLikeAnyOther() throws Exception {
        Grant held = hold("a");
        Claim next = ScriptsTest.claim("a");
        long before = System.nanoTime();
        Grant passed = passOn(holder, held.claim(), next, true).grant().orElseThrow();
        assertThat(passed.claim()).isEqualTo(next);
        assertThat(passed.token()).isGreaterThan(held.token());
        assertThat(passed.since()).isGreaterThanOrEqualTo(before).isLessThan(System.nanoTime());
        assertThat(holder.renew(List.of(passed)).live()).hasSize(1);
        assertThat(waiter.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant())
                .isEmpty();
        assertThat(holder.release(passed.claim())).isTrue();
    }

    /** A release that ends nothing passes nothing on that is somebody else's. */
    @Test
    void nothingIsPassedOnOfWhatIsLost() throws Exception {
        Grant held = hold("a");
        store.evict("a");
        Grant other =
                waiter.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant().orElseThrow();
        Attempt attempt = passOn(holder, held.claim(), ScriptsTest.claim("a"), false);
        assertThat(attempt.grant()).isEmpty();
        assertThat(attempt.rest()).isPresent();
        assertThat(waiter.renew(List.of(other)).live()).hasSize(1);
    }

    /** An owner who was released before gets nothing, also not in this way. */
    @Test
    void nothingIsPassedOnToTheReleased() throws Exception {
        Grant held = hold("a");
        Claim gone = ScriptsTest.claim("a");
        assertThat(holder.release(gone)).isFalse();
        assertThat(passOn(holder, held.claim(), gone, true)).isNull();
        assertThat(waiter.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant())
                .isPresent();
    }

    /** A server without the scripts has run neither: the release is sent again, and whoever waits asks himself. */
    @Test
    void aServerWithoutScriptsIsNoHindrance() throws Exception {
        Grant held = hold("a");
        store.server.ask("SCRIPT", "FLUSH");
        assertThat(passOn(holder, held.claim(), ScriptsTest.claim("a"), true)).isNull();
        assertThat(waiter.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant())
                .isPresent();
    }

    /** The lock could else go round in one client for ever, while others wait for it. */
    @Test
    void othersWhoWaitComeFirst() throws Exception {
        Grant held = hold("a");
        Future<Attempt> wait = wait("a", LONG);
        await().until(() -> channels().size() == 1);
        // Nobody has been told yet that others wait.
        Claim next = ScriptsTest.claim("a");
        Grant passed = passOn(holder, held.claim(), next, true).grant().orElseThrow();
        assertThat(passOn(holder, passed.claim(), ScriptsTest.claim("a"), true)).isNull();
        assertThat(holder.letsOthersFirst("a")).isTrue();
        Grant others = granted(wait);
        assertThat(others.token()).isGreaterThan(passed.token());
        // Who got it knows of nobody.
        assertThat(passOn(waiter, others.claim(), ScriptsTest.claim("a"), true)).isNotNull();
    }

    /** Whoever releases was interrupted, not whoever gets it: both are done, and the interrupt stays. */
    @Test
    void anInterruptStopsNeither() throws Exception {
        Grant held = hold("a");
        Claim next = ScriptsTest.claim("a");
        Thread.currentThread().interrupt();
        Attempt attempt;
        try {
            attempt = passOn(holder, held.claim(), next, true);
        } finally {
            assertThat(Thread.interrupted()).isTrue();
        }
        assertThat(attempt.grant()).isPresent();
        assertThat(holder.release(next)).isTrue();
        assertThat(waiter.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant())
                .isPresent();
    }

    /** Nothing is known of either: both are released again, and nothing stays. */
    @Test
    void aLostAnswerIsOfBoth() throws Exception {
        Grant held =
                waiter.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant().orElseThrow();
        Claim next = ScriptsTest.claim("a");
        List<Attempt> passed = new ArrayList<>();
        store.network.replies(TcpProxy.Mode.DROP);
        assertThatThrownBy(() -> waiter.release(held.claim(), next, passed::add))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isTrue());
        store.network.heal();
        assertThat(passed).isEmpty();
        assertThat(waiter.release(held.claim())).isFalse();
        assertThat(waiter.release(next)).isTrue();
        assertThat(waiter.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant())
                .isPresent();
    }
}
