package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Late writes and late reads are refused by the resource itself. */
class JdbcFenceTest {
    private final JdbcFence fence = new JdbcFence();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private SqliteStore store;
    private String url;

    @BeforeEach
    void open(@TempDir Path folder) throws SQLException {
        store = new SqliteStore(folder);
        url = "jdbc:sqlite:" + folder.resolve("app.db");
        try (Connection c = DriverManager.getConnection(url);
                Statement s = c.createStatement()) {
            s.execute("PRAGMA journal_mode = WAL");
            s.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)");
            s.execute("INSERT INTO account VALUES (1, 100)");
        }
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        store.close();
    }

    private Connection begin() throws SQLException {
        Connection connection = DriverManager.getConnection(url);
        connection.setAutoCommit(false);
        return connection;
    }

    private static long cents(Connection c) throws SQLException {
        try (Statement s = c.createStatement();
                ResultSet rows = s.executeQuery("SELECT cents FROM account")) {
            return rows.getLong(1);
        }
    }

    private static void write(Connection c, long cents) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.executeUpdate("UPDATE account SET cents = " + cents);
        }
    }

    /** A holder stops, loses the lease, goes on: its write is refused, and its read as well (RT-12, XB-10). */
    @Test
    void lateWriteAndLateReadAreRefused() throws Exception {
        LockBackend locks = store.client();
        Grant old = granted(locks, claim("account"));
        store.expire("account");
        Grant now = granted(locks, claim("account"));
        try (Connection c = begin()) {
            fence.check(c, "account", now.token());
            write(c, cents(c) + 5);
            c.commit();
        }
        try (Connection c = begin()) {
            assertThatThrownBy(() -> fence.check(c, "account", old.token()))
                    .isInstanceOfSatisfying(StaleTokenException.class, e -> {
                        assertThat(e.resource()).isEqualTo("account");
                        assertThat(e.token()).isEqualTo(old.token());
                        assertThat(e.newest()).isEqualTo(now.token());
                    })
                    .hasMessageContaining("account")
                    .hasMessageContaining(String.valueOf(old.token()))
                    .hasMessageContaining(String.valueOf(now.token()));
            c.rollback();
        }
        try (Connection c = begin()) {
            fence.check(c, "account", now.token());
            assertThat(cents(c)).isEqualTo(105);
            c.rollback();
        }
    }

    /** The same token passes any number of times; a newer one passes; resources are apart, odd names too. */
    @Test
    void passes() throws SQLException {
        try (Connection c = begin()) {
            for (String resource : List.of("a", "A", "a ", "a\0", "\ud83d\ude00", "%20")) {
                fence.check(c, resource, 5);
                fence.check(c, resource, 5);
                fence.check(c, resource, 6);
                assertThatThrownBy(() -> fence.check(c, resource, 5)).isInstanceOf(StaleTokenException.class);
            }
            fence.check(c, "b", 1);
            fence.check(c, "b", Long.MAX_VALUE);
            assertThatThrownBy(() -> fence.check(c, "b", Long.MAX_VALUE - 1)).isInstanceOf(StaleTokenException.class);
            c.commit();
        }
    }

    /** A rolled back transaction leaves no trace, not even the table that it made. */
    @Test
    void rollbackLeavesNoTrace() throws SQLException {
        try (Connection c = begin()) {
            fence.check(c, "account", 9);
            c.rollback();
            fence.check(c, "account", 3);
            c.commit();
            fence.check(c, "account", 9);
            c.rollback();
            fence.check(c, "account", 4);
            c.commit();
        }
    }

    /** From the check on, a newer holder waits for the end of the transaction that has passed. */
    @Test
    void noOvertaking() throws Exception {
        try (Connection old = begin();
                Connection now = begin()) {
            fence.check(old, "account", 1);
            try (Statement s = now.createStatement()) {
                s.execute("PRAGMA busy_timeout = 10000");
            }
            Future<Long> newer = threads.submit(() -> {
                fence.check(now, "account", 2);
                long seen = cents(now);
                now.commit();
                return seen;
            });
            long start = System.nanoTime();
            await().until(() -> System.nanoTime() - start > 100_000_000);
            assertThat(newer).isNotDone();
            write(old, 7);
            old.commit();
            assertThat(newer.get(10, TimeUnit.SECONDS)).isEqualTo(7);
            assertThatThrownBy(() -> fence.check(old, "account", 1)).isInstanceOf(StaleTokenException.class);
        }
    }

    /** Many transactions at once, each with a token of its own: what was committed is in the order of the tokens. */
    @Test
    void races() throws Exception {
        List<Long> committed = Collections.synchronizedList(new ArrayList<>());
        List<Future<?>> all = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            int thread = t;
            all.add(threads.submit(() -> {
                for (long i = 1; i <= 50; i++) {
                    long token = i * 4 + thread;
                    try (Connection c = begin()) {
                        try (Statement s = c.createStatement()) {
                            s.execute("PRAGMA busy_timeout = 20000");
                        }
                        try {
                            fence.check(c, "account", token);
                            write(c, token);
                            // Under the write lock, which the commit gives up.
                            committed.add(token);
                            c.commit();
                        } catch (StaleTokenException e) {
                            c.rollback();
                        }
                    }
                }
                return null;
            }));
        }
        for (Future<?> each : all) {
            each.get(60, TimeUnit.SECONDS);
        }
        assertThat(committed).isNotEmpty().isSorted();
        try (Connection c = begin()) {
            assertThat(cents(c)).isEqualTo(committed.get(committed.size() - 1));
        }
    }

    /** Two at once make the table: one waits for the other or is told to try again, and it is there once. */
    @Test
    void firstUse() throws Exception {
        List<Future<?>> all = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            long token = t + 1L;
            all.add(threads.submit(() -> {
                await().until(() -> {
                    try (Connection c = begin()) {
                        fence.check(c, "r" + token, token);
                        c.commit();
                        return true;
                    } catch (SQLException e) {
                        // SQLITE_BUSY: the transaction is tried again, as with every other statement.
                        assertThat(e.getErrorCode()).isEqualTo(5);
                        return false;
                    }
                });
            }));
        }
        for (Future<?> each : all) {
            each.get(60, TimeUnit.SECONDS);
        }
    }

    /** With auto-commit on, the check would protect nothing that follows: refused, and nothing is written. */
    @Test
    void autoCommitIsRefused() throws SQLException {
        try (Connection c = DriverManager.getConnection(url)) {
            assertThatThrownBy(() -> fence.check(c, "account", 1))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("setAutoCommit(false)");
            c.setAutoCommit(false);
            fence.check(c, "account", 1);
            assertThat(c.getAutoCommit()).isFalse();
            assertThat(c.isClosed()).isFalse();
            c.rollback();
        }
    }

    @Test
    void badArguments() throws SQLException {
        try (Connection c = begin()) {
            for (long token : new long[] {0, -1, Long.MIN_VALUE}) {
                assertThatThrownBy(() -> fence.check(c, "account", token))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageContaining("token");
            }
            for (String resource : List.of("", "\ud83d", "a".repeat(513))) {
                assertThatThrownBy(() -> fence.check(c, resource, 1)).isInstanceOf(IllegalArgumentException.class);
            }
            c.rollback();
        }
    }

    /** Another database is refused by name, before anything is sent to it. */
    @Test
    void otherDatabasesAreRefused() {
        DatabaseMetaData metaData = (DatabaseMetaData) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {DatabaseMetaData.class}, (self, method, arguments) -> {
                    assertThat(method.getName()).isEqualTo("getDatabaseProductName");
                    return "MySQL";
                });
        Connection other = (Connection) Proxy.newProxyInstance(
                getClass().getClassLoader(),
                new Class<?>[] {Connection.class},
                (self, method, arguments) -> switch (method.getName()) {
                    case "getAutoCommit" -> false;
                    case "getMetaData" -> metaData;
                    default -> throw new AssertionError(method);
                });
        assertThatThrownBy(() -> fence.check(other, "account", 1))
                .isInstanceOf(SQLFeatureNotSupportedException.class)
                .hasMessageContaining("MySQL");
    }
}
