package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.providers.ConnectionProvider;

/** What the application's own client is, and stays, whatever befalls the locks over it. */
class OwnClientTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(1);

    private RedisServer server;
    private TcpProxy network;

    @BeforeEach
    void start() throws Exception {
        server = new RedisServer();
        network = new TcpProxy(server.port());
    }

    @AfterEach
    void stop() {
        network.close();
        server.close();
    }

    private RedisClient client(int connections, Duration patience) {
        ConnectionPoolConfig config = new ConnectionPoolConfig();
        config.setMaxTotal(connections);
        config.setMaxIdle(connections);
        config.setMaxWait(patience);
        return RedisClient.builder()
                .hostAndPort("127.0.0.1", network.port())
                .clientConfig(
                        DefaultJedisClientConfig.builder().timeoutMillis(30_000).build())
                .poolConfig(config)
                .build();
    }

    private static LockBackend over(RedisClient client) {
        return RedisLocks.over(client, Keys.PREFIX, BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    private static Claim claim(String name) {
        return ScriptsTest.claim(name);
    }

    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(t -> t.getName().startsWith("mortise-redis-connect"))
                .count();
    }

    /** Nobody waits for a connection longer than a call does: each that is given back is the application's. */
    @Test
    void anExhaustedPoolIsNotDrained() throws Exception {
        try (RedisClient client = client(1, Duration.ofSeconds(-1));
                LockBackend backend = over(client)) {
            Grant held = backend.acquire(claim("a"), Duration.ZERO).grant().orElseThrow();
            Connection taken = client.getPool().getResource();
            for (int i = 0; i < 3; i++) {
                assertThatThrownBy(() -> backend.acquire(claim("a"), Duration.ZERO))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("the pool of the application's client")
                        .hasMessageContaining("maxTotal")
                        .satisfies(e -> assertThat(((LockStoreException) e).mayHaveTakenEffect())
                                .isFalse());
                assertThatThrownBy(() -> backend.renew(List.of(held)))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("the pool of the application's client");
            }
            // Not one for each call that failed.
            await().atMost(Duration.ofSeconds(20)).until(() -> client.getPool().getNumWaiters() == 0);
            assertThat(threads()).isLessThan(6);
            taken.close();
            assertThat(client.getPool().getNumActive()).isZero();
            assertThat(client.ping()).isEqualTo("PONG");
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            assertThat(backend.release(held.claim())).isTrue();
        }
    }

    /** Whoever gave up waiting for it has gone; it is the pool's all the same. */
    @Test
    void aConnectionThatComesTooLateIsGivenBack() throws Exception {
        try (RedisClient client = client(8, Duration.ofSeconds(10))) {
            Semaphore slow = new Semaphore(1_000);
            ConnectionProvider provider = new ConnectionProvider() {
                @Override
                public Connection getConnection() {
                    slow.acquireUninterruptibly();
                    return client.getPool().getResource();
                }

                @Override
                public Connection getConnection(CommandArguments arguments) {
                    return getConnection();
                }

                @Override
                public void close() {}
            };
            try (LockBackend backend =
                    RedisLocks.over(provider, Keys.PREFIX, BackendContext.of(System::nanoTime, CALL_TIMEOUT))) {
                int permits = slow.drainPermits();
                for (int i = 0; i < 3; i++) {
                    assertThatThrownBy(() -> backend.acquire(claim("a"), Duration.ZERO))
                            .isInstanceOf(LockStoreException.class);
                }
                slow.release(permits);
                await().atMost(Duration.ofSeconds(20)).until(() -> !slow.hasQueuedThreads());
                await().atMost(Duration.ofSeconds(20))
                        .until(() -> client.getPool().getBorrowedCount() > 3
                                && client.getPool().getNumActive() == 0);
                assertThat(client.getPool().getDestroyedCount()).isZero();
            }
        }
    }

    /** Why a call was repeated says more than that there was no time for it to be repeated once more. */
    @Test
    void theFirstFailureIsNotForgotten() throws Exception {
        try (RedisClient client = client(8, Duration.ofSeconds(10))) {
            AtomicInteger borrowed = new AtomicInteger(-1_000);
            Semaphore slow = new Semaphore(0);
            ConnectionProvider provider = new ConnectionProvider() {
                @Override
                public Connection getConnection() {
                    int number = borrowed.incrementAndGet();
                    if (number == 1) {
                        throw new JedisConnectionException("the reason");
                    }
                    if (number > 1) {
                        slow.acquireUninterruptibly();
                    }
                    return client.getPool().getResource();
                }

                @Override
                public Connection getConnection(CommandArguments arguments) {
                    return getConnection();
                }

                @Override
                public void close() {}
            };
            try (LockBackend backend =
                    RedisLocks.over(provider, Keys.PREFIX, BackendContext.of(System::nanoTime, CALL_TIMEOUT))) {
                borrowed.set(0);
                LockStoreException e = catchThrowableOfType(
                        LockStoreException.class, () -> backend.acquire(claim("a"), Duration.ZERO));
                slow.release(1_000);
                assertThat(e.getMessage()).contains("no connection in time; before that: ", "the reason");
                assertThat(e.mayHaveTakenEffect()).isFalse();
            }
        }
    }

    /** The pool's own limit, where it is shorter. */
    @Test
    void aPoolThatRefusesAtOnceIsHeard() throws Exception {
        try (RedisClient client = client(1, Duration.ZERO);
                LockBackend backend = over(client)) {
            try (Connection taken = client.getPool().getResource()) {
                LockStoreException e = catchThrowableOfType(
                        LockStoreException.class, () -> backend.acquire(claim("a"), Duration.ZERO));
                assertThat(e).hasMessageContaining("the pool of the application's client");
                assertThat(taken.isConnected()).isTrue();
            }
            assertThat(backend.acquire(claim("a"), Duration.ZERO).grant()).isPresent();
        }
    }

    /** The client would send a command again after a lost answer. An acquire is not sent again. */
    @Test
    void nothingIsSentTwice() throws Exception {
        try (RedisClient client = client(4, Duration.ofSeconds(-1));
                LockBackend backend = over(client)) {
            Claim before = claim("before");
            assertThat(backend.acquire(before, Duration.ZERO).grant()).isPresent();
            server.ask("CONFIG", "RESETSTAT");
            network.loseReplyTo(request -> request.contains("EVALSHA"));
            Claim claim = claim("a");
            LockStoreException e =
                    catchThrowableOfType(LockStoreException.class, () -> backend.acquire(claim, Duration.ZERO));
            assertThat(e).isNotNull();
            assertThat(e.mayHaveTakenEffect()).isTrue();
            assertThat(server.calls()).containsEntry("evalsha", 1L);
            network.heal();
            assertThat(backend.release(claim)).isTrue();
            // The connection whose answer did not come was not given back as a good one.
            await().until(() -> client.getPool().getNumActive() == 0);
            for (int i = 0; i < 8; i++) {
                assertThat(client.ping()).isEqualTo("PONG");
            }
        }
    }

    @Test
    void itIsNotClosed() throws Exception {
        try (RedisClient client = client(4, Duration.ofSeconds(-1))) {
            for (int i = 0; i < 3; i++) {
                try (LockBackend backend = over(client)) {
                    Grant held =
                            backend.acquire(claim("a"), Duration.ZERO).grant().orElseThrow();
                    // Somebody waits, so a connection is borrowed for messages, until the backend is closed.
                    assertThat(backend.acquire(claim("a"), Duration.ofMillis(50))
                                    .grant())
                            .isEmpty();
                    assertThat(backend.release(held.claim())).isTrue();
                }
                await().atMost(Duration.ofSeconds(10))
                        .until(() -> client.getPool().getNumActive() == 0);
                assertThat(client.ping()).isEqualTo("PONG");
            }
            assertThat(client.getPool().isClosed()).isFalse();
        }
    }

    /** A client that the application has closed is told as that, and not as a store that is gone. */
    @Test
    void aClosedClientIsTold() throws Exception {
        RedisClient client = client(4, Duration.ofSeconds(-1));
        try (LockBackend backend = over(client)) {
            client.close();
            LockStoreException e =
                    catchThrowableOfType(LockStoreException.class, () -> backend.acquire(claim("a"), Duration.ZERO));
            assertThat(e).hasMessageContaining("the application's client").hasMessageContaining("not open");
            assertThat(e.mayHaveTakenEffect()).isFalse();
        }
    }

    /** After a restart the pool is full of dead connections: each is given back as what it is. */
    @Test
    void deadConnectionsAreThrownAway() throws Exception {
        try (RedisClient client = client(4, Duration.ofSeconds(-1));
                LockBackend backend = over(client)) {
            Connection[] some = new Connection[4];
            for (int i = 0; i < 4; i++) {
                some[i] = client.getPool().getResource();
            }
            for (Connection each : some) {
                each.close();
            }
            network.cut();
            int failures = 0;
            for (int i = 0; i < 8; i++) {
                try {
                    assertThat(backend.holder("a")).isEmpty();
                } catch (LockStoreException e) {
                    failures++;
                }
            }
            assertThat(failures).isLessThanOrEqualTo(4);
            assertThat(client.getPool().getNumActive()).isZero();
        }
    }
}
