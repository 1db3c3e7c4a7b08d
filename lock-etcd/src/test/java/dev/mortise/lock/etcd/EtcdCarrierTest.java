package dev.mortise.lock.etcd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * What carries a claim fails: streams that end in silence, leases that somebody ends, answers that are lost, requests that
 * come too late, a history that is compacted. One client is beside the server, one behind a network that fails.
 */
class EtcdCarrierTest {
    /** Each as often as it was when it was written. */
    private static final boolean THOROUGH = Boolean.getBoolean("mortise.thorough");

    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(1);
    private static final Duration LEASE = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofSeconds(4);

    /** What a busy machine may add. */
    private static final Duration SLACK = Duration.ofSeconds(3);

    private static EtcdServer server;
    private static int number;

    private final Holds holds = new Holds();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private String name;
    private Ways network;
    private LockBackend far;
    private LockBackend near;

    @BeforeAll
    static void start() {
        server = new EtcdServer();
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @BeforeEach
    void connect() {
        name = "carrier-" + ++number;
        network = new Ways(List.of(server));
        far = network.connect(CALL_TIMEOUT);
        near = Ways.connect("etcd://127.0.0.1:" + server.port(), Duration.ofSeconds(3), Map.of());
    }

    @AfterEach
    void judge() throws InterruptedException {
        network.mend();
        holds.judge(false);
        network.close();
        near.close();
        threads.shutdownNow();
        assertThat(threads.awaitTermination(20, TimeUnit.SECONDS)).isTrue();
    }

    private TcpProxy way() {
        return network.to(0);
    }

    /** Keys of the lock, queued or live. */
    private int keys() {
        return server.count(Keys.of(Keys.PREFIX, name).start());
    }

    private String keyOf(Grant grant) {
        return Keys.of(Keys.PREFIX, grant.name()).of(grant.owner());
    }

    /** In a call of its own, that fails in time and may have had effect. */
    private static LockStoreException unanswered(org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
        long start = System.nanoTime();
        Throwable thrown = catchThrowable(call);
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(CALL_TIMEOUT.plus(SLACK));
        assertThat(thrown).isInstanceOf(LockStoreException.class).hasMessageContaining("etcd://127.0.0.1:");
        return (LockStoreException) thrown;
    }

    private Future<Attempt> waiting(LockBackend client, Claim claim, Duration patience) {
        int before = keys();
        Future<Attempt> wait = threads.submit(() -> client.acquire(claim, patience));
        await().until(() -> keys() > before);
        return wait;
    }

    private Renewal renewedSoon(LockBackend client, Grant grant) {
        return await().atMost(Duration.ofSeconds(15))
                .ignoreExceptions()
                .until(
                        () -> client.renew(List.of(grant)),
                        renewal -> renewal.live().size() + renewal.ended().size() == 1);
    }

    // ------------------------------------------------------------------------------------------ streams and leases

    /** Again and again: each renewal ends in time, nothing is known of the lease, and it goes on when the network does. */
    @Test
    void aStreamThatEndsInSilence() throws Exception {
        Hold hold = holds.sure(far, name, LEASE);
        assertThat(holds.renew(far, hold)).isTrue();
        for (TcpProxy.Mode mode : List.of(TcpProxy.Mode.DROP, TcpProxy.Mode.HOLD)) {
            way().replies(mode);
            for (int i = 0; i < 2; i++) {
                long start = System.nanoTime();
                Throwable thrown = catchThrowable(() -> {
                    Renewal renewal = far.renew(List.of(hold.grant));
                    assertThat(renewal.live()).isEmpty();
                    assertThat(renewal.ended()).isEmpty();
                });
                assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(CALL_TIMEOUT.plus(SLACK));
                if (thrown != null) {
                    assertThat(thrown).isInstanceOf(LockStoreException.class);
                }
            }
            network.mend();
            long healed = System.nanoTime();
            Renewal renewal = renewedSoon(far, hold.grant);
            assertThat(renewal.live()).hasSize(1);
            assertThat(renewal.live().get(0).token()).isEqualTo(hold.token);
            assertThat(renewal.live().get(0).since() - healed)
                    .as("not from an answer that was kept back")
                    .isPositive();
        }
        assertThat(holds.release(far, hold)).isTrue();
    }

    /** etcd answers a keep-alive of a lease that is gone with success and a length of zero. */
    @Test
    void aLeaseThatWasRevokedHasEnded() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        Hold other = holds.sure(near, name + "-other", LEASE);
        revoke(keyOf(hold.grant));
        Renewal renewal = near.renew(List.of(hold.grant, other.grant));
        assertThat(renewal.ended()).containsExactly(hold.grant);
        assertThat(renewal.live()).hasSize(1).first().extracting(Grant::token).isEqualTo(other.token);
        assertThat(holds.renew(near, hold)).isFalse();
        assertThat(near.release(hold.claim)).isFalse();
        assertThat(near.release(other.claim)).isTrue();
    }

    private static void revoke(String key) {
        String lease = server.ctl("get", key, "-w", "fields")
                .lines()
                .filter(line -> line.startsWith("\"Lease\""))
                .map(line -> line.substring(line.indexOf(':') + 1).trim())
                .findFirst()
                .orElseThrow();
        server.ctl("lease", "revoke", Long.toHexString(Long.parseLong(lease)));
    }

    /** One proof of life for a lease proves no key on it. */
    @Test
    void aKeyThatWasDeletedUnderALivingLeaseHasEnded() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        server.delete(keyOf(hold.grant));
        Hold next = holds.sure(far, name, LEASE);
        assertThat(next.token).isGreaterThan(hold.token);
        Renewal renewal = near.renew(List.of(hold.grant));
        assertThat(renewal.ended()).containsExactly(hold.grant);
        hold.until = Math.min(hold.until, next.given);
        // Not that of the next one.
        assertThat(near.release(hold.claim)).isFalse();
        assertThat(holds.renew(far, next)).isTrue();
        assertThat(holds.release(far, next)).isTrue();
    }

    /** A key that somebody else made in its place is not the claim, even with its name: it has another revision. */
    @Test
    void aKeyThatWasMadeAnewIsNotTheClaim() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        server.delete(keyOf(hold.grant));
        server.ctl("put", keyOf(hold.grant), "forged");
        Renewal renewal = near.renew(List.of(hold.grant));
        assertThat(renewal.live()).isEmpty();
        // It has the owner's own name: the owner's release removes it, whoever made it.
        boolean unused = near.release(hold.claim);
        assertThat(keys()).isZero();
    }

    @Test
    void theServerIsRestartedUnderALease() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        server.kill();
        assertThat(catchThrowable(() -> near.renew(List.of(hold.grant)).live().forEach(g -> {
                    throw new AssertionError("renewed by a dead server");
                })))
                .satisfiesAnyOf(
                        thrown -> assertThat(thrown).isNull(),
                        thrown -> assertThat(thrown).isInstanceOf(LockStoreException.class));
        server.start();
        Renewal renewal = renewedSoon(near, hold.grant);
        assertThat(renewal.live()).hasSize(1);
        assertThat(near.acquire(Holds.claim(name, LEASE), Duration.ZERO).grant())
                .isEmpty();
        assertThat(near.release(hold.claim)).isTrue();
        assertThat(keys()).isZero();
    }

    // ------------------------------------------------------------------------------------------ waiting

    /** The revision at which the wait began is not there any more. */
    @Test
    void theHistoryIsCompactedDuringAWait() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        Claim second = Holds.claim(name, LEASE);
        Future<Attempt> wait = waiting(far, second, Duration.ofSeconds(25));
        compact();
        // The watch is made anew, at a revision that is gone.
        way().cut();
        compact();
        assertThat(holds.release(near, hold)).isTrue();
        Grant grant = wait.get(20, TimeUnit.SECONDS).grant().orElseThrow();
        assertThat(grant.token()).isGreaterThan(hold.token);
        assertThat(far.release(second)).isTrue();
        assertThat(keys()).isZero();
    }

    private static void compact() {
        for (int i = 0; i < 5; i++) {
            server.ctl("put", "other", "value-" + i);
        }
        String revision = server.ctl("get", "other", "-w", "fields")
                .lines()
                .filter(line -> line.startsWith("\"Revision\""))
                .map(line -> line.substring(line.indexOf(':') + 1).trim())
                .findFirst()
                .orElseThrow();
        server.ctl("compact", revision);
    }

    /** The release happens while the waiter's watch is broken, or in a black hole. */
    @Test
    void aReleaseThatTheWatchMissed() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        Claim second = Holds.claim(name, LEASE);
        Future<Attempt> wait = waiting(far, second, Duration.ofSeconds(25));
        way().refuse(true);
        way().cut();
        assertThat(holds.release(near, hold)).isTrue();
        network.mend();
        assertGrantedOrUnknown(wait, second);
    }

    /** A waiter whose network failed has the lock, or no answer; and nothing is stuck. */
    private void assertGrantedOrUnknown(Future<Attempt> wait, Claim claim) throws Exception {
        try {
            Attempt attempt = wait.get(40, TimeUnit.SECONDS);
            attempt.grant().ifPresent(grant -> {
                Renewal renewal = renewedSoon(far, grant);
                if (System.nanoTime() - Holds.deadline(grant) < 0) {
                    assertThat(renewal.live()).hasSize(1);
                }
            });
        } catch (ExecutionException e) {
            assertThat(e.getCause()).isInstanceOf(LockStoreException.class);
        }
        releaseSoon(far, claim);
        Hold next = holds.sure(near, name, SHORT);
        assertThat(holds.release(near, next)).isTrue();
        await().until(() -> keys() == 0);
    }

    private static void releaseSoon(LockBackend client, Claim claim) {
        await().atMost(Duration.ofSeconds(15)).ignoreExceptions().until(() -> {
            boolean unused = client.release(claim);
            return true;
        });
    }

    /** ET-01: what waits outlives its own lease. A place in the queue that is gone is no grant. */
    @Test
    void aWaiterWhoseOwnLeaseEndedMeanwhile() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        Claim second = Holds.claim(name, SHORT);
        Future<Attempt> wait = waiting(far, second, Duration.ofSeconds(20));
        way().requests(TcpProxy.Mode.DROP);
        // Nothing of it is left but the waiter itself.
        await().atMost(Duration.ofSeconds(15)).until(() -> keys() == 1);
        way().cut();
        way().heal();
        assertThat(holds.release(near, hold)).isTrue();
        try {
            wait.get(40, TimeUnit.SECONDS).grant().ifPresent(grant -> {
                if (System.nanoTime() - Holds.deadline(grant) < 0) {
                    assertThat(server.count(keyOf(grant))).as("it is there").isEqualTo(1);
                }
            });
        } catch (ExecutionException e) {
            assertThat(e.getCause()).isInstanceOf(LockStoreException.class);
        }
        releaseSoon(far, second);
        await().until(() -> keys() == 0);
    }

    /** The same, ended by an administrator under a network that works: it queues again, or says that it has no answer. */
    @Test
    void aWaiterWhoseKeyWasDeleted() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        Claim second = Holds.claim(name, LEASE);
        Future<Attempt> wait = waiting(far, second, Duration.ofSeconds(20));
        server.delete(Keys.of(Keys.PREFIX, name).of(second.owner()));
        assertThat(holds.release(near, hold)).isTrue();
        assertGrantedOrUnknown(wait, second);
    }

    @Test
    void anInterruptedWaiterLeavesNothing() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        Claim second = Holds.claim(name, LEASE);
        CompletableFuture<Throwable> thrown = new CompletableFuture<>();
        Thread waiter =
                new Thread(() -> thrown.complete(catchThrowable(() -> far.acquire(second, Duration.ofSeconds(60)))));
        waiter.start();
        await().until(() -> keys() == 2);
        waiter.interrupt();
        assertThat(thrown.get(10, TimeUnit.SECONDS)).isInstanceOf(InterruptedException.class);
        assertThat(keys()).as("at once").isEqualTo(1);
        assertThat(far.release(second)).isFalse();
        assertThat(holds.release(near, hold)).isTrue();
    }

    /** ET-03: one that gave up is in nobody's way. */
    @Test
    void aWaiterThatGaveUpLeavesNothing() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        assertThat(far.acquire(Holds.claim(name, Duration.ofSeconds(60)), Duration.ofMillis(500))
                        .grant())
                .isEmpty();
        assertThat(keys()).isEqualTo(1);
        Claim third = Holds.claim(name, LEASE);
        Future<Attempt> wait = waiting(far, third, Duration.ofSeconds(20));
        assertThat(holds.release(near, hold)).isTrue();
        assertThat(wait.get(10, TimeUnit.SECONDS).grant()).isPresent();
        assertThat(far.release(third)).isTrue();
        assertThat(keys()).isZero();
    }

    // ------------------------------------------------------------------------------------------ answers that are lost

    @Test
    void theAnswerToAnAcquireIsLost() throws Exception {
        way().replies(TcpProxy.Mode.DROP);
        Claim claim = Holds.claim(name, LEASE);
        assertThat(unanswered(() -> far.acquire(claim, Duration.ZERO)).mayHaveTakenEffect())
                .isTrue();
        unanswered(() -> far.release(claim));
        network.mend();
        releaseSoon(far, claim);
        assertThat(keys()).isZero();
        assertThat(near.release(holds.sure(near, name, LEASE).claim)).isTrue();
    }

    @Test
    void theAnswerToARenewalIsLost() throws Exception {
        Hold hold = holds.sure(far, name, LEASE);
        long before = hold.grant.since();
        way().loseReplyTo(request -> true);
        try {
            assertThat(far.renew(List.of(hold.grant)).ended()).isEmpty();
        } catch (LockStoreException e) {
            // No answer.
        }
        network.mend();
        Renewal renewal = renewedSoon(far, hold.grant);
        assertThat(renewal.live()).hasSize(1);
        assertThat(renewal.live().get(0).since()).isGreaterThan(before);
        assertThat(far.release(hold.claim)).isTrue();
    }

    @Test
    void theAnswerToAReleaseIsLost() throws Exception {
        Hold hold = holds.sure(far, name, LEASE);
        hold.until = System.nanoTime();
        way().replies(TcpProxy.Mode.DROP);
        unanswered(() -> far.release(hold.claim));
        Hold next = holds.sure(near, name, LEASE);
        network.mend();
        releaseSoon(far, hold.claim);
        assertThat(holds.renew(near, next)).as("not that of the next one").isTrue();
        assertThat(holds.release(near, next)).isTrue();
        assertThat(keys()).isZero();
    }

    /** The next one is of the same client, and would have heard of it by that answer. */
    @Test
    void theAnswerToAReleaseThatPassesIsLost() throws Exception {
        for (int i = 0; i < 5; i++) {
            Hold hold = holds.sure(far, name, LEASE);
            Claim second = Holds.claim(name, LEASE);
            Future<Attempt> wait = waiting(far, second, Duration.ofSeconds(20));
            way().loseReplyTo(request -> request.contains(hold.claim.owner()));
            hold.until = Math.min(hold.until, System.nanoTime());
            releaseSoon(far, hold.claim);
            assertGrantedOrUnknown(wait, second);
            assertThat(keys()).isZero();
        }
    }

    /** Its turn comes while it is interrupted: granted, or gone without a trace. */
    @Test
    void aWaiterIsInterruptedWhenItsTurnComes() throws Exception {
        int granted = 0;
        for (int i = 0; i < 200; i++) {
            Hold held = holds.sure(near, name, LEASE);
            Claim claim = Holds.claim(name, LEASE);
            FutureTask<Optional<Hold>> wait = new FutureTask<>(() -> holds.take(near, claim, Duration.ofSeconds(60)));
            Thread waiter = new Thread(wait, "test-call");
            waiter.start();
            await().pollInterval(Duration.ofMillis(2)).until(() -> keys() == 2);
            Thread other = new Thread(
                    () -> {
                        LockSupport.parkNanos(ThreadLocalRandom.current().nextInt(2_000_000));
                        waiter.interrupt();
                    },
                    "test-interrupt");
            other.start();
            assertThat(holds.release(near, held)).isTrue();
            try {
                Hold next = wait.get(40, TimeUnit.SECONDS).orElseThrow();
                granted++;
                assertThat(holds.release(near, next)).isTrue();
            } catch (ExecutionException e) {
                assertThat(e).hasCauseInstanceOf(InterruptedException.class);
                near.release(claim);
            }
            other.join();
            assertThat(keys()).isZero();
        }
        assertThat(granted).isBetween(1, 200);
    }

    /** The wait is over, and nobody hears of it. */
    @Test
    void theAnswerToAConfirmationIsLost() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        Claim second = Holds.claim(name, LEASE);
        Future<Attempt> wait = waiting(far, second, Duration.ofSeconds(20));
        way().loseReplyTo(request -> true);
        assertThat(holds.release(near, hold)).isTrue();
        assertGrantedOrUnknown(wait, second);
    }

    /** Every request that the client makes, each in its turn, has its answer lost. */
    @Test
    void anyAnswerIsLost() throws Exception {
        for (int skip = 0; skip < 8; skip++) {
            int after = skip;
            AtomicInteger seen = new AtomicInteger();
            way().loseReplyTo(request -> seen.getAndIncrement() == after);
            Hold hold = holds.sure(far, name, LEASE);
            await().atMost(Duration.ofSeconds(20)).ignoreExceptions().until(() -> holds.renew(far, hold));
            assertThat(near.acquire(Holds.claim(name, LEASE), Duration.ZERO).grant())
                    .as("held, after " + skip)
                    .isEmpty();
            hold.until = Math.min(hold.until, System.nanoTime());
            releaseSoon(far, hold.claim);
            assertThat(keys()).as("after " + skip).isZero();
        }
    }

    // ------------------------------------------------------------------------------------------ ghosts

    /** It arrives when its owner has given it up, and has tried to release it. */
    @Test
    void anAcquireThatArrivesAfterItsOwnerGaveUp() throws Exception {
        for (int i = 0; i < (THOROUGH ? 3 : 1); i++) {
            way().requests(TcpProxy.Mode.HOLD);
            Claim claim = Holds.claim(name, LEASE);
            unanswered(() -> far.acquire(claim, Duration.ZERO));
            unanswered(() -> far.release(claim));
            way().requests(TcpProxy.Mode.PASS);
            // As the engine: again, until it is acknowledged.
            releaseSoon(far, claim);
            assertThat(far.release(claim)).isFalse();
            Hold next = holds.sure(near, name, LEASE);
            assertThat(holds.renew(near, next)).isTrue();
            assertThat(holds.release(near, next)).isTrue();
            await().during(Duration.ofMillis(300))
                    .atMost(Duration.ofSeconds(10))
                    .until(() -> keys() == 0);
        }
    }

    /** Its connection is gone by then, with the release behind it, and what comes late comes alone. */
    @Test
    void anAcquireThatArrivesAloneAfterItsConnectionIsGone() throws Exception {
        try (Late late = new Late(server.port());
                LockBackend slow = Ways.connect("etcd://127.0.0.1:" + late.port(), CALL_TIMEOUT, Map.of())) {
            Hold first = holds.sure(slow, name, LEASE);
            assertThat(holds.release(slow, first)).isTrue();
            late.keepBack();
            Claim claim = Holds.claim(name, LEASE);
            unanswered(() -> slow.acquire(claim, Duration.ZERO));
            // The release goes over another connection, and overtakes it.
            late.breakToClients();
            await().atMost(Duration.ofSeconds(20)).ignoreExceptions().until(() -> {
                boolean unused = slow.release(claim);
                return true;
            });
            late.deliver();
            await().during(Duration.ofMillis(500))
                    .atMost(Duration.ofSeconds(10))
                    .until(() -> keys() == 0);
            Hold next = holds.sure(near, name, LEASE);
            assertThat(holds.release(near, next)).isTrue();
        }
    }

    // ------------------------------------------------------------------------------------------ nothing is left

    /** ET-16, ET-17: neither keys nor watches nor threads, whatever it did; nor, after their length, leases. */
    @Test
    void aClientThatIsClosedLeavesNothing() throws Exception {
        near.close();
        far.close();
        await().atMost(Duration.ofSeconds(30)).until(() -> server.metric("etcd_debugging_mvcc_watcher_total") == 0);
        int leases = server.leases();
        for (int round = 0; round < (THOROUGH ? 3 : 1); round++) {
            LockBackend client = Ways.connect("etcd://127.0.0.1:" + server.port(), Duration.ofSeconds(3), Map.of());
            List<Hold> all = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                all.add(holds.sure(client, name + "-" + i, Duration.ofSeconds(2)));
            }
            Claim second = Holds.claim(name + "-0", Duration.ofSeconds(2));
            assertThat(client.acquire(second, Duration.ofMillis(200)).grant()).isEmpty();
            for (Hold hold : all) {
                assertThat(holds.release(client, hold)).isTrue();
            }
            client.close();
        }
        String start = Keys.of(Keys.PREFIX, name + "-").start();
        assertThat(server.count(start.substring(0, start.length() - 1))).isZero();
        assertThat(server.metric("etcd_debugging_mvcc_watcher_total")).isZero();
        // Those without a key end by themselves.
        await().atMost(Duration.ofSeconds(20)).until(() -> server.leases() <= leases);
        assertThatThrownBy(() -> far.acquire(Holds.claim(name, LEASE), Duration.ZERO))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("closed");
        await().atMost(Duration.ofSeconds(15))
                .until(() -> Thread.getAllStackTraces().keySet().stream()
                        .noneMatch(thread ->
                                !thread.isDaemon() && thread.getName().matches("(?i).*(jetcd|vert|grpc|netty).*")));
    }

    /** ET-15: closed from a thread of its own in the middle of everything: every call ends, and says why. */
    @Test
    void aClientIsClosedWhileItIsUsed() throws Exception {
        Hold hold = holds.sure(near, name, LEASE);
        List<Future<Throwable>> all = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            String own = i % 3 == 0 ? name : name + "-" + i;
            all.add(threads.submit(() -> catchThrowable(() -> {
                while (true) {
                    Claim claim = Holds.claim(own, LEASE);
                    far.acquire(claim, Duration.ofSeconds(60)).grant().ifPresent(grant -> far.renew(List.of(grant)));
                    boolean unused = far.release(claim);
                }
            })));
        }
        await().until(() -> keys() == 5);
        far.close();
        for (Future<Throwable> each : all) {
            assertThat(each.get(20, TimeUnit.SECONDS))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("closed");
        }
        assertThat(holds.renew(near, hold)).isTrue();
        assertThat(holds.release(near, hold)).isTrue();
    }

    /** ET-14: with nobody there it is asked again after pauses, not all the time. */
    @Test
    void nobodyIsThereAndItIsAskedWithPauses() throws Exception {
        Hold hold = holds.sure(far, name, LEASE);
        AtomicInteger connections = new AtomicInteger();
        try (ServerSocket nobody = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            Thread door = new Thread(() -> {
                while (!nobody.isClosed()) {
                    try {
                        nobody.accept().close();
                        connections.incrementAndGet();
                    } catch (IOException e) {
                        // Closed.
                    }
                }
            });
            door.start();
            int port = nobody.getLocalPort();
            LockStoreException e = unanswered(() -> Ways.connect("etcd://127.0.0.1:" + port, CALL_TIMEOUT, Map.of())
                    .close());
            assertThat(e.getMessage()).contains("127.0.0.1:" + port);
            assertThat(connections.get()).as("connections in a call").isBetween(1, 50);
        }
        assertThat(holds.release(far, hold)).isTrue();
    }
}
