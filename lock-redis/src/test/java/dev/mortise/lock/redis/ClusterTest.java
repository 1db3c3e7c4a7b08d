package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.providers.ClusterConnectionProvider;

/** Locks in a Cluster: each name at one of its masters, wherever that is at the moment. */
class ClusterTest {
    private static final Duration LEASE = Duration.ofSeconds(30);

    private static RedisCluster cluster;

    private LockBackend backend;

    @BeforeAll
    static void start() {
        cluster = new RedisCluster();
    }

    @AfterAll
    static void stop() {
        cluster.close();
    }

    @BeforeEach
    void connect() {
        cluster.masters.forEach(each -> each.ask("FLUSHALL"));
        backend = cluster.connect();
        cluster.masters.forEach(each -> each.ask("CONFIG", "RESETSTAT"));
    }

    @AfterEach
    void close() {
        backend.close();
    }

    private static Claim claim(String name) {
        return Claim.of(name, UUID.randomUUID().toString(), LEASE);
    }

    private Grant acquire(String name) throws InterruptedException {
        return backend.acquire(claim(name), Duration.ZERO).grant().orElseThrow();
    }

    @Test
    void namesAreSpreadAndEachIsAtOneServer() throws Exception {
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            grants.add(acquire("name-" + i));
        }
        for (RedisServer each : cluster.masters) {
            // The lock and the fence of each.
            long keys = (Long) each.ask("DBSIZE");
            assertThat(keys).isGreaterThan(10).isEven();
            assertThat(((List<?>) each.ask("KEYS", "*:lock"))).hasSize((int) keys / 2);
        }
        for (Grant grant : grants) {
            Claim heir = claim(grant.name());
            assertThat(backend.adopt(grant, heir)).isPresent();
            assertThat(backend.holder(grant.name()).orElseThrow().owner()).isEqualTo(heir.owner());
            assertThat(backend.acquire(claim(grant.name()), Duration.ZERO).grant())
                    .isEmpty();
            assertThat(backend.release(heir)).isTrue();
        }
    }

    /** One exchange a server, however many leases. */
    @Test
    void aRenewalIsOneCallToEachServer() throws Exception {
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            grants.add(acquire("name-" + i));
        }
        assertThat(backend.renew(grants).live()).hasSize(60);
        Map<RedisServer, Long> reads = cluster.masters.stream().collect(Collectors.toMap(s -> s, ClusterTest::reads));
        cluster.masters.forEach(each -> each.ask("CONFIG", "RESETSTAT"));
        reads.replaceAll((server, before) -> reads(server));
        assertThat(backend.renew(grants).live()).hasSize(60);
        long runs = 0;
        for (RedisServer each : cluster.masters) {
            // The renewal of some twenty, perhaps in pieces, a PING if the machine was slow, and this question.
            assertThat(reads(each) - reads.get(each)).isBetween(2L, 8L);
            runs += each.calls().get("evalsha");
        }
        assertThat(runs).isEqualTo(60);
    }

    private static long reads(RedisServer server) {
        return Long.parseLong(server.info("stats").get("total_reads_processed"));
    }

    /** What is published at one server of a Cluster is told at all of them. */
    @Test
    void aReleaseWakesWaitersOfEveryServer() throws Exception {
        List<Grant> held = new ArrayList<>();
        List<CompletableFuture<Attempt>> waits = new ArrayList<>();
        try (LockBackend other = cluster.connect()) {
            for (int i = 0; i < 3; i++) {
                held.add(acquire(cluster.name(i, 0)));
                waits.add(RedisStore.waiting(other, cluster.name(i, 0)));
            }
            await().atMost(Duration.ofSeconds(30))
                    .until(() -> cluster.masters.stream()
                                    .mapToInt(each -> ((List<?>) each.ask("PUBSUB", "CHANNELS")).size())
                                    .sum()
                            == 3);
            long subscribers = cluster.masters.stream()
                    .filter(each -> !((List<?>) each.ask("PUBSUB", "CHANNELS")).isEmpty())
                    .count();
            assertThat(subscribers).isEqualTo(1);
            for (int i = 0; i < 3; i++) {
                assertThat(backend.release(held.get(i).claim())).isTrue();
                // Long before the lease would have ended.
                Grant next = waits.get(i).get(20, TimeUnit.SECONDS).grant().orElseThrow();
                assertThat(next.token()).isGreaterThan(held.get(i).token());
            }
        }
    }

    private static void slot(RedisServer at, String name, String state, RedisServer node) {
        String slot = String.valueOf(Keys.of(Keys.PREFIX, name).slot());
        if (node == null) {
            at.ask("CLUSTER", "SETSLOT", slot, state);
        } else {
            at.ask("CLUSTER", "SETSLOT", slot, state, RedisCluster.id(node));
        }
    }

    /** As resharding does it. */
    private static void beginMove(String name, RedisServer from, RedisServer to) {
        slot(to, name, "IMPORTING", from);
        slot(from, name, "MIGRATING", to);
    }

    private static void moveKeys(String name, RedisServer from, RedisServer to) {
        String slot = String.valueOf(Keys.of(Keys.PREFIX, name).slot());
        for (Object key : (List<?>) from.ask("CLUSTER", "GETKEYSINSLOT", slot, "100")) {
            from.ask("MIGRATE", "127.0.0.1", String.valueOf(to.port()), (String) key, "0", "5000");
        }
    }

    /** The new one first: if it fails, there is still one that keeps the slot. */
    private static void endMove(String name, RedisServer from, RedisServer to) {
        slot(to, name, "NODE", to);
        slot(from, name, "NODE", to);
        for (RedisServer each : cluster.masters) {
            slot(each, name, "NODE", to);
        }
        cluster.agree();
    }

    /** Without any keys. As resharding does it, too: else two servers may claim the slot, and each send to the other. */
    private static void moveBack(String name, RedisServer now, RedisServer back) {
        now.ask("FLUSHALL");
        back.ask("FLUSHALL");
        beginMove(name, now, back);
        endMove(name, now, back);
    }

    /** Moved while it is held: the holder keeps it, and tokens go on. */
    @Test
    void aNameMayMoveWhileItIsHeld() throws Exception {
        String name = cluster.name(0, 3);
        RedisServer from = cluster.masters.get(0);
        RedisServer to = cluster.masters.get(1);
        Grant held = acquire(name);
        // The new one has the scripts, so what is sent to it is sent once.
        String there = cluster.name(1, 3);
        assertThat(backend.renew(List.of(acquire(there))).live()).hasSize(1);
        assertThat(backend.holder(there)).isPresent();
        beginMove(name, from, to);
        try {
            // Still at the old one.
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            moveKeys(name, from, to);
            // ASK: at the new one, which the old one still answers for.
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            assertThat(backend.holder(name).orElseThrow().token()).isEqualTo(held.token());
        } finally {
            endMove(name, from, to);
        }
        try {
            // MOVED.
            assertThat(backend.acquire(claim(name), Duration.ZERO).grant()).isEmpty();
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            assertThat(backend.release(held.claim())).isTrue();
            Grant next = acquire(name);
            assertThat(next.token()).isGreaterThan(held.token());
            assertThat(to.ask("EXISTS", Keys.of(Keys.PREFIX, name).lock())).isEqualTo(1L);
            assertThat(backend.release(next.claim())).isTrue();
        } finally {
            moveBack(name, to, from);
        }
        // And back, without its fence.
        assertThat(acquire(name).token()).isGreaterThan(held.token());
    }

    /** With the rights that {@code docs/stores/redis.md} lists for a Cluster, also while a slot moves. */
    @Test
    void theListedRightsSuffice() throws Exception {
        List<String> rights = new ArrayList<>(RightsTest.RIGHTS);
        rights.addAll(List.of("+cluster|slots", "+asking"));
        cluster.masters.forEach(each -> RightsTest.user(each, "least", "secret", rights));
        RedisServer from = cluster.masters.get(0);
        RedisServer to = cluster.masters.get(1);
        Map<String, String> least = Map.of("user", "least", "password", "secret");
        String uri = cluster.uri().orElseThrow();
        try (LockBackend other = RedisCluster.connect(uri, least)) {
            for (int i = 0; i < 3; i++) {
                Grant held = other.acquire(claim(cluster.name(i, 6)), Duration.ZERO)
                        .grant()
                        .orElseThrow();
                // Each server has the script from now on.
                assertThat(other.renew(List.of(held)).live()).hasSize(1);
                assertThat(other.release(held.claim())).isTrue();
            }
            String name = cluster.name(0, 6);
            Grant held = other.acquire(claim(name), Duration.ZERO).grant().orElseThrow();
            beginMove(name, from, to);
            moveKeys(name, from, to);
            try {
                assertThat(other.renew(List.of(held)).live()).hasSize(1);
            } finally {
                endMove(name, from, to);
                moveBack(name, to, from);
            }
        }
        cluster.masters.forEach(each -> RightsTest.user(each, "least", "secret", RightsTest.RIGHTS));
        assertThatThrownBy(() -> RedisCluster.connect(uri, least))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("NOPERM")
                .hasMessageContaining("cluster|slots")
                .hasMessageContaining("docs/stores/redis.md");
    }

    /** Between its two servers a name can be neither taken nor released; what cannot be done is said, and passes. */
    @Test
    void inTheMiddleOfAMoveIsSaid() throws Exception {
        String name = cluster.name(0, 4);
        RedisServer from = cluster.masters.get(0);
        RedisServer to = cluster.masters.get(1);
        Grant held = acquire(name);
        beginMove(name, from, to);
        try {
            moveKeys(name, from, to);
            // At the end of its time there is none for a connection; that is not what is said alone.
            assertThatThrownBy(() -> backend.acquire(claim(name), Duration.ZERO))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("TRYAGAIN");
            assertThat(to.info("errorstats")).containsKey("errorstat_TRYAGAIN");
            CompletableFuture<Boolean> release = CompletableFuture.supplyAsync(() -> backend.release(held.claim()));
            await().until(() -> to.info("stats").get("total_error_replies") != null
                    && Long.parseLong(to.info("stats").get("total_error_replies")) > 2);
            endMove(name, from, to);
            // It was under way all the while.
            assertThat(release.get(20, TimeUnit.SECONDS)).isTrue();
        } finally {
            endMove(name, from, to);
            moveBack(name, to, from);
        }
    }

    /** Names of the first server, of which the second has moved to another while its slot is still open. */
    private List<Grant> inAnOpenMove(RedisServer from, RedisServer to) throws InterruptedException {
        List<Grant> held = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            held.add(acquire(cluster.name(0, 10 + i)));
        }
        beginMove(held.get(1).name(), from, to);
        moveKeys(held.get(1).name(), from, to);
        return held;
    }

    /** An operator may leave a slot so for hours: each renewal follows it, alone or with others, and also without script. */
    @Test
    void renewalsFollowAnOpenMove() throws Exception {
        RedisServer from = cluster.masters.get(0);
        RedisServer to = cluster.masters.get(1);
        List<Grant> held = inAnOpenMove(from, to);
        try {
            to.ask("SCRIPT", "FLUSH");
            assertThat(backend.renew(held.subList(1, 2)).live()).hasSize(1);
            to.ask("SCRIPT", "FLUSH");
            assertThat(backend.renew(held).live()).hasSize(3);
            assertThat(backend.renew(held).live()).hasSize(3);
        } finally {
            endMove(held.get(1).name(), from, to);
        }
        try {
            // And what has moved for good is asked for where it is now, in the same call.
            assertThat(backend.renew(held).live()).hasSize(3);
        } finally {
            moveBack(held.get(1).name(), to, from);
        }
    }

    /** A client of one server that is one of several, which it could not know: it does not ask again and again. */
    @Test
    void movedIsNotAskedAgainAndAgain() {
        RedisServer one = cluster.masters.get(0);
        RightsTest.user(one, "least", "secret", RightsTest.RIGHTS);
        try (LockBackend other = RedisStore.connect(
                one.port(), RedisStore.CALL_TIMEOUT, Map.of("user", "least", "password", "secret"))) {
            assertThatThrownBy(() -> other.acquire(claim(cluster.name(1, 0)), Duration.ZERO))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("redis+cluster://");
        }
        assertThat(one.info("errorstats")).containsEntry("errorstat_MOVED", "count=1");
    }

    /** A wrong map of the slots costs one more question, once. */
    @Test
    void aMovedSlotIsLearnt() throws Exception {
        String name = cluster.name(2, 5);
        acquire(name);
        RedisServer from = cluster.masters.get(2);
        RedisServer to = cluster.masters.get(0);
        beginMove(name, from, to);
        moveKeys(name, from, to);
        endMove(name, from, to);
        try {
            from.ask("CONFIG", "RESETSTAT");
            for (int i = 0; i < 5; i++) {
                assertThat(backend.acquire(claim(name), Duration.ZERO).grant()).isEmpty();
            }
            assertThat(from.info("errorstats")).containsEntry("errorstat_MOVED", "count=1");
        } finally {
            moveBack(name, to, from);
        }
    }

    /** Renewals go to all servers at once; one that does not answer leaves its own leases unknown, and no others. */
    @Test
    void aServerThatHangsHoldsUpNoOthers() throws Exception {
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            grants.add(acquire(cluster.name(i, 0)));
            grants.add(acquire(cluster.name(i, 1)));
        }
        RedisServer down = cluster.masters.get(1);
        down.signal("STOP");
        try {
            for (int i = 0; i < 3; i++) {
                long start = System.nanoTime();
                Renewal renewal = backend.renew(grants);
                assertThat(renewal.live()).hasSize(4);
                assertThat(renewal.ended()).isEmpty();
                assertThat(renewal.live()).noneMatch(grant -> cluster.of(grant.name()) == down);
                assertThat(System.nanoTime() - start).isLessThan(RedisStore.CALL_TIMEOUT.toNanos());
                Grant other = acquire(cluster.name(0, 7));
                assertThat(backend.release(other.claim())).isTrue();
            }
        } finally {
            down.signal("CONT");
        }
        await().atMost(Duration.ofSeconds(30))
                .ignoreExceptions()
                .until(() -> backend.renew(grants).live().size() == 6);
    }

    @Test
    void theOthersWorkWhileOneIsDown() throws Exception {
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            grants.add(acquire(cluster.name(i, 0)));
        }
        RedisServer down = cluster.masters.get(1);
        String lost = cluster.name(1, 0);
        down.kill();
        try {
            for (int i = 0; i < 5; i++) {
                Renewal renewal = backend.renew(grants);
                assertThat(renewal.live()).hasSize(2);
                assertThat(renewal.ended()).isEmpty();
                for (int other : List.of(0, 2)) {
                    Grant grant = acquire(cluster.name(other, 1));
                    assertThat(backend.release(grant.claim())).isTrue();
                }
            }
            assertThatThrownBy(() -> backend.acquire(claim(lost), Duration.ZERO))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("acquire " + lost)
                    .hasMessageContaining("Connection refused");
            // Nor does it keep new clients from starting, or their waiters from hearing of releases.
            for (int i = 0; i < 8; i++) {
                try (LockBackend other = cluster.connect()) {
                    Duration patience = Duration.ofMillis(100);
                    long start = System.nanoTime();
                    assertThat(other.acquire(claim(grants.get(0).name()), patience)
                                    .grant())
                            .isEmpty();
                    // Where nobody tells of releases, it would have come back at once.
                    assertThat(System.nanoTime() - start).isGreaterThanOrEqualTo(patience.toNanos());
                }
            }
            // Its waiters and those of the others are told of releases still.
            CompletableFuture<Attempt> wait =
                    RedisStore.waiting(backend, grants.get(0).name());
            await().atMost(Duration.ofSeconds(30))
                    .until(() -> List.of(0, 2).stream()
                            .anyMatch(i -> !((List<?>) cluster.masters.get(i).ask("PUBSUB", "CHANNELS")).isEmpty()));
            assertThat(backend.release(grants.get(0).claim())).isTrue();
            assertThat(wait.get(25, TimeUnit.SECONDS).grant()).isPresent();
        } finally {
            down.start();
        }
        await().atMost(Duration.ofSeconds(60))
                .ignoreExceptions()
                .until(() -> backend.renew(grants.subList(1, 2)).ended().size() == 1);
        Grant next = backend.acquire(claim(lost), Duration.ZERO).grant().orElseThrow();
        // It came back empty, and its clock went on.
        assertThat(next.token()).isGreaterThan(grants.get(1).token());
    }

    /** A replica takes over: who keeps the slots is found out by itself. */
    @Test
    void aReplicaMayTakeOver() throws Exception {
        RedisServer old = cluster.masters.get(2);
        try (RedisServer replica = RedisCluster.node()) {
            RedisCluster.meet(old, replica);
            await().atMost(Duration.ofSeconds(30))
                    .ignoreException(AssertionError.class)
                    .until(() -> {
                        replica.ask("CLUSTER", "REPLICATE", RedisCluster.id(old));
                        return true;
                    });
            await().atMost(Duration.ofSeconds(30))
                    .until(() -> "up".equals(replica.info("replication").get("master_link_status")));
            String name = cluster.name(2, 0);
            Grant held = acquire(name);
            await().until(() -> replica.ask("DBSIZE").equals(2L));
            replica.ask("CLUSTER", "FAILOVER", "TAKEOVER");
            await().atMost(Duration.ofSeconds(30))
                    .until(() -> ((List<?>) replica.ask("ROLE")).get(0).equals("master")
                            && ((List<?>) old.ask("ROLE")).get(0).equals("slave"));
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            assertThat(backend.acquire(claim(name), Duration.ZERO).grant()).isEmpty();
            assertThat(backend.release(held.claim())).isTrue();
            assertThat(acquire(name).token()).isGreaterThan(held.token());
            await().atMost(Duration.ofSeconds(30))
                    .until(() -> "up".equals(old.info("replication").get("master_link_status")));
            old.ask("CLUSTER", "FAILOVER", "TAKEOVER");
            await().atMost(Duration.ofSeconds(30))
                    .until(() -> ((List<?>) old.ask("ROLE")).get(0).equals("master")
                            && ((List<?>) replica.ask("ROLE")).get(0).equals("slave"));
            assertThat(backend.acquire(claim(name), Duration.ZERO).grant()).isEmpty();
            for (RedisServer each : cluster.masters) {
                each.ask("CLUSTER", "FORGET", RedisCluster.id(replica));
            }
        }
    }

    /** Over the application's own client: the same names at the same servers, found again when they move. */
    @Test
    void overAClientOfTheApplication() throws Exception {
        HostAndPort seed = new HostAndPort("127.0.0.1", cluster.masters.get(0).port());
        BackendContext context = BackendContext.of(System::nanoTime, RedisStore.CALL_TIMEOUT);
        try (RedisClusterClient client =
                        RedisClusterClient.builder().nodes(Set.of(seed)).build();
                ClusterConnectionProvider provider = new ClusterConnectionProvider(
                        Set.of(seed), DefaultJedisClientConfig.builder().build())) {
            for (int own = 0; own < 2; own++) {
                try (LockBackend over = own == 0
                        ? RedisLocks.over(client, Keys.PREFIX, context)
                        : RedisLocks.over(provider, Keys.PREFIX, context)) {
                    for (int i = 0; i < 3; i++) {
                        Grant held = acquire(cluster.name(i, 0));
                        CompletableFuture<Attempt> wait = RedisStore.waiting(over, held.name());
                        assertThat(over.holder(held.name()).orElseThrow().token())
                                .isEqualTo(held.token());
                        assertThat(backend.release(held.claim())).isTrue();
                        Grant next = wait.get(30, TimeUnit.SECONDS).grant().orElseThrow();
                        assertThat(over.renew(List.of(next)).live()).hasSize(1);
                        assertThat(over.release(next.claim())).isTrue();
                    }
                    String name = cluster.name(0, 9);
                    RedisServer from = cluster.masters.get(0);
                    RedisServer to = cluster.masters.get(1);
                    Grant held =
                            over.acquire(claim(name), Duration.ZERO).grant().orElseThrow();
                    beginMove(name, from, to);
                    moveKeys(name, from, to);
                    endMove(name, from, to);
                    try {
                        assertThat(over.renew(List.of(held)).live()).hasSize(1);
                        assertThat(over.release(held.claim())).isTrue();
                    } finally {
                        moveBack(name, to, from);
                    }
                }
            }
            assertThat(client.set("mine", "1")).isEqualTo("OK");
            await().until(() -> client.getClusterNodes().values().stream()
                            .mapToInt(pool -> pool.getNumActive())
                            .sum()
                    == 0);
        }
    }

    @Test
    void whatIsNoClusterIsTold() {
        try (RedisServer alone = new RedisServer()) {
            assertThatThrownBy(() -> RedisCluster.connect("redis+cluster://127.0.0.1:" + alone.port(), Map.of()))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("127.0.0.1:" + alone.port())
                    .hasMessageContaining("cluster support disabled")
                    .hasMessageContaining("redis://");
        }
        try (RedisServer without = RedisCluster.node()) {
            assertThatThrownBy(() -> RedisCluster.connect("redis+cluster://127.0.0.1:" + without.port(), Map.of()))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("keeps no slots");
        }
        int port = cluster.masters.get(0).port();
        assertThatThrownBy(() -> RedisStore.connect(port, RedisStore.CALL_TIMEOUT, Map.of()))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("redis+cluster://");
    }

    /** Some of the servers named are gone: the others tell of all. */
    @Test
    void oneServerThatAnswersIsEnoughToFindTheOthers() throws Exception {
        int gone = RedisServer.freePort();
        try (LockBackend other = RedisCluster.connect(
                "redis+cluster://127.0.0.1:" + gone + ",127.0.0.1:"
                        + cluster.masters.get(1).port(),
                Map.of())) {
            for (int i = 0; i < 3; i++) {
                Grant grant = other.acquire(claim(cluster.name(i, 0)), Duration.ZERO)
                        .grant()
                        .orElseThrow();
                assertThat(other.release(grant.claim())).isTrue();
            }
        }
    }
}
