package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.mortise.lock.Certificates;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.assertj.core.api.AbstractStringAssert;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** TLS, against servers that demand it: who is trusted, and one clear message for each way to get it wrong. */
class TlsTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(4);
    private static final String PASSWORD = "pass w\u00f6rd:@/?#%&=";

    @TempDir
    static Path folder;

    private static Certificates certificates;

    /** Asks no client for a certificate. */
    private static RedisServer server;

    /** Asks for one, as Redis does unless it is told otherwise. */
    private static RedisServer strict;

    /** Has one of another host. */
    private static RedisServer misnamed;

    private static int port;
    private static int strictPort;
    private static int misnamedPort;

    @BeforeAll
    static void start() {
        certificates = new Certificates(folder);
        port = RedisServer.freePort();
        server = server(port, "server", "no", "--requirepass", PASSWORD);
        strictPort = RedisServer.freePort();
        strict = server(strictPort, "server", "yes");
        misnamedPort = RedisServer.freePort();
        misnamed = server(misnamedPort, "elsewhere", "no");
    }

    private static RedisServer server(int tlsPort, String name, String clients, String... more) {
        java.util.ArrayList<String> words = new java.util.ArrayList<>();
        words.addAll(List.of("--tls-port", String.valueOf(tlsPort), "--tls-auth-clients", clients));
        words.addAll(List.of("--tls-cert-file", certificates.pem(name).toString()));
        words.addAll(List.of("--tls-key-file", certificates.key(name).toString()));
        words.addAll(List.of("--tls-ca-cert-file", certificates.pem("ca").toString()));
        words.addAll(List.of(more));
        return new RedisServer(words.toArray(String[]::new));
    }

    @AfterAll
    static void stop() {
        server.close();
        strict.close();
        misnamed.close();
    }

    private static LockBackend open(String uri, String... options) {
        Map<String, String> all = new HashMap<>();
        for (int i = 0; i < options.length; i += 2) {
            all.put(options[i], options[i + 1]);
        }
        return new RedisProvider().open(StoreUri.parse(uri, all), BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    private static Claim claim(String name) {
        return Claim.of(name, UUID.randomUUID().toString(), Duration.ofSeconds(30));
    }

    private static String ca() {
        return certificates.pem("ca").toString();
    }

    /** How opening fails: in time, as a failure of the store, and with no secret in anything that may be logged. */
    private static AbstractStringAssert<?> refusal(String uri, String... options) {
        long start = System.nanoTime();
        LockStoreException e = catchThrowableOfType(
                LockStoreException.class, () -> open(uri, options).close());
        assertThat(e).as("opening " + uri).isNotNull();
        assertThat(System.nanoTime() - start)
                .isLessThan(CALL_TIMEOUT.plusSeconds(10).toNanos());
        assertThat(e.mayHaveTakenEffect()).isFalse();
        java.io.StringWriter all = new java.io.StringWriter();
        e.printStackTrace(new java.io.PrintWriter(all));
        assertThat(all.toString()).doesNotContain(PASSWORD, "only-for-tests", "PRIVATE KEY");
        return assertThat(e.getMessage());
    }

    private static void locks(LockBackend backend) throws Exception {
        Claim claim = claim("a");
        Grant grant = backend.acquire(claim, Duration.ZERO).grant().orElseThrow();
        CompletableFuture<Attempt> wait = CompletableFuture.supplyAsync(
                () -> {
                    try {
                        return backend.acquire(claim("a"), Duration.ofSeconds(30));
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                },
                RedisStore::inAThread);
        assertThat(backend.renew(List.of(grant)).live()).hasSize(1);
        assertThat(backend.release(claim)).isTrue();
        Grant next = wait.get(30, TimeUnit.SECONDS).grant().orElseThrow();
        assertThat(next.token()).isGreaterThan(grant.token());
        assertThat(backend.release(next.claim())).isTrue();
    }

    @Test
    void aTrustedAuthorityIsAFile() throws Exception {
        for (String host : List.of("localhost", "127.0.0.1")) {
            try (LockBackend backend = open("rediss://" + host + ":" + port, "trust", ca(), "password", PASSWORD)) {
                locks(backend);
                assertThat(backend.toString()).doesNotContain(PASSWORD);
            }
        }
    }

    /** What the server encrypts is not what a listener could read: it is TLS indeed. */
    @Test
    void aServerThatIsNotTrustedIsRefused() {
        refusal("rediss://localhost:" + port, "password", PASSWORD)
                .contains("localhost:" + port, "certificate", "not trusted", "trust=");
        refusal(
                        "rediss://localhost:" + port,
                        "password",
                        PASSWORD,
                        "trust",
                        certificates.pem("other-ca").toString())
                .contains("not trusted");
    }

    @Test
    void aCertificateOfAnotherHostIsRefused() {
        refusal("rediss://localhost:" + misnamedPort, "trust", ca())
                .contains("localhost:" + misnamedPort, "certificate", "localhost", "another host");
        refusal("rediss://127.0.0.1:" + misnamedPort, "trust", ca()).contains("127.0.0.1", "another host");
    }

    @Test
    void aClientShowsItsCertificateWhereItIsAskedFor() throws Exception {
        try (LockBackend backend = open(
                "rediss://localhost:" + strictPort,
                "trust",
                ca(),
                "identity",
                certificates.both("client").toString())) {
            locks(backend);
        }
    }

    @Test
    void aClientWithoutItsCertificateIsTold() {
        refusal("rediss://localhost:" + strictPort, "trust", ca())
                .contains("localhost:" + strictPort, "certificate of the client", "identity=");
        refusal(
                        "rediss://localhost:" + strictPort,
                        "trust",
                        ca(),
                        "identity",
                        certificates.both("other-client").toString())
                .contains("identity=");
    }

    @Test
    void aPlainClientAtATlsPortIsTold() {
        refusal("redis://localhost:" + port, "password", PASSWORD).contains("localhost:" + port, "rediss://");
        refusal("redis://localhost:" + strictPort).contains("localhost:" + strictPort, "rediss://");
    }

    @Test
    void aTlsClientAtAPlainPortIsTold() {
        refusal("rediss://localhost:" + server.port(), "trust", ca(), "password", PASSWORD)
                .contains("localhost:" + server.port(), "TLS", "redis://");
    }

    @Test
    void aWrongPasswordOverTlsIsThat() {
        refusal("rediss://localhost:" + port, "trust", ca(), "password", "wrong")
                .contains("WRONGPASS", "user and password");
        refusal("rediss://localhost:" + port, "trust", ca()).contains("NOAUTH", "user and password");
    }

    @Test
    void clustersSpeakTlsToo() throws Exception {
        int own = RedisServer.freePort();
        try (RedisServer node = server(
                own,
                "server",
                "yes",
                "--tls-cluster",
                "yes",
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                String.valueOf(RedisServer.freePort()))) {
            node.ask("CLUSTER", "ADDSLOTSRANGE", "0", String.valueOf(Keys.SLOTS - 1));
            org.awaitility.Awaitility.await()
                    .until(() -> ((String) node.ask("CLUSTER", "INFO")).contains("cluster_state:ok"));
            String uri = "redis+cluster://localhost:" + own;
            String client = certificates.both("client").toString();
            try (LockBackend backend = open(uri, "tls", "true", "trust", ca(), "identity", client)) {
                locks(backend);
            }
            refusal(uri).contains("localhost:" + own, "rediss:// or tls=true");
            refusal(uri, "tls", "true", "identity", client).contains("not trusted", "trust=");
        }
    }

    @Test
    void sentinelsSpeakTlsToo() throws Exception {
        int own = RedisServer.freePort();
        String[] words = {
            "--tls-port",
            String.valueOf(own),
            "--tls-replication",
            "yes",
            "--tls-auth-clients",
            "no",
            "--tls-cert-file",
            certificates.pem("server").toString(),
            "--tls-key-file",
            certificates.key("server").toString(),
            "--tls-ca-cert-file",
            ca()
        };
        String watched = "sentinel monitor mymaster 127.0.0.1 " + port + " 1";
        String secret = "sentinel auth-pass mymaster for-servers";
        server.ask("ACL", "SETUSER", "default", ">for-servers");
        try (RedisServer sentinel = RedisServer.sentinel(List.of(watched, secret), words)) {
            String uri = "redis+sentinel://localhost:" + own + "/mymaster";
            try (LockBackend backend = open(uri, "tls", "true", "trust", ca(), "password", PASSWORD)) {
                locks(backend);
            }
            refusal(uri, "password", PASSWORD).contains("localhost:" + own, "rediss:// or tls=true");
            refusal(uri, "tls", "true", "password", PASSWORD).contains("not trusted", "trust=");
            assertThat(sentinel.port()).isPositive();
        }
    }

    @Test
    void filesThatAreNotWhatTheyShouldBeAreNamed() throws IOException {
        Path none = folder.resolve("none.pem");
        Path empty = Files.writeString(folder.resolve("empty.pem"), "");
        Path text = Files.writeString(folder.resolve("text.pem"), "-----BEGIN CERTIFICATE-----\nsecretsecret\n");
        for (Path each : List.of(none, empty, text)) {
            for (String option : List.of("trust", "identity")) {
                IllegalArgumentException e = catchThrowableOfType(
                        IllegalArgumentException.class,
                        () -> open("rediss://localhost:" + port, option, each.toString()));
                assertThat(e).hasMessageContaining("option " + option).hasMessageContaining(each.toString());
                assertThat(e.getMessage()).doesNotContain("secretsecret");
            }
        }
        for (Path half : List.of(certificates.pem("client"), certificates.key("client"))) {
            assertThat(catchThrowableOfType(
                            IllegalArgumentException.class,
                            () -> open("rediss://localhost:" + port, "identity", half.toString())))
                    .hasMessageContaining("option identity")
                    .hasMessageContaining(half.toString());
        }
        assertThat(catchThrowableOfType(
                        IllegalArgumentException.class, () -> open("redis://localhost:" + port, "identity", "x.pem")))
                .hasMessageContaining("identity means nothing without TLS");
    }
}
