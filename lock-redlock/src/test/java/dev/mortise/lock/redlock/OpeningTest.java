package dev.mortise.lock.redlock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Providers;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** What a client checks before it locks, and what it says. */
class OpeningTest {
    private static final Duration LEASE = Duration.ofSeconds(20);
    private final Holds holds = new Holds();

    private static LockBackend open(String uri, Map<String, String> options) {
        return new RedlockProvider().open(StoreUri.parse(uri, options), Deployment.context(Deployment.CALL_TIMEOUT));
    }

    @Test
    void isFoundByItsSchemes() {
        assertThat(Providers.find().of("redlock")).isInstanceOf(RedlockProvider.class);
        assertThat(Providers.find().of("redlocks")).isInstanceOf(RedlockProvider.class);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "redlock://a:1,b:2 | odd number from 3 to 9",
                "redlock://a:1,b:2,c:3,d:4 | odd number from 3 to 9",
                "redlock://a:1 | odd number from 3 to 9",
                "redlock://a,b,c,d,e,f,g,h,i,j,k | odd number from 3 to 9",
                "redlock://a,b:6379,b | twice",
                "redlock://a,b,c/x | number of a database",
                "redlock://user@a,b,c | password",
                "redlock://a,b,c?attempt=1ms | attempt",
                "redlock://a,b,c?attempt=10m | attempt",
                "redlock://a,b,c?longest-lease=2d | longest-lease",
                "redlock://a,b,c?longest-lease=500ms | longest-lease",
                "redlock://a,b,c?longest-lease=soon | longest-lease",
            })
    void badInputIsRefusedWithoutIO(String uri, String says) {
        assertThatThrownBy(() -> open(uri, Map.of()))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(says);
    }

    @Test
    void twoAddressesOfOneServerAreRefused() {
        try (Deployment three = new Deployment(3)) {
            String uri = "redlock://127.0.0.1:" + three.servers.get(0).port() + ",localhost:"
                    + three.servers.get(0).port() + ",127.0.0.1:"
                    + three.servers.get(1).port();
            assertThatThrownBy(() -> open(uri, Map.of()))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("same server as")
                    .hasMessageContaining("independent");
            // With another database it is still one server.
            assertThatThrownBy(() -> open(uri + "/3", Map.of())).hasMessageContaining("same server as");
        }
    }

    /** An address that comes to lead to another's server has no vote of its own. */
    @Test
    void addressThatMovesToAnotherServerHasNoVote() throws Exception {
        try (Deployment three = new Deployment(3)) {
            three.initialise();
            LockBackend a = three.client();
            holds.release(a, holds.sure(a, "x", LEASE));
            int port = three.servers.get(0).port();
            three.servers.get(0).kill();
            // In its place something that leads to the second one.
            try (java.net.ServerSocket door =
                    new java.net.ServerSocket(port, 50, java.net.InetAddress.getLoopbackAddress())) {
                relay(door, three.servers.get(1).port());
                three.servers.get(2).signal("STOP");
                three.proxies.get(0).cut();
                LockStoreException e = await().atMost(Duration.ofSeconds(30))
                        .until(
                                () -> catchThrowableOfType(
                                        LockStoreException.class,
                                        () -> a.acquire(Holds.claim("y", LEASE), Duration.ZERO)),
                                x -> x != null && x.getMessage().contains("same server"));
                assertThat(e)
                        .hasMessageContaining("is the same server as 127.0.0.1:"
                                + three.proxies.get(1).port());
                three.servers.get(2).signal("CONT");
            }
        }
    }

    private static void relay(java.net.ServerSocket door, int port) {
        Thread thread = new Thread(() -> {
            try {
                while (true) {
                    java.net.Socket in = door.accept();
                    java.net.Socket out = new java.net.Socket(java.net.InetAddress.getLoopbackAddress(), port);
                    for (java.net.Socket[] way : new java.net.Socket[][] {{in, out}, {out, in}}) {
                        Thread copy = new Thread(() -> {
                            try {
                                way[0].getInputStream().transferTo(way[1].getOutputStream());
                            } catch (java.io.IOException e) {
                                // The other end is gone.
                            }
                        });
                        copy.setDaemon(true);
                        copy.start();
                    }
                }
            } catch (java.io.IOException e) {
                // The door is closed.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Test
    void unfitServersAreRefused() {
        try (Deployment three = new Deployment(3)) {
            three.initialise();
            RedisServer last = three.servers.get(2);
            last.ask("CONFIG", "SET", "maxmemory-policy", "volatile-lru");
            assertThatThrownBy(three::client)
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("127.0.0.1:" + three.proxies.get(2).port())
                    .hasMessageContaining("maxmemory-policy volatile-lru")
                    .hasMessageContaining("noeviction");
            last.ask("CONFIG", "SET", "maxmemory-policy", "noeviction");
            last.ask("CONFIG", "SET", "replica-read-only", "no");
            last.ask("REPLICAOF", "127.0.0.1", "1");
            assertThatThrownBy(three::client)
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("not a master");
            last.ask("REPLICAOF", "NO", "ONE");
            assertThatCode(three::client).doesNotThrowAnyException();
        }
    }

    @Test
    void minorityMayBeDown() throws InterruptedException {
        try (Deployment three = new Deployment(3)) {
            three.initialise();
            three.servers.get(1).kill();
            LockBackend a = three.client();
            Hold hold = holds.sure(a, "x", LEASE);
            assertThat(holds.release(a, hold)).isTrue();
            three.servers.get(2).kill();
            assertThatThrownBy(three::client)
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("1 of 3 servers answered, no majority")
                    .hasMessageContaining("127.0.0.1:" + three.proxies.get(1).port() + ": ")
                    .hasMessageContaining("127.0.0.1:" + three.proxies.get(2).port() + ": ");
            three.servers.get(1).start();
            // It came back as one without a memory: two of three do not remember now.
            assertThatThrownBy(three::client).isInstanceOf(LockStoreException.class);
        }
    }

    /** A user with exactly the rights that the docs page lists. */
    @Test
    void leastRights() throws InterruptedException {
        try (Deployment three = new Deployment(3)) {
            for (RedisServer server : three.servers) {
                server.ask(("ACL SETUSER app on >s3cr:et resetkeys ~mortise:redlock* resetchannels -@all +ping +select"
                                + " +evalsha +eval +info +time +get +set +del +pttl +pexpire +hget +hmget +hset")
                        .split(" ", -1));
            }
            three.option("user", "app").option("password", "s3cr:et");
            three.initialise();
            LockBackend a = three.client();
            LockBackend b = three.client();
            Hold hold = holds.sure(a, "x y %", LEASE);
            assertThat(holds.take(b, "x y %", LEASE)).isEmpty();
            assertThat(holds.renew(a, hold)).isTrue();
            assertThat(a.holder("x y %")).isPresent();
            assertThat(holds.release(a, hold)).isTrue();
            three.servers.get(0).ask("ACL", "SETUSER", "app", "-info");
            three.servers.get(1).ask("ACL", "SETUSER", "app", "-info");
            assertThatThrownBy(() -> a.acquire(Holds.claim("z", LEASE), Duration.ZERO))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("can't run this command");
        }
    }

    @Test
    void wrongPasswordIsNotShown() {
        try (Deployment three = new Deployment(3, "--requirepass", "right-one")) {
            assertThatCode(() -> {
                        three.option("password", "right-one");
                        three.initialise();
                        three.client();
                    })
                    .doesNotThrowAnyException();
            for (String wrong : List.of("guessed-wrong", "")) {
                Throwable e = catchThrowable(
                        () -> open(three.text(), wrong.isEmpty() ? Map.of() : Map.of("password", wrong)));
                StringWriter trace = new StringWriter();
                e.printStackTrace(new PrintWriter(trace));
                assertThat(trace.toString())
                        .doesNotContain("guessed-wrong", "right-one")
                        .containsPattern("WRONGPASS|NOAUTH");
            }
        }
    }

    /** TLS, with servers that take nothing else from this user's point of view, and a certificate that is not trusted. */
    @Test
    void tls(@TempDir Path folder) throws Exception {
        Path certificate = folder.resolve("cert.pem");
        Path key = folder.resolve("key.pem");
        Process openssl;
        try {
            openssl = new ProcessBuilder(
                            ("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
                                            + " subjectAltName=DNS:localhost -keyout " + key + " -out " + certificate)
                                    .split(" ", -1))
                    .redirectErrorStream(true)
                    .redirectOutput(folder.resolve("log").toFile())
                    .start();
        } catch (IOException e) {
            throw new AssertionError(
                    "openssl is not installed: sudo apt-get install -y --no-install-recommends openssl", e);
        }
        assertThat(openssl.waitFor(60, TimeUnit.SECONDS)).isTrue();
        assertThat(openssl.exitValue()).isZero();
        List<RedisServer> servers = new ArrayList<>();
        StringBuilder uri = new StringBuilder("redlocks://");
        try {
            for (int i = 0; i < 3; i++) {
                int port;
                try (java.net.ServerSocket free = new java.net.ServerSocket(0)) {
                    port = free.getLocalPort();
                }
                servers.add(new RedisServer(("--tls-port " + port + " --tls-auth-clients no --requirepass s3cret"
                                + " --tls-cert-file " + certificate + " --tls-key-file " + key + " --tls-ca-cert-file "
                                + certificate)
                        .split(" ", -1)));
                uri.append(i == 0 ? "" : ",").append("localhost:").append(port);
            }
            Throwable untrusted =
                    catchThrowable(() -> RedlockLocks.initialise(uri.toString(), Map.of("password", "s3cret")));
            assertThat(untrusted)
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("certification path")
                    .hasMessageNotContaining("s3cret");
            KeyStore trusted = KeyStore.getInstance("PKCS12");
            trusted.load(null, null);
            try (InputStream in = Files.newInputStream(certificate)) {
                trusted.setCertificateEntry(
                        "test", CertificateFactory.getInstance("X.509").generateCertificate(in));
            }
            Path store = folder.resolve("trust.p12");
            try (OutputStream out = Files.newOutputStream(store)) {
                trusted.store(out, "changeit".toCharArray());
            }
            System.setProperty("javax.net.ssl.trustStore", store.toString());
            System.setProperty("javax.net.ssl.trustStorePassword", "changeit");
            try {
                assertThat(RedlockLocks.initialise(uri.toString(), Map.of("password", "s3cret")))
                        .hasSize(3);
                try (LockBackend a = open(uri.toString(), Map.of("password", "s3cret"))) {
                    assertThat(holds.release(a, holds.sure(a, "x", LEASE))).isTrue();
                }
                // Without TLS the same ports are no Redis.
                assertThatThrownBy(
                                () -> open(uri.toString().replace("redlocks", "redlock"), Map.of("password", "s3cret")))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageNotContaining("s3cret");
            } finally {
                System.clearProperty("javax.net.ssl.trustStore");
                System.clearProperty("javax.net.ssl.trustStorePassword");
            }
        } finally {
            servers.forEach(RedisServer::close);
        }
    }

    /** The application's own clients, where they do not repeat what has no answer. */
    @Test
    void ownClients() throws InterruptedException {
        try (Deployment three = new Deployment(3)) {
            three.initialise();
            List<RedissonClient> clients = new ArrayList<>();
            try {
                for (RedisServer server : three.servers) {
                    Config config = new Config();
                    config.setThreads(2).setNettyThreads(2);
                    config.useSingleServer()
                            .setAddress("redis://127.0.0.1:" + server.port())
                            .setConnectionPoolSize(4)
                            .setConnectionMinimumIdleSize(1)
                            .setSubscriptionConnectionMinimumIdleSize(0);
                    assertThatThrownBy(() -> {
                                RedissonClient repeats = Redisson.create(config);
                                try {
                                    RedlockLocks.over(List.of(repeats, repeats, repeats));
                                } finally {
                                    repeats.shutdown();
                                }
                            })
                            .isInstanceOf(IllegalArgumentException.class)
                            .hasMessageContaining("retryAttempts");
                    config.useSingleServer().setRetryAttempts(0);
                    clients.add(Redisson.create(config));
                }
                assertThatThrownBy(() -> RedlockLocks.over(clients.subList(0, 2)))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageContaining("odd number");
                assertThatThrownBy(() -> RedlockLocks.over(List.of(clients.get(0), clients.get(1), clients.get(1))))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("same server");
                LockBackend own = three.opened(RedlockLocks.over(clients));
                LockBackend other = three.client();
                Hold hold = holds.sure(own, "x", LEASE);
                assertThat(holds.take(other, "x", LEASE)).isEmpty();
                three.servers.forEach(s -> s.ask("SCRIPT", "FLUSH"));
                assertThat(holds.renew(own, hold)).isTrue();
                assertThat(holds.release(own, hold)).isTrue();
                holds.release(other, holds.sure(other, "x", LEASE));
                holds.release(own, holds.sure(own, "x", LEASE));
                holds.judge(false);
                own.close();
                assertThat(clients).noneMatch(RedissonClient::isShutdown);
            } finally {
                clients.forEach(RedissonClient::shutdown);
            }
        }
    }

    /** What an operator calls; the command line prints the lines. */
    @Test
    void operator() {
        try (Deployment three = new Deployment(3)) {
            assertThat(RedlockLocks.initialise(three.text(), Map.of()))
                    .hasSize(3)
                    .allMatch(line -> line.contains("has a new memory"));
            assertThat(RedlockLocks.initialise(three.text(), Map.of())).hasSize(1);
            assertThatThrownBy(() -> RedlockLocks.initialise(three.text(), Map.of("longest-leas", "1m")))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("longest-leas");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"a b", "a%20b", "{x}", "ä", "\u0000", "a\r\nSET x 1", "*", "mortise:redlock", "%"})
    void namesStayInTheirKeys(String name) {
        assertThat(RedisNode.encode(name)).matches("[!-~]+");
        assertThat(java.net.URLDecoder.decode(
                        RedisNode.encode(name).replace("+", "%2B"), java.nio.charset.StandardCharsets.UTF_8))
                .isEqualTo(name);
    }

    @Test
    void closedClientSaysSo() {
        try (Deployment three = new Deployment(3)) {
            three.initialise();
            LockBackend a = three.client();
            a.close();
            a.close();
            LockStoreException e = catchThrowableOfType(
                    LockStoreException.class, () -> a.acquire(Holds.claim("x", LEASE), Duration.ZERO));
            assertThat(e.mayHaveTakenEffect()).isFalse();
            assertThat(e).hasMessageContaining("closed");
        }
    }
}
