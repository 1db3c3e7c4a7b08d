package dev.mortise.lock.jdbc;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Objects;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * Locks over the application's own {@link DataSource}.
 *
 * <pre>{@code
 * LockClient locks = LockClient.builder(JdbcLocks.table(dataSource)).build();
 * }</pre>
 */
public final class JdbcLocks {
    /** The longest that a client gives a call by itself. */
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    private JdbcLocks() {}

    /**
     * Locks in the table {@code mortise_lock}, for the default lease of 30 seconds or longer ones: of the schema {@code
     * public} on PostgreSQL and H2, of the connections' own database on MariaDB.
     *
     * @see #table(DataSource, String, BackendContext)
     */
    public static LockBackend table(DataSource dataSource) {
        return open(dataSource, null, BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    /**
     * Locks in the table {@code mortise_lock} of this schema of a PostgreSQL, MariaDB or H2 database. Connects at once.
     *
     * <p>Each call borrows a connection for one statement, in auto-commit, and gives it back as it was: auto-commit,
     * isolation, read-only and network timeout. Neither waiting nor holding a lock keeps a connection. At most eight are
     * borrowed at once. The caller's transactions have no part in it: a connection that comes with a transaction open, as
     * from a data source that binds connections to the caller's transaction, is refused.
     *
     * <p>How long the data source itself lets a call wait for a connection is up to it, and beyond the call timeout: set
     * its limit (in HikariCP {@code connectionTimeout}) below that, and let it be large enough, because work under a lock
     * that waits for a connection of the same pool cannot renew. Where the connections' isolation is another than READ
     * COMMITTED, as MariaDB's is by default, each call costs up to three statements more, which change it and change it
     * back; on MariaDB and H2 one more, which asks whether a transaction is open.
     *
     * @param dataSource connections to the database; stays the caller's, and is not closed
     * @param schema the schema of the table (on MariaDB the database), the same for all who shall exclude each other
     * @param context the ticker of the client, and its call timeout: at most a quarter of its shortest lease
     * @throws dev.mortise.lock.LockStoreException if the database cannot be used; says what to do
     */
    public static LockBackend table(DataSource dataSource, String schema, BackendContext context) {
        return open(dataSource, Objects.requireNonNull(schema, "schema"), context);
    }

    private static LockBackend open(DataSource dataSource, @Nullable String schema, BackendContext context) {
        Objects.requireNonNull(dataSource, "dataSource");
        String product;
        try (Connection connection = dataSource.getConnection()) {
            product = connection.getMetaData().getDatabaseProductName();
        } catch (SQLException e) {
            throw new LockStoreException(
                    "a database by the application's DataSource",
                    "open: " + e.getMessage(),
                    "check that the database runs, and that the DataSource gives connections",
                    false,
                    e);
        }
        Borrowed source = new Borrowed(dataSource, product);
        return TableBackend.open(
                switch (product) {
                    case "PostgreSQL" -> new PostgresDialect(source, Objects.requireNonNullElse(schema, "public"));
                    case "MariaDB" -> new MariaDbDialect(source, schema);
                    case "H2" -> new H2Dialect(source, schema);
                    default ->
                        throw new LockStoreException(
                                source.store(),
                                "open: locks are not kept in " + product,
                                "give a DataSource of PostgreSQL, MariaDB (by its own driver) or H2",
                                false,
                                null);
                },
                context);
    }

    private static final class Borrowed implements ServerDialect.Source {
        private final DataSource dataSource;
        private final String product;

        Borrowed(DataSource dataSource, String product) {
            this.dataSource = dataSource;
            this.product = product;
        }

        @Override
        public String store() {
            return product + " by the application's DataSource";
        }

        @Override
        public boolean own() {
            return false;
        }

        @Override
        public Connection connect(long nanos) throws SQLException {
            return dataSource.getConnection();
        }
    }
}
