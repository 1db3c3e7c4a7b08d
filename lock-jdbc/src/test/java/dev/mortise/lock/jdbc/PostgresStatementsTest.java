package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.context;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.postgresql.ds.PGSimpleDataSource;

/** What each operation costs, counted by the server: all statements of the client's role, BEGIN, SET and COMMIT too. */
class PostgresStatementsTest {
    private PostgresStore store;
    private LockBackend client;
    private String role;
    private Connection admin;

    @BeforeEach
    void open() throws SQLException {
        store = new PostgresStore();
        store.client();
        role = store.role(true, "default_transaction_isolation = 'serializable'", "TimeZone = 'Asia/Tokyo'");
        store.server.sql("GRANT SELECT, INSERT, UPDATE ON " + store.schema + ".mortise_lock TO " + role);
        client = store.client(role, CALL_TIMEOUT);
        admin = store.server.connect();
        reset();
    }

    @AfterEach
    void close() throws Exception {
        admin.close();
        store.close();
    }

    private void reset() throws SQLException {
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

    /** Statements since the last call, and how many records they wrote. */
    private void assertCost(int statements, boolean writes) throws SQLException {
        String sum = "SELECT coalesce(sum(%s), 0) FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid"
                + " WHERE r.rolname = '" + role + "'";
        assertThat(one(String.format(sum, "calls"))).isEqualTo(statements);
        if (writes) {
            assertThat(one(String.format(sum, "wal_records"))).isPositive();
        } else {
            assertThat(one(String.format(sum, "wal_records"))).isZero();
        }
        reset();
    }

    /** One statement each, in auto-commit, READ COMMITTED though the role's default is SERIALIZABLE. */
    @Test
    void uncontended() throws Exception {
        Claim claim = claim("n");
        granted(client, claim);
        assertCost(1, true);
        granted(client, claim);
        assertCost(1, true);
        client.release(claim);
        assertCost(1, true);
        Grant grant = granted(client, claim("n"));
        assertCost(1, true);
        Grant heir = client.adopt(grant, claim("n")).orElseThrow();
        assertCost(1, true);
        client.holder("n");
        assertCost(1, false);
        store.expire("n");
        granted(client, claim("n"));
        assertCost(1, true);
        assertThat(client.release(heir.claim())).isFalse();
    }

    /** A thousand leases are renewed in one statement. */
    @Test
    void renewals() throws Exception {
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            grants.add(granted(client, claim("n" + i)));
        }
        reset();
        for (int tick = 0; tick < 8; tick++) {
            assertThat(client.renew(grants).live()).hasSize(1000);
            assertCost(1, true);
        }
        assertThat(client.renew(List.of()).live()).isEmpty();
        assertCost(0, false);
    }

    /** Who loses writes nothing, from the first try on: not a byte in the log, so nothing to be flushed. */
    @Test
    void losersDoNotWrite() throws Exception {
        granted(store.client(), claim("n"));
        // What the first reader of a new version may tidy up, is tidied up.
        client.holder("n");
        reset();
        assertThat(acquire(client, claim("n"))).isEmpty();
        assertCost(2, false);
        Claim loser = claim("n");
        // A few bytes may be of our own looks into the catalog; 300 locks of a row would be tens of thousands, each
        // time.
        // The server may write for itself meanwhile (checkpoints, vacuum), but not each time.
        long written = Long.MAX_VALUE;
        for (int round = 0; round < 5 && written >= 3_000; round++) {
            reset();
            long before = one("SELECT pg_current_wal_insert_lsn() - '0/0'");
            for (int i = 0; i < 300; i++) {
                assertThat(acquire(client, i % 2 == 0 ? loser : claim("n"))).isEmpty();
            }
            assertCost(300, false);
            written = one("SELECT pg_current_wal_insert_lsn() - '0/0'") - before;
        }
        assertThat(written).isLessThan(3_000);
    }

    /** Over the application's DataSource it is the same; with another isolation, three statements more. */
    @Test
    void overADataSource() throws Exception {
        PGSimpleDataSource dataSource = new PGSimpleDataSource();
        dataSource.setUrl(store.server.url());
        dataSource.setUser(role);
        dataSource.setPassword(role);
        LockBackend serializable = store.opened(JdbcLocks.table(dataSource, store.schema, context(CALL_TIMEOUT)));
        // What the driver asks for at each connection.
        reset();
        dataSource.getConnection().close();
        int connecting = (int) one("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s JOIN pg_roles r"
                + " ON r.oid = s.userid WHERE r.rolname = '" + role + "'");
        reset();
        Grant grant = granted(serializable, claim("n"));
        assertCost(connecting + 4, true);
        store.server.sql("ALTER ROLE " + role + " RESET default_transaction_isolation");
        LockBackend usual = store.opened(JdbcLocks.table(dataSource, store.schema, context(CALL_TIMEOUT)));
        reset();
        usual.release(grant.claim());
        assertCost(connecting + 1, true);
        granted(usual, claim("n"));
        assertCost(connecting + 1, true);
    }

    /** In a large table rows are found by their key, with and without statistics, by generic and special plans. */
    @Test
    void rowsAreFoundByKey() throws Exception {
        PostgresDialect dialect = (PostgresDialect) store.dialect(CALL_TIMEOUT, connection -> connection);
        try (Connection connection = store.sql();
                Statement statement = connection.createStatement()) {
            statement.execute("INSERT INTO mortise_lock SELECT 'x' || i, 1, 'table', 1, 'o~' || i, 1000, 1"
                    + " FROM generate_series(1, 20000) i");
            for (String mode : List.of("force_generic_plan", "force_custom_plan")) {
                statement.execute("SET plan_cache_mode = " + mode);
                assertThat(plan(connection, dialect.statements().acquire(), "x1", "o~1", 1000L, "250"))
                        .doesNotContain("Seq Scan on mortise_lock");
                for (String sql : List.of(
                        dialect.statements().look(),
                        dialect.statements().release(),
                        dialect.statements().clamp())) {
                    assertThat(plan(connection, sql, "x1", "o~1", "250")).doesNotContain("Seq Scan on mortise_lock");
                }
                assertThat(plan(connection, dialect.statements().adopt(), "x1", "o~1", 1L, "h~1", 1000L, "250"))
                        .doesNotContain("Seq Scan on mortise_lock");
                Array names = connection.createArrayOf("text", new String[] {"x1", "x2"});
                Array owners = connection.createArrayOf("text", new String[] {"o~1", "o~2"});
                Array tokens = connection.createArrayOf("bigint", new Long[] {1L, 1L});
                String renew = dialect.renew(List.of()).sql();
                assertThat(plan(connection, renew, names, owners, tokens)).doesNotContain("Seq Scan on mortise_lock");
                statement.execute("ANALYZE mortise_lock");
            }
        }
    }

    private static String plan(Connection connection, String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("EXPLAIN " + sql)) {
            int count = statement.getParameterMetaData().getParameterCount();
            for (int i = 0; i < count; i++) {
                statement.setObject(i + 1, parameters[i]);
            }
            StringBuilder plan = new StringBuilder();
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    plan.append(rows.getString(1)).append('\n');
                }
            }
            return plan.toString();
        }
    }
}
