package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The fence in PostgreSQL, under each isolation that the caller's transaction may have. */
class PostgresFenceTest {
    private final JdbcFence fence = new JdbcFence();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private PostgresStore store;

    @BeforeEach
    void open() throws SQLException {
        store = new PostgresStore();
        store.change(Dialect.ddl(PostgresDialect.DDL, "mortise_fence"));
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
            for (String resource : List.of("a", "A", "a ", "a\0", "\ud83d\ude00", "%20")) {
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

    /** From the check on, a newer holder waits; then he passes, or is told to run his transaction again. */
    @ParameterizedTest
    @ValueSource(
            ints = {
                Connection.TRANSACTION_READ_COMMITTED,
                Connection.TRANSACTION_REPEATABLE_READ,
                Connection.TRANSACTION_SERIALIZABLE
            })
    void noOvertaking(int isolation) throws Exception {
        try (Connection first = begin(Connection.TRANSACTION_READ_COMMITTED)) {
            fence.check(first, "account", 1);
            first.commit();
        }
        try (Connection old = begin(isolation);
                Connection now = begin(isolation)) {
            fence.check(old, "account", 1);
            Future<Long> newer = threads.submit(() -> {
                for (int tries = 1; ; tries++) {
                    try {
                        fence.check(now, "account", 2);
                        long seen = cents(now);
                        now.commit();
                        assertThat(tries).isEqualTo(isolation == Connection.TRANSACTION_READ_COMMITTED ? 1 : 2);
                        return seen;
                    } catch (SQLException e) {
                        assertThat(e.getSQLState()).isEqualTo("40001");
                        now.rollback();
                    }
                }
            });
            await().until(() -> store.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                            + " AND query LIKE '%mortise_fence%'")
                    > 0);
            try (Statement s = old.createStatement()) {
                s.executeUpdate("UPDATE account SET cents = 7");
            }
            old.commit();
            assertThat(newer.get(20, TimeUnit.SECONDS)).isEqualTo(7);
            assertThatThrownBy(() -> fence.check(old, "account", 1)).isInstanceOf(StaleTokenException.class);
            old.rollback();
        }
    }

    /** Many transactions at once, also on a resource without a row: what is committed is in the order of the tokens. */
    @ParameterizedTest
    @ValueSource(ints = {Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_SERIALIZABLE})
    void races(int isolation) throws Exception {
        List<Long> committed = Collections.synchronizedList(new ArrayList<>());
        List<Future<?>> all = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            int thread = t;
            all.add(threads.submit(() -> {
                try (Connection c = begin(isolation)) {
                    for (long i = 1; i <= 40; i++) {
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
                            assertThat(e.getSQLState()).isEqualTo("40001");
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

    /** Without the table the check fails, never passes; the message is the server's. */
    @Test
    void withoutTheTable() throws SQLException {
        store.change("DROP TABLE mortise_fence");
        try (Connection c = begin(Connection.TRANSACTION_READ_COMMITTED)) {
            assertThatThrownBy(() -> fence.check(c, "account", 1))
                    .isInstanceOf(SQLException.class)
                    .hasMessageContaining("mortise_fence");
            c.rollback();
        }
    }
}
