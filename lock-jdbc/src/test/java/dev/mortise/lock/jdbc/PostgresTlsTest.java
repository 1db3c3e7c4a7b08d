package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Certificates;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.assertj.core.api.AbstractStringAssert;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A server that demands TLS, certificates and passwords: who gets in, and one clear message for each way not to. */
class PostgresTlsTest {
    @TempDir
    static Path folder;

    private static Certificates certificates;
    private static PostgresServer server;

    /** Has a certificate of another host. */
    private static PostgresServer misnamed;

    @BeforeAll
    static void start() throws IOException {
        certificates = new Certificates(folder);
        server = server("server");
        misnamed = server("elsewhere");
        for (String name : List.of("client", "other-client")) {
            // As the driver wants it.
            Files.setPosixFilePermissions(certificates.key(name), PosixFilePermissions.fromString("rw-------"));
        }
    }

    private static PostgresServer server(String name) throws IOException {
        PostgresServer made = new PostgresServer();
        made.write("server.crt", Files.readString(certificates.pem(name)));
        made.write("server.key", Files.readString(certificates.key(name)));
        made.write("ca.crt", Files.readString(certificates.pem("ca")));
        made.write(
                "pg_hba.conf",
                "host all test 127.0.0.1/32 trust\n"
                        // By its certificate, which has this name.
                        + "hostssl all client 127.0.0.1/32 cert\n"
                        + "hostssl all secretuser 127.0.0.1/32 scram-sha-256\n"
                        // By both.
                        + "hostssl all strict 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n");
        made.sql(
                "CREATE ROLE client LOGIN",
                "CREATE ROLE secretuser LOGIN PASSWORD 'only-for-tests'",
                "CREATE ROLE strict LOGIN PASSWORD 'only-for-tests'",
                "CREATE SCHEMA locks",
                "GRANT USAGE, CREATE ON SCHEMA locks TO client, secretuser, strict",
                "ALTER SYSTEM SET ssl_ca_file = 'ca.crt'",
                "ALTER SYSTEM SET ssl = on",
                "SELECT pg_reload_conf()");
        await().until(() -> "on".equals(made.text("SHOW ssl")));
        try (PostgresStore store = new PostgresStore(made)) {
            // Everybody's table.
            store.opened(new PostgresProvider()
                    .open(
                            store.uri(Map.of("schema", "locks", "user", "test", "strategy", "table")),
                            TestStore.context(CALL_TIMEOUT)));
        } catch (Exception e) {
            throw new AssertionError(e);
        }
        made.sql("GRANT SELECT, INSERT, UPDATE ON locks.mortise_lock TO client, secretuser, strict");
        return made;
    }

    @AfterAll
    static void stop() {
        server.close();
        misnamed.close();
    }

    private static LockBackend open(PostgresServer server, String strategy, String host, String query, String... more) {
        Map<String, String> options = new HashMap<>(Map.of("strategy", strategy, "schema", "locks"));
        for (int i = 0; i < more.length; i += 2) {
            options.put(more[i], more[i + 1]);
        }
        return new PostgresProvider()
                .open(
                        StoreUri.parse(
                                "jdbc:postgresql://" + host + ":" + server.port() + "/postgres?" + query, options),
                        TestStore.context(CALL_TIMEOUT));
    }

    private static String trusting(String authority) {
        return "sslmode=verify-full&sslrootcert=" + certificates.pem(authority);
    }

    private static String showing(String client) {
        return "&sslcert=" + certificates.pem(client) + "&pemKeyAlgorithm=EC&sslkey=" + certificates.key(client);
    }

    private static AbstractStringAssert<?> refusal(
            PostgresServer server, String strategy, String host, String query, String... more) {
        LockStoreException e = catchThrowableOfType(
                LockStoreException.class,
                () -> open(server, strategy, host, query, more).close());
        assertThat(e).as("opening with " + query).isNotNull();
        assertThat(e.mayHaveTakenEffect()).isFalse();
        StringWriter all = new StringWriter();
        e.printStackTrace(new PrintWriter(all));
        assertThat(all.toString()).doesNotContain("only-for-tests", "wr0ng", "PRIVATE KEY", "secretuser");
        return assertThat(e.getMessage());
    }

    private static void locks(LockBackend client) {
        try (client) {
            // Each strategy has names of its own.
            String name = client.getClass().getSimpleName();
            Grant grant = granted(client, claim(name, Duration.ofSeconds(20)));
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            assertThat(client.holder(name)).isPresent();
            assertThat(client.release(grant.claim())).isTrue();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"advisory", "table"})
    void whoProvesWhoHeIs(String strategy) {
        for (String host : List.of("localhost", "127.0.0.1")) {
            locks(open(server, strategy, host, trusting("ca"), "user", "secretuser", "password", "only-for-tests"));
        }
        locks(open(server, strategy, "localhost", trusting("ca") + showing("client"), "user", "client"));
        locks(open(
                server,
                strategy,
                "localhost",
                trusting("ca") + showing("client"),
                "user",
                "strict",
                "password",
                "only-for-tests"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"advisory", "table"})
    void whoDoesNot(String strategy) {
        String[] user = {"user", "secretuser", "password", "only-for-tests"};
        String[] strict = {"user", "strict", "password", "only-for-tests"};
        // The server's certificate.
        refusal(server, strategy, "localhost", trusting("other-ca"), user).contains("certificate", "sslrootcert");
        refusal(misnamed, strategy, "localhost", trusting("ca"), user).contains("certificate", "host");
        // Without TLS.
        refusal(server, strategy, "localhost", "sslmode=disable", user).contains("pg_hba.conf", "sslmode=");
        // The client's.
        refusal(server, strategy, "localhost", trusting("ca"), strict).contains("certificate", "sslcert");
        refusal(server, strategy, "localhost", trusting("ca") + showing("other-client"), strict)
                .contains("certificate", "sslcert");
        refusal(server, strategy, "localhost", trusting("ca") + showing("client"), "user", "secretuser")
                .contains("password", "MORTISE_PASSWORD");
        refusal(server, strategy, "localhost", trusting("ca"), "user", "secretuser", "password", "wr0ng")
                .contains("password");
        refusal(
                        server,
                        strategy,
                        "localhost",
                        trusting("ca") + showing("client"),
                        "user",
                        "strict",
                        "password",
                        "wr0ng")
                .contains("password");
        // By a server that has none.
        refusal(PostgresServer.shared(), strategy, "localhost", trusting("ca"), user)
                .contains("TLS", "ssl = on");
        // Files that are not there are named.
        refusal(server, strategy, "localhost", "sslmode=verify-full&sslrootcert=" + folder.resolve("none.crt"), user)
                .contains("none.crt", "check sslrootcert");
        refusal(
                        server,
                        strategy,
                        "localhost",
                        trusting("ca") + "&sslcert=" + certificates.pem("client") + "&sslkey=" + certificates.pem("ca"),
                        "user",
                        "client")
                .contains("key", "check sslrootcert");
    }
}
