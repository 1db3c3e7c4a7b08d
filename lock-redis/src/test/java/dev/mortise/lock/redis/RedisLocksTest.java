package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.providers.PooledConnectionProvider;

/** Over the application's own client. */
class RedisLocksTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(1);

    private static LockBackend over(RedisClient client) {
        return RedisLocks.over(client, "mortise", BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    private static ConnectionPoolConfig pool(int most) {
        ConnectionPoolConfig config = new ConnectionPoolConfig();
        config.setMaxTotal(most);
        config.setMaxIdle(most);
        return config;
    }

    private static void assertLocks(LockBackend backend) throws Exception {
        Grant grant =
                backend.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant().orElseThrow();
        assertThat(backend.renew(List.of(grant)).live()).hasSize(1);
        CompletableFuture<Grant> waits = CompletableFuture.supplyAsync(
                () -> {
                    try {
                        return backend.acquire(ScriptsTest.claim("a"), Duration.ofSeconds(20))
                                .grant()
                                .orElseThrow();
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                },
                RedisStore::inAThread);
        TimeUnit.MILLISECONDS.sleep(200);
        assertThat(backend.release(grant.claim())).isTrue();
        Grant next = waits.get(10, TimeUnit.SECONDS);
        assertThat(next.token()).isGreaterThan(grant.token());
        Grant heir = backend.adopt(next, ScriptsTest.claim("a")).orElseThrow();
        assertThat(backend.holder("a")).isPresent();
        assertThat(backend.release(heir.claim())).isTrue();
    }

    @Test
    void clientsOfOneServer() throws Exception {
        try (RedisServer server = new RedisServer();
                RedisBackend other = RedisStore.connect(server.port(), CALL_TIMEOUT, java.util.Map.of())) {
            HostAndPort at = new HostAndPort("127.0.0.1", server.port());
            for (RedisProtocol protocol : new RedisProtocol[] {RedisProtocol.RESP2, RedisProtocol.RESP3}) {
                DefaultJedisClientConfig config =
                        DefaultJedisClientConfig.builder().protocol(protocol).build();
                try (RedisClient client = RedisClient.builder()
                        .hostAndPort(at)
                        .clientConfig(config)
                        .poolConfig(pool(4))
                        .build()) {
                    try (LockBackend backend = over(client)) {
                        assertLocks(backend);
                        // Its locks are everybody's.
                        Grant held = other.acquire(ScriptsTest.claim("a"), Duration.ZERO)
                                .grant()
                                .orElseThrow();
                        assertThat(backend.acquire(ScriptsTest.claim("a"), Duration.ZERO)
                                        .grant())
                                .isEmpty();
                        other.release(held.claim());
                    }
                    // It stays the caller's, and all is given back to it, in order.
                    await().until(() -> client.getPool().getNumActive() == 0);
                    for (int i = 0; i < 8; i++) {
                        assertThat(client.ping()).isEqualTo("PONG");
                    }
                }
            }
        }
    }

    @Test
    @SuppressWarnings("deprecation") // What is refused.
    void aProvider() throws Exception {
        try (RedisServer server = new RedisServer();
                PooledConnectionProvider provider =
                        new PooledConnectionProvider(new HostAndPort("127.0.0.1", server.port()))) {
            BackendContext context = BackendContext.of(System::nanoTime, CALL_TIMEOUT);
            try (LockBackend backend = RedisLocks.over(provider, "mortise", context)) {
                assertLocks(backend);
            }
            assertThatThrownBy(() -> RedisLocks.over(new UnifiedJedis(provider), "mortise", context))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("ConnectionProvider");
            assertThatThrownBy(() -> RedisLocks.over(provider, "a{b}", context))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("prefix");
        }
    }

    /** A pool that has nothing left, and would wait for ever. */
    @Test
    void anExhaustedPoolEndsTheCall() throws Exception {
        try (RedisServer server = new RedisServer();
                RedisClient client = RedisClient.builder()
                        .hostAndPort("127.0.0.1", server.port())
                        .poolConfig(pool(2))
                        .build();
                LockBackend backend = over(client)) {
            List<AutoCloseable> taken = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                taken.add(client.getPool().getResource());
            }
            long start = System.nanoTime();
            assertThatThrownBy(() -> backend.acquire(ScriptsTest.claim("a"), Duration.ZERO))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("no connection in")
                    .satisfies(e -> assertThat(((LockStoreException) e).mayHaveTakenEffect())
                            .isFalse());
            assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(6));
            for (AutoCloseable each : taken) {
                each.close();
            }
            assertLocks(backend);
            await().until(() -> client.getPool().getNumActive() <= 1);
        }
    }

    /** Its own timeouts are far longer than ours. */
    @Test
    void aBlackHoleEndsTheCall() throws Exception {
        try (RedisServer server = new RedisServer();
                TcpProxy network = new TcpProxy(server.port());
                RedisClient client = RedisClient.builder()
                        .hostAndPort("127.0.0.1", network.port())
                        .clientConfig(DefaultJedisClientConfig.builder()
                                .timeoutMillis(60_000)
                                .build())
                        .poolConfig(pool(4))
                        .build();
                LockBackend backend = over(client)) {
            Grant grant = backend.acquire(ScriptsTest.claim("a"), Duration.ZERO)
                    .grant()
                    .orElseThrow();
            network.requests(TcpProxy.Mode.DROP);
            long start = System.nanoTime();
            assertThatThrownBy(() -> backend.release(grant.claim())).isInstanceOf(LockStoreException.class);
            assertThatThrownBy(() -> backend.renew(List.of(grant))).isInstanceOf(LockStoreException.class);
            assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(8));
            network.heal();
            assertThat(backend.release(grant.claim())).isTrue();
            assertThat(client.getPool().getResource().getSoTimeout()).isEqualTo(60_000);
        }
    }
}
