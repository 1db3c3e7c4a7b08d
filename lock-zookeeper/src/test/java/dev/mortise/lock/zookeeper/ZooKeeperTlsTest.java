package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.mortise.lock.Certificates;
import dev.mortise.lock.Holds;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.assertj.core.api.AbstractStringAssert;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** TLS, against servers that demand it: who is trusted, and one clear message for each way to get it wrong. */
class ZooKeeperTlsTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(2);
    private static final Duration LEASE = Duration.ofSeconds(10);
    private static final String PASSWORD = "pass w\u00f6rd:@/?#%&=";

    @TempDir
    static Path folder;

    private static Certificates certificates;

    /** Asks no client for a certificate. */
    private static ZooKeeperServer server;

    /** Asks for one. */
    private static ZooKeeperServer strict;

    /** Has one of another host. */
    private static ZooKeeperServer misnamed;

    private static int port;
    private static int strictPort;
    private static int misnamedPort;

    @BeforeAll
    static void start() {
        certificates = new Certificates(folder);
        port = ZooKeeperServer.freePort();
        server = server(port, "server", "none");
        strictPort = ZooKeeperServer.freePort();
        strict = server(strictPort, "server", "need");
        misnamedPort = ZooKeeperServer.freePort();
        misnamed = server(misnamedPort, "elsewhere", "none");
    }

    private static ZooKeeperServer server(int securePort, String name, String clients) {
        return new ZooKeeperServer(
                "tickTime=200",
                "maxSessionTimeout=60000",
                "secureClientPort=" + securePort,
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location=" + certificates.both(name),
                "ssl.keyStore.type=PEM",
                "ssl.trustStore.location=" + certificates.pem("ca"),
                "ssl.trustStore.type=PEM",
                "ssl.clientAuth=" + clients);
    }

    @AfterAll
    static void stop() {
        server.close();
        strict.close();
        misnamed.close();
    }

    private static LockBackend open(String hosts, String... options) {
        Map<String, String> all = new HashMap<>();
        for (int i = 0; i < options.length; i += 2) {
            all.put(options[i], options[i + 1]);
        }
        return Taker.open(hosts, all, CALL_TIMEOUT);
    }

    private static String ca() {
        return certificates.pem("ca").toString();
    }

    /** How opening fails: in time, as a failure of the store, and with no secret in anything that may be logged. */
    private static AbstractStringAssert<?> refusal(String hosts, String... options) {
        long start = System.nanoTime();
        LockStoreException e = catchThrowableOfType(
                LockStoreException.class, () -> open(hosts, options).close());
        assertThat(e).as("opening " + hosts).isNotNull();
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(CALL_TIMEOUT.plusSeconds(10));
        assertThat(e.mayHaveTakenEffect()).isFalse();
        StringWriter all = new StringWriter();
        e.printStackTrace(new PrintWriter(all));
        assertThat(all.toString()).doesNotContain(PASSWORD, "only-for-tests", "PRIVATE KEY");
        return assertThat(e.getMessage());
    }

    private static void locks(LockBackend backend) throws Exception {
        Claim claim = Holds.claim("a", LEASE);
        Grant grant = backend.acquire(claim, Duration.ZERO).grant().orElseThrow();
        FutureTask<Attempt> wait =
                new FutureTask<>(() -> backend.acquire(Holds.claim("a", LEASE), Duration.ofSeconds(30)));
        Thread waits = new Thread(wait, "waits");
        waits.setDaemon(true);
        waits.start();
        assertThat(backend.renew(List.of(grant)).live()).hasSize(1);
        assertThat(backend.release(claim)).isTrue();
        Grant next = wait.get(30, TimeUnit.SECONDS).grant().orElseThrow();
        assertThat(next.token()).isGreaterThan(grant.token());
        assertThat(backend.release(next.claim())).isTrue();
    }

    @Test
    void aTrustedAuthorityIsAFile() throws Exception {
        for (String host : List.of("localhost", "127.0.0.1")) {
            try (LockBackend backend =
                    open(host + ":" + port + "/own", "tls", "true", "trust", ca(), "user", "u", "password", PASSWORD)) {
                locks(backend);
                assertThat(backend.toString()).doesNotContain(PASSWORD);
            }
        }
    }

    @Test
    void aServerThatIsNotTrustedIsRefused() {
        refusal("localhost:" + port, "tls", "true")
                .contains("localhost:" + port, "certificate", "not trusted", "trust=");
        refusal(
                        "localhost:" + port,
                        "tls",
                        "true",
                        "trust",
                        certificates.pem("other-ca").toString())
                .contains("localhost:" + port, "not trusted");
    }

    @Test
    void aCertificateOfAnotherHostIsRefused() {
        refusal("localhost:" + misnamedPort, "tls", "true", "trust", ca())
                .contains("localhost:" + misnamedPort, "certificate", "another host");
        refusal("127.0.0.1:" + misnamedPort, "tls", "true", "trust", ca()).contains("127.0.0.1", "another host");
    }

    @Test
    void aClientShowsItsCertificateWhereItIsAskedFor() throws Exception {
        try (LockBackend backend = open(
                "localhost:" + strictPort,
                "tls",
                "true",
                "trust",
                ca(),
                "identity",
                certificates.both("client").toString())) {
            locks(backend);
        }
    }

    @Test
    void aClientWithoutItsCertificateIsTold() {
        refusal("localhost:" + strictPort, "tls", "true", "trust", ca())
                .contains("localhost:" + strictPort, "certificate of the client", "identity=");
        refusal(
                        "localhost:" + strictPort,
                        "tls",
                        "true",
                        "trust",
                        ca(),
                        "identity",
                        certificates.both("other-client").toString())
                .contains("identity=");
    }

    @Test
    void aPlainClientAtATlsPortIsTold() {
        refusal("localhost:" + port, "user", "u", "password", PASSWORD).contains("localhost:" + port, "tls=true");
    }

    @Test
    void aTlsClientAtAPlainPortIsTold() {
        refusal("localhost:" + server.port(), "tls", "true", "trust", ca())
                .contains("localhost:" + server.port(), "TLS");
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
                        () -> open("localhost:" + port, "tls", "true", option, each.toString()));
                assertThat(e).hasMessageContaining("option " + option).hasMessageContaining(each.toString());
                assertThat(e.getMessage()).doesNotContain("secretsecret");
            }
        }
        for (Path half : List.of(certificates.pem("client"), certificates.key("client"))) {
            assertThat(catchThrowableOfType(
                            IllegalArgumentException.class,
                            () -> open("localhost:" + port, "tls", "true", "identity", half.toString())))
                    .hasMessageContaining("option identity")
                    .hasMessageContaining(half.toString());
        }
        assertThat(catchThrowableOfType(
                        IllegalArgumentException.class, () -> open("localhost:" + port, "identity", "x.pem")))
                .hasMessageContaining("identity means nothing without TLS");
    }
}
