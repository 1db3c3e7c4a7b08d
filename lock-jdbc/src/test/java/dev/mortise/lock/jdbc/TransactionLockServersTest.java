package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The lock in the caller's transaction, where one kind of server or of driver's setting is peculiar. */
class TransactionLockServersTest {
    private static final Duration ONCE = Duration.ZERO;

    private final JdbcTransactionLock lock = new JdbcTransactionLock();

    private static Connection begin(String url) throws SQLException {
        Connection connection = DriverManager.getConnection(url);
        connection.setAutoCommit(false);
        return connection;
    }

    private static void execute(Connection c, String sql) throws SQLException {
        try (Statement statement = c.createStatement()) {
            statement.execute(sql);
        }
    }

    /** The key is a format: two versions of this library must mean the same lock (PG-10, PG-14). */
    @Test
    void keyIsFrozen() {
        assertThat(JdbcTransactionLock.key("invoice-42")).isEqualTo(4538264439171872509L);
        assertThat(JdbcTransactionLock.key("\u00fc")).isNotEqualTo(JdbcTransactionLock.key("u\u0308"));
    }

    /** A lock of a session under the same bits is another one, and a lease under the same name as well (PG-10). */
    @Test
    void keySpacesAreApart() throws Exception {
        try (PostgresStore store = new PostgresStore();
                Connection session = store.sql();
                Connection c = begin(store.adminUrl());
                Connection other = begin(store.adminUrl())) {
            execute(session, "SELECT pg_advisory_lock(" + JdbcTransactionLock.key("apart") + ")");
            LockBackend locks = store.client();
            Grant grant = granted(locks, claim("apart"));
            assertThat(lock.tryAcquire(c, "apart", ONCE)).isTrue();
            assertThat(lock.tryAcquire(other, "apart", ONCE)).isFalse();
            // Nor is a lease in the way of, or held up by, the transaction.
            assertThat(locks.renew(List.of(grant)).live()).hasSize(1);
            assertThat(locks.release(grant.claim())).isTrue();
            c.rollback();
        }
    }

    /** Drivers that set a savepoint of their own before each statement do not undo ours. */
    @Test
    void driversSavepoints() throws Exception {
        try (PostgresStore store = new PostgresStore();
                Connection holder = begin(store.adminUrl())) {
            store.change("CREATE TABLE counter (n INT)");
            assertThat(lock.tryAcquire(holder, "saved", ONCE)).isTrue();
            for (String autosave : List.of("always", "conservative")) {
                try (Connection c = begin(store.adminUrl() + "&autosave=" + autosave)) {
                    execute(c, "INSERT INTO counter VALUES (1)");
                    assertThat(lock.tryAcquire(c, "saved", Duration.ofMillis(60)))
                            .isFalse();
                    execute(c, "INSERT INTO counter VALUES (2)");
                    c.commit();
                }
            }
            assertThat(store.number("SELECT count(*) FROM counter")).isEqualTo(4);
        }
    }

    /** A role without any right has it: a migration may come before all tables. On a replica it would exclude nobody. */
    @Test
    void rightsAndReplicas() throws Exception {
        String[] settings = {"wal_level=replica", "max_wal_senders=4"};
        try (PostgresServer primary = new PostgresServer(settings)) {
            primary.sql("CREATE ROLE nobody LOGIN PASSWORD 'nobody'");
            try (Connection c = begin(primary.url() + "?user=nobody&password=nobody")) {
                assertThat(lock.tryAcquire(c, "a", ONCE)).isTrue();
            }
            try (PostgresServer replica = PostgresServer.standby(primary.port(), settings);
                    Connection c = begin(replica.url() + "?user=test")) {
                assertThatThrownBy(() -> lock.tryAcquire(c, "a", ONCE))
                        .isInstanceOf(SQLFeatureNotSupportedException.class)
                        .hasMessageContaining("replica")
                        .hasMessageContaining("primary");
            }
        }
    }

    /**
     * MariaDB: the least rights suffice; a read-only server says no; and where a timeout undoes the whole transaction, the
     * lock must come first.
     */
    @Test
    void mariaDb() throws Exception {
        try (MariaDbServer server = new MariaDbServer("--innodb-rollback-on-timeout=1")) {
            server.sql(
                    Dialect.ddl("mariadb.sql", "mortise_transaction_lock"),
                    "CREATE TABLE counter (n INT)",
                    "CREATE USER least@'%' IDENTIFIED BY 'least'",
                    "GRANT SELECT, INSERT, UPDATE ON test.mortise_transaction_lock TO least@'%'",
                    "GRANT SELECT, INSERT ON test.counter TO least@'%'");
            String url = server.url("test") + "?user=least&password=least";
            try (Connection holder = begin(url);
                    Connection c = begin(url)) {
                for (int i = 0; i < 2; i++) {
                    assertThat(lock.tryAcquire(holder, "a", ONCE)).isTrue();
                    assertThat(lock.tryAcquire(c, "a", ONCE)).isFalse();
                    assertThat(lock.tryAcquire(c, "a", Duration.ofMillis(1100))).isFalse();
                    holder.commit();
                }
                assertThat(lock.tryAcquire(holder, "a", ONCE)).isTrue();
                c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
                execute(c, "INSERT INTO counter VALUES (1)");
                assertThatThrownBy(() -> lock.tryAcquire(c, "a", ONCE))
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessageContaining("innodb_rollback_on_timeout")
                        .hasMessageContaining("first statement");
                c.commit();
                holder.rollback();
                assertThat(server.text("SELECT count(*) FROM counter")).isEqualTo("1");
                server.sql("SET GLOBAL read_only = 1");
                assertThatThrownBy(() -> lock.tryAcquire(c, "a", ONCE))
                        .isInstanceOf(SQLException.class)
                        .hasMessageContaining("read-only");
            }
        }
    }
}
