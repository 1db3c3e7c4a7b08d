package dev.mortise.lock.redis;

import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.Store;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** One Redis, and a network before it that fails as it is told. */
final class RedisStore implements Store {
    static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    final RedisServer server;
    final TcpProxy network;
    private final RedisNetwork faults;

    RedisStore(String... settings) {
        this(null, new RedisServer(settings));
    }

    /** One that keeps its data as a server does by default. */
    static RedisStore forTheKit() {
        RedisFaults servers = new RedisFaults();
        return new RedisStore(servers, servers.server(RedisFaults.DEFAULT_PERSISTENCE));
    }

    private RedisStore(RedisFaults servers, RedisServer server) {
        this.server = server;
        faults = new RedisNetwork(servers) {
            @Override
            List<RedisServer> masters() {
                return List.of(server);
            }

            @Override
            public Map<StoreEvent, String> impossible() {
                return Map.of(StoreEvent.FAILOVER, "one server has none that takes over; see Sentinel and Cluster");
            }
        };
        network = faults.to(server);
    }

    @Override
    public RedisBackend connect() {
        return connect(CALL_TIMEOUT);
    }

    @Override
    public RedisBackend connect(Duration callTimeout) {
        return connect(callTimeout, Map.of());
    }

    /** A client over the network that fails. */
    RedisBackend connect(Duration callTimeout, Map<String, String> options) {
        return connect(network.port(), callTimeout, options);
    }

    /** A client whose requests vanish from now on. */
    RedisBackend connectThroughBlackHole(Duration callTimeout) {
        network.heal();
        RedisBackend backend = connect(callTimeout, Map.of());
        network.requests(TcpProxy.Mode.DROP);
        return backend;
    }

    /** For work that waits: since JDK 25 all futures share a pool, on a small machine with one thread. */
    static void inAThread(Runnable work) {
        Thread thread = new Thread(work, "test");
        thread.setDaemon(true);
        thread.start();
    }

    static RedisBackend connect(int port, Duration callTimeout, Map<String, String> options) {
        LockBackend backend = new RedisProvider()
                .open(
                        StoreUri.parse("redis://127.0.0.1:" + port, options),
                        BackendContext.of(System::nanoTime, callTimeout));
        return (RedisBackend) backend;
    }

    @Override
    public void evict(String name) {
        server.ask("DEL", Keys.of(Keys.PREFIX, name).lock());
    }

    @Override
    public Map<String, String> about() {
        return faults.servers.about("Redis, one server", server);
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(faults);
    }

    @Override
    public Optional<String> uri() {
        return Optional.of("redis://127.0.0.1:" + network.port());
    }

    @Override
    public void close() {
        faults.close();
        server.close();
    }

    /** Comes back as the client does, when it was told to: where nobody tells of releases yet, a backend does not wait. */
    static CompletableFuture<Attempt> waiting(LockBackend backend, String name) {
        Claim claim = ScriptsTest.claim(name);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        return CompletableFuture.supplyAsync(
                () -> {
                    try {
                        while (true) {
                            long left = end - System.nanoTime();
                            Attempt attempt = backend.acquire(claim, Duration.ofNanos(Math.max(0, left)));
                            if (attempt.grant().isPresent() || left <= 0) {
                                return attempt;
                            }
                            TimeUnit.NANOSECONDS.sleep(attempt.pause().toNanos());
                        }
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                },
                RedisStore::inAThread);
    }
}
