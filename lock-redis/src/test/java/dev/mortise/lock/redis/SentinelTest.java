package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.TcpProxy;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.providers.SentineledConnectionProvider;

/** Locks at the master that Sentinel names, also when it becomes another. */
class SentinelTest {
    private static final Duration LEASE = Duration.ofSeconds(30);

    private static Claim claim(String name) {
        return Claim.of(name, UUID.randomUUID().toString(), LEASE);
    }

    private static Grant acquire(LockBackend backend, String name) throws InterruptedException {
        return backend.acquire(claim(name), Duration.ZERO).grant().orElseThrow();
    }

    private static String refusal(String uri, Map<String, String> options) {
        long start = System.nanoTime();
        LockStoreException e = catchThrowableOfType(
                LockStoreException.class,
                () -> RedisSentinels.connect(uri, options).close());
        assertThat(e).isNotNull();
        assertThat(System.nanoTime() - start)
                .isLessThan(RedisStore.CALL_TIMEOUT.plusSeconds(10).toNanos());
        assertThat(e.mayHaveTakenEffect()).isFalse();
        StringWriter trace = new StringWriter();
        e.printStackTrace(new PrintWriter(trace));
        options.forEach((name, value) -> {
            if (name.endsWith("password")) {
                assertThat(trace.toString()).doesNotContain(value);
            }
        });
        return e.getMessage();
    }

    private static void everything(LockBackend backend) throws Exception {
        Grant held = acquire(backend, "e");
        CompletableFuture<Attempt> wait = RedisStore.waiting(backend, "e");
        assertThat(backend.renew(List.of(held)).live()).hasSize(1);
        Grant heir = backend.adopt(held, claim("e")).orElseThrow();
        assertThat(backend.holder("e").orElseThrow().token()).isEqualTo(heir.token());
        assertThat(backend.release(heir.claim())).isTrue();
        Grant next = wait.get(30, TimeUnit.SECONDS).grant().orElseThrow();
        assertThat(next.token()).isGreaterThan(heir.token());
        assertThat(backend.release(next.claim())).isTrue();
    }

    /** From the first lock to the one after the master was killed, in one life of three sentinels. */
    @Test
    void theMasterMayBecomeAnother() throws Exception {
        try (RedisSentinels all = new RedisSentinels(3, null, null)) {
            try (LockBackend backend = all.connect()) {
                everything(backend);
            }
            whatCannotBeFoundIsSaid(all);
            someSentinelsMayBeDown(all);
            aMasterIsKilled(all);
        }
    }

    private static void whatCannotBeFoundIsSaid(RedisSentinels all) {
        String uri = all.uri().orElseThrow();
        String sentinel = "127.0.0.1:" + all.sentinels.get(0).port();
        assertThat(refusal(uri.replace(RedisSentinels.MASTER, "othermaster"), Map.of()))
                .contains("othermaster", "knows no master of this name", sentinel, "sentinel.conf");
        // Also when others cannot be asked at all.
        int gone = RedisServer.freePort();
        assertThat(refusal("redis+sentinel://127.0.0.1:" + gone + "," + sentinel + "/othermaster", Map.of()))
                .contains("127.0.0.1:" + gone, "refused", sentinel + " knows no master of this name", "sentinel.conf");
        assertThat(refusal("redis+sentinel://127.0.0.1:" + gone + "/" + RedisSentinels.MASTER, Map.of()))
                .contains("127.0.0.1:" + gone, "check that the sentinels run");
        String server = "127.0.0.1:" + all.servers.get(0).port();
        assertThat(refusal("redis+sentinel://" + server + "/" + RedisSentinels.MASTER, Map.of()))
                .contains(server, "no sentinel: use redis://");
        assertThat(refusal("redis://127.0.0.1:" + all.servers.get(1).port(), Map.of()))
                .contains("is a replica of 127.0.0.1:" + all.servers.get(0).port(), "redis+sentinel://");
    }

    /** One refuses, one hangs, one answers: a call still ends well in its time. */
    private static void someSentinelsMayBeDown(RedisSentinels all) throws Exception {
        try (TcpProxy hole = new TcpProxy(all.sentinels.get(1).port())) {
            hole.requests(TcpProxy.Mode.DROP);
            hole.replies(TcpProxy.Mode.DROP);
            String uri = "redis+sentinel://127.0.0.1:" + RedisServer.freePort() + ",127.0.0.1:" + hole.port()
                    + ",127.0.0.1:" + all.sentinels.get(2).port() + "/" + RedisSentinels.MASTER;
            try (LockBackend backend = RedisSentinels.connect(uri, Map.of())) {
                everything(backend);
            }
        }
    }

    private static void aMasterIsKilled(RedisSentinels all) throws Exception {
        RedisServer old = all.master();
        RedisServer next = all.servers.get(old == all.servers.get(0) ? 1 : 0);
        List<Long> tokens = new ArrayList<>();
        try (LockClient client = LockClient.builder(all.connect()).build();
                LockBackend backend = all.connect();
                SentineledConnectionProvider provider = new SentineledConnectionProvider(
                        RedisSentinels.MASTER,
                        DefaultJedisClientConfig.builder().build(),
                        all.sentinels.stream()
                                .map(each -> new HostAndPort("127.0.0.1", each.port()))
                                .collect(Collectors.toSet()),
                        DefaultJedisClientConfig.builder().build());
                LockClient over = LockClient.builder(RedisLocks.over(
                                provider, Keys.PREFIX, BackendContext.of(System::nanoTime, RedisStore.CALL_TIMEOUT)))
                        .build()) {
            Grant held = acquire(backend, "held");
            tokens.add(held.token());
            CompletableFuture<Attempt> wait = RedisStore.waiting(backend, "held");
            await().atMost(Duration.ofSeconds(30)).until(() -> !((List<?>) old.ask("PUBSUB", "CHANNELS")).isEmpty());
            try (Lease lease = client.lock("l").acquire()) {
                tokens.add(lease.token());
            }
            // The master dies without its replica: what was granted last is not known to it.
            next.ask("REPLICAOF", "127.0.0.1", String.valueOf(RedisServer.freePort()));
            Grant unknown = acquire(backend, "unknown");
            next.ask("REPLICAOF", "127.0.0.1", String.valueOf(old.port()));
            assertThat(unknown.token()).isPositive();
            old.kill();
            // Within the patience, whatever the moment: the client asks again after "no answer".
            Optional<Lease> late = tryFor(client, "l", Duration.ofSeconds(90));
            assertThat(late).isPresent();
            assertThat(late.orElseThrow().token()).isGreaterThan(tokens.get(1));
            late.orElseThrow().close();
            // So does one over the application's client, which finds the next master by itself.
            Lease its = tryFor(over, "l", Duration.ofSeconds(90)).orElseThrow();
            assertThat(its.token()).isGreaterThan(late.orElseThrow().token());
            its.close();
            assertThat(((List<?>) next.ask("ROLE")).get(0)).isEqualTo("master");
            // Whoever waited was woken: he has it now, or was told that there was no answer, or waits at the new
            // master.
            boolean ended = wait.isDone();
            if (!ended) {
                assertThat((List<?>) next.ask("PUBSUB", "CHANNELS"))
                        .asInstanceOf(org.assertj.core.api.InstanceOfAssertFactories.LIST)
                        .contains(Keys.of(Keys.PREFIX, "held").channel());
            }
            backend.release(held.claim());
            Grant after = ended
                    ? granted(backend, "held")
                    : wait.get(30, TimeUnit.SECONDS).grant().orElseThrow();
            assertThat(after.token()).isGreaterThan(held.token());
            // Not known to the new master, and its next token is larger all the same.
            Grant again = granted(backend, "unknown");
            assertThat(again.token()).isGreaterThan(unknown.token());
            // The old one comes back, and is made a replica.
            old.start();
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> ((List<?>) old.ask("ROLE")).get(0).equals("slave"));
            everything(backend);
            assertThat(backend.renew(List.of(again)).live()).hasSize(1);
        }
    }

    private static Grant granted(LockBackend backend, String name) throws InterruptedException {
        return backend.acquire(claim(name), Duration.ofSeconds(40)).grant().orElseThrow();
    }

    private static Optional<Lease> tryFor(LockClient client, String name, Duration patience)
            throws InterruptedException {
        long end = System.nanoTime() + patience.toNanos();
        while (true) {
            try {
                return client.lock(name).tryAcquire(patience);
            } catch (LockStoreException e) {
                assertThat(System.nanoTime() - end).as(e.getMessage()).isNegative();
            }
        }
    }

    /**
     * A master becomes a replica, and nobody ends the connections to it: what it refuses is asked of the new one, by the
     * same call.
     */
    @Test
    void aDemotedMasterIsLeft() throws Exception {
        try (RedisServer first = new RedisServer();
                RedisServer second = new RedisServer("--replicaof", "127.0.0.1 " + first.port())) {
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> "up".equals(second.info("replication").get("master_link_status")));
            AtomicReference<RedisServer> named = new AtomicReference<>(first);
            Dialer dialer = new Dialer(null, null, 0, null, RedisStore.CALL_TIMEOUT);
            Layouts.Asker sentinel = (server, command, words) ->
                    List.of("127.0.0.1", String.valueOf(named.get().port()));
            Servers servers = new Servers(
                    Layouts.sentinel(List.of(new HostAndPort("sentinel", 1)), "m", sentinel, dialer::ask),
                    dialer,
                    RedisStore.CALL_TIMEOUT);
            try (RedisBackend backend = new RedisBackend(
                    "test",
                    Keys.PREFIX,
                    0,
                    false,
                    servers,
                    BackendContext.of(System::nanoTime, RedisStore.CALL_TIMEOUT))) {
                List<Grant> held = new ArrayList<>();
                for (String name : List.of("renewed", "released", "adopted", "waited")) {
                    held.add(acquire(backend, name));
                }
                CompletableFuture<Attempt> wait = RedisStore.waiting(backend, "waited");
                await().until(() ->
                        ((Long) second.ask("DBSIZE")) == 8 && !((List<?>) first.ask("PUBSUB", "CHANNELS")).isEmpty());
                for (int i = 0; i < 2; i++) {
                    RedisServer old = i == 0 ? first : second;
                    RedisServer next = i == 0 ? second : first;
                    next.ask("REPLICAOF", "NO", "ONE");
                    old.ask("REPLICAOF", "127.0.0.1", String.valueOf(next.port()));
                    named.set(next);
                    // Each starts at the old one.
                    assertThat(backend.renew(held.subList(0, 1)).live()).hasSize(1);
                    Grant now = acquire(backend, "new-" + i);
                    assertThat(next.ask(
                                    "EXISTS", Keys.of(Keys.PREFIX, now.name()).lock()))
                            .isEqualTo(1L);
                    await().atMost(Duration.ofSeconds(30))
                            .until(() -> "up".equals(old.info("replication").get("master_link_status")));
                }
                Grant heir = backend.adopt(held.get(2), claim("adopted")).orElseThrow();
                assertThat(heir.token()).isGreaterThan(held.get(2).token());
                assertThat(backend.release(held.get(1).claim())).isTrue();
                assertThat(backend.release(held.get(3).claim())).isTrue();
                assertThat(wait.get(30, TimeUnit.SECONDS).grant()).isPresent();
            }
        }
    }

    /** A call that finds the master gone waits for the next one, as long as it may. */
    @Test
    void aCallWaitsForTheNextMaster() throws Exception {
        try (RedisServer first = new RedisServer();
                RedisServer second = new RedisServer()) {
            AtomicReference<RedisServer> named = new AtomicReference<>(first);
            Dialer dialer = new Dialer(null, null, 0, null, RedisStore.CALL_TIMEOUT);
            AtomicReference<Integer> asked = new AtomicReference<>(0);
            Layouts.Asker sentinel = (server, command, words) -> {
                if (named.get() == first && asked.updateAndGet(n -> n + 1) > 5) {
                    named.set(second);
                }
                return List.of("127.0.0.1", String.valueOf(named.get().port()));
            };
            Servers servers = new Servers(
                    Layouts.sentinel(List.of(new HostAndPort("sentinel", 1)), "m", sentinel, dialer::ask),
                    dialer,
                    RedisStore.CALL_TIMEOUT);
            try (RedisBackend backend = new RedisBackend(
                    "test",
                    Keys.PREFIX,
                    0,
                    false,
                    servers,
                    BackendContext.of(System::nanoTime, RedisStore.CALL_TIMEOUT))) {
                first.kill();
                assertThat(acquire(backend, "a").token()).isPositive();
                assertThat(named.get()).isSameAs(second);
            }
        }
    }

    /** A sentinel that was not told yet names one that is none any more; the next may know better, and is asked first then. */
    @Test
    void aServerThatSaysItIsNoMasterIsNotTaken() {
        HostAndPort late = new HostAndPort("late", 1);
        HostAndPort told = new HostAndPort("told", 1);
        List<HostAndPort> asked = new ArrayList<>();
        Layouts.Asker sentinels = (server, command, words) -> {
            asked.add(server);
            return List.of("127.0.0.1", server.equals(late) ? "1" : "2");
        };
        Layouts.Asker servers = (server, command, words) -> List.of(server.getPort() == 1 ? "slave" : "master");
        Servers.Layout layout = Layouts.sentinel(List.of(late, told), "m", sentinels, servers);
        HostAndPort found = layout.lookUp(0);
        assertThat(found.getPort()).isEqualTo(2);
        layout.forget(new HostAndPort("127.0.0.1", 1));
        assertThat(layout.known(0)).isEqualTo(found);
        layout.forget(found);
        assertThat(layout.known(0)).isNull();
        assertThat(layout.lookUp(0)).isEqualTo(found);
        assertThat(asked).containsExactly(late, told, told);
        assertThat(catchThrowableOfType(
                        JedisException.class,
                        () -> Layouts.sentinel(List.of(late), "m", sentinels, servers)
                                .lookUp(0)))
                .hasMessageContaining("not a master yet");
    }

    /** Servers and sentinels with a password each. */
    @Test
    void passwordsAreForServersAndForSentinels() throws Exception {
        try (RedisSentinels all = new RedisSentinels(1, "for-servers", "for-sentinels")) {
            String uri = all.uri().orElseThrow();
            try (LockBackend backend = RedisSentinels.connect(
                    uri, Map.of("password", "for-servers", "sentinel-password", "for-sentinels"))) {
                everything(backend);
                assertThat(backend.toString()).doesNotContain("for-servers", "for-sentinels");
            }
            // The least rights, at both.
            List<String> rights = new ArrayList<>(RightsTest.RIGHTS);
            rights.add("+role");
            RightsTest.user(all.servers.get(0), "least", "at-servers", rights);
            RightsTest.user(
                    all.sentinels.get(0), "asker", "at-sentinels", List.of("+sentinel|get-master-addr-by-name"));
            Map<String, String> least = Map.of(
                    "user",
                    "least",
                    "password",
                    "at-servers",
                    "sentinel-user",
                    "asker",
                    "sentinel-password",
                    "at-sentinels");
            try (LockBackend backend = RedisSentinels.connect(uri, least)) {
                everything(backend);
            }
            RightsTest.user(all.servers.get(0), "least", "at-servers", RightsTest.RIGHTS);
            assertThat(refusal(uri, least)).contains("NOPERM", "'role'", "docs/stores/redis.md");
            RightsTest.user(all.sentinels.get(0), "asker", "at-sentinels", List.of("+ping"));
            assertThat(refusal(uri, least)).contains("NOPERM", "sentinel|get-master-addr-by-name");
            assertThat(refusal(uri, Map.of("password", "for-servers")))
                    .contains("127.0.0.1:" + all.sentinels.get(0).port(), "NOAUTH", "sentinel-password");
            assertThat(refusal(uri, Map.of("password", "for-servers", "sentinel-password", "wr0ng")))
                    .contains("WRONGPASS", "sentinel-password");
            assertThat(refusal(uri, Map.of("sentinel-password", "for-sentinels")))
                    .contains("127.0.0.1:" + all.servers.get(0).port(), "NOAUTH", "give user and password");
            assertThat(refusal(uri, Map.of("password", "wr0ng", "sentinel-password", "for-sentinels")))
                    .contains("WRONGPASS", "give user and password");
        }
    }

    /** When all hang, callers do not queue up behind one another, each for its own time. */
    @Test
    void callersShareALookThatFails() throws Exception {
        AtomicReference<Integer> asked = new AtomicReference<>(0);
        Layouts.Asker sentinel = (server, command, words) -> {
            asked.updateAndGet(n -> n + 1);
            try {
                TimeUnit.MILLISECONDS.sleep(300);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            throw new redis.clients.jedis.exceptions.JedisConnectionException("hangs");
        };
        Servers.Layout layout = Layouts.sentinel(
                List.of(new HostAndPort("sentinel", 1)), "m", sentinel, (server, command, words) -> List.of());
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            Thread thread =
                    new Thread(() -> assertThat(catchThrowableOfType(JedisException.class, () -> layout.lookUp(0)))
                            .isNotNull());
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        // One under way, and one for those who came meanwhile; more only if threads were slow to come.
        assertThat(asked.get()).isLessThan(25);
    }
}
