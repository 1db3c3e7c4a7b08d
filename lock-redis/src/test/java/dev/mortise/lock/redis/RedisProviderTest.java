package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;

/** URIs, options, and what is looked at when a store is opened. */
class RedisProviderTest {
    private static LockBackend open(String uri) {
        return open(uri, Map.of());
    }

    private static LockBackend open(String uri, Map<String, String> options) {
        return new RedisProvider()
                .open(StoreUri.parse(uri, options), BackendContext.of(System::nanoTime, Duration.ofSeconds(1)));
    }

    private static void assertBad(String uri, String... says) {
        assertThatThrownBy(() -> open(uri))
                .as(uri)
                .isInstanceOf(IllegalArgumentException.class)
                .satisfies(e -> {
                    for (String each : says) {
                        assertThat(e).hasMessageContaining(each);
                    }
                    assertThat(e.toString()).doesNotContain("hunter2");
                });
    }

    @Test
    void badUrisAreRefusedBeforeAnyInput() {
        assertBad("redis://", "host");
        assertBad("redis://a,b", "2 hosts", "redis+sentinel");
        assertBad("redis://u:hunter2@a/x", "path", "redis://host/1");
        assertBad("redis://a/-1", "path");
        assertBad("redis://a?prefix=a%7Bb", "prefix");
        assertBad("redis://a?prefix=", "prefix");
        assertBad("redis://a?replicas=-1", "replicas");
        assertBad("redis://a?database=1", "database", "path");
        assertBad("redis+cluster://a/1", "path");
        assertBad("redis+cluster://a?database=1", "database");
        assertBad("redis+sentinel://a", "master");
        assertBad("redis+sentinel://a/b/c", "master");
        assertBad("redis://a?trust=x", "trust", "TLS");
        assertBad("rediss://u:hunter2@a?trust=%2Fnot%2Fthere", "trust", "/not/there");
        assertBad("redis://u@a", "password");
        assertBad("rediss2://a", "rediss2");
    }

    @Test
    void optionsAreDescribed() {
        assertThat(new RedisProvider().options()).allSatisfy(option -> {
            assertThat(option.sentence()).endsWith(".");
            assertThat(option.name()).matches("[a-z-]+");
        });
        assertThat(new RedisProvider().options())
                .extracting(Option::name)
                .containsExactly(
                        "prefix",
                        "replicas",
                        "tls",
                        "trust",
                        "identity",
                        "database",
                        "sentinel-user",
                        "sentinel-password");
        assertThat(new RedisProvider().schemes())
                .containsOnlyKeys("redis", "rediss", "redis+sentinel", "redis+cluster");
    }

    @Test
    void nobodyThere() throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        for (String uri : List.of(
                "redis://u:hunter2@127.0.0.1:" + port,
                "redis+cluster://u:hunter2@127.0.0.1:" + port,
                "redis+sentinel://u:hunter2@127.0.0.1:" + port + "/m")) {
            Throwable thrown = catchThrowable(() -> open(uri));
            assertThat(thrown)
                    .as(uri)
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("127.0.0.1:" + port)
                    .hasMessageContaining("check that the");
            assertThat(thrown.toString()).doesNotContain("hunter2");
        }
        assertThatThrownBy(() -> open("redis://no-such-host.invalid"))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("no-such-host.invalid");
    }

    @Test
    void clientsFindIt() throws Exception {
        try (RedisServer server = new RedisServer();
                LockClient locks = LockClient.connect("redis://127.0.0.1:" + server.port() + "/3?prefix=app:locks")) {
            try (Lease lease = locks.lock("a").tryAcquire().orElseThrow()) {
                assertThat(lease.token()).isPositive();
                assertThat(server.ask("DBSIZE")).isEqualTo(0L);
                assertThat(server.info("keyspace")).containsOnlyKeys("db3");
                Optional<Lease> other = locks.lock("a").tryAcquire();
                assertThat(other).isEmpty();
            }
        }
    }

    @Test
    void passwords() {
        try (RedisServer server = new RedisServer("--requirepass", "hunter2")) {
            String at = "127.0.0.1:" + server.port();
            open("redis://:hunter2@" + at).close();
            open("redis://default:hunter2@" + at).close();
            open("redis://" + at, Map.of("password", "hunter2")).close();
            for (String uri : List.of("redis://:hunter22@" + at, "redis://x:hunter2@" + at, "redis://" + at)) {
                Throwable thrown = catchThrowable(() -> open(uri));
                assertThat(thrown)
                        .as(uri)
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("MORTISE_PASSWORD");
                assertThat(thrown.toString()).doesNotContain("hunter2");
                assertThat(((LockStoreException) thrown).mayHaveTakenEffect()).isFalse();
            }
        }
        try (RedisServer server = new RedisServer()) {
            assertThatThrownBy(() -> open("redis://:hunter2@127.0.0.1:" + server.port()))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("MORTISE_PASSWORD");
        }
    }

    // ---- Probes ------------------------------------------------------------------------------------------------

    /** What was logged meanwhile. */
    private static List<String> logged(Runnable work) {
        List<String> messages = Collections.synchronizedList(new ArrayList<>());
        Logger logger = Logger.getLogger("dev.mortise.lock.redis.Probe");
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord entry) {
                messages.add(entry.getLevel() + " " + entry.getMessage());
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        logger.addHandler(handler);
        try {
            work.run();
        } finally {
            logger.removeHandler(handler);
        }
        return messages;
    }

    private static List<String> loggedByOpening(String uri) {
        return logged(() -> open(uri).close());
    }

    @Test
    void aServerThatThrowsKeysAwayIsRefused() {
        try (RedisServer server = new RedisServer("--maxmemory", "100mb")) {
            String uri = "redis://127.0.0.1:" + server.port();
            for (String policy : List.of(
                    "allkeys-lru",
                    "allkeys-lfu",
                    "allkeys-random",
                    "volatile-lru",
                    "volatile-lfu",
                    "volatile-random",
                    "volatile-ttl")) {
                server.ask("CONFIG", "SET", "maxmemory-policy", policy);
                assertThatThrownBy(() -> open(uri))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining(policy)
                        .hasMessageContaining("noeviction");
            }
            server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction");
            open(uri).close();
        }
    }

    @Test
    void persistenceIsToldOf() {
        try (RedisServer server = new RedisServer()) {
            String uri = "redis://127.0.0.1:" + server.port();
            assertThat(loggedByOpening(uri))
                    .singleElement()
                    .asString()
                    .contains("WARNING")
                    .contains("keeps nothing");
            server.ask("CONFIG", "SET", "save", "3600 1");
            assertThat(loggedByOpening(uri)).isEmpty();
            server.ask("CONFIG", "SET", "save", "", "appendonly", "yes");
            assertThat(loggedByOpening(uri)).isEmpty();
        }
    }

    @Test
    void aReplicaIsRefused() {
        try (RedisServer server = new RedisServer("--replicaof", "127.0.0.1 1")) {
            assertThatThrownBy(() -> open("redis://127.0.0.1:" + server.port()))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("replica of 127.0.0.1:1")
                    .hasMessageContaining("master");
        }
    }

    @Test
    void whatMayNotBeLookedAtIsSaid() throws Exception {
        try (RedisServer server = new RedisServer()) {
            server.ask("ACL", "SETUSER", "poor", "on", ">x", "~mortise:*", "&mortise:*", "+@all", "-config", "-info");
            String uri = "redis://poor:x@127.0.0.1:" + server.port();
            assertThat(loggedByOpening(uri))
                    .singleElement()
                    .asString()
                    .contains("WARNING")
                    .contains("not checked")
                    .contains("INFO");
            server.ask("ACL", "SETUSER", "poor", "+info");
            assertThat(loggedByOpening(uri))
                    .singleElement()
                    .asString()
                    .contains("not checked")
                    .contains("CONFIG");
            server.ask("ACL", "SETUSER", "poor", "-evalsha");
            try (LockBackend backend = open(uri)) {
                assertThatThrownBy(() -> backend.acquire(ScriptsTest.claim("a"), Duration.ZERO))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("NOPERM")
                        .hasMessageContaining("docs/stores/redis.md");
            }
        }
    }

    @Test
    void versions() throws Exception {
        assertThatThrownBy(() -> openFake("redis_version:6.0.16\r\nrole:master\r\n"))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("6.0.16")
                .hasMessageContaining("6.2");
        assertThatThrownBy(() -> openFake("redis_version:5.0.3\r\nrole:master\r\n"))
                .hasMessageContaining("5.0.3");
        for (String fine : List.of(
                "redis_version:6.2.0\r\nrole:master\r\n",
                "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nrole:master\r\n",
                "redis_version:10.0\r\nrole:master\r\n",
                "redis_version:unheard-of\r\nrole:master\r\n")) {
            openFake(fine);
        }
    }

    /** A server that only tells of itself. */
    private static void openFake(String info) throws Exception {
        try (ServerSocket door = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread server = new Thread(() -> {
                try (Socket socket = door.accept()) {
                    InputStream in = socket.getInputStream();
                    OutputStream out = socket.getOutputStream();
                    byte[] request = new byte[10_000];
                    for (int n = in.read(request); n > 0; n = in.read(request)) {
                        boolean asked = new String(request, 0, n, StandardCharsets.US_ASCII).contains("INFO");
                        String answer = asked ? "$" + info.length() + "\r\n" + info + "\r\n*0\r\n" : "+OK\r\n";
                        out.write(answer.getBytes(StandardCharsets.US_ASCII));
                    }
                } catch (java.io.IOException e) {
                    // The client closed it.
                }
            });
            server.setDaemon(true);
            server.start();
            open("redis://127.0.0.1:" + door.getLocalPort()).close();
        }
    }
}
