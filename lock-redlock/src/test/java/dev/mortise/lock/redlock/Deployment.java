package dev.mortise.lock.redlock;

import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Servers of a test's own, a proxy in front of each, and its clients. For any thread. */
final class Deployment implements AutoCloseable {
    static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    final List<RedisServer> servers = new ArrayList<>();
    final List<TcpProxy> proxies = new ArrayList<>();
    private final List<LockBackend> clients = Collections.synchronizedList(new ArrayList<>());
    private final Map<String, String> options = new TreeMap<>();

    /** Starts so many servers with these settings; no client has seen them. */
    Deployment(int servers, String... settings) {
        for (int i = 0; i < servers; i++) {
            add(new RedisServer(settings));
        }
    }

    void add(RedisServer server) {
        try {
            servers.add(server);
            proxies.add(new TcpProxy(server.port()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Five servers, initialised by an operator. */
    static Deployment five(String... settings) {
        Deployment deployment = new Deployment(5, settings);
        deployment.initialise();
        return deployment;
    }

    Deployment option(String name, String value) {
        options.put(name, value);
        return this;
    }

    Map<String, String> options() {
        return options;
    }

    List<String> initialise() {
        return Opening.of(uri(), context(CALL_TIMEOUT)).initialise();
    }

    /** As {@link #uri}, but without the proxies. */
    String direct() {
        StringBuilder uri = new StringBuilder("redlock://");
        servers.forEach(s -> uri.append(uri.length() > 10 ? "," : "").append("127.0.0.1:" + s.port()));
        return uri.toString();
    }

    String text() {
        StringBuilder uri = new StringBuilder("redlock://");
        proxies.forEach(p -> uri.append(uri.length() > 10 ? "," : "").append("127.0.0.1:" + p.port()));
        return uri.toString();
    }

    StoreUri uri() {
        return StoreUri.parse(text(), options);
    }

    static BackendContext context(Duration callTimeout) {
        return BackendContext.of(System::nanoTime, callTimeout);
    }

    /** A client as another process would have. */
    LockBackend client() {
        return client(CALL_TIMEOUT);
    }

    LockBackend client(Duration callTimeout) {
        return opened(new RedlockProvider().open(uri(), context(callTimeout)));
    }

    LockBackend opened(LockBackend client) {
        clients.add(client);
        return client;
    }

    /** Commands of this name that all servers ran, inside of scripts too. */
    long calls(String command) {
        return servers.stream()
                .mapToLong(s -> s.calls().getOrDefault(command, 0L))
                .sum();
    }

    void resetCalls() {
        servers.forEach(s -> s.ask("CONFIG", "RESETSTAT"));
    }

    static String lockKey(String name) {
        return "mortise:redlock:lock:" + RedisNode.encode(name);
    }

    static String fenceKey(String name) {
        return "mortise:redlock:fence:" + RedisNode.encode(name);
    }

    @Override
    public void close() {
        clients.forEach(LockBackend::close);
        proxies.forEach(TcpProxy::close);
        servers.forEach(RedisServer::close);
    }
}
