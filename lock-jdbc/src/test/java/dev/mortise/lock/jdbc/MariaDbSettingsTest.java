package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.context;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Whatever a server of MariaDB, a session or a pool has set, locks work; and what they cost, counted by the server. */
class MariaDbSettingsTest {
    /** In a zone with daylight saving. */
    private static MariaDbServer server;

    private MariaDbStore store;

    @BeforeAll
    static void start() {
        server = new MariaDbServer(Map.of("TZ", "America/St_Johns"), "--lower-case-table-names=1");
    }

    @AfterAll
    static void end() {
        server.close();
    }

    @BeforeEach
    void open() {
        store = new MariaDbStore(server, "table");
        store.client();
    }

    @AfterEach
    void close() throws Exception {
        store.close();
    }

    private LockBackend open(String options, String strategy) {
        return store.opened(new MariaDbProvider()
                .open(
                        StoreUri.parse(
                                store.server.url(store.database) + options,
                                Map.of("strategy", strategy, "user", "test")),
                        context(CALL_TIMEOUT)));
    }

    /** Every operation does what it should, against a client with the usual settings. */
    private void works(LockBackend client) {
        LockBackend other = store.client();
        Grant grant = granted(client, claim("a\\b'c\"`?"));
        assertThat(acquire(client, claim("a\\b'c\"`?"))).isEmpty();
        assertThat(acquire(other, claim("a\\b'c\"`?"))).isEmpty();
        assertThat(acquire(other, claim("A\\b'c\"`?"))).isPresent();
        assertThat(other.release(Claim.of(
                        "A\\b'c\"`?", other.holder("A\\b'c\"`?").orElseThrow().owner(), TestStore.LEASE)))
                .isTrue();
        assertThat(other.holder(grant.name()).orElseThrow().rest().toMillis()).isBetween(20_000L, 30_001L);
        assertThat(client.renew(List.of(grant)).live()).hasSize(1);
        Grant ended = claim("ended").granted(TestStore.LEASE, 1, 0);
        assertThat(client.renew(List.of(ended)).ended()).hasSize(1);
        Grant heir = client.adopt(grant, claim(grant.name())).orElseThrow();
        assertThat(client.holder(grant.name()).orElseThrow().owner()).isEqualTo(heir.owner());
        assertThat(client.release(heir.claim())).isTrue();
        Grant after = granted(other, claim(grant.name()));
        assertThat(after.token()).isGreaterThan(heir.token());
        assertThat(acquire(client, claim(grant.name()))).isEmpty();
        other.release(after.claim());
    }

    /** Settings of a session, by the driver's URL; the last ones are what a server or user may have as defaults. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "time_zone='+05:45'",
                "time_zone='-11:00'",
                "sql_mode=''",
                "sql_mode='ORACLE'",
                "sql_mode='ANSI'",
                "sql_mode='NO_BACKSLASH_ESCAPES'",
                "sql_mode='TRADITIONAL,SIMULTANEOUS_ASSIGNMENT'",
                "sql_mode='EMPTY_STRING_IS_NULL,IGNORE_SPACE,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH'",
                "innodb_lock_wait_timeout=0,lock_wait_timeout=0",
                "max_statement_time=0.000001",
                "timestamp=1000000000",
                "sql_select_limit=1",
                "sql_safe_updates=1",
                "collation_connection=utf8mb4_general_ci",
                "autocommit=0",
                "tx_isolation='SERIALIZABLE'",
                "wait_timeout=1",
                "big_tables=1",
                "optimizer_switch='derived_merge=off,materialization=off'"
            })
    void sessions(String setting) {
        LockBackend client = open("?sessionVariables=" + setting, "table");
        works(client);
        works(client);
    }

    /** The zone of the client's machine, and the server's, have no part in it; nor has a clock that stands (RT-02). */
    @Test
    void zones() throws Exception {
        assertThat(server.text("SELECT @@system_time_zone")).startsWith("N");
        TimeZone before = TimeZone.getDefault();
        try {
            TimeZone.setDefault(TimeZone.getTimeZone("Pacific/Chatham"));
            LockBackend client = open("", "table");
            works(client);
            Grant grant = granted(client, claim("n"));
            long until = store.number("SELECT until_ms FROM mortise_lock WHERE name = 'n'");
            assertThat(until - System.currentTimeMillis()).isBetween(25_000L, 31_000L);
            assertThat(grant.token() / 1000 - System.currentTimeMillis()).isBetween(-10_000L, 1_000L);
            LockBackend advisory = open("", "advisory");
            assertThatThrownBy(() -> granted(advisory, claim("n")))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("strategy table")
                    .hasMessageContaining("strategy advisory");
            granted(advisory, claim("m"));
            assertThatThrownBy(() -> granted(client, claim("m")))
                    .hasMessageContaining("strategy table")
                    .hasMessageContaining("strategy advisory");
        } finally {
            TimeZone.setDefault(before);
        }
    }

    // ---- The application's own DataSource

    private HikariDataSource pool(String options, boolean autoCommit, boolean readOnly, String isolation) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(store.server.url(store.database) + options);
        config.setUsername("test");
        config.setMaximumPoolSize(1);
        config.setMinimumIdle(0);
        config.setConnectionTimeout(20_000);
        config.setAutoCommit(autoCommit);
        config.setReadOnly(readOnly);
        config.setTransactionIsolation(isolation.isEmpty() ? null : isolation);
        return new HikariDataSource(config);
    }

    /** Each way a pool can be set up: it works, and what is borrowed next is as it was. */
    @ParameterizedTest
    @ValueSource(strings = {"", "TRANSACTION_READ_COMMITTED", "TRANSACTION_SERIALIZABLE"})
    void pools(String isolation) throws Exception {
        for (boolean autoCommit : new boolean[] {true, false}) {
            try (HikariDataSource pool = pool("?useServerPrepStmts=true", autoCommit, autoCommit, isolation)) {
                LockBackend client = store.opened(JdbcLocks.table(pool));
                works(client);
                assertThat(pool.getHikariPoolMXBean().getActiveConnections()).isZero();
                try (Connection connection = pool.getConnection();
                        Statement statement = connection.createStatement();
                        ResultSet row = statement.executeQuery(
                                "SELECT @@tx_isolation, @@autocommit, @@max_statement_time, @@time_zone")) {
                    row.next();
                    assertThat(row.getString(1))
                            .isEqualTo(
                                    isolation.isEmpty()
                                            ? "REPEATABLE-READ"
                                            : isolation.substring(12).replace('_', '-'));
                    assertThat(row.getBoolean(2)).isEqualTo(autoCommit);
                    assertThat(row.getDouble(3)).isZero();
                    assertThat(row.getString(4)).isEqualTo("SYSTEM");
                    assertThat(connection.isReadOnly()).isEqualTo(autoCommit);
                    assertThat(connection.getNetworkTimeout()).isZero();
                }
            }
        }
    }

    /** A connection inside the caller's transaction is refused, and that transaction is neither committed nor ended. */
    @Test
    void transactionsOfTheCaller() throws Exception {
        store.change("CREATE TABLE mine (id int)");
        try (Connection mine = store.sql();
                Statement statement = mine.createStatement()) {
            mine.setAutoCommit(false);
            LockBackend client = store.opened(JdbcLocks.table(one(mine)));
            statement.execute("INSERT INTO mine VALUES (1)");
            assertThatThrownBy(() -> granted(client, claim("n")))
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                    .hasMessageContaining("transaction open");
            assertThat(mine.getAutoCommit()).isFalse();
            statement.execute("INSERT INTO mine VALUES (2)");
            mine.rollback();
            granted(client, claim("n"));
        }
        assertThat(store.number("SELECT count(*) FROM mine")).isZero();
    }

    /** Always this connection, as a data source does that binds it to the caller's transaction. */
    static DataSource one(Connection connection) {
        Connection kept = (Connection) Proxy.newProxyInstance(
                MariaDbSettingsTest.class.getClassLoader(),
                new Class<?>[] {Connection.class},
                (self, method, arguments) -> {
                    try {
                        return method.getName().equals("close") ? null : method.invoke(connection, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
        return (DataSource) Proxy.newProxyInstance(
                MariaDbSettingsTest.class.getClassLoader(),
                new Class<?>[] {DataSource.class},
                (self, method, arguments) -> kept);
    }

    // ---- Costs

    private long status(String name) throws SQLException {
        return Long.parseLong(server.text("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
                + " WHERE VARIABLE_NAME = '" + name + "'"));
    }

    private interface Act {
        void run() throws Exception;
    }

    /** How many statements the server got for it, beside those by which we ask. */
    private long questions(Act act) throws Exception {
        // What it costs to ask twice, with nothing between.
        long before = status("QUESTIONS");
        long asking = status("QUESTIONS") - before;
        before = status("QUESTIONS");
        act.run();
        return status("QUESTIONS") - before - asking;
    }

    /** Bytes in the log. */
    private long written(Act act) throws Exception {
        long before = status("INNODB_LSN_CURRENT");
        act.run();
        return status("INNODB_LSN_CURRENT") - before;
    }

    /** One statement each; who loses reads, and writes nothing; a thousand leases are one statement. */
    @Test
    void statements() throws Exception {
        LockBackend client = open("", "table");
        Claim claim = claim("n");
        assertThat(questions(() -> granted(client, claim))).isEqualTo(1);
        assertThat(questions(() -> granted(client, claim))).isEqualTo(1);
        Grant grant = granted(client, claim);
        assertThat(questions(() -> client.renew(List.of(grant)))).isEqualTo(1);
        assertThat(questions(() -> acquire(client, claim("n")))).isEqualTo(2);
        assertThat(questions(() -> {
                    for (int i = 0; i < 50; i++) {
                        assertThat(acquire(client, claim("n"))).isEmpty();
                    }
                }))
                .isEqualTo(50);
        Grant heir = client.adopt(grant, claim("n")).orElseThrow();
        assertThat(questions(() -> client.adopt(heir, claim("n")))).isEqualTo(1);
        assertThat(questions(() -> client.holder("n"))).isEqualTo(1);
        assertThat(questions(() -> client.release(heir.claim()))).isEqualTo(1);
        List<Grant> many = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            many.add(granted(client, claim("n" + i)));
        }
        assertThat(questions(() -> assertThat(client.renew(many).live()).hasSize(1000)))
                .isEqualTo(1);
        LockBackend loser = open("", "table");
        acquire(loser, claim("n1"));
        // The server may write for itself meanwhile (a checkpoint, a purge), but not each time; 200 locks of a row that
        // wrote would be tens of thousands of bytes, each time.
        long fewest = Long.MAX_VALUE;
        for (int round = 0; round < 5 && fewest >= 3_000; round++) {
            long bytes = written(() -> {
                for (int i = 0; i < 100; i++) {
                    acquire(loser, claim("n1"));
                    // Without having seen it held before.
                    acquire(loser, claim("n" + i));
                }
            });
            fewest = Math.min(fewest, bytes);
        }
        assertThat(fewest).isLessThan(3_000);
    }

    /** Over the application's DataSource: one more, and two where the isolation is MariaDB's default. */
    @Test
    void statementsOverADataSource() throws Exception {
        try (HikariDataSource usual = pool("", true, false, "");
                HikariDataSource cheap = pool("", true, false, "TRANSACTION_READ_COMMITTED")) {
            LockBackend a = store.opened(JdbcLocks.table(usual));
            LockBackend b = store.opened(JdbcLocks.table(cheap));
            Claim claim = claim("n");
            // With a connection that was made before, and that the pool tries no more.
            for (int i = 0; i < 2; i++) {
                granted(a, claim);
                granted(b, claim);
            }
            assertThat(questions(() -> granted(a, claim))).isEqualTo(4);
            assertThat(questions(() -> granted(b, claim))).isEqualTo(2);
        }
    }

    /** In a large table rows are found by their key. */
    @Test
    void rowsAreFoundByKey() throws Exception {
        MariaDbDialect dialect = (MariaDbDialect) store.dialect(CALL_TIMEOUT, connection -> connection);
        try (Connection c = dialect.open(false, CALL_TIMEOUT.toNanos()).connection();
                Statement statement = c.createStatement()) {
            statement.execute(
                    "INSERT INTO mortise_lock SELECT CONCAT('x', seq), 1, 'table', 1, CONCAT('o~', seq), 1000, 1"
                            + " FROM seq_1_to_20000");
            List<Grant> grants = List.of(
                    claim("x1").granted(TestStore.LEASE, 1, 0), claim("x2").granted(TestStore.LEASE, 1, 0));
            assertThat(rows(c, dialect.statements().acquire(), dialect.acquireParameters("x1", "o~1", 1000L)))
                    .isLessThan(10);
            assertThat(rows(c, dialect.statements().look(), "x1")).isLessThan(10);
            assertThat(rows(c, dialect.statements().release(), "x1", "o~1")).isLessThan(10);
            assertThat(rows(c, dialect.statements().clamp(), "x1", "o~1")).isLessThan(10);
            assertThat(rows(c, dialect.statements().adopt(), "x1", "o~1", 1L, "h~1", 1000L))
                    .isLessThan(10);
            for (Dialect.Query query : List.of(dialect.renew(grants), dialect.ended(grants))) {
                assertThat(rows(c, query.sql(), query.parameters().toArray())).isLessThan(400);
            }
        }
    }

    /** How many rows the server read for it. */
    private static long rows(Connection connection, String sql, Object... parameters) throws SQLException {
        try (Statement reset = connection.createStatement();
                PreparedStatement statement = connection.prepareStatement(sql)) {
            reset.execute("FLUSH STATUS");
            for (int i = 0; i < parameters.length; i++) {
                statement.setObject(i + 1, parameters[i]);
            }
            statement.executeQuery().close();
            try (ResultSet sum = reset.executeQuery("SELECT SUM(VARIABLE_VALUE) FROM information_schema.SESSION_STATUS"
                    + " WHERE VARIABLE_NAME IN ('HANDLER_READ_RND_NEXT', 'HANDLER_READ_NEXT', 'HANDLER_READ_KEY')")) {
                sum.next();
                return sum.getLong(1);
            }
        }
    }
}
