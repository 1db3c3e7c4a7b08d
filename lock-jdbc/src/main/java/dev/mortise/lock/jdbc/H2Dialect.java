package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * H2, by the clock of the machine that has the database. Its clock in a statement is that of the statement's start, which
 * may be older than its lock of the row: that ends no lease sooner, and lets nobody in sooner.
 */
final class H2Dialect extends ServerDialect {
    static final String DDL = "h2.sql";

    /** What was committed within the last half second may be lost with the server, and is never flushed by a commit. */
    static final Guarantees GUARANTEES =
            Dialect.guarantees(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS);

    private static final String OURS = "l.format = " + FORMAT + " AND l.strategy = '" + TABLE + "'";

    /** Rounded down. */
    private static final String NOW = "CAST(FLOOR(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) * 1000) AS BIGINT)";

    private static final String MICROS = "CAST(FLOOR(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) * 1000000) AS BIGINT)";

    /**
     * H2 runs in the calling thread; and where the database is a file of this process, an interrupt of a thread that reads
     * or writes would close it for all. These are never interrupted. They end a second after their last use.
     */
    private static final ExecutorService THREADS =
            new ThreadPoolExecutor(0, Integer.MAX_VALUE, 1, TimeUnit.SECONDS, new SynchronousQueue<>(), task -> {
                Thread thread = new Thread(task, "mortise-jdbc-h2");
                thread.setDaemon(true);
                return thread;
            });

    private static String until(String lease) {
        return NOW + " + " + lease + " + 1";
    }

    private final String table;
    private final Statements statements;
    private final String renew;

    /** In this schema; null for the default one, by whatever name. */
    H2Dialect(ServerDialect.Source source, @Nullable String schema) {
        super(source, TABLE);
        if (schema != null && (schema.isEmpty() || schema.length() > 256)) {
            throw new IllegalArgumentException("schema must be a name of 1 to 256 characters");
        }
        // Names without quotes, in upper or lower case as the database has it.
        table = (schema == null ? "PUBLIC" : '"' + schema.replace("\"", "\"\"") + '"') + ".mortise_lock";
        String acquire = "SELECT token FROM FINAL TABLE (MERGE INTO " + table
                + " l USING (SELECT CAST(? AS VARCHAR(1536)) AS n,"
                + " CAST(? AS VARCHAR(128)) AS o, CAST(? AS BIGINT) AS ms) q ON l.name = q.n"
                + " WHEN MATCHED AND " + OURS + " AND (l.owner IS NULL OR l.until_ms <= " + NOW + " OR l.owner = q.o)"
                + " THEN UPDATE SET token = CASE WHEN l.owner = q.o AND l.until_ms > " + NOW + " THEN l.token"
                + " ELSE GREATEST(l.token + 1, " + MICROS + ") END,"
                + " owner = q.o, lease_ms = q.ms, until_ms = " + until("q.ms")
                + " WHEN NOT MATCHED THEN INSERT (name, format, strategy, token, owner, lease_ms, until_ms)"
                + " VALUES (q.n, " + FORMAT + ", '" + TABLE + "', " + MICROS + ", q.o, q.ms, " + until("q.ms") + "))";
        String look = "SELECT format, strategy, owner, token, lease_ms, until_ms - " + NOW + " FROM " + table
                + " WHERE name = ?";
        // The grants in the outer loop, and their rows by key.
        renew = "SELECT name, owner, token, lease_ms FROM FINAL TABLE (MERGE INTO " + table + " l USING (SELECT * FROM"
                + " UNNEST(CAST(? AS VARCHAR(1536) ARRAY), CAST(? AS VARCHAR(128) ARRAY), CAST(? AS BIGINT ARRAY))"
                + " AS a(n, o, t)) q ON l.name = q.n AND l.owner = q.o AND l.token = q.t"
                + " WHEN MATCHED AND " + OURS + " AND l.until_ms > " + NOW + " THEN UPDATE SET until_ms = "
                + until("l.lease_ms") + ")";
        String release = "SELECT CASE WHEN until_ms > " + NOW + " THEN 1 ELSE 0 END FROM FINAL TABLE (UPDATE " + table
                + " l SET owner = NULL WHERE l.name = ? AND l.owner = ? AND " + OURS + ")";
        String adopt = "SELECT token FROM FINAL TABLE (MERGE INTO " + table
                + " l USING (SELECT CAST(? AS VARCHAR(1536)) AS n,"
                + " CAST(? AS VARCHAR(128)) AS held, CAST(? AS BIGINT) AS t, CAST(? AS VARCHAR(128)) AS heir,"
                + " CAST(? AS BIGINT) AS ms) q ON l.name = q.n"
                + " WHEN MATCHED AND " + OURS + " AND ((l.owner = q.held AND l.token = q.t) OR l.owner = q.heir)"
                + " AND l.until_ms > " + NOW + " THEN UPDATE SET"
                + " token = CASE WHEN l.owner = q.heir THEN l.token ELSE GREATEST(l.token + 1, " + MICROS + ") END,"
                + " owner = q.heir, lease_ms = q.ms, until_ms = " + until("q.ms") + ")";
        String clamp = "SELECT 1 FROM FINAL TABLE (UPDATE " + table + " l SET until_ms = " + until("l.lease_ms")
                + " WHERE l.name = ? AND l.owner = ? AND " + OURS + " AND l.until_ms > " + until("l.lease_ms") + ")";
        statements = new Statements(acquire, look, release, adopt, clamp);
    }

    @Override
    public Guarantees guarantees() {
        return GUARANTEES;
    }

    // ---- Connections ---------------------------------------------------------------------------------------------

    @Override
    H2Session session(Connection connection) {
        return new H2Session(connection);
    }

    @Override
    String product() {
        return "H2";
    }

    /** As for the others, in threads that are not interrupted. */
    @Override
    public Session open(boolean again, long nanos) throws SQLException {
        long end = System.nanoTime() + nanos;
        H2Session session =
                session(source.own() ? source.connect(nanos) : shielded(nanos, () -> source.connect(nanos)));
        boolean kept = false;
        try {
            session.left = Math.max(1, end - System.nanoTime());
            session.run(() -> {
                if (!source.own()) {
                    session.borrow();
                }
                if (!again || source.own()) {
                    probe(session.connection, again, end);
                }
                return true;
            });
            kept = true;
            return session;
        } finally {
            if (!kept) {
                session.close();
            }
        }
    }

    @Override
    void probe(Connection connection, boolean again, long end) throws SQLException {
        String product = connection.getMetaData().getDatabaseProductName();
        int version = connection.getMetaData().getDatabaseMajorVersion() * 100
                + connection.getMetaData().getDatabaseMinorVersion();
        if (!product.equals(product()) || version < 202) {
            throw new Refusal(
                    "the database is " + product + " "
                            + connection.getMetaData().getDatabaseProductVersion(),
                    "use H2 2.2 or later",
                    null);
        }
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(
                        "SELECT DATABASE_PATH(), CAST('a' AS VARCHAR) <> CAST('A' AS" + " VARCHAR)")) {
            row.next();
            if (row.getString(1) == null) {
                throw new Refusal(
                        "a database in memory is lost with its last connection or its process",
                        "use a file or an H2 server with one; for tests the in-memory store",
                        null);
            }
            if (!row.getBoolean(2)) {
                throw new Refusal(
                        "this database takes upper and lower case for the same",
                        "use one without IGNORECASE and without a COLLATION",
                        null);
            }
        }
        if (connection.isReadOnly()) {
            throw new Refusal("this database is read-only", "use one that takes writes", null);
        }
        if (!usable(connection)) {
            if (again) {
                throw new Refusal(
                        "the table " + table + " was dropped while it was in use",
                        "put it back, or stop all programs that use it first",
                        null);
            }
            create(connection);
        }
    }

    /** Whether the table is there; with all rights and columns that are needed, or else this fails. */
    private boolean usable(Connection connection) throws SQLException {
        try (var statement = connection.prepareStatement(statements.release());
                var claim = connection.prepareStatement(statements.acquire())) {
            // No lock has this name: nothing is changed. The other one needs the rights to be compiled.
            statement.setString(1, "");
            statement.setString(2, "");
            statement.executeQuery().close();
            return claim != null;
        } catch (SQLException e) {
            if (Set.of(42102, 42103, 42104).contains(e.getErrorCode())) {
                return false;
            }
            throw e;
        }
    }

    private void create(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(Dialect.ddl(DDL, "mortise_lock")
                    .replace("CREATE TABLE IF NOT EXISTS mortise_lock", "CREATE TABLE IF NOT EXISTS " + table));
        } catch (SQLException e) {
            throw e.getErrorCode() == NO_RIGHT
                    ? new Refusal(
                            "its table " + table + " is not there, and this user may not make it",
                            "run the statement CREATE TABLE … mortise_lock of the shipped h2.sql there once, and GRANT"
                                    + " SELECT, INSERT, UPDATE ON " + table + " to the user",
                            null)
                    : e;
        }
        usable(connection);
    }

    /**
     * In another thread, which no interrupt reaches, within this time.
     *
     * @throws SQLException also if it is not through by then: it then goes on for itself
     */
    private static <T> T shielded(long nanos, Callable<T> call) throws SQLException {
        Future<T> future = THREADS.submit(call);
        long end = System.nanoTime() + nanos;
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return future.get(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
                } catch (InterruptedException e) {
                    interrupted = true;
                } catch (TimeoutException e) {
                    throw new SQLException(
                            "no answer within " + Duration.ofNanos(nanos).toMillis() + " ms", "08006", e);
                } catch (ExecutionException e) {
                    if (e.getCause() instanceof SQLException cause) {
                        throw cause;
                    }
                    if (e.getCause() instanceof RuntimeException cause) {
                        throw cause;
                    }
                    throw new SQLException("failed (" + e.getCause() + ")", "HY000", e);
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private final class H2Session extends PlainSession {
        /** How long what follows may take. */
        private long left = 1;

        /** How long a statement waits for a row, in milliseconds; 0 if that is not known. */
        private int waits;

        /** As it was when it was borrowed. */
        private int waited;

        private int isolated = Connection.TRANSACTION_READ_COMMITTED;
        private boolean hangs;

        H2Session(Connection connection) {
            super(connection, source.own());
        }

        @Override
        public <T> T run(Callable<T> call) throws SQLException {
            try {
                return shielded(left, call);
            } catch (SQLException e) {
                hangs = e.getCause() instanceof TimeoutException;
                throw e;
            }
        }

        @Override
        void requireNoTransaction() throws SQLException {
            try (Statement statement = connection.createStatement();
                    ResultSet row =
                            statement.executeQuery("SELECT CONTAINS_UNCOMMITTED, LOCK_TIMEOUT(), ISOLATION_LEVEL"
                                    + " FROM INFORMATION_SCHEMA.SESSIONS WHERE SESSION_ID = SESSION_ID()")) {
                row.next();
                if (row.getBoolean(1)) {
                    throw transactionOpen(null);
                }
                waited = row.getInt(2);
                isolated = switch (row.getString(3)) {
                    case "READ UNCOMMITTED" -> Connection.TRANSACTION_READ_UNCOMMITTED;
                    case "READ COMMITTED" -> Connection.TRANSACTION_READ_COMMITTED;
                    case "SERIALIZABLE" -> Connection.TRANSACTION_SERIALIZABLE;
                    default -> Connection.TRANSACTION_REPEATABLE_READ;
                };
            }
        }

        @Override
        void borrow() throws SQLException {
            super.borrow();
            isolate(isolated);
        }

        @Override
        public void limit(long nanos) throws SQLException {
            left = nanos;
            // Half of it at most, so that the database gives a wait up, and says so, before we do.
            int millis = (int) Long.highestOneBit(Math.max(1, Math.min(TableBackend.LONGEST_WAIT, nanos / 2_000_000)));
            if (millis != waits) {
                run(() -> waitFor(millis));
                waits = millis;
            }
        }

        private boolean waitFor(int millis) throws SQLException {
            try (Statement statement = connection.createStatement()) {
                statement.execute("SET LOCK_TIMEOUT " + millis);
                return true;
            }
        }

        @Override
        public void requireAlive() throws SQLException {
            run(() -> {
                super.requireAlive();
                return true;
            });
        }

        @Override
        public void close() {
            close(() -> {});
        }

        @Override
        public void close(Runnable first) {
            Future<?> closing = THREADS.submit(() -> {
                first.run();
                try {
                    if (waited > 0 && waits != 0) {
                        waitFor(waited);
                    }
                } catch (SQLException e) {
                    System.getLogger(H2Dialect.class.getName()).log(System.Logger.Level.DEBUG, "close", e);
                }
                super.close();
            });
            try {
                if (!hangs) {
                    shielded(TimeUnit.SECONDS.toNanos(3), closing::get);
                }
            } catch (SQLException e) {
                System.getLogger(H2Dialect.class.getName()).log(System.Logger.Level.DEBUG, "close", e);
            }
        }
    }

    // ---- Errors --------------------------------------------------------------------------------------------------

    private static final int NO_RIGHT = 90096;

    /** A row with this key is there already. */
    static final int DUPLICATE = 23505;

    private static String state(SQLException e) {
        return Objects.requireNonNullElse(e.getSQLState(), "");
    }

    @Override
    public boolean isBusy(SQLException e) {
        return switch (e.getErrorCode()) {
            // Rolled back: lock timeout, deadlock, changed by another, made by another at the same time, cancelled.
            case 50200, 40001, 90131, DUPLICATE, 57014 -> true;
            default -> false;
        };
    }

    @Override
    public boolean isBroken(SQLException e) {
        return switch (e.getErrorCode()) {
            // Connection broken, closed; database closed, closing; its file cannot be read or written.
            case 90067, 90007, 90098, 90121, 90028, 90031 -> true;
            default -> state(e).startsWith("08");
        };
    }

    @Override
    public long leastNanos() {
        return TimeUnit.MILLISECONDS.toNanos(300);
    }

    @Override
    public boolean limitsWaits() {
        return false;
    }

    @Override
    public boolean mayHaveTakenEffect(SQLException e) {
        if (e instanceof Refusal || isBusy(e)) {
            return false;
        }
        String state = state(e);
        return switch (state.length() < 2 ? "" : state.substring(0, 2)) {
            // Said by the database of a statement that it then rolled back.
            case "21", "22", "23", "28", "42" -> false;
            default -> !Set.of(NO_RIGHT, 90020, 90097).contains(e.getErrorCode());
        };
    }

    @Override
    public String what(SQLException e) {
        return switch (e.getErrorCode()) {
            case 50200, DUPLICATE -> "somebody else kept the row locked for too long";
            case 40001, 90131 -> "in conflict with other transactions again and again";
            // It adds the statement.
            default ->
                String.valueOf(e.getMessage())
                        .replaceFirst("(?s); SQL statement:.*", "")
                        .replaceAll("\\s+", " ");
        };
    }

    @Override
    public String advice(SQLException e) {
        if (e instanceof Refusal refusal) {
            return refusal.advice();
        }
        return switch (e.getErrorCode()) {
            case 50200, 40001, 90131, DUPLICATE ->
                "look in INFORMATION_SCHEMA.SESSIONS for the transaction that keeps rows of " + table + " locked";
            case 90020 -> "several processes share a database through an H2 server: jdbc:h2:tcp://host/database";
            case 90149 -> "make that database, or name another";
            case NO_RIGHT -> "GRANT SELECT, INSERT, UPDATE ON " + table + " to the user";
            case 90079 -> "make that schema, or name another";
            case 42122, 21002, 22018 ->
                "the table " + table + " is not of format " + FORMAT + ", the one this client knows: let all users have"
                        + " the same version of Mortise, or use another schema";
            case 90097 -> "use one that takes writes";
            default ->
                isBroken(e)
                        ? "check that the database is there, and its server runs and answers at this address"
                        : "look at what the database says";
        };
    }

    // ---- Statements ----------------------------------------------------------------------------------------------

    @Override
    public Statements statements() {
        return statements;
    }

    @Override
    public Query renew(List<Grant> grants) {
        Object[] names = new Object[grants.size()];
        Object[] owners = new Object[grants.size()];
        Object[] tokens = new Object[grants.size()];
        for (int i = 0; i < names.length; i++) {
            Grant grant = grants.get(i);
            names[i] = Names.encode(grant.name());
            owners[i] = grant.owner();
            tokens[i] = grant.token();
        }
        return new Query(renew, List.of(names, owners, tokens));
    }

    /** A row that somebody keeps locked makes the whole statement fail. */
    @Override
    public boolean silenceMeansEnded() {
        return true;
    }

    @Override
    public int largestBatch() {
        return 1024;
    }

    // ---- The fence -----------------------------------------------------------------------------------------------

    /** {@link JdbcFence}: in resource, token; out the token if it is not older than the row's. */
    static final String RAISE = "SELECT token FROM FINAL TABLE (MERGE INTO mortise_fence f USING (SELECT CAST(? AS"
            + " VARCHAR(1536)) AS r, CAST(? AS BIGINT) AS t) q ON f.resource = q.r"
            + " WHEN MATCHED AND q.t >= f.token THEN UPDATE SET token = q.t"
            + " WHEN NOT MATCHED THEN INSERT (resource, token) VALUES (q.r, q.t))";

    /** In resource; out the largest token that it has seen. */
    static final String NEWEST = "SELECT token FROM mortise_fence WHERE resource = ?";
}
