package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.context;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * What each operation of the strategy advisory costs: statements and writes counted by the server, and requests, each of
 * which is one way there and back, by the driver.
 */
class PostgresAdvisoryStatementsTest {
    private final AtomicInteger requests = new AtomicInteger();
    private final List<Connection> connections = new CopyOnWriteArrayList<>();
    private PostgresStore store;
    private LockBackend client;
    private Connection admin;

    @BeforeEach
    void open() throws SQLException {
        store = new PostgresStore(PostgresServer.shared(), "advisory");
        store.client().close();
        String role = store.role(
                false,
                "default_transaction_isolation = 'serializable'",
                "statement_timeout = '1s'",
                "synchronous_commit = off");
        store.server.sql("GRANT SELECT, INSERT, UPDATE ON " + store.schema + ".mortise_lock TO " + role);
        PostgresUrl url = new PostgresUrl(store.uri(role), CALL_TIMEOUT);
        client = store.opened(AdvisoryBackend.open(
                new PostgresAdvisory(
                        new ServerDialect.Source() {
                            @Override
                            public String store() {
                                return url.store();
                            }

                            @Override
                            public boolean own() {
                                return true;
                            }

                            @Override
                            public Connection connect(long nanos) throws SQLException {
                                Connection connection = url.connect(nanos);
                                connections.add(connection);
                                return TestStore.observed(connection, sql -> requests.incrementAndGet());
                            }
                        },
                        store.schema,
                        CALL_TIMEOUT),
                context(CALL_TIMEOUT),
                50));
        counted = "FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid WHERE r.rolname = '" + role + "'"
                // To see whether a session is alive that was idle for a second: on a machine that stalls.
                + " AND s.query <> 'SELECT $1'";
        admin = store.server.connect();
        // The statements are prepared at the server from the fifth time on.
        Claim first = claim("first");
        granted(client, first);
        client.release(first);
        reset();
    }

    private String counted = "";

    @AfterEach
    void close() throws Exception {
        admin.close();
        store.close();
    }

    private void reset() throws SQLException {
        requests.set(0);
        try (Statement statement = admin.createStatement()) {
            statement.execute("SELECT pg_stat_statements_reset()");
        }
    }

    private long one(String sql) throws SQLException {
        try (Statement statement = admin.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    private void assertCost(int wantedRequests, int statements, boolean writes) throws SQLException {
        assertThat(requests.get()).as("requests").isEqualTo(wantedRequests);
        assertThat(one("SELECT coalesce(sum(calls), 0) " + counted))
                .as("statements: " + store.server.text("SELECT string_agg(calls || ' of ' || query, '\n') " + counted))
                .isEqualTo(statements);
        assertThat(one("SELECT coalesce(sum(wal_records), 0) " + counted) > 0)
                .as("writes")
                .isEqualTo(writes);
        reset();
    }

    /** Acquire, renewal and release: one request and two statements each; asked again, it is a renewal. */
    @Test
    void uncontended() throws Exception {
        for (int i = 0; i < 8; i++) {
            Claim claim = claim("n");
            Grant grant = granted(client, claim);
            assertCost(1, 2, true);
            assertThat(client.renew(List.of(grant)).live()).hasSize(1);
            assertCost(1, 2, true);
            assertThat(granted(client, claim).token()).isEqualTo(grant.token());
            assertCost(1, 2, true);
            assertThat(client.release(claim)).isTrue();
            assertCost(1, 2, true);
        }
        client.holder("n");
        assertCost(1, 1, false);
    }

    /** Who loses writes nothing: two requests, the second to learn how long. */
    @Test
    void losers() throws Exception {
        granted(store.client(), claim("n"));
        client.holder("n");
        reset();
        for (int i = 0; i < 50; i++) {
            assertThat(acquire(client, claim("n"))).isEmpty();
            assertCost(2, 3, false);
        }
    }

    /** A wait in the queue: the two of a loser, the wait, and the row; however long it is. */
    @Test
    void waiting() throws Exception {
        LockBackend other = store.client();
        Claim held = claim("n");
        granted(other, held);
        Thread release = new Thread(() -> {
            await().until(() ->
                    store.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 1);
            other.release(held);
        });
        release.start();
        assertThat(client.acquire(claim("n"), Duration.ofSeconds(20)).grant()).isPresent();
        release.join();
        assertCost(4, 6, true);
    }

    /** Sessions are used again: a hundred locks one after the other need one, and claims side by side one each. */
    @Test
    void sessions() throws Exception {
        for (int i = 0; i < 100; i++) {
            Claim claim = claim("n" + i, Duration.ofSeconds(i % 2 == 0 ? 30 : 60));
            granted(client, claim);
            client.release(claim);
        }
        // Two for each, and one where the session is told of another lease.
        assertThat(requests.get()).isEqualTo(299);
        assertThat(connections).hasSize(1);
        List<Claim> claims = new ArrayList<>();
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            claims.add(claim("m" + i));
            grants.add(granted(client, claims.get(i)));
        }
        requests.set(0);
        assertThat(client.renew(grants).live()).hasSize(20);
        assertThat(requests.get()).isEqualTo(20);
        assertThat(connections).hasSize(20);
        claims.forEach(client::release);
    }

    /** Each session has our settings and those of its claim's lease, whatever the role's are. */
    @Test
    void settings() throws Exception {
        for (int seconds : new int[] {7, 50, 7}) {
            Claim claim = claim("n", Duration.ofSeconds(seconds));
            granted(client, claim);
            assertThat(connections).hasSize(1);
            try (Statement statement = connections.get(0).createStatement();
                    ResultSet row = statement.executeQuery("SELECT current_setting('idle_session_timeout'),"
                            + " current_setting('idle_in_transaction_session_timeout'),"
                            + " current_setting('client_connection_check_interval'),"
                            + " current_setting('transaction_isolation'), current_setting('statement_timeout'),"
                            + " current_setting('synchronous_commit')")) {
                row.next();
                assertThat(row.getString(1)).isEqualTo(row.getString(2)).isEqualTo(seconds + "s");
                assertThat(row.getString(3)).isEqualTo("500ms");
                assertThat(row.getString(4)).isEqualTo("read committed");
                assertThat(row.getString(5)).isEqualTo(CALL_TIMEOUT.toSeconds() + "s");
                assertThat(row.getString(6)).isEqualTo("on");
            }
            client.release(claim);
        }
    }
}
