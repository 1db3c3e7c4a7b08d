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
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreEvent;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TimeZone;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Whatever a role, a database or a pool has set, locks work, or are refused with what to do (RT-02, RT-05, RT-17). */
class PostgresSettingsTest {
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private PostgresStore store;

    @BeforeEach
    void open() {
        store = new PostgresStore();
        store.client();
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        store.close();
    }

    private String role(String... settings) {
        String role = store.role(true, settings);
        store.server.sql("GRANT SELECT, INSERT, UPDATE ON " + store.schema + ".mortise_lock TO " + role);
        return role;
    }

    /** Every operation does what it should, against a client with the usual settings. */
    private void works(LockBackend client) {
        LockBackend other = store.client();
        Grant grant = granted(client, claim("n"));
        assertThat(acquire(client, claim("n"))).isEmpty();
        assertThat(acquire(other, claim("n"))).isEmpty();
        assertThat(other.holder("n").orElseThrow().rest()).isBetween(Duration.ofSeconds(20), Duration.ofMillis(30_001));
        assertThat(client.renew(List.of(grant)).live()).hasSize(1);
        Grant heir = client.adopt(grant, claim("n")).orElseThrow();
        assertThat(client.holder("n").orElseThrow().owner()).isEqualTo(heir.owner());
        assertThat(client.release(heir.claim())).isTrue();
        Grant after = granted(other, claim("n"));
        assertThat(after.token()).isGreaterThan(heir.token());
        assertThat(acquire(client, claim("n"))).isEmpty();
        other.release(after.claim());
    }

    /** Eight clients at once on each of the names: one winner each, and no error. */
    private void contend(List<LockBackend> clients, int names) throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(clients.size());
        AtomicInteger[] winners = new AtomicInteger[names];
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < names; i++) {
            winners[i] = new AtomicInteger();
        }
        for (LockBackend client : clients) {
            all.add(threads.submit(() -> {
                for (int i = 0; i < names; i++) {
                    barrier.await();
                    Claim claim = claim("fresh " + i);
                    if (acquire(client, claim).isPresent()) {
                        winners[i].incrementAndGet();
                        assertThat(client.renew(List.of(claim.granted(claim.lease(), 1, 0)))
                                        .ended())
                                .hasSize(1);
                    }
                }
                return null;
            }));
        }
        for (Future<?> each : all) {
            each.get(2, TimeUnit.MINUTES);
        }
        for (int i = 0; i < names; i++) {
            assertThat(winners[i]).as("winners of name %d", i).hasValue(1);
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "lock_timeout = '1ms'",
                "statement_timeout = '1ms'",
                "default_transaction_isolation = 'serializable'",
                "default_transaction_isolation = 'repeatable read'",
                "default_transaction_read_only = on",
                "default_transaction_deferrable = on",
                "synchronous_commit = off",
                "TimeZone = 'Pacific/Chatham'",
                "search_path = ''",
                "search_path = 'pg_temp, nosuchschema'",
                "idle_session_timeout = '50ms'",
                "DateStyle = 'SQL, DMY'",
                "standard_conforming_strings = off",
                "plan_cache_mode = force_generic_plan",
                "enable_nestloop = off",
                "enable_indexscan = off"
            })
    void roles(String setting) throws Exception {
        LockBackend client = store.client(role(setting), CALL_TIMEOUT);
        assertThat(client.guarantees()).isSameAs(PostgresDialect.GUARANTEES);
        works(client);
        works(client);
    }

    /** With SERIALIZABLE as the default of the role, different names do not disturb each other (RT-17). */
    @Test
    void contention() throws Exception {
        String role = role("default_transaction_isolation = 'serializable'");
        List<LockBackend> clients = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            clients.add(store.client(role, Duration.ofSeconds(30)));
        }
        contend(clients, 40);
    }

    /** The zone of the client's machine has no part in it (RT-02). */
    @Test
    void zones() {
        TimeZone before = TimeZone.getDefault();
        try {
            TimeZone.setDefault(TimeZone.getTimeZone("America/St_Johns"));
            LockBackend client = store.client(role("TimeZone = 'Asia/Kathmandu'"), CALL_TIMEOUT);
            TimeZone.setDefault(TimeZone.getTimeZone("GMT+14"));
            works(client);
            works(store.client());
        } finally {
            TimeZone.setDefault(before);
        }
    }

    // ---- The application's own DataSource

    private HikariDataSource pool(String role, int size) {
        return pool(role, size, config -> {});
    }

    private HikariDataSource pool(String role, int size, Consumer<HikariConfig> more) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(store.server.url());
        config.setUsername(role);
        config.setPassword(role);
        config.setMaximumPoolSize(size);
        config.setMinimumIdle(0);
        config.setConnectionTimeout(20_000);
        more.accept(config);
        return new HikariDataSource(config);
    }

    private LockBackend over(DataSource dataSource) {
        return store.opened(JdbcLocks.table(dataSource, store.schema, context(CALL_TIMEOUT)));
    }

    /** Each way a pool can be set up: it works, and what is borrowed next is as it was. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "TRANSACTION_READ_COMMITTED",
                "TRANSACTION_REPEATABLE_READ",
                "TRANSACTION_SERIALIZABLE",
                "TRANSACTION_READ_UNCOMMITTED"
            })
    void pools(String isolation) throws Exception {
        for (boolean autoCommit : new boolean[] {true, false}) {
            for (boolean readOnly : new boolean[] {true, false}) {
                try (HikariDataSource pool = pool(role(), 1, config -> {
                    config.setAutoCommit(autoCommit);
                    config.setReadOnly(readOnly);
                    config.setTransactionIsolation(isolation.isEmpty() ? null : isolation);
                })) {
                    works(over(pool));
                    assertThat(pool.getHikariPoolMXBean().getActiveConnections())
                            .isZero();
                    try (Connection connection = pool.getConnection();
                            Statement statement = connection.createStatement()) {
                        assertThat(connection.getAutoCommit()).isEqualTo(autoCommit);
                        assertThat(connection.isReadOnly()).isEqualTo(readOnly);
                        if (!isolation.isEmpty()) {
                            assertThat(connection.getTransactionIsolation())
                                    .isEqualTo(
                                            Connection.class.getField(isolation).getInt(null));
                        }
                        assertThat(connection.getNetworkTimeout()).isZero();
                        try (ResultSet rows = statement.executeQuery("SHOW lock_timeout")) {
                            rows.next();
                            assertThat(rows.getString(1)).isEqualTo("0");
                        }
                    }
                }
            }
        }
    }

    /** A connection that is not pooled is given back, and to the database, as it was. */
    @Test
    void givenBackAsItWas() throws Exception {
        try (Connection mine = store.sql()) {
            for (int isolation : new int[] {
                Connection.TRANSACTION_READ_COMMITTED,
                Connection.TRANSACTION_REPEATABLE_READ,
                Connection.TRANSACTION_SERIALIZABLE
            }) {
                mine.setTransactionIsolation(isolation);
                mine.setAutoCommit(false);
                mine.setReadOnly(true);
                mine.setNetworkTimeout(Runnable::run, 12_345);
                works(over(one(mine)));
                assertThat(mine.getAutoCommit()).isFalse();
                assertThat(mine.isReadOnly()).isTrue();
                assertThat(mine.getNetworkTimeout()).isEqualTo(12_345);
                assertThat(mine.getTransactionIsolation()).isEqualTo(isolation);
                mine.rollback();
                mine.setAutoCommit(true);
                mine.setReadOnly(false);
            }
        }
    }

    /** Always this connection, as a data source does that binds it to the caller's transaction. */
    private static DataSource one(Connection connection) {
        Connection kept = (Connection) Proxy.newProxyInstance(
                PostgresSettingsTest.class.getClassLoader(),
                new Class<?>[] {Connection.class},
                (self, method, arguments) -> {
                    try {
                        return method.getName().equals("close") ? null : method.invoke(connection, arguments);
                    } catch (java.lang.reflect.InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
        return (DataSource) Proxy.newProxyInstance(
                PostgresSettingsTest.class.getClassLoader(),
                new Class<?>[] {DataSource.class},
                (self, method, arguments) -> kept);
    }

    /** A connection inside the caller's transaction is refused, and that transaction is neither committed nor ended. */
    @Test
    void transactionsOfTheCaller() throws Exception {
        store.server.sql("CREATE TABLE " + store.schema + ".mine (id int)");
        try (Connection mine = store.sql();
                Statement statement = mine.createStatement()) {
            mine.setAutoCommit(false);
            LockBackend client = over(one(mine));
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

    /** Settings of a role that an application's pool then has: worked around, declared, or refused with what to do. */
    @Test
    void rolesOfPools() throws Exception {
        for (String setting : List.of(
                "lock_timeout = '1ms'",
                "default_transaction_isolation = 'serializable'",
                "TimeZone = 'Pacific/Chatham'",
                "search_path = ''")) {
            try (HikariDataSource pool = pool(role(setting), 2)) {
                works(over(pool));
            }
        }
        try (HikariDataSource pool = pool(role("synchronous_commit = off"), 2)) {
            LockBackend client = over(pool);
            works(client);
            assertThat(client.guarantees().exclusionSurvives()).doesNotContain(StoreEvent.STORE_RESTART);
        }
        try (HikariDataSource pool = pool(role("default_transaction_read_only = on"), 2)) {
            assertThatThrownBy(() -> over(pool))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("read-only")
                    .hasMessageContaining("default_transaction_read_only = off");
        }
    }

    /** Under SERIALIZABLE in the pool's connections too: one winner each, no serialization failure to the caller. */
    @Test
    void contentionInPools() throws Exception {
        try (HikariDataSource pool =
                pool(role(), 8, config -> config.setTransactionIsolation("TRANSACTION_SERIALIZABLE"))) {
            List<LockBackend> clients = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                clients.add(store.opened(JdbcLocks.table(pool, store.schema, context(Duration.ofSeconds(30)))));
            }
            contend(clients, 25);
        }
    }

    /** Waiting and holding keep no connection: a pool of two serves ten threads and their work (PG-07, HP-01). */
    @Test
    void smallPools() throws Exception {
        try (HikariDataSource pool = pool(role(), 2);
                LockClient locks = LockClient.builder(over(pool)).build()) {
            List<Future<?>> all = new ArrayList<>();
            for (int t = 0; t < 10; t++) {
                String name = "n" + t % 5;
                all.add(threads.submit(() -> {
                    for (int i = 0; i < 5; i++) {
                        locks.lock(name).run(lease -> {
                            try (Connection connection = pool.getConnection();
                                    Statement statement = connection.createStatement()) {
                                statement.execute("SELECT pg_sleep(0.005)");
                            }
                        });
                    }
                    return null;
                }));
            }
            for (Future<?> each : all) {
                each.get(60, TimeUnit.SECONDS);
            }
        }
    }

    /** Another database than PostgreSQL is refused by name. */
    @Test
    void otherDatabases() {
        org.sqlite.SQLiteDataSource sqlite = new org.sqlite.SQLiteDataSource();
        sqlite.setUrl("jdbc:sqlite::memory:");
        assertThatThrownBy(() -> JdbcLocks.table(sqlite))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("SQLite");
    }
}
