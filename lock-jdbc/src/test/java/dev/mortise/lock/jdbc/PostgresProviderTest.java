package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.context;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.time.Duration;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What can be wrong with a URL, a server or a role: one clear message each, without a secret. */
class PostgresProviderTest {
    private PostgresStore store;

    @BeforeEach
    void open() {
        store = new PostgresStore();
    }

    @AfterEach
    void close() throws Exception {
        store.close();
    }

    private static LockBackend open(String uri, Map<String, String> options) {
        return new PostgresProvider().open(StoreUri.parse(uri, options), context(CALL_TIMEOUT));
    }

    private static String all(Throwable e) {
        StringWriter out = new StringWriter();
        e.printStackTrace(new PrintWriter(out));
        return out.toString();
    }

    @Test
    void isFound() {
        assertThat(ServiceLoader.load(BackendProvider.class)).anySatisfy(provider -> {
            assertThat(provider).isInstanceOf(PostgresProvider.class);
            assertThat(provider.schemes()).containsOnlyKeys("jdbc:postgresql");
            assertThat(provider.options())
                    .extracting(Option::name)
                    .containsExactlyInAnyOrder("strategy", "schema", "sessions", "user", "password");
        });
        assertThat(new JdbcProvider().schemes()).containsOnlyKeys("jdbc:sqlite");
    }

    /** Neither failover nor a step of the clock is promised; what is, is SQLite's. */
    @Test
    void declares() {
        assertThat(PostgresDialect.GUARANTEES.exclusionSurvives())
                .containsExactlyInAnyOrder(
                        StoreEvent.RELEASE_AND_EXPIRY,
                        StoreEvent.CLIENT_CRASH,
                        StoreEvent.CONNECTION_LOSS,
                        StoreEvent.STORE_RESTART);
        assertThat(PostgresDialect.GUARANTEES.tokensSurvive()).doesNotContain(StoreEvent.FAILOVER);
        assertThat(store.client().guarantees()).isSameAs(PostgresDialect.GUARANTEES);
    }

    /** Without an option it is advisory; both strategies promise what they declare, and no other is known. */
    @Test
    void strategies() {
        assertThat(new PostgresProvider().schemes()).containsEntry("jdbc:postgresql", PostgresAdvisory.GUARANTEES);
        LockBackend usual = store.opened(open(store.server.url(), Map.of("user", "test", "schema", store.schema)));
        assertThat(usual.guarantees()).isSameAs(PostgresAdvisory.GUARANTEES);
        assertThat(usual.guarantees().outlivesClient()).isFalse();
        assertThat(usual.guarantees().exclusionSurvives()).isEqualTo(PostgresDialect.GUARANTEES.exclusionSurvives());
        assertThat(usual.guarantees().tokensSurvive()).isEqualTo(PostgresDialect.GUARANTEES.tokensSurvive());
        assertThatThrownBy(() -> open("jdbc:postgresql://no.such.host/db", Map.of("strategy", "queue")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("strategy");
        assertThatThrownBy(
                        () -> open("jdbc:postgresql://no.such.host/db", Map.of("strategy", "table", "sessions", "3")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("sessions");
        assertThatThrownBy(() -> open("jdbc:postgresql://no.such.host/db", Map.of("sessions", "0")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("sessions");
    }

    /** The whole way: URI, options, engine. */
    @ParameterizedTest
    @ValueSource(strings = {"table", "advisory"})
    void connects(String strategy) throws Exception {
        String role = store.role(true);
        try (LockClient locks = LockClient.connect(
                store.server.url(),
                Map.of("strategy", strategy, "schema", store.schema, "user", role, "password", role))) {
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
        String role = store.role(true);
        for (Map<String, String> options : java.util.List.of(
                Map.of("user", role, "password", "s3cret"),
                Map.of("user", "mallory", "password", "s3cret"),
                Map.of("user", role))) {
            assertThatThrownBy(() -> new PostgresProvider().open(store.uri(options), context(CALL_TIMEOUT)))
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("user")
                    .hasMessageContaining("MORTISE_PASSWORD")
                    .satisfies(e -> assertThat(all(e))
                            .doesNotContain("s3cret")
                            .doesNotContain("mallory")
                            .doesNotContain("\"" + role + "\""));
        }
    }

    /** A URL that cannot be read is not shown: there may be a password in it. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "jdbc:postgresql://localhost:port/db?password=s3cret",
                "jdbc:postgresql://u:s3cret@localhost/db",
                "jdbc:postgresql://localhost/db?password=s3cret&nosuchoption=1",
                "jdbc:postgresql://localhost/db?password=s3cret&ssl",
                "jdbc:postgresql://localhost/db?user=u&password=s3cret%zz",
                "jdbc:postgresql://localhost/db?password=s3cret"
            })
    void badUrls(String url) {
        assertThatThrownBy(() -> open(url, Map.of("strategy", "table", "password", "s3cret2")))
                .isInstanceOf(IllegalArgumentException.class)
                .satisfies(e -> assertThat(all(e)).doesNotContain("s3cret"));
    }

    /** Nobody listens, no such database, no such schema. */
    @Test
    void nothingThere() throws IOException {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        assertThatThrownBy(() ->
                        open("jdbc:postgresql://127.0.0.1:" + port + "/db", Map.of("strategy", "table", "user", "u")))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("127.0.0.1:" + port)
                .hasMessageContaining("check that the server runs");
        assertThatThrownBy(() -> open(store.server.url("nosuchdb"), Map.of("strategy", "table", "user", "test")))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("nosuchdb")
                .hasMessageContaining("make that database");
        assertThatThrownBy(() -> open(
                        store.server.url(), Map.of("strategy", "table", "user", "test", "schema", "no\"such schema")))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("option schema");
        assertThatThrownBy(() -> open(store.server.url(), Map.of("strategy", "table", "user", "test", "schema", "")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("schema");
    }

    /** Who accepts connections and says nothing does not hang the call. */
    @Test
    void silentServer() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            long start = System.nanoTime();
            assertThatThrownBy(() -> new PostgresProvider()
                            .open(
                                    StoreUri.parse(
                                            "jdbc:postgresql://127.0.0.1:" + silent.getLocalPort() + "/db",
                                            Map.of("strategy", "table", "user", "u")),
                                    context(Duration.ofMillis(400))))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("did not answer within");
            assertThat(System.nanoTime() - start)
                    .isBetween(TimeUnit.MILLISECONDS.toNanos(390), TimeUnit.MILLISECONDS.toNanos(2_400));
        }
    }

    /** The odd name of a schema is quoted, and cannot break out of a statement. */
    @ParameterizedTest
    @ValueSource(strings = {"table", "advisory"})
    void oddSchema(String strategy) {
        String schema = "x\"; DROP SCHEMA " + store.schema + "; --ü'";
        store.server.sql("CREATE SCHEMA \"" + schema.replace("\"", "\"\"") + "\"");
        LockBackend client = store.opened(new PostgresProvider()
                .open(
                        store.uri(Map.of("user", "test", "schema", schema, "strategy", strategy)),
                        context(CALL_TIMEOUT)));
        granted(client, claim("n"));
        assertThat(client.release(claim("n"))).isFalse();
        store.server.sql("DROP SCHEMA \"" + schema.replace("\"", "\"\"") + "\" CASCADE");
        store.client();
    }

    /** Who may not make the table is told what to run; when it is there, SELECT, INSERT and UPDATE are enough. */
    @ParameterizedTest
    @ValueSource(strings = {"table", "advisory"})
    void leastRights(String strategy) throws Exception {
        store.close();
        store = new PostgresStore(PostgresServer.shared(), strategy);
        String role = store.role(false);
        assertThatThrownBy(() -> store.client(role, CALL_TIMEOUT))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("postgresql.sql")
                .hasMessageContaining("GRANT SELECT, INSERT, UPDATE");
        store.client();
        assertThatThrownBy(() -> store.client(role, CALL_TIMEOUT))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("may not use the table")
                .hasMessageContaining("GRANT SELECT, INSERT, UPDATE");
        store.server.sql("GRANT SELECT, INSERT, UPDATE ON " + store.schema + ".mortise_lock TO " + role);
        LockBackend client = store.client(role, CALL_TIMEOUT);
        assertThat(client.renew(java.util.List.of(granted(client, claim("n")))).live())
                .hasSize(1);
        // Taken away later: said so, and nothing was done.
        store.server.sql("REVOKE UPDATE ON " + store.schema + ".mortise_lock FROM " + role);
        assertThatThrownBy(() -> granted(client, claim("m")))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                .hasMessageContaining("GRANT");
    }

    /** A table of this name with other columns is refused; so is one that is dropped in use, for new connections too. */
    @Test
    void otherTables() {
        store.server.sql("CREATE TABLE " + store.schema + ".mortise_lock (name text PRIMARY KEY, until timestamp)");
        assertThatThrownBy(() -> store.client())
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("format 1");
        store.server.sql("DROP TABLE " + store.schema + ".mortise_lock");
        LockBackend client = store.client();
        granted(client, claim("n"));
        store.server.sql("DROP TABLE " + store.schema + ".mortise_lock");
        for (int i = 0; i < 3; i++) {
            assertThatThrownBy(() -> granted(client, claim("n")))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("dropped");
        }
    }

    /** A server that may lose what it has committed promises less; a replica is refused, with the way to the primary. */
    @ParameterizedTest
    @ValueSource(strings = {"table", "advisory"})
    void serversThatCannotKeepIt(String strategy) throws Exception {
        try (PostgresServer server = new PostgresServer("wal_level=replica", "fsync=off");
                PostgresStore weak = new PostgresStore(server, strategy)) {
            LockBackend client = weak.client();
            assertThat(client.guarantees().exclusionSurvives())
                    .doesNotContain(StoreEvent.STORE_RESTART)
                    .contains(StoreEvent.CLIENT_CRASH);
            granted(client, claim("n"));
            server.kill();
            Files.createFile(server.data().resolve("standby.signal"));
            server.start();
            assertThatThrownBy(() -> weak.client())
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("replica")
                    .hasMessageContaining("primary");
            // A client from before finds its sessions dead, and learns the same.
            assertThatThrownBy(() -> granted(client, claim("m"))).isInstanceOf(LockStoreException.class);
            assertThatThrownBy(() -> granted(client, claim("m")))
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("replica");
        }
    }
}
