package dev.mortise.lock.etcd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.DistributedLock;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** What is particular to locks in etcd, on one server. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class EtcdBackendTest {
    private static final Duration LEASE = Duration.ofSeconds(30);
    private static final Duration LONG = Duration.ofSeconds(30);

    private EtcdStore store;

    @BeforeAll
    void start() {
        store = new EtcdStore();
    }

    @AfterAll
    void stop() {
        store.close();
    }

    private static Claim claim(String name) {
        return claim(name, LEASE);
    }

    private static Claim claim(String name, Duration lease) {
        return Claim.of(name, "test~" + UUID.randomUUID(), lease);
    }

    private static Grant grant(EtcdBackend backend, Claim claim) throws InterruptedException {
        return backend.acquire(claim, Duration.ZERO).grant().orElseThrow();
    }

    private EtcdBackend direct() {
        return EtcdStore.connect("127.0.0.1:" + store.server.port(), Duration.ofSeconds(10), Map.of());
    }

    private int queued(String name) {
        return store.server.count(Keys.of(Keys.PREFIX, name).start());
    }

    @Test
    void isOfConsensusAndTellsItsShortestLease() {
        try (EtcdBackend backend = direct()) {
            assertThat(backend.guarantees().consistency()).isEqualTo(Consistency.CONSENSUS);
            assertThat(backend.guarantees().shortestLease()).isEqualTo(Duration.ofSeconds(1));
            assertThat(backend.guarantees().fair()).isTrue();
        }
    }

    /** One and a half of the default's election timeout, in whole seconds. */
    @Test
    void shortestLeaseOfDefaultSettingsIsTwoSeconds() throws Exception {
        try (EtcdServer server = new EtcdServer(EtcdServer.DEFAULT_ELECTIONS.toArray(new String[0]));
                EtcdBackend backend =
                        EtcdStore.connect("127.0.0.1:" + server.port(), Duration.ofSeconds(10), Map.of())) {
            assertThat(backend.guarantees().shortestLease()).isEqualTo(Duration.ofSeconds(2));
            assertThat(grant(backend, claim("short", Duration.ofMillis(1))).lease())
                    .isEqualTo(Duration.ofSeconds(2));
        }
    }

    @Test
    void leasesAreWholeSecondsAndNeverLessThanAskedFor() throws Exception {
        try (EtcdBackend backend = direct()) {
            assertThat(grant(backend, claim("whole", Duration.ofMillis(1))).lease())
                    .isEqualTo(Duration.ofSeconds(1));
            assertThat(grant(backend, claim("rounded", Duration.ofMillis(4001))).lease())
                    .isEqualTo(Duration.ofSeconds(5));
        }
    }

    @Test
    void tooLongALeaseIsRefusedBeforeAnythingIsSent() {
        try (EtcdBackend backend = direct()) {
            long before = store.server.calls("LeaseGrant") + store.server.calls("Txn");
            assertThatThrownBy(() -> backend.acquire(claim("long", Duration.ofDays(366)), Duration.ZERO))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("lease")
                    .hasMessageContaining("365 days")
                    .hasMessageContaining("PT8784H");
            assertThat(store.server.calls("LeaseGrant") + store.server.calls("Txn"))
                    .isEqualTo(before);
        }
    }

    /** The lease comes from the pool, and goes back to it. */
    @Test
    void uncontendedIsOneTransactionAndOneMore() throws Exception {
        try (EtcdBackend backend = direct()) {
            Claim first = claim("costs");
            grant(backend, first);
            backend.release(first);
            long transactions = store.server.calls("Txn");
            long leases = store.server.calls("LeaseGrant") + store.server.calls("LeaseRevoke");
            for (int i = 0; i < 20; i++) {
                Claim claim = claim("costs");
                grant(backend, claim);
                assertThat(backend.release(claim)).isTrue();
            }
            assertThat(store.server.calls("Txn") - transactions).isEqualTo(40);
            assertThat(store.server.calls("LeaseGrant") + store.server.calls("LeaseRevoke"))
                    .isEqualTo(leases);
            assertThat(backend.known()).isZero();
        }
    }

    @Test
    void aRefusalIsOneTransactionAndLeavesNothing() throws Exception {
        try (EtcdBackend holder = direct();
                EtcdBackend other = direct()) {
            grant(holder, claim("refused"));
            other.acquire(claim("refused"), Duration.ZERO);
            long before = store.server.calls("Txn");
            Attempt attempt = other.acquire(claim("refused"), Duration.ZERO);
            assertThat(attempt.grant()).isEmpty();
            assertThat(attempt.rest()).contains(LEASE);
            assertThat(store.server.calls("Txn") - before).isEqualTo(1);
            assertThat(queued("refused")).isEqualTo(1);
            assertThat(other.known()).isZero();
        }
    }

    /** On one stream, each lease once, and the keys by the hundred. */
    @Test
    void renewalOfAThousandIsAThousandMessagesOnOneStream() throws Exception {
        try (EtcdBackend backend = direct()) {
            List<Grant> grants = Collections.synchronizedList(new ArrayList<>());
            grants.add(grant(backend, claim("many-first", Duration.ofMinutes(5))));
            Renewal one = backend.renew(List.copyOf(grants));
            assertThat(one.live()).hasSize(1);
            long threads = threads();
            List<Thread> workers = new ArrayList<>();
            for (int w = 0; w < 10; w++) {
                int worker = w;
                workers.add(EtcdStore.inAThread(() -> {
                    try {
                        for (int i = 0; i < 100; i++) {
                            grants.add(grant(backend, claim("many-" + worker + "-" + i, Duration.ofMinutes(5))));
                        }
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                }));
            }
            for (Thread worker : workers) {
                worker.join();
            }
            assertThat(grants).hasSize(1001);
            long streams = store.server.calls("LeaseKeepAlive");
            long messages = store.server.messages("LeaseKeepAlive");
            long transactions = store.server.calls("Txn");
            Renewal renewal = backend.renew(List.copyOf(grants));
            assertThat(renewal.live()).hasSize(1001);
            assertThat(store.server.calls("LeaseKeepAlive")).isEqualTo(streams);
            assertThat(store.server.messages("LeaseKeepAlive") - messages).isEqualTo(1001);
            assertThat(store.server.calls("Txn") - transactions).isEqualTo(11);
            assertThat(threads()).isLessThanOrEqualTo(threads);
            for (int i = 0; i < grants.size(); i++) {
                Grant before = grants.get(i);
                Grant after = renewal.live().stream()
                        .filter(each -> each.claim().equals(before.claim()))
                        .findAny()
                        .orElseThrow();
                assertThat(after.since() - before.since()).isPositive();
                assertThat(after.token()).isEqualTo(before.token());
            }
        }
    }

    /** Those of the client; the pool's and gRPC's are few, whatever is held. */
    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("mortise-etcd")
                        || thread.getName().startsWith("grpc"))
                .count();
    }

    /** A pooled lease has been alive for a while; what is granted counts from its last proof of life. */
    @Test
    void sinceIsThatOfThePooledLease() throws Exception {
        try (EtcdBackend backend = direct()) {
            Duration lease = Duration.ofHours(1);
            Claim first = claim("aged", lease);
            Grant before = grant(backend, first);
            backend.release(first);
            Grant after = grant(backend, claim("aged", lease));
            assertThat(after.since()).isEqualTo(before.since());
        }
    }

    /** Idle leases are kept alive, else a grant on one of them would not last. */
    @Test
    void aPooledLeaseIsLiveForItsFullLengthFromSince() throws Exception {
        try (EtcdBackend backend = direct()) {
            Duration lease = Duration.ofSeconds(1);
            Claim first = claim("kept", lease);
            Grant before = grant(backend, first);
            backend.release(first);
            long messages = store.server.messages("LeaseKeepAlive");
            await().atMost(LONG).until(() -> store.server.messages("LeaseKeepAlive") > messages + 12);
            long leases = store.server.calls("LeaseGrant");
            Grant after = grant(backend, claim("kept", lease));
            assertThat(store.server.calls("LeaseGrant")).isEqualTo(leases);
            assertThat(after.since() - before.since()).isGreaterThan(TimeUnit.SECONDS.toNanos(1));
            long until = after.since() + TimeUnit.MILLISECONDS.toNanos(900);
            while (System.nanoTime() < until) {
                boolean held = queued("kept") == 1;
                assertThat(held || System.nanoTime() >= until).isTrue();
            }
        }
    }

    @Test
    void waitersAreServedInTheOrderOfTheirArrival() throws Exception {
        try (EtcdBackend holder = direct();
                EtcdBackend first = direct();
                EtcdBackend second = direct()) {
            Claim held = claim("fifo");
            grant(holder, held);
            List<Integer> order = Collections.synchronizedList(new ArrayList<>());
            List<Long> tokens = Collections.synchronizedList(new ArrayList<>());
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                int number = i;
                EtcdBackend backend = i % 2 == 0 ? first : second;
                threads.add(EtcdStore.inAThread(() -> {
                    try {
                        Claim claim = claim("fifo");
                        Grant grant = backend.acquire(claim, LONG).grant().orElseThrow();
                        order.add(number);
                        tokens.add(grant.token());
                        backend.release(claim);
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                }));
                int expected = i + 2;
                await().atMost(LONG).until(() -> queued("fifo") == expected);
            }
            holder.release(held);
            for (Thread thread : threads) {
                thread.join();
            }
            assertThat(order).containsExactly(0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
            assertThat(tokens).isSorted();
            assertThat(queued("fifo")).isZero();
        }
    }

    /** Whether the next one was there before the release began, or came while it was on its way. */
    @Test
    void threadsOfOneClientTakeTurnsForTwoTransactionsEach() throws Exception {
        int threads = 8;
        int each = 40;
        try (LockClient client = LockClient.builder(direct()).build()) {
            DistributedLock lock = client.lock("turns");
            lock.tryAcquire().orElseThrow().release();
            long transactions = store.server.calls("Txn");
            List<FutureTask<Boolean>> all = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                FutureTask<Boolean> turns = new FutureTask<>(() -> {
                    for (int n = 0; n < each; n++) {
                        lock.tryAcquire(LONG).orElseThrow().release();
                    }
                    return true;
                });
                all.add(turns);
                Thread unused = EtcdStore.inAThread(turns);
            }
            for (FutureTask<Boolean> turns : all) {
                turns.get();
            }
            // A tenth of a turn is left for a machine that makes a waiter late enough to look for itself; else it is
            // none.
            assertThat(store.server.calls("Txn") - transactions)
                    .isBetween(2L * threads * each, 2L * threads * each + threads * each / 10);
        }
    }

    /** From one to the next of the same client: what removes the one key has seen the other, and nothing more is asked. */
    @Test
    void aHandOverWithinAClientIsOneTransaction() throws Exception {
        try (EtcdBackend backend = direct()) {
            Grant held = grant(backend, claim("passed"));
            for (int i = 0; i < 5; i++) {
                Claim claim = claim("passed");
                FutureTask<Grant> wait = new FutureTask<>(
                        () -> backend.acquire(claim, LONG).grant().orElseThrow());
                long transactions = store.server.calls("Txn");
                Thread unused = EtcdStore.inAThread(wait);
                // It enters, and looks once more when it watches.
                await().atMost(LONG).until(() -> store.server.calls("Txn") == transactions + 2);
                assertThat(backend.release(held.claim())).isTrue();
                Grant next = wait.get();
                assertThat(store.server.calls("Txn")).isEqualTo(transactions + 3);
                assertThat(next.token()).isGreaterThan(held.token());
                assertThat(backend.renew(List.of(next)).live()).hasSize(1);
                held = next;
            }
            assertThat(backend.release(held.claim())).isTrue();
            assertThat(queued("passed")).isZero();
        }
    }

    /** Counted at the server: one event, for the one who watches the key that went. */
    @Test
    void aReleaseWakesOneOfAThousand() throws Exception {
        try (EtcdBackend holder = direct();
                EtcdBackend crowd = direct()) {
            Claim held = claim("crowd", Duration.ofMinutes(10));
            grant(holder, held);
            int many = 1000;
            CountDownLatch granted = new CountDownLatch(1);
            AtomicReference<Claim> next = new AtomicReference<>();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < many; i++) {
                threads.add(EtcdStore.inAThread(() -> {
                    Claim claim = claim("crowd", Duration.ofMinutes(10));
                    try {
                        if (crowd.acquire(claim, Duration.ofMinutes(5)).grant().isPresent()) {
                            next.set(claim);
                            granted.countDown();
                        }
                    } catch (InterruptedException | LockStoreException e) {
                        // It was closed under them.
                    }
                }));
            }
            await().atMost(Duration.ofMinutes(2)).until(() -> queued("crowd") == many + 1);
            // Each has one watch, and none has two.
            await().atMost(Duration.ofMinutes(2))
                    .until(() -> store.server.metric("etcd_debugging_mvcc_watcher_total") == many);
            long streams = store.server.calls("Watch");
            double events = store.server.metric("etcd_debugging_mvcc_events_total");
            holder.release(held);
            assertThat(granted.await(60, TimeUnit.SECONDS)).isTrue();
            assertThat(store.server.metric("etcd_debugging_mvcc_events_total") - events)
                    .isEqualTo(1);
            assertThat(store.server.calls("Watch")).isEqualTo(streams);
            assertThat(queued("crowd")).isEqualTo(many);
            assertThat(holder.holder("crowd").orElseThrow().owner())
                    .isEqualTo(next.get().owner());
            crowd.close();
            for (Thread thread : threads) {
                thread.join();
            }
            store.evict("crowd");
        }
    }

    @Test
    void aWaiterWhosePlaceIsRemovedGoesToTheEndOfTheLine() throws Exception {
        try (EtcdBackend holder = direct();
                EtcdBackend waiter = direct()) {
            Claim held = claim("removed");
            Grant before = grant(holder, held);
            AtomicReference<Attempt> got = new AtomicReference<>();
            Claim waits = claim("removed", Duration.ofSeconds(1));
            Thread thread = EtcdStore.inAThread(() -> {
                try {
                    got.set(waiter.acquire(waits, LONG));
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            });
            await().atMost(LONG).until(() -> queued("removed") == 2);
            store.server.delete(Keys.of(Keys.PREFIX, "removed").of(waits.owner()));
            await().atMost(LONG).until(() -> queued("removed") == 2);
            assertThat(holder.release(held)).isTrue();
            thread.join();
            assertThat(got.get().grant().orElseThrow().token()).isGreaterThan(before.token());
        }
    }

    @Test
    void aWaiterInTheMiddleThatGoesDoesNotLetTheNextOneIn() throws Exception {
        try (EtcdBackend holder = direct();
                EtcdBackend middle = direct();
                EtcdBackend last = direct()) {
            Claim held = claim("middle");
            grant(holder, held);
            Thread interrupted = EtcdStore.inAThread(() -> {
                try {
                    middle.acquire(claim("middle"), LONG);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            });
            await().atMost(LONG).until(() -> queued("middle") == 2);
            AtomicReference<Attempt> got = new AtomicReference<>();
            Thread waits = EtcdStore.inAThread(() -> {
                try {
                    got.set(last.acquire(claim("middle"), LONG));
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            });
            await().atMost(LONG).until(() -> queued("middle") == 3);
            interrupted.interrupt();
            interrupted.join();
            await().atMost(LONG).until(() -> queued("middle") == 2);
            assertThat(middle.known()).isZero();
            assertThat(got.get()).isNull();
            assertThat(holder.holder("middle").orElseThrow().owner()).isEqualTo(held.owner());
            holder.release(held);
            waits.join();
            assertThat(got.get().grant()).isPresent();
        }
    }

    @Test
    void holderTellsOwnerTokenAndRest() throws Exception {
        try (EtcdBackend backend = direct()) {
            assertThat(backend.holder("told")).isEmpty();
            Claim claim = claim("told");
            Grant grant = grant(backend, claim);
            assertThat(backend.holder("told")).hasValueSatisfying(holder -> {
                assertThat(holder.owner()).isEqualTo(claim.owner());
                assertThat(holder.token()).isEqualTo(grant.token());
                assertThat(holder.rest()).isBetween(Duration.ofSeconds(20), LEASE);
            });
        }
    }

    /** A lease that is alive says nothing of the key on it. */
    @Test
    void aRemovedKeyHasEndedThoughItsLeaseLives() throws Exception {
        try (EtcdBackend backend = direct()) {
            Grant kept = grant(backend, claim("kept-key"));
            Grant gone = grant(backend, claim("gone-key"));
            store.evict("gone-key");
            Renewal renewal = backend.renew(List.of(kept, gone));
            assertThat(renewal.live())
                    .singleElement()
                    .satisfies(grant -> assertThat(grant.claim()).isEqualTo(kept.claim()));
            assertThat(renewal.ended()).containsExactly(gone);
        }
    }

    /** etcd answers a proof of life for it as if all were well, with zero seconds. */
    @Test
    void aRevokedLeaseHasEnded() throws Exception {
        try (EtcdBackend backend = direct()) {
            Grant grant = grant(backend, claim("revoked"));
            String id = store.server.post(
                    "/v3/kv/range",
                    "{\"key\":\""
                            + EtcdServer.base64(Keys.of(Keys.PREFIX, "revoked").of(grant.owner())) + "\"}");
            int at = id.indexOf("\"lease\":\"") + 9;
            store.server.post("/v3/lease/revoke", "{\"ID\":\"" + id.substring(at, id.indexOf('"', at)) + "\"}");
            Renewal renewal = backend.renew(List.of(grant));
            assertThat(renewal.ended()).containsExactly(grant);
            assertThat(backend.release(grant.claim())).isFalse();
        }
    }

    /** Every call ends by the call timeout, with everything that it does inside it. */
    @Test
    void noCallOutlastsItsTimeoutWhileTheServerIsFrozen() throws Exception {
        try (EtcdStore own = new EtcdStore()) {
            Duration timeout = Duration.ofSeconds(2);
            try (EtcdBackend backend = own.connect(timeout, Map.of());
                    EtcdBackend waiting = own.connect(timeout, Map.of())) {
                Grant grant = grant(backend, claim("frozen"));
                AtomicReference<Long> waited = new AtomicReference<>();
                CountDownLatch begun = new CountDownLatch(1);
                Duration patience = Duration.ofSeconds(3);
                Thread waiter = EtcdStore.inAThread(() -> {
                    long start = System.nanoTime();
                    begun.countDown();
                    try {
                        waiting.acquire(claim("frozen"), patience);
                    } catch (LockStoreException e) {
                        assertThat(e.mayHaveTakenEffect()).isTrue();
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                    waited.set(System.nanoTime() - start);
                });
                begun.await();
                await().atMost(LONG)
                        .until(() ->
                                own.server.count(Keys.of(Keys.PREFIX, "frozen").start()) == 2);
                own.server.freeze();
                try {
                    within(timeout, () -> backend.acquire(claim("frozen"), Duration.ZERO), true);
                    within(timeout, () -> backend.acquire(claim("other"), Duration.ZERO), true);
                    within(timeout, () -> backend.renew(List.of(grant)), true);
                    within(timeout, () -> backend.release(grant.claim()), true);
                    within(timeout, () -> backend.holder("frozen"), false);
                    waiter.join();
                    assertThat(Duration.ofNanos(waited.get())).isLessThan(patience.plus(timeout));
                } finally {
                    own.server.resume();
                }
                // And all is well again without anything being done about it.
                await().atMost(LONG).ignoreExceptions().until(() -> !backend.release(grant.claim()));
                Claim after = claim("frozen-after");
                assertThat(grant(backend, after)).isNotNull();
            }
        }
    }

    private interface Call {
        void run() throws Exception;
    }

    private static void within(Duration timeout, Call call, boolean effect) {
        long start = System.nanoTime();
        assertThatThrownBy(call::run).isInstanceOfSatisfying(LockStoreException.class, e -> {
            if (effect) {
                assertThat(e.mayHaveTakenEffect()).isTrue();
            }
            assertThat(e).hasMessageContaining("no answer in time").hasMessageContaining("etcd://");
        });
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(timeout);
    }

    /** What is still on its way when it was given up finds no lease any more. */
    @Test
    void anAcquireThatArrivesAfterItsReleaseTakesNothing() throws Exception {
        try (EtcdStore own = new EtcdStore()) {
            try (EtcdBackend backend = own.connect(Duration.ofSeconds(1), Map.of());
                    EtcdBackend other =
                            EtcdStore.connect("127.0.0.1:" + own.server.port(), Duration.ofSeconds(5), Map.of())) {
                Claim warm = claim("ghost");
                grant(backend, warm);
                backend.release(warm);
                own.network.requests(TcpProxy.Mode.HOLD);
                Claim late = claim("ghost");
                assertThatThrownBy(() -> backend.acquire(late, Duration.ZERO))
                        .isInstanceOfSatisfying(
                                LockStoreException.class,
                                e -> assertThat(e.mayHaveTakenEffect()).isTrue());
                own.network.requests(TcpProxy.Mode.PASS);
                // It has arrived by now, before or after this: either way nothing stays.
                await().atMost(LONG).ignoreExceptions().until(() -> {
                    backend.release(late);
                    return true;
                });
                await().atMost(LONG)
                        .until(() ->
                                own.server.count(Keys.of(Keys.PREFIX, "ghost").start()) == 0);
                Claim next = claim("ghost");
                assertThat(other.acquire(next, Duration.ZERO).grant()).isPresent();
                Claim again = claim("ghost-2");
                grant(backend, again);
                assertThat(backend.release(again)).isTrue();
            }
        }
    }

    @Test
    void closedTwiceAndAfterwardsOnlyRefuses() throws Exception {
        EtcdBackend backend = direct();
        Claim claim = claim("closed");
        Grant grant = grant(backend, claim);
        backend.close();
        backend.close();
        assertThatThrownBy(() -> backend.acquire(claim("closed-2"), Duration.ZERO))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("closed");
        assertThatThrownBy(() -> backend.renew(List.of(grant))).isInstanceOf(LockStoreException.class);
        assertThatThrownBy(() -> backend.release(claim)).isInstanceOf(LockStoreException.class);
        await().atMost(LONG)
                .until(() -> Thread.getAllStackTraces().keySet().stream()
                        .noneMatch(thread -> thread.getName().startsWith("mortise-etcd-pool")));
        store.evict("closed");
    }

    @Test
    void otherDataUnderTheNameIsRefusedWithBothNamed() throws Exception {
        try (EtcdBackend backend = direct()) {
            store.server.post(
                    "/v3/kv/put",
                    "{\"key\":\""
                            + EtcdServer.base64(Keys.of(Keys.PREFIX, "format").of("x")) + "\",\"value\":\""
                            + EtcdServer.base64("2:30") + "\"}");
            assertThatThrownBy(() -> backend.acquire(claim("format"), Duration.ZERO))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("format 1")
                    .hasMessageContaining("2:30");
            store.evict("format");
        }
    }

    /** Keys of others, and names that are the beginning of each other. */
    @Test
    void namesDoNotMeet() throws Exception {
        try (EtcdBackend backend = direct()) {
            store.server.post(
                    "/v3/kv/put", "{\"key\":\"" + EtcdServer.base64("mortise//path") + "\",\"value\":\"YQ==\"}");
            for (String name : List.of("path", "path/1", "path/", "pat", "/path", "..", "a\0b", "%2F", "/")) {
                assertThat(backend.acquire(claim(name), Duration.ZERO).grant())
                        .as(name)
                        .isPresent();
            }
        }
    }

    @Test
    void versionsBeforeTheRepairAreKnown() {
        assertThat(GrpcWire.isFaulty(GrpcWire.version("3.4.23"))).isTrue();
        assertThat(GrpcWire.isFaulty(GrpcWire.version("3.4.31"))).isFalse();
        assertThat(GrpcWire.isFaulty(GrpcWire.version("3.5.12"))).isTrue();
        assertThat(GrpcWire.isFaulty(GrpcWire.version("3.5.13"))).isFalse();
        assertThat(GrpcWire.isFaulty(GrpcWire.version("3.6.0-rc.1"))).isFalse();
        assertThat(GrpcWire.version("not one")).isNull();
    }

    /** What such a version does when a leader is stopped, and goes on, the kit shows. */
    @Test
    void aChangeOfLeaderIsPromisedForRepairedVersionsOnly() throws Exception {
        int[] version = GrpcWire.version(store.server.version());
        try (EtcdBackend backend = direct()) {
            assertThat(backend.guarantees().exclusionSurvives().contains(StoreEvent.FAILOVER))
                    .isEqualTo(!GrpcWire.isFaulty(version));
            assertThat(backend.guarantees().tokensSurvive()).contains(StoreEvent.FAILOVER);
        }
        assertThat(EtcdBackend.GUARANTEES.exclusionSurvives()).contains(StoreEvent.FAILOVER);
    }
}
