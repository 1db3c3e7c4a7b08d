package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The least rights that the docs page lists: with exactly these everything works, and each one that lacks is named. */
class PostgresRightsTest {
    private static PostgresServer server;

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private PostgresStore store;

    /** Nobody may do anything by default, not even connect. */
    @BeforeAll
    static void start() {
        server = new PostgresServer();
        server.sql("REVOKE ALL ON DATABASE postgres FROM PUBLIC", "REVOKE ALL ON SCHEMA public FROM PUBLIC");
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @BeforeEach
    void open() {
        store = new PostgresStore(server);
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        store.close();
    }

    /** With a password that is its name, and no rights. */
    private String role(String... grants) {
        String role = "least" + store.schema + "_" + grants.length;
        server.sql("CREATE ROLE " + role + " LOGIN PASSWORD '" + role + "'");
        for (String grant : grants) {
            server.sql("GRANT " + grant + " TO " + role);
        }
        return role;
    }

    private LockBackend client(String role, String strategy) {
        return store.opened(store.provider()
                .open(
                        store.uri(Map.of("user", role, "password", role, "strategy", strategy)),
                        TestStore.context(CALL_TIMEOUT)));
    }

    private void everything(LockBackend client, LockBackend other) throws Exception {
        Duration lease = Duration.ofSeconds(20);
        Grant grant = granted(client, claim("n", lease));
        assertThat(acquire(other, claim("n", lease))).isEmpty();
        assertThat(client.renew(List.of(grant)).live()).hasSize(1);
        assertThat(client.holder("n").orElseThrow().owner())
                .isEqualTo(grant.claim().owner());
        Future<Attempt> waiting = threads.submit(() -> other.acquire(claim("n", lease), Duration.ofSeconds(20)));
        assertThat(client.release(grant.claim())).isTrue();
        Grant next = waiting.get(30, TimeUnit.SECONDS).grant().orElseGet(() -> granted(other, claim("n", lease)));
        assertThat(next.token()).isGreaterThan(grant.token());
        assertThat(other.release(next.claim())).isTrue();
        // One that ends by itself, its session killed under it.
        Duration briefly = Duration.ofMillis(500);
        Grant orphan = granted(client, claim("n", briefly));
        server.sql("SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.locktype = 'advisory'");
        Grant last = await().pollInterval(Duration.ofMillis(20))
                .until(() -> acquire(other, claim("n", lease)), each -> each.isPresent())
                .orElseThrow();
        assertThat(last.token()).isGreaterThan(orphan.token());
        assertThat(other.release(last.claim())).isTrue();
    }

    /** A role that may make the table. */
    @ParameterizedTest
    @ValueSource(strings = {"advisory", "table"})
    void withDdl(String strategy) throws Exception {
        String role = role("CONNECT ON DATABASE postgres", "USAGE, CREATE ON SCHEMA " + store.schema);
        everything(client(role, strategy), client(role, strategy));
    }

    /** A role that may not, once somebody else has made it; and what each right is for. */
    @ParameterizedTest
    @ValueSource(strings = {"advisory", "table"})
    void withoutDdl(String strategy) throws Exception {
        String table = store.schema + ".mortise_lock";
        String role = role();
        assertThatThrownBy(() -> client(role, strategy))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("CONNECT")
                .hasMessageNotContaining(role);
        server.sql("GRANT CONNECT ON DATABASE postgres TO " + role);
        assertThatThrownBy(() -> client(role, strategy))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining(store.schema);
        server.sql("GRANT USAGE ON SCHEMA " + store.schema + " TO " + role);
        assertThatThrownBy(() -> client(role, strategy))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("postgresql.sql");
        client("test", strategy).close();
        for (String rights : List.of("SELECT", "SELECT, INSERT", "INSERT, UPDATE", "SELECT, UPDATE")) {
            server.sql("GRANT " + rights + " ON " + table + " TO " + role);
            assertThatThrownBy(() -> client(role, strategy))
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("GRANT SELECT, INSERT, UPDATE");
            server.sql("REVOKE ALL ON " + table + " FROM " + role);
        }
        server.sql("GRANT SELECT, INSERT, UPDATE ON " + table + " TO " + role);
        everything(client(role, strategy), client(role, strategy));
    }

    /** Names and a schema that would break out of a statement, if they were ever part of one. */
    @ParameterizedTest
    @ValueSource(strings = {"advisory", "table"})
    void oddNames(String strategy) {
        String schema = "x\"; DROP SCHEMA " + store.schema + "; --ü'" + strategy;
        server.sql("CREATE SCHEMA \"" + schema.replace("\"", "\"\"") + "\"");
        LockBackend client = store.opened(store.provider()
                .open(
                        store.uri(Map.of("user", "test", "strategy", strategy, "schema", schema)),
                        TestStore.context(CALL_TIMEOUT)));
        for (String name :
                List.of("'; DROP TABLE mortise_lock; --", "\\", "$1", "?", "%s", "ü\0\n", "\u1F600", "a b")) {
            Grant grant = granted(client, claim(name));
            assertThat(acquire(client, claim(name))).isEmpty();
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            assertThat(client.holder(name).orElseThrow().token()).isEqualTo(grant.token());
            assertThat(client.release(grant.claim())).isTrue();
        }
        assertThat(server.text("SELECT count(*) FROM pg_namespace WHERE nspname = '" + store.schema + "'"))
                .isEqualTo("1");
    }
}
