package dev.mortise.lock.jdbc;

import dev.mortise.lock.tck.ProtectedResource;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/** What locks protect in a database, behind {@link JdbcFence}, as its users do it: a number for each lock. */
public final class FencedNumbers implements ProtectedResource {
    private final JdbcFence fence = new JdbcFence();
    private final String url;
    private @Nullable Connection connection;

    /** In the database of this URL, whose tables {@link #create} has made. */
    public FencedNumbers(String url) {
        this.url = url;
    }

    /** Makes the tables, once for all processes. */
    static void create(String url) throws SQLException {
        try (Connection admin = DriverManager.getConnection(url);
                Statement statement = admin.createStatement()) {
            String ddl = switch (admin.getMetaData().getDatabaseProductName()) {
                case "SQLite" -> SqliteDialect.DDL;
                case "PostgreSQL" -> PostgresDialect.DDL;
                case "MariaDB" -> MariaDbDialect.DDL;
                default -> H2Dialect.DDL;
            };
            statement.execute(Dialect.ddl(ddl, "mortise_fence"));
            statement.execute("CREATE TABLE tck_number (lock_name VARCHAR(200) PRIMARY KEY, held BIGINT NOT NULL)");
        }
    }

    @Override
    public OptionalLong read(String name, long token) throws SQLException {
        return inTransaction(name, token, c -> {
            try (PreparedStatement select = c.prepareStatement("SELECT held FROM tck_number WHERE lock_name = ?")) {
                select.setString(1, name);
                try (ResultSet rows = select.executeQuery()) {
                    return rows.next() ? rows.getLong(1) : 0;
                }
            }
        });
    }

    @Override
    public boolean write(String name, long token, long value) throws SQLException {
        return inTransaction(name, token, c -> {
                    if (update(c, "UPDATE tck_number SET held = ? WHERE lock_name = ?", value, name) == 0) {
                        update(c, "INSERT INTO tck_number (held, lock_name) VALUES (?, ?)", value, name);
                    }
                    return value;
                })
                .isPresent();
    }

    private static int update(Connection c, String sql, long value, String name) throws SQLException {
        try (PreparedStatement update = c.prepareStatement(sql)) {
            update.setLong(1, value);
            update.setString(2, name);
            return update.executeUpdate();
        }
    }

    private interface Work {
        long run(Connection connection) throws SQLException;
    }

    /** The check first, and then what is to be done, of which nothing is left if it fails. */
    private synchronized OptionalLong inTransaction(String name, long token, Work work) throws SQLException {
        Connection c = connection;
        try {
            if (c == null) {
                c = DriverManager.getConnection(url);
                connection = c;
                c.setAutoCommit(false);
            }
            OptionalLong result;
            try {
                fence.check(c, name, token);
                result = OptionalLong.of(work.run(c));
            } catch (StaleTokenException e) {
                c.rollback();
                return OptionalLong.empty();
            }
            c.commit();
            return result;
        } catch (SQLException e) {
            // The next one begins with a new connection: what this one has done, nobody knows.
            connection = null;
            if (c != null) {
                try {
                    c.close();
                } catch (SQLException again) {
                    e.addSuppressed(again);
                }
            }
            throw e;
        }
    }

    @Override
    public synchronized void close() throws SQLException {
        Connection c = connection;
        if (c != null) {
            c.close();
        }
    }
}
