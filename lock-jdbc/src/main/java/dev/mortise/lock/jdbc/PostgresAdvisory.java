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
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Advisory locks of PostgreSQL.
 *
 * <p>Several statements go in one request, which is one transaction in auto-commit: each still sees what was committed
 * before it began, not before the request (READ COMMITTED), so that what follows a lock sees what the lock waited for.
 * Advisory locks of a session take no part in the transaction: they are there at once, and stay when it fails.
 */
final class PostgresAdvisory extends PostgresDialect implements AdvisoryDialect {
    static final Guarantees GUARANTEES = AdvisoryDialect.guarantees(
            StoreEvent.RELEASE_AND_EXPIRY,
            StoreEvent.CLIENT_CRASH,
            StoreEvent.CONNECTION_LOSS,
            StoreEvent.STORE_RESTART);

    static final Guarantees NOT_DURABLE = AdvisoryDialect.guarantees(
            StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS);

    /** How soon the server notices that who waits in its queue has gone, and lets the next one pass. */
    private static final String CONNECTION_CHECK = ", set_config('client_connection_check_interval', '500', false)";

    /**
     * For the rest of the request, so that the second statement acts only with the key. Where a proxy or a driver made two
     * transactions of them it would be gone, and the second would not act.
     */
    private static final String TAKE =
            "SELECT set_config('mortise.key', pg_try_advisory_lock(?)::text, true)::boolean, pg_backend_pid(); ";

    private static final String SETTLE = "SELECT pg_backend_pid(), set_config('idle_session_timeout', ?, false),"
            + " set_config('idle_in_transaction_session_timeout', ?, false), set_config('lock_timeout', ?, false),"
            + " set_config('statement_timeout', ?, false),"
            + " set_config('default_transaction_isolation', 'read committed', false)";

    /** Not its own type, about which the driver would ask the server. */
    private static final String AWAIT = "SELECT set_config('lock_timeout', ?, true),"
            + " set_config('statement_timeout', '0', true), pg_backend_pid(); SELECT pg_advisory_lock(?) IS NULL";

    private static final String UNLOCK = "SELECT pg_advisory_unlock(?), pg_backend_pid()";

    private static final String HAS =
            "; SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_locks k, (SELECT ?::bigint AS key) q"
                    + " WHERE k.pid = pg_backend_pid() AND k.locktype = 'advisory' AND k.granted AND k.objsubid = 1"
                    + " AND k.classid = ((q.key >> 32) & 4294967295)::oid AND k.objid = (q.key & 4294967295)::oid)";

    /** In a pool that others use as well, a session may by chance be where it was. */
    private static final int COMPARISONS = 20;

    private final Duration callTimeout;
    private final String acquireWithKey = acquire("true");
    private final String take = TAKE + acquire("current_setting('mortise.key', true) = 'true'");
    private final String release = statements().release() + "; " + UNLOCK;

    /** The server's processes that the open sessions are with, where a proxy is between. */
    private final Set<Integer> processes = ConcurrentHashMap.newKeySet();

    private volatile boolean proxied;

    /** Whether the server's system can tell it that a client has gone. */
    private volatile boolean checksConnections = true;

    PostgresAdvisory(Source source, String schema, Duration callTimeout) {
        // A release that a crash undoes is a lease that ends by itself: not worth a wait for the disk.
        super(
                source,
                schema,
                ADVISORY,
                GUARANTEES,
                NOT_DURABLE,
                WAITS + " AS waits, set_config('synchronous_commit', 'off', true) AS soon");
        this.callTimeout = callTimeout;
    }

    @Override
    public Object key(String name) {
        return AdvisoryDialect.hash(schema, name);
    }

    // ---- Sessions ------------------------------------------------------------------------------------------------

    @Override
    public Session open(boolean again, long nanos) throws SQLException {
        long end = System.nanoTime() + nanos;
        Session session = super.open(again, nanos);
        boolean kept = false;
        try {
            int announced = announced(session.connection());
            // Once it is known that no proxy is between, the first statement finds out whether one has come.
            int process = again && !proxied ? announced : process(session.connection());
            if (!again) {
                proxied = process != announced;
                if (proxied) {
                    requireOwnProcess(session, process, end);
                }
            }
            if (proxied) {
                if (!processes.add(process)) {
                    throw pooled(null);
                }
                // A proxy without a reset query hands a session on with the keys that the one before left in it.
                try (Statement statement = session.connection().createStatement()) {
                    statement.execute("SELECT pg_advisory_unlock_all()");
                }
            }
            kept = true;
            return new Own(session, process);
        } finally {
            if (!kept) {
                session.close();
            }
        }
    }

    private static int process(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT pg_backend_pid()")) {
            row.next();
            return row.getInt(1);
        }
    }

    /** The process that the other side named when it was connected to: a proxy names none of the server's. */
    private static int announced(Connection connection) {
        try {
            // Not by its type: the driver is found at run time.
            Class<?> type =
                    Class.forName("org.postgresql.PGConnection", false, PostgresAdvisory.class.getClassLoader());
            return (Integer) type.getMethod("getBackendPID").invoke(connection.unwrap(type));
        } catch (ReflectiveOperationException | SQLException e) {
            // Then it may be a proxy.
            return 0;
        }
    }

    /**
     * Proves that a proxy does not lend the server's sessions out for a transaction each: while another client of it has a
     * transaction open, this session is where it was, and the other one is elsewhere.
     */
    private void requireOwnProcess(Session session, int process, long end) throws SQLException {
        Session other;
        try {
            other = super.open(true, Math.max(1, end - System.nanoTime()));
        } catch (SQLException e) {
            throw e instanceof Refusal ? e : unproven(e);
        }
        try (Connection second = other.connection()) {
            second.setAutoCommit(false);
            int theirs = process(second);
            for (int i = 0; i < COMPARISONS; i++) {
                session.limit(Math.max(1, end - System.nanoTime()));
                if (theirs == process || process(session.connection()) != process) {
                    throw pooled(null);
                }
            }
            second.rollback();
        } catch (SQLException e) {
            throw e instanceof Refusal ? e : unproven(e);
        } finally {
            other.close();
        }
    }

    private static Refusal unproven(SQLException e) {
        return new Refusal(
                "a proxy is between, and it could not be found out whether it keeps a session together, for which two"
                        + " connections at once are needed: "
                        + String.valueOf(e.getMessage()).replaceAll("\\s+", " "),
                "connect past it, or let it have pool_mode=session and room for this client, or take strategy=table",
                e);
    }

    private static Refusal pooled(@Nullable SQLException e) {
        return new Refusal(
                "a proxy is between that lends out the server's sessions for a transaction each (as PgBouncer does with"
                        + " pool_mode=transaction): a lock of a session would be left behind in it",
                "connect past it, or let it have pool_mode=session for this role, or take strategy=table",
                e);
    }

    /** A session, and the process of the server that it must be with at each statement. */
    private final class Own implements Session {
        private final Session session;
        private final int process;

        Own(Session session, int process) {
            this.session = session;
            this.process = process;
        }

        @Override
        public Connection connection() {
            return session.connection();
        }

        @Override
        public void limit(long nanos) throws SQLException {
            session.limit(nanos);
        }

        @Override
        public void requireAlive() throws SQLException {
            session.requireAlive();
        }

        @Override
        public void requireSameStore() throws SQLException {
            session.requireSameStore();
        }

        @Override
        public void close() {
            processes.remove(process);
            session.close();
        }
    }

    private static void requireSame(Connected db, Object process) throws SQLException {
        if (!process.equals(((Own) db.session).process)) {
            throw pooled(null);
        }
    }

    @Override
    public void settle(Connected db, long leaseMillis) throws SQLException {
        String idle = String.valueOf(leaseMillis);
        // Half of it, so that the server gives up, and says so, before we do.
        String waits = String.valueOf(Math.max(1, TimeUnit.NANOSECONDS.toMillis(callTimeout.toNanos() / 2)));
        String all = String.valueOf(Math.max(1, Math.min(Integer.MAX_VALUE, callTimeout.toMillis())));
        String sql = SETTLE;
        if (db.session.connection().getMetaData().getDatabaseMajorVersion() >= 17) {
            // A wait in the queue is a transaction, too.
            sql += ", set_config('transaction_timeout', '0', false)";
        }
        if (checksConnections) {
            try {
                settle(db, sql + CONNECTION_CHECK, idle, idle, waits, all);
                return;
            } catch (SQLException e) {
                if (!state(e).equals("22023")) {
                    throw e;
                }
                // Its system does not offer it.
                checksConnections = false;
            }
        }
        settle(db, sql, idle, idle, waits, all);
    }

    private static void settle(Connected db, String sql, Object... parameters) throws SQLException {
        requireSame(db, db.queries(sql, parameters).get(0).get(0)[0]);
    }

    @Override
    public String acquireWithKey() {
        return acquireWithKey;
    }

    // ---- Keys ----------------------------------------------------------------------------------------------------

    @Override
    public Taken take(Connected db, Object key, String name, String owner, long leaseMillis) throws SQLException {
        List<List<Object[]>> answers = db.queries(take, db.withWaits(key, name, owner, leaseMillis));
        Object[] first = answers.get(0).get(0);
        requireSame(db, first[1]);
        List<Object[]> rows = answers.get(1);
        return new Taken((Boolean) first[0], rows.isEmpty() ? null : (Long) rows.get(0)[0]);
    }

    @Override
    public boolean tryLock(Connected db, Object key) throws SQLException {
        Object[] row = db.queries("SELECT pg_try_advisory_lock(?), pg_backend_pid()", key)
                .get(0)
                .get(0);
        requireSame(db, row[1]);
        return (Boolean) row[0];
    }

    @Override
    public void await(Connected db, Object key, long millis) throws SQLException {
        requireSame(
                db,
                db.queries(AWAIT, String.valueOf(Math.max(1, Math.min(Integer.MAX_VALUE, millis))), key)
                        .get(0)
                        .get(0)[2]);
    }

    @Override
    public boolean unlock(Connected db, Object key) throws SQLException {
        return unlocked(db, db.queries(UNLOCK, key).get(0));
    }

    private static boolean unlocked(Connected db, List<Object[]> rows) throws SQLException {
        Object[] row = rows.get(0);
        requireSame(db, row[1]);
        return (Boolean) row[0];
    }

    @Override
    public Released release(Connected db, Object key, String name, String owner) throws SQLException {
        List<List<Object[]>> answers = db.queries(release, name, owner, String.valueOf(db.waits), key);
        List<Object[]> rows = answers.get(0);
        return new Released(!rows.isEmpty() && rows.get(0)[0].equals(1), unlocked(db, answers.get(1)));
    }

    @Override
    public Kept renew(Connected db, Object key, Grant grant) throws SQLException {
        Query query = renew(List.of(grant));
        Object[] parameters = java.util.Arrays.copyOf(
                query.parameters().toArray(), query.parameters().size() + 1);
        parameters[parameters.length - 1] = key;
        List<List<Object[]>> answers = db.queries(query.sql() + HAS, parameters);
        List<Object[]> rows = answers.get(0);
        long lease = rows.isEmpty() ? Kept.UNKNOWN : rows.get(0)[3] == null ? 0 : (Long) rows.get(0)[3];
        return new Kept(lease, (Boolean) answers.get(1).get(0)[0]);
    }
}
