package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What the backend asks of the server, and what becomes of sessions and nodes. */
class ZooKeeperBackendTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);
    private static final Duration LEASE = Duration.ofSeconds(30);
    private static final Duration LONGEST = Duration.ofSeconds(60);

    private static ZooKeeperStore store;

    /** Where nothing writes but the test: containers stay. */
    private static ZooKeeperStore quiet;

    private final List<ZooKeeperBackend> opened = new ArrayList<>();

    @BeforeAll
    static void start() {
        store = new ZooKeeperStore("-Dznode.container.checkIntervalMs=100");
        quiet = new ZooKeeperStore("-Dznode.container.checkIntervalMs=3600000");
    }

    @AfterAll
    static void stop() throws Exception {
        store.close();
        quiet.close();
    }

    @AfterEach
    void close() {
        quiet.network.heal();
        opened.forEach(ZooKeeperBackend::close);
    }

    private ZooKeeperBackend open() {
        return open(store);
    }

    private ZooKeeperBackend open(ZooKeeperStore store) {
        ZooKeeperBackend backend = store.connect();
        opened.add(backend);
        return backend;
    }

    private static Claim claim(String name, Duration lease) {
        return Claim.of(name, "test~" + UUID.randomUUID(), lease);
    }

    private static String name() {
        return "n-" + UUID.randomUUID();
    }

    private static Grant granted(LockBackend backend, Claim claim) throws InterruptedException {
        return backend.acquire(claim, Duration.ZERO).grant().orElseThrow();
    }

    private static <T> FutureTask<T> inAThread(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task, "test-call");
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    /** How many writes the server has taken: each has a number. */
    private static long writes() {
        return quiet.server
                .ask("srvr")
                .lines()
                .filter(line -> line.startsWith("Zxid: 0x"))
                .map(line -> Long.parseLong(line.substring("Zxid: 0x".length()), 16))
                .findFirst()
                .orElseThrow();
    }

    private static List<String> queue(String name) throws Exception {
        return queue(store, name);
    }

    private static List<String> queue(ZooKeeperStore store, String name) throws Exception {
        try {
            return store.administrator().getChildren(new Paths("").container(name), false);
        } catch (KeeperException.NoNodeException e) {
            return List.of();
        }
    }

    // --------------------------------------------------------------------------------------------------------- costs

    /** One write each, and what is read for it comes in the same go: nothing more is asked when the answers are there. */
    @Test
    void anUncontendedAcquireIsOneWaitAndOneWrite() throws Exception {
        ZooKeeperBackend backend = open(quiet);
        String name = name();
        Grant warm = granted(backend, claim(name, LEASE));
        assertThat(backend.release(warm.claim())).isTrue();
        long writes = writes();
        quiet.network.replies(TcpProxy.Mode.HOLD);
        Claim claim = claim(name, LEASE);
        FutureTask<Attempt> acquire = inAThread(() -> backend.acquire(claim, Duration.ZERO));
        String administrator = "sid=0x" + Long.toHexString(quiet.administrator().getSessionId());
        await().atMost(LONGEST)
                .until(() -> quiet.server
                        .ask("cons")
                        .lines()
                        .anyMatch(line -> line.contains("lop=GETC") && !line.contains(administrator)));
        assertThat(acquire.isDone()).isFalse();
        // All that it asks it has asked, before it has heard anything.
        quiet.network.requests(TcpProxy.Mode.HOLD);
        quiet.network.replies(TcpProxy.Mode.PASS);
        assertThat(acquire.get().grant()).isPresent();
        quiet.network.requests(TcpProxy.Mode.PASS);
        assertThat(writes() - writes).as("writes of an acquire").isEqualTo(1);
        assertThat(backend.release(claim)).isTrue();
        assertThat(writes() - writes).as("writes of both").isEqualTo(2);
    }

    /** A thousand leases: one session and its threads, and one write at each renewal. */
    @Test
    void aThousandLeasesCostOneWriteATick() throws Exception {
        ZooKeeperBackend backend = open(quiet);
        List<Grant> grants = new ArrayList<>();
        grants.add(granted(backend, claim(name(), LEASE)));
        int threads = Thread.activeCount();
        for (int i = 1; i < 1000; i++) {
            grants.add(granted(backend, claim("many-" + i, LEASE)));
        }
        assertThat(Thread.activeCount()).isLessThanOrEqualTo(threads);
        assertThat(backend.contents()).isEqualTo("claims 1000, sessions 1");
        long writes = writes();
        Renewal renewal = backend.renew(grants);
        assertThat(renewal.live()).hasSize(1000);
        assertThat(writes() - writes).isEqualTo(1);
        for (Grant grant : grants) {
            assertThat(backend.release(grant.claim())).isTrue();
        }
        assertThat(backend.contents()).startsWith("claims 0,");
    }

    /** Each watches the one before it: when the lock is released the server hears from that one, and tells no other. */
    @Test
    void aReleaseWakesOneOfAThousandWaiters() throws Exception {
        // A thousand at once: the machine may be slow, and none of them shall give up.
        ZooKeeperBackend backend = quiet.connect(LONGEST);
        opened.add(backend);
        String name = name();
        Grant held = granted(backend, claim(name, LEASE));
        List<FutureTask<Attempt>> waits = new ArrayList<>();
        AtomicInteger grants = new AtomicInteger();
        for (int i = 0; i < 1000; i++) {
            waits.add(inAThread(() -> {
                Claim claim = claim(name, LEASE);
                Attempt attempt = backend.acquire(claim, LONGEST.multipliedBy(3));
                attempt.grant().ifPresent(grant -> grants.incrementAndGet());
                return attempt;
            }));
        }
        await().atMost(LONGEST).until(() -> queue(quiet, name).size() == 1001);
        await().atMost(LONGEST)
                .until(() -> Integer.parseInt(quiet.server.metrics().get("watch_count")) >= 1000);
        assertThat(waits).noneMatch(FutureTask::isDone);
        long writes = writes();
        assertThat(backend.release(held.claim())).isTrue();
        await().atMost(LONGEST).until(() -> grants.get() == 1);
        // The release. Whoever is woken only reads: that the session lives is known.
        assertThat(writes() - writes).isEqualTo(1);
        assertThat(queue(quiet, name)).hasSize(1000);
        assertThat(Integer.parseInt(quiet.server.metrics().get("watch_count"))).isGreaterThanOrEqualTo(998);
        assertThat(grants.get()).isEqualTo(1);
        backend.close();
        for (FutureTask<Attempt> wait : waits) {
            try {
                wait.get();
            } catch (ExecutionException e) {
                assertThat(e.getCause()).isInstanceOf(LockStoreException.class);
            }
        }
        await().atMost(LONGEST).until(() -> queue(quiet, name).isEmpty());
    }

    /** From one to the next of the same client: the removal says all, and whose turn it is writes nothing. */
    @Test
    void aHandOverWithinAClientIsOneWrite() throws Exception {
        ZooKeeperBackend backend = open(quiet);
        String name = name();
        Grant held = granted(backend, claim(name, LEASE));
        for (int i = 0; i < 20; i++) {
            Claim claim = claim(name, LEASE);
            FutureTask<Attempt> wait = inAThread(() -> backend.acquire(claim, LONGEST));
            await().atMost(LONGEST)
                    .pollInterval(Duration.ofMillis(5))
                    .until(() -> queue(quiet, name).size() == 2);
            long writes = writes();
            assertThat(backend.release(held.claim())).isTrue();
            Grant next = wait.get().grant().orElseThrow();
            assertThat(writes() - writes).isEqualTo(1);
            assertThat(next.token()).isGreaterThan(held.token());
            assertThat(backend.renew(List.of(next)).live()).hasSize(1);
            held = next;
        }
        assertThat(backend.release(held.claim())).isTrue();
        assertThat(queue(quiet, name)).isEmpty();
    }

    @Test
    void waitersAreServedInTheOrderOfTheirComing() throws Exception {
        ZooKeeperBackend first = open();
        ZooKeeperBackend second = open();
        String name = name();
        Grant held = granted(first, claim(name, LEASE));
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        List<FutureTask<Long>> waits = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            int number = i;
            ZooKeeperBackend backend = i % 2 == 0 ? first : second;
            waits.add(inAThread(() -> {
                Claim claim = claim(name, LEASE);
                long token =
                        backend.acquire(claim, LONGEST).grant().orElseThrow().token();
                order.add(number);
                assertThat(backend.release(claim)).isTrue();
                return token;
            }));
            int places = i + 2;
            await().atMost(LONGEST)
                    .pollInterval(Duration.ofMillis(5))
                    .until(() -> queue(name).size() == places);
        }
        first.release(held.claim());
        long last = held.token();
        for (FutureTask<Long> wait : waits) {
            long token = wait.get();
            assertThat(token).isGreaterThan(last);
            last = token;
        }
        assertThat(order).containsExactly(0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    }

    // ------------------------------------------------------------------------------------------------------- sessions

    /** Each of its leases, and none of another session. */
    @Test
    void aSessionThatExpiresEndsItsLeases() throws Exception {
        ZooKeeperBackend backend = open();
        Grant one = granted(backend, claim(name(), LEASE));
        Grant two = granted(backend, claim(name(), LEASE));
        Grant other = granted(backend, claim(name(), LEASE.plusSeconds(1)));
        expireSessionOf(one);
        await().atMost(LONGEST).until(() -> {
            Renewal renewal = backend.renew(List.of(one, two, other));
            return renewal.ended().size() == 2 && renewal.live().size() == 1;
        });
        assertThat(backend.release(one.claim())).isFalse();
        assertThat(backend.release(other.claim())).isTrue();
        Grant next = granted(backend, claim(one.name(), LEASE));
        assertThat(next.token()).isGreaterThan(two.token());
        assertThat(backend.release(next.claim())).isTrue();
    }

    /** As the server itself would, from a client that has the session's number. */
    private static void expireSessionOf(Grant grant) throws Exception {
        String container = new Paths("").container(grant.name());
        String node = store.administrator().getChildren(container, false).get(0);
        long session =
                store.administrator().exists(container + "/" + node, false).getEphemeralOwner();
        byte[] password = new byte[16];
        new java.util.Random(session ^ 0xB3415C00L).nextBytes(password);
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper thief =
                new ZooKeeper(store.server.connectString(), 30_000, event -> connected.countDown(), session, password);
        assertThat(connected.await(60, TimeUnit.SECONDS)).isTrue();
        thief.close();
    }

    /** The library is turned away by servers that know less than it has seen, for ever and without a word. */
    @Test
    void aReleaseIsAnsweredByAServerThatHasLostItsData() throws Exception {
        try (ZooKeeperStore own = new ZooKeeperStore();
                ZooKeeperBackend backend = own.connect(Duration.ofSeconds(1))) {
            Claim released = claim(name(), LEASE);
            for (int i = 0; i < 20; i++) {
                granted(backend, released);
                assertThat(backend.release(released)).isTrue();
                released = claim(released.name(), LEASE);
            }
            Grant held = granted(backend, released);
            own.server.kill();
            own.server.loseData();
            own.server.start();
            await().atMost(LONGEST)
                    .ignoreExceptionsInstanceOf(LockStoreException.class)
                    .until(() -> !backend.release(held.claim()));
            assertThat(backend.renew(List.of(held)).ended()).containsExactly(held);
            await().atMost(LONGEST).until(() -> backend.contents().startsWith("claims 0,"));
        }
    }

    @Test
    void aSessionThatNobodyUsesIsClosed() throws Exception {
        try (ZooKeeperBackend backend =
                ZooKeeperStore.connect(store.server.connectString(), Duration.ofSeconds(1), ZooKeeperStore.OPTIONS)) {
            Claim claim = claim(name(), Duration.ofMillis(800));
            granted(backend, claim);
            assertThat(backend.contents()).isEqualTo("claims 1, sessions 1");
            backend.release(claim);
            await().atMost(LONGEST).until(() -> backend.contents().equals("claims 0, sessions 0"));
            Claim next = claim(name(), Duration.ofMillis(800));
            granted(backend, next);
            assertThat(backend.release(next)).isTrue();
        }
    }

    /** It keeps a session alive, and is granted a lease that it can live on when its turn comes. */
    @Test
    void aWaiterKeepsItsSessionAlive() throws Exception {
        ZooKeeperBackend backend = open();
        ZooKeeperBackend other = open();
        String name = name();
        Grant held = granted(other, claim(name, LEASE));
        Duration lease = Duration.ofMillis(500);
        Claim claim = claim(name, lease);
        FutureTask<Grant> wait =
                inAThread(() -> backend.acquire(claim, LONGEST).grant().orElseThrow());
        await().atMost(LONGEST).until(() -> queue(name).size() == 2);
        TimeUnit.NANOSECONDS.sleep(lease.multipliedBy(5).toNanos());
        assertThat(wait.isDone()).isFalse();
        assertThat(other.release(held.claim())).isTrue();
        Grant grant = wait.get();
        assertThat(grant.lease()).isEqualTo(lease);
        assertThat(backend.renew(List.of(grant)).ended()).isEmpty();
        backend.release(claim);
    }

    @Test
    void leasesAreWhatTheServersSessionsLetThrough() throws Exception {
        try (ZooKeeperServer small = new ZooKeeperServer("minSessionTimeout=1500", "maxSessionTimeout=4000");
                ZooKeeperBackend backend = ZooKeeperStore.connect(small.connectString(), CALL_TIMEOUT, Map.of())) {
            assertThat(backend.guarantees().shortestLease()).isEqualTo(Duration.ofMillis(1500));
            Grant tooLong = granted(backend, claim("a", LEASE));
            assertThat(tooLong.lease()).isEqualTo(Duration.ofSeconds(2));
            assertThat(backend.renew(List.of(tooLong)).live())
                    .first()
                    .satisfies(live -> assertThat(live.lease()).isEqualTo(Duration.ofSeconds(2)));
            Grant tooShort = granted(backend, claim("b", Duration.ofMillis(100)));
            assertThat(tooShort.lease()).isEqualTo(Duration.ofMillis(1500));
        }
        ZooKeeperBackend backend = open();
        assertThatThrownBy(() -> backend.acquire(claim("c", Duration.ofDays(2)), Duration.ZERO))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("lease");
    }

    // ---------------------------------------------------------------------------------------- containers and numbers

    /** They go when they are empty, under the feet of those who come and wait, and tokens go on. */
    @Test
    void containersThatGoDisturbNobody() throws Exception {
        ZooKeeperBackend backend = open();
        ZooKeeperBackend other = open();
        String name = name();
        long last = 0;
        int gone = 0;
        for (int i = 0; i < 6; i++) {
            Claim claim = claim(name, LEASE);
            Grant grant = granted(backend, claim);
            assertThat(grant.token()).isGreaterThan(last);
            last = grant.token();
            Claim waiting = claim(name, LEASE);
            FutureTask<Grant> wait =
                    inAThread(() -> other.acquire(waiting, LONGEST).grant().orElseThrow());
            await().atMost(LONGEST).until(() -> queue(name).size() == 2);
            assertThat(backend.release(claim)).isTrue();
            assertThat(wait.get().token()).isGreaterThan(last);
            last = wait.get().token();
            assertThat(other.release(waiting)).isTrue();
            if (i < 2) {
                String container = new Paths("").container(name);
                await().atMost(LONGEST).until(() -> store.administrator().exists(container, false) == null);
                gone++;
            }
        }
        assertThat(gone).isEqualTo(2);
    }

    /** Near the last number nobody is granted anything until the container is gone and begins anew. */
    @Test
    void numbersThatAreUsedUpBeginAnew() throws Exception {
        try (ZooKeeperServer server = new ZooKeeperServer("-Dznode.container.checkIntervalMs=3600000");
                ZooKeeperBackend backend = ZooKeeperBackend.open(
                        "small",
                        new Connector(server::connectString, List.of(), new ZKClientConfig()),
                        "",
                        Duration.ofMillis(500),
                        BackendContext.of(System::nanoTime, CALL_TIMEOUT),
                        5)) {
            long last = 0;
            for (int i = 0; i < 12; i++) {
                Claim claim = claim("a", LEASE);
                Grant grant = granted(backend, claim);
                assertThat(grant.token()).isGreaterThan(last);
                last = grant.token();
                assertThat(backend.release(claim)).isTrue();
            }
            // Held by one of the old numbers: those that come wait, and get it when the container could go.
            Claim held = claim("b", LEASE);
            Grant first = granted(backend, held);
            for (int i = 0; i < 6; i++) {
                assertThat(backend.acquire(claim("b", LEASE), Duration.ZERO).grant())
                        .isEmpty();
            }
            Claim waiting = claim("b", LEASE);
            FutureTask<Grant> wait =
                    inAThread(() -> backend.acquire(waiting, LONGEST).grant().orElseThrow());
            assertThat(backend.renew(List.of(first)).live()).hasSize(1);
            assertThat(backend.release(held)).isTrue();
            assertThat(wait.get().token()).isGreaterThan(first.token());
            assertThat(backend.release(waiting)).isTrue();
        }
    }

    // ------------------------------------------------------------------------------------------------------ the rest

    /** Calls end in time, whatever the server does; and what was asked of it meanwhile is undone when it goes on. */
    @Test
    void callsEndInTimeWhenTheServerIsFrozen() throws Exception {
        Duration callTimeout = Duration.ofMillis(500);
        try (ZooKeeperServer server = new ZooKeeperServer();
                ZooKeeperBackend backend = ZooKeeperStore.connect(server.connectString(), callTimeout, Map.of());
                ZooKeeperBackend other = ZooKeeperStore.connect(server.connectString(), CALL_TIMEOUT, Map.of())) {
            Grant held = granted(backend, claim("held", LEASE));
            server.signal("STOP");
            Claim lost = claim("lost", LEASE);
            for (Callable<?> call : List.<Callable<?>>of(
                    () -> backend.acquire(lost, Duration.ZERO),
                    () -> backend.acquire(claim("held", LEASE), Duration.ZERO),
                    () -> backend.renew(List.of(held)),
                    () -> backend.release(held.claim()),
                    () -> backend.release(lost),
                    () -> backend.holder("held"))) {
                FutureTask<?> task = inAThread(call);
                assertThatThrownBy(() -> task.get(20, TimeUnit.SECONDS))
                        .as("not a timeout of this test")
                        .hasCauseInstanceOf(LockStoreException.class);
            }
            server.signal("CONT");
            await().atMost(LONGEST).until(() -> acknowledged(() -> backend.release(lost)));
            await().atMost(LONGEST).until(() -> acknowledged(() -> backend.release(held.claim())));
            for (String name : List.of("lost", "held")) {
                Claim next = claim(name, LEASE);
                assertThat(other.acquire(next, LONGEST).grant()).isPresent();
                assertThat(other.release(next)).isTrue();
            }
        }
    }

    private static boolean acknowledged(Callable<Boolean> release) throws Exception {
        try {
            release.call();
            return true;
        } catch (LockStoreException e) {
            return false;
        }
    }

    @Test
    void theHolderIsTold() throws Exception {
        ZooKeeperBackend backend = open();
        String name = "who/holds %2F this";
        assertThat(backend.holder(name)).isEmpty();
        Claim claim = Claim.of(name, "me/%2F:~1", LEASE);
        Grant grant = granted(backend, claim);
        Claim behind = claim(name, LEASE);
        FutureTask<Attempt> wait = inAThread(() -> open().acquire(behind, LONGEST));
        await().atMost(LONGEST).until(() -> queue(name).size() == 2);
        Holder holder = backend.holder(name).orElseThrow();
        assertThat(holder.owner()).isEqualTo("me/%2F:~1");
        assertThat(holder.token()).isEqualTo(grant.token());
        assertThat(holder.rest()).isEqualTo(LEASE);
        backend.release(claim);
        assertThat(wait.get().grant()).isPresent();
    }

    /** A node that belongs to no session holds up whoever comes, for no longer than he will wait; and leaves nothing of him. */
    @Test
    void aStrangersNodeInTheQueue() throws Exception {
        ZooKeeperBackend backend = open();
        String name = name();
        Claim first = claim(name, LEASE);
        granted(backend, first);
        ZooKeeper stranger = store.administrator();
        String path = new Paths("").container(name) + "/";
        stranger.create(path + "not of a claim", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        assertThat(backend.release(first)).isTrue();
        Claim second = claim(name, LEASE);
        granted(backend, second);
        assertThat(backend.release(second))
                .as("what is no claim is in nobody's way")
                .isTrue();
        String stuck = stranger.create(
                path + "stuck:", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
        assertThat(backend.acquire(claim(name, LEASE), Duration.ofMillis(300)).grant())
                .isEmpty();
        assertThat(backend.holder(name).orElseThrow().owner()).isEqualTo("stuck");
        assertThat(queue(name)).hasSize(2);
        stranger.delete(stuck, -1);
        stranger.delete(path + "not of a claim", -1);
        Claim third = claim(name, LEASE);
        granted(backend, third);
        assertThat(backend.release(third)).isTrue();
    }

    @Test
    void anotherFormatIsRefused() throws Exception {
        ZooKeeper administrator = store.administrator();
        administrator.create("/old", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        administrator.create(
                "/old/mortise",
                "mortise 7".getBytes(java.nio.charset.StandardCharsets.US_ASCII),
                ZooDefs.Ids.OPEN_ACL_UNSAFE,
                CreateMode.PERSISTENT);
        assertThatThrownBy(() -> ZooKeeperStore.connect(store.server.connectString() + "/old", CALL_TIMEOUT, Map.of()))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("mortise 7")
                .hasMessageContaining("mortise 1");
    }

    /** Paths of which nothing is there are made; locks of one are not those of another. */
    @Test
    void aPathOfItsOwn() throws Exception {
        try (ZooKeeperBackend below =
                ZooKeeperStore.connect(store.server.connectString() + "/deep/down", CALL_TIMEOUT, Map.of())) {
            Claim claim = claim("same", LEASE);
            granted(below, claim);
            Claim other = claim("same", LEASE);
            granted(open(), other);
            assertThat(store.administrator().getChildren("/deep/down/mortise/same", false))
                    .hasSize(1);
            assertThat(below.release(claim)).isTrue();
        }
    }
}
