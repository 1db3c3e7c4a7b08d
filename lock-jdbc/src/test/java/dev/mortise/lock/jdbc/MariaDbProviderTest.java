package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.context;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.Certificates;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** URLs, options, rights and servers of MariaDB: what works, and what is refused with what to do. */
class MariaDbProviderTest {
    @TempDir
    static Path folder;

    private static Certificates certificates;

    /** With a binary log and TLS; its settings are changed by single tests, and set back. */
    private static MariaDbServer server;

    private MariaDbStore store;

    @BeforeAll
    static void start() throws IOException {
        certificates = new Certificates(folder);
        // The server's own user must be able to read them.
        folder.toFile().setExecutable(true, false);
        folder.toFile().setReadable(true, false);
        for (Path each : List.of(certificates.pem("ca"), certificates.pem("server"), certificates.key("server"))) {
            each.toFile().setReadable(true, false);
        }
        server = new MariaDbServer(
                "--log-bin=bin",
                "--server-id=1",
                "--sync-binlog=1",
                "--ssl-ca=" + certificates.pem("ca"),
                "--ssl-cert=" + certificates.pem("server"),
                "--ssl-key=" + certificates.key("server"));
    }

    @AfterAll
    static void end() {
        server.close();
    }

    @BeforeEach
    void open() {
        store = new MariaDbStore(server, "table");
    }

    @AfterEach
    void close() throws Exception {
        store.close();
    }

    private static LockBackend open(String url, Map<String, String> options) {
        return new MariaDbProvider().open(StoreUri.parse(url, options), context(CALL_TIMEOUT));
    }

    private static String all(Throwable e) {
        StringWriter out = new StringWriter();
        e.printStackTrace(new PrintWriter(out));
        return out.toString();
    }

    /** Found as a service, with its options; advisory is the default, and both promise what they declare. */
    @Test
    void declares() {
        assertThat(ServiceLoader.load(BackendProvider.class)).anySatisfy(provider -> {
            assertThat(provider).isInstanceOf(MariaDbProvider.class);
            assertThat(provider.schemes()).containsOnly(Map.entry("jdbc:mariadb", MariaDbAdvisory.GUARANTEES));
            assertThat(provider.options())
                    .extracting(Option::name)
                    .containsExactlyInAnyOrder("strategy", "sessions", "user", "password");
        });
        for (var guarantees : List.of(MariaDbDialect.GUARANTEES, MariaDbAdvisory.GUARANTEES)) {
            assertThat(guarantees.exclusionSurvives())
                    .containsExactlyInAnyOrder(
                            StoreEvent.RELEASE_AND_EXPIRY,
                            StoreEvent.CLIENT_CRASH,
                            StoreEvent.CONNECTION_LOSS,
                            StoreEvent.STORE_RESTART);
            assertThat(guarantees.tokensSurvive())
                    .contains(StoreEvent.STORE_CLOCK_STEP)
                    .doesNotContain(StoreEvent.FAILOVER);
        }
        assertThat(store.client().guarantees()).isSameAs(MariaDbDialect.GUARANTEES);
        LockBackend usual = store.opened(open(server.url(store.database), Map.of("user", "test")));
        assertThat(usual.guarantees()).isSameAs(MariaDbAdvisory.GUARANTEES);
        assertThatThrownBy(() -> open("jdbc:mariadb://no.such.host/db", Map.of("strategy", "queue")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("strategy");
        assertThatThrownBy(() -> open("jdbc:mariadb://no.such.host/db", Map.of("strategy", "table", "sessions", "3")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("sessions");
    }

    /** The whole way: URI, options, engine. */
    @ParameterizedTest
    @ValueSource(strings = {"table", "advisory"})
    void connects(String strategy) throws Exception {
        server.sql("GRANT CREATE ON " + store.database + ".* TO test@'%'");
        try (LockClient locks =
                LockClient.connect(server.url(store.database), Map.of("strategy", strategy, "user", "test"))) {
            assertThat(locks.lock("n").tryRun(lease -> {
                        assertThat(lease.token()).isPositive();
                        assertThat(locks.holder("n")).isPresent();
                    }))
                    .isTrue();
            assertThat(locks.holder("n")).isEmpty();
        }
    }

    /** A wrong password, an unknown user, none at all: one message, with neither in it nor in its causes. */
    @Test
    void wrongPassword() {
        String user = store.user("");
        for (Map<String, String> options : List.of(
                Map.of("user", user, "password", "s3cret"),
                Map.of("user", "mallory", "password", "s3cret"),
                Map.of("user", user))) {
            assertThatThrownBy(() -> new MariaDbProvider().open(store.uri(options), context(CALL_TIMEOUT)))
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("does not accept this user")
                    .hasMessageContaining("MORTISE_PASSWORD")
                    .satisfies(e -> assertThat(all(e))
                            .doesNotContain("s3cret")
                            .doesNotContain("mallory")
                            .doesNotContain("'" + user + "'"));
        }
    }

    /** A URL that cannot be used is not shown: there may be a password in it. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "jdbc:mariadb://u:s3cret@localhost/db",
                "jdbc:mariadb://localhost/db?password=s3cret&nosuchoption=1",
                "jdbc:mariadb://localhost/db?password=s3cret&sslMode",
                "jdbc:mariadb://localhost/db?password=s3cret",
                "jdbc:mariadb:replication://a,b/db?password=s3cret",
                "jdbc:mariadb:loadbalance://a,b/db?password=s3cret",
                "jdbc:mariadb://localhost?password=s3cret",
                "jdbc:mariadb://localhost/?password=s3cret"
            })
    void badUrls(String url) {
        assertThatThrownBy(() -> open(url, Map.of("password", "s3cret2")))
                .isInstanceOf(IllegalArgumentException.class)
                .satisfies(e -> assertThat(all(e)).doesNotContain("s3cret"));
    }

    /** Nobody listens; no such database; a host that cannot be read; nor is the password shown by any of these. */
    @Test
    void nothingThere() throws IOException {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        Map<String, String> options = Map.of("user", "test", "password", "s3cret");
        assertThatThrownBy(() -> open("jdbc:mariadb://127.0.0.1:" + port + "/db", options))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("127.0.0.1:" + port)
                .hasMessageContaining("check that the server runs")
                .satisfies(e -> assertThat(all(e)).doesNotContain("s3cret"));
        assertThatThrownBy(() -> open("jdbc:mariadb://127.0.0.1:port/db", options))
                .isInstanceOf(LockStoreException.class)
                .satisfies(e -> assertThat(all(e)).doesNotContain("s3cret"));
        assertThatThrownBy(() -> open(server.url("nosuchdb"), Map.of("user", "test")))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("nosuchdb")
                .hasMessageContaining("make that database");
    }

    /** Who accepts connections and says nothing does not hang the call. */
    @Test
    void silentServer() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            long start = System.nanoTime();
            assertThatThrownBy(() -> new MariaDbProvider()
                            .open(
                                    StoreUri.parse(
                                            "jdbc:mariadb://127.0.0.1:" + silent.getLocalPort() + "/db",
                                            Map.of("strategy", "table", "user", "u")),
                                    context(Duration.ofMillis(400))))
                    .isInstanceOf(LockStoreException.class);
            assertThat(System.nanoTime() - start).isLessThan(TimeUnit.MILLISECONDS.toNanos(2_400));
        }
    }

    /** The odd name of a database is quoted, and cannot break out of a statement. */
    @Test
    void oddDatabase() {
        String database = "x`; DROP DATABASE " + store.database + "; -- ü'\"";
        server.sql("CREATE DATABASE `" + database.replace("`", "``") + "`");
        MariaDbDialect dialect = new MariaDbDialect(store.source(CALL_TIMEOUT, connection -> connection), database);
        LockBackend client = store.opened(TableBackend.open(dialect, context(CALL_TIMEOUT)));
        granted(client, claim("n"));
        assertThat(client.release(claim("n"))).isFalse();
        store.client();
        assertThatThrownBy(() -> new MariaDbDialect(store.source(CALL_TIMEOUT, connection -> connection), ""))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("database");
    }

    /** Who may not make the table is told what to run; when it is there, SELECT, INSERT and UPDATE are enough. */
    @ParameterizedTest
    @ValueSource(strings = {"table", "advisory"})
    void leastRights(String strategy) throws Exception {
        try (MariaDbStore own = new MariaDbStore(server, strategy)) {
            String nobody = own.user("");
            assertThatThrownBy(() -> own.client(nobody, CALL_TIMEOUT))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("may not use that database")
                    .hasMessageContaining("GRANT SELECT, INSERT, UPDATE");
            server.sql(
                    "CREATE TABLE " + own.database + ".other (n int)",
                    "GRANT SELECT ON " + own.database + ".other TO " + nobody + "@'%'");
            assertThatThrownBy(() -> own.client(nobody, CALL_TIMEOUT))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("mariadb.sql")
                    .hasMessageContaining("GRANT SELECT, INSERT, UPDATE");
            own.client();
            String user = own.user("SELECT, INSERT, UPDATE");
            LockBackend client = own.client(user, CALL_TIMEOUT);
            Grant grant = granted(client, claim("n"));
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            assertThat(acquire(client, claim("n"))).isEmpty();
            assertThat(client.release(grant.claim())).isTrue();
            String less = own.user("SELECT, INSERT");
            assertThatThrownBy(() -> own.client(less, CALL_TIMEOUT))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("GRANT SELECT, INSERT, UPDATE");
            // With the right to make the table, it is made.
            server.sql("DROP TABLE " + own.database + ".mortise_lock");
            String maker = own.user("SELECT, INSERT, UPDATE, CREATE");
            LockBackend before = own.client(maker, CALL_TIMEOUT);
            granted(before, claim("n"));
            // Taken away later: said so, and nothing was done.
            server.sql("REVOKE UPDATE ON " + own.database + ".mortise_lock FROM " + maker + "@'%'");
            assertThatThrownBy(() -> granted(before, claim("m")))
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("GRANT");
        }
    }

    /** A table of this name with other columns is refused; so is one that is dropped in use. */
    @Test
    void otherTables() {
        server.sql("CREATE TABLE " + store.database + ".mortise_lock (name varchar(9) PRIMARY KEY, until datetime)");
        assertThatThrownBy(() -> store.client())
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("format 1");
        server.sql("DROP TABLE " + store.database + ".mortise_lock");
        LockBackend client = store.client();
        granted(client, claim("n"));
        server.sql("DROP TABLE " + store.database + ".mortise_lock");
        for (int i = 0; i < 3; i++) {
            assertThatThrownBy(() -> granted(client, claim("n")))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("dropped");
        }
    }

    /** Settings under which what was committed may be lost: less is promised. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "innodb_flush_log_at_trx_commit = 0",
                "innodb_flush_log_at_trx_commit = 2",
                "sync_binlog = 0",
                "sync_binlog = 100"
            })
    void serversThatMayForget(String setting) throws Exception {
        LockBackend before = store.client();
        server.sql("SET GLOBAL " + setting);
        try (MariaDbStore own = new MariaDbStore(server, "advisory")) {
            for (LockBackend client : List.of(store.client(), own.client())) {
                assertThat(client.guarantees().exclusionSurvives())
                        .doesNotContain(StoreEvent.STORE_RESTART)
                        .contains(StoreEvent.CLIENT_CRASH);
                granted(client, claim("n" + client.guarantees().outlivesClient()));
            }
            assertThat(before.guarantees()).isSameAs(MariaDbDialect.GUARANTEES);
        } finally {
            server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1", "SET GLOBAL sync_binlog = 1");
        }
    }

    /** A server that is read-only, or copies another, or whose log cannot take our commits, is refused. */
    @Test
    void serversThatCannot() {
        store.client();
        for (List<String> each : List.of(
                List.of("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", "primary"),
                List.of(
                        "SET GLOBAL binlog_format = 'STATEMENT'",
                        "SET GLOBAL binlog_format = 'MIXED'",
                        "binlog_format = 'MIXED'"),
                List.of("SET GLOBAL tx_read_only = 1", "SET GLOBAL tx_read_only = 0", "tx_read_only = 0"),
                List.of(
                        "CHANGE MASTER TO master_host = '127.0.0.1', master_port = 1, master_user = 'x'; START SLAVE",
                        "STOP SLAVE; RESET SLAVE ALL",
                        "primary"))) {
            for (String sql : each.get(0).split("; ", -1)) {
                server.sql(sql);
            }
            try {
                assertThatThrownBy(() -> store.client())
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining(each.get(2));
            } finally {
                for (String sql : each.get(1).split("; ", -1)) {
                    server.sql(sql);
                }
            }
        }
        store.client();
    }

    /** By what a server says of itself: Galera (MY-08), too old (MY-03), MySQL. */
    @Test
    void otherServers() {
        Map<String, String> good = Map.of("VERSION", "10.6.0-MariaDB", "READ_ONLY", "OFF", "WSREP_ON", "OFF");
        assertThatCode(() -> MariaDbDialect.requireServer(good)).doesNotThrowAnyException();
        assertThatCode(() -> MariaDbDialect.requireServer(with(good, "VERSION", "12.1.2-MariaDB-log")))
                .doesNotThrowAnyException();
        assertThatThrownBy(() -> MariaDbDialect.requireServer(with(good, "WSREP_ON", "ON")))
                .isInstanceOf(Refusal.class)
                .hasMessageContaining("Galera");
        for (String version : List.of("10.5.29-MariaDB", "5.5.68-MariaDB", "8.4.3", "5.7.44-log", "")) {
            assertThatThrownBy(() -> MariaDbDialect.requireServer(with(good, "VERSION", version)))
                    .isInstanceOfSatisfying(
                            Refusal.class, e -> assertThat(e.advice()).isEqualTo("use MariaDB 10.6 or later"));
        }
        assertThatThrownBy(() -> MariaDbDialect.requireServer(with(with(good, "BEFORE", "1"), "AFTER", "1")))
                .isInstanceOf(Refusal.class)
                .hasMessageContaining("sysdate-is-now");
        assertThatThrownBy(() -> MariaDbDialect.requireServer(with(good, "INNODB_READ_ONLY", "ON")))
                .isInstanceOf(Refusal.class);
    }

    private static Map<String, String> with(Map<String, String> map, String name, String value) {
        Map<String, String> more = new TreeMap<>(map);
        more.put(name, value);
        return more;
    }

    // ---- TLS -----------------------------------------------------------------------------------------------------

    /** A user who must come with TLS and a certificate of the authority's: with them he works, else he is told. */
    @ParameterizedTest
    @ValueSource(strings = {"table", "advisory"})
    void tls(String strategy) throws Exception {
        try (MariaDbStore own = new MariaDbStore(server, strategy)) {
            own.client();
            String user = own.user("SELECT, INSERT, UPDATE");
            server.sql("ALTER USER " + user + "@'%' REQUIRE X509");
            String trusting = "?sslMode=verify-full&serverSslCert=" + certificates.pem("ca");
            Map<String, String> login = Map.of("strategy", strategy, "user", user, "password", user);
            LockBackend client = own.opened(open(
                    server.url(own.database) + trusting + "&keyStore=" + clientsKeyStore()
                            + "&keyStoreType=PKCS12&keyStorePassword=only-for-tests",
                    login));
            Grant grant = granted(client, claim("n"));
            assertThat(client.release(grant.claim())).isTrue();
            // Without TLS, and with TLS but no certificate.
            for (String options : List.of("?sslMode=disable", trusting)) {
                assertThatThrownBy(() -> open(server.url(own.database) + options, login))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("does not accept this user")
                        .hasMessageContaining("sslMode=verify-full")
                        .satisfies(e -> assertThat(all(e)).doesNotContain("only-for-tests"));
            }
            // A server of another authority, or of another name, is not spoken to.
            for (String options : List.of(
                    "?sslMode=verify-full&serverSslCert=" + certificates.pem("other-ca"), "?sslMode=verify-full")) {
                assertThatThrownBy(() -> open(server.url(own.database) + options, login))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("certificate")
                        .satisfies(e -> assertThat(all(e)).doesNotContain("only-for-tests"));
            }
        }
    }

    /** A server that lets nobody in without TLS. */
    @Test
    void tlsDemanded() {
        server.sql("SET GLOBAL require_secure_transport = ON");
        try {
            assertThatThrownBy(() -> store.client())
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("sslMode=verify-full");
            LockBackend client = store.opened(open(
                    server.url(store.database) + "?sslMode=verify-full&serverSslCert=" + certificates.pem("ca"),
                    Map.of("strategy", "table", "user", "test")));
            granted(client, claim("n"));
        } finally {
            secure("SET GLOBAL require_secure_transport = OFF");
        }
    }

    private static void secure(String sql) {
        String trusting = "?user=test&sslMode=verify-full&serverSslCert=" + certificates.pem("ca");
        try (Connection connection = DriverManager.getConnection(server.url("test") + trusting);
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException e) {
            throw new AssertionError(e);
        }
    }

    /** Of the client's certificate alone. */
    private static Path clientsKeyStore() throws IOException, GeneralSecurityException {
        char[] password = "only-for-tests".toCharArray();
        KeyStore every = KeyStore.getInstance(folder.resolve("all.p12").toFile(), password);
        KeyStore one = KeyStore.getInstance("PKCS12");
        one.load(null, password);
        one.setKeyEntry("client", every.getKey("client", password), password, every.getCertificateChain("client"));
        Path file = folder.resolve("client.p12");
        try (OutputStream out = Files.newOutputStream(file)) {
            one.store(out, password);
        }
        return file;
    }
}
