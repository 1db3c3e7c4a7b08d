package dev.mortise.lock.etcd;

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
import java.util.ArrayList;
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
class EtcdTlsTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(4);
    private static final Duration LEASE = Duration.ofSeconds(30);

    @TempDir
    static Path folder;

    private static Certificates certificates;

    /** Asks no client for a certificate. */
    private static EtcdServer server;

    /** Asks for one. */
    private static EtcdServer strict;

    /** Has one of another host. */
    private static EtcdServer misnamed;

    @BeforeAll
    static void start() {
        certificates = new Certificates(folder);
        server = server("server", false);
        strict = server("server", true);
        misnamed = server("elsewhere", false);
    }

    private static EtcdServer server(String name, boolean asks) {
        List<String> words = new ArrayList<>();
        words.addAll(List.of("--cert-file", certificates.pem(name).toString()));
        words.addAll(List.of("--key-file", certificates.key(name).toString()));
        if (asks) {
            words.addAll(List.of("--client-cert-auth", "--trusted-ca-file", ca()));
        }
        return new EtcdServer(words.toArray(String[]::new));
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
        return Ways.connect(uri, CALL_TIMEOUT, all);
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
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(CALL_TIMEOUT.plusSeconds(4));
        assertThat(e.mayHaveTakenEffect()).isFalse();
        StringWriter all = new StringWriter();
        e.printStackTrace(new PrintWriter(all));
        assertThat(all.toString()).doesNotContain("only-for-tests", "PRIVATE KEY");
        return assertThat(e.getMessage());
    }

    private static void locks(LockBackend backend) throws Exception {
        Claim claim = Holds.claim("a", LEASE);
        Grant grant = backend.acquire(claim, Duration.ZERO).grant().orElseThrow();
        FutureTask<Attempt> wait =
                new FutureTask<>(() -> backend.acquire(Holds.claim("a", LEASE), Duration.ofSeconds(30)));
        new Thread(wait).start();
        assertThat(backend.renew(List.of(grant)).live()).hasSize(1);
        assertThat(backend.release(claim)).isTrue();
        Grant next = wait.get(30, TimeUnit.SECONDS).grant().orElseThrow();
        assertThat(next.token()).isGreaterThan(grant.token());
        assertThat(backend.release(next.claim())).isTrue();
    }

    @Test
    void aTrustedAuthorityIsAFile() throws Exception {
        for (String host : List.of("localhost", "127.0.0.1")) {
            try (LockBackend backend = open("etcds://" + host + ":" + server.port(), "trust", ca())) {
                locks(backend);
            }
        }
    }

    @Test
    void aServerThatIsNotTrustedIsRefused() {
        String uri = "etcds://localhost:" + server.port();
        refusal(uri).contains("localhost:" + server.port(), "certificate", "not trusted", "trust=");
        refusal(uri, "trust", certificates.pem("other-ca").toString()).contains("not trusted");
    }

    @Test
    void aCertificateOfAnotherHostIsRefused() {
        refusal("etcds://localhost:" + misnamed.port(), "trust", ca())
                .contains("localhost:" + misnamed.port(), "certificate", "another host");
        refusal("etcds://127.0.0.1:" + misnamed.port(), "trust", ca()).contains("127.0.0.1", "another host");
    }

    @Test
    void aClientShowsItsCertificateWhereItIsAskedFor() throws Exception {
        try (LockBackend backend = open(
                "etcds://localhost:" + strict.port(),
                "trust",
                ca(),
                "identity",
                certificates.both("client").toString())) {
            locks(backend);
        }
    }

    @Test
    void aClientWithoutItsCertificateIsTold() {
        String uri = "etcds://localhost:" + strict.port();
        refusal(uri, "trust", ca()).contains("localhost:" + strict.port(), "certificate", "identity=");
        refusal(
                        uri,
                        "trust",
                        ca(),
                        "identity",
                        certificates.both("other-client").toString())
                .contains("identity=");
    }

    @Test
    void aPlainClientAtATlsPortIsTold() {
        refusal("etcd://localhost:" + server.port()).contains("localhost:" + server.port(), "etcds://");
        refusal("etcd://localhost:" + strict.port()).contains("localhost:" + strict.port(), "etcds://");
    }

    @Test
    void aTlsClientAtAPlainPortIsTold() {
        try (EtcdServer plain = new EtcdServer()) {
            refusal("etcds://localhost:" + plain.port(), "trust", ca())
                    .contains("localhost:" + plain.port(), "TLS", "etcd://");
        }
    }

    @Test
    void filesThatAreNotWhatTheyShouldBeAreNamed() throws IOException {
        Path none = folder.resolve("none.pem");
        Path empty = Files.writeString(folder.resolve("empty.pem"), "");
        Path text = Files.writeString(folder.resolve("text.pem"), "-----BEGIN CERTIFICATE-----\nsecretsecret\n");
        String uri = "etcds://localhost:" + server.port();
        for (Path each : List.of(none, empty, text)) {
            for (String option : List.of("trust", "identity")) {
                IllegalArgumentException e =
                        catchThrowableOfType(IllegalArgumentException.class, () -> open(uri, option, each.toString()));
                assertThat(e).hasMessageContaining("option " + option).hasMessageContaining(each.toString());
                assertThat(e.getMessage()).doesNotContain("secretsecret");
            }
        }
        for (Path half : List.of(certificates.pem("client"), certificates.key("client"))) {
            assertThat(catchThrowableOfType(
                            IllegalArgumentException.class, () -> open(uri, "identity", half.toString())))
                    .hasMessageContaining("option identity")
                    .hasMessageContaining(half.toString());
        }
        for (String option : List.of("trust", "identity")) {
            assertThat(catchThrowableOfType(
                            IllegalArgumentException.class,
                            () -> open("etcd://localhost:" + server.port(), option, "x.pem")))
                    .hasMessageContaining(option + " means nothing without TLS");
        }
    }
}
