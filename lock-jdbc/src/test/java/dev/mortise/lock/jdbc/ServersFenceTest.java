package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The fence in MariaDB and H2, under each isolation that the caller's transaction may have. */
@ParameterizedClass
@EnumSource(
        value = TestStore.Kind.class,
        names = {"MARIADB", "H2"})
class ServersFenceTest {
    @Parameter
    TestStore.Kind kind;

    private final JdbcFence fence = new JdbcFence();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private TestStore store;

    @BeforeEach
    void open() throws SQLException {
        store = kind.open(Path.of(""));
        store.change(Dialect.ddl(kind == TestStore.Kind.H2 ? H2Dialect.DDL : MariaDbDialect.DDL, "mortise_fence"));
        store.change("CREATE TABLE account (cents bigint NOT NULL)");
        store.change("INSERT INTO account VALUES (0)");
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        store.close();
    }

    private Connection begin(int isolation) throws SQLException {
        Connection connection = store.sql();
        connection.setTransactionIsolation(isolation);
        connection.setAutoCommit(false);
        return connection;
    }

    private static long cents(Connection c) throws SQLException {
        try (Statement s = c.createStatement();
                ResultSet rows = s.executeQuery("SELECT cents FROM account")) {
            rows.next();
            return rows.getLong(1);
        }
    }

    /** Conflicts that end in a rollback, after which the transaction is run again. */
    private static void assertConflict(SQLException e) {
        assertThat(Set.of(1213, 1205, 1020, 40001, 50200, 90131)).contains(e.getErrorCode());
    }

    /** The same or a newer token passes, an older does not, and that counts if the transaction commits. */
    @ParameterizedTest
    @ValueSource(
            ints = {
                Connection.TRANSACTION_READ_COMMITTED,
                Connection.TRANSACTION_REPEATABLE_READ,
                Connection.TRANSACTION_SERIALIZABLE
            })
    void passes(int isolation) throws SQLException {
        try (Connection c = begin(isolation)) {
            for (String resource : List.of("a", "A", "a ", "a\0", "\ud83d\ude00", "%20", "a\\", "a'")) {
                fence.check(c, resource, 5);
                fence.check(c, resource, 5);
                fence.check(c, resource, 6);
                assertThatThrownBy(() -> fence.check(c, resource, 5))
                        .isInstanceOfSatisfying(
                                StaleTokenException.class,
                                e -> assertThat(e.newest()).isEqualTo(6));
            }
            c.commit();
            fence.check(c, "a", Long.MAX_VALUE);
            c.rollback();
            fence.check(c, "a", 7);
            assertThat(c.getAutoCommit()).isFalse();
            c.rollback();
        }
    }

    /** From the check on, a newer holder waits, and then sees what the older one wrote; the older one comes no more. */
    @ParameterizedTest
    @ValueSource(ints = {Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ})
    void noOvertaking(int isolation) throws Exception {
        try (Connection first = begin(Connection.TRANSACTION_READ_COMMITTED)) {
            fence.check(first, "account", 1);
            first.commit();
        }
        try (Connection old = begin(isolation);
                Connection now = begin(isolation)) {
            fence.check(old, "account", 1);
            try (Statement s = old.createStatement()) {
                s.executeUpdate("UPDATE account SET cents = 7");
            }
            Future<Long> newer = threads.submit(() -> {
                while (true) {
                    try {
                        fence.check(now, "account", 2);
                        long seen = cents(now);
                        now.commit();
                        return seen;
                    } catch (SQLException e) {
                        assertConflict(e);
                        now.rollback();
                    }
                }
            });
            long start = System.nanoTime();
            await().until(() -> System.nanoTime() - start > 300_000_000L);
            assertThat(newer).isNotDone();
            old.commit();
            assertThat(newer.get(20, TimeUnit.SECONDS)).isEqualTo(7);
            assertThatThrownBy(() -> fence.check(old, "account", 1)).isInstanceOf(StaleTokenException.class);
            old.rollback();
        }
    }

    /** Many transactions at once, also on a resource without a row: what is committed is in the order of the tokens. */
    @ParameterizedTest
    @ValueSource(ints = {Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ})
    void races(int isolation) throws Exception {
        List<Long> committed = Collections.synchronizedList(new ArrayList<>());
        List<Future<?>> all = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            int thread = t;
            all.add(threads.submit(() -> {
                try (Connection c = begin(isolation)) {
                    for (long i = 1; i <= 30; i++) {
                        long token = i * 4 + thread;
                        try {
                            fence.check(c, "account", token);
                            try (Statement s = c.createStatement()) {
                                s.executeUpdate("UPDATE account SET cents = " + token);
                            }
                            committed.add(token);
                            c.commit();
                        } catch (StaleTokenException e) {
                            c.rollback();
                        } catch (SQLException e) {
                            assertConflict(e);
                            committed.remove(token);
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
        assertThat(store.number("SELECT cents FROM account")).isEqualTo(committed.get(committed.size() - 1));
    }

    /** Without the table the check fails, never passes, and does not make it, which would commit. */
    @Test
    void withoutTheTable() throws SQLException {
        store.change("DROP TABLE mortise_fence");
        try (Connection c = begin(Connection.TRANSACTION_READ_COMMITTED);
                Statement s = c.createStatement()) {
            s.executeUpdate("UPDATE account SET cents = 1");
            assertThatThrownBy(() -> fence.check(c, "account", 1))
                    .isInstanceOf(SQLException.class)
                    .satisfies(e -> assertThat(String.valueOf(e.getMessage()).toLowerCase(java.util.Locale.ROOT))
                            .contains("mortise_fence"));
            c.rollback();
        }
        assertThat(store.number("SELECT cents FROM account")).isZero();
    }
}
