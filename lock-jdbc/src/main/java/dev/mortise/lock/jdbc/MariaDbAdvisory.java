package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HexFormat;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * GET_LOCK of MariaDB.
 *
 * <p>Several statements go in one request; each is a transaction of its own, and begins when the one before it has ended.
 * The second acts only if the session has the key by then.
 */
final class MariaDbAdvisory extends MariaDbDialect implements AdvisoryDialect {
    static final Guarantees GUARANTEES = AdvisoryDialect.guarantees(
            StoreEvent.RELEASE_AND_EXPIRY,
            StoreEvent.CLIENT_CRASH,
            StoreEvent.CONNECTION_LOSS,
            StoreEvent.STORE_RESTART);

    static final Guarantees NOT_DURABLE = AdvisoryDialect.guarantees(
            StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS);

    private static final String TRY = "SELECT GET_LOCK(?, 0), CONNECTION_ID()";

    /** Without a limit to the statement, which would end the wait. */
    private static final String AWAIT = SET + " max_statement_time=0 FOR SELECT GET_LOCK(?, ?), CONNECTION_ID()";

    private static final String UNLOCK = "SELECT RELEASE_LOCK(?), CONNECTION_ID()";

    private static final String HAS = "SELECT COALESCE(IS_USED_LOCK(?) = CONNECTION_ID(), 0)";

    MariaDbAdvisory(ServerDialect.Source source) {
        super(source, null, ADVISORY, GUARANTEES, NOT_DURABLE);
    }

    /**
     * Of the whole server, so that the database goes into it; at most 64 characters of ASCII, in lower case, because servers
     * differ in what they take for the same name. Its derivation is frozen: others would not find each other in the queue.
     */
    @Override
    public Object key(String name) {
        return key(database(), name);
    }

    static String key(String database, String name) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256")
                    .digest((database + "\0mortise_lock\0" + name).getBytes(StandardCharsets.UTF_8));
            return "mortise_" + HexFormat.of().formatHex(digest, 0, 20);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    // ---- Sessions ------------------------------------------------------------------------------------------------

    @Override
    public Session open(boolean again, long nanos) throws SQLException {
        Session session = super.open(again, nanos);
        boolean kept = false;
        try {
            long id = id(session.connection());
            Long announced = announced(session.connection());
            // It was announced in 32 bits.
            if (announced != null && announced.intValue() != (int) id) {
                throw pooled();
            }
            kept = true;
            return new Own(session, id);
        } finally {
            if (!kept) {
                session.close();
            }
        }
    }

    private static long id(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT CONNECTION_ID()")) {
            row.next();
            return row.getLong(1);
        }
    }

    /** The session that the other side named when it was connected to: a proxy names one of its own. */
    private static @Nullable Long announced(Connection connection) {
        try {
            // Not by its type: the driver is found at run time.
            Class<?> type = Class.forName("org.mariadb.jdbc.Connection", false, MariaDbAdvisory.class.getClassLoader());
            return (Long) type.getMethod("getThreadId").invoke(connection.unwrap(type));
        } catch (ReflectiveOperationException | SQLException e) {
            // Another driver: then what each statement tells must do.
            return null;
        }
    }

    private static Refusal pooled() {
        return new Refusal(
                "a proxy is between, which may lend out the server's sessions: a lock of a session would be left behind in"
                        + " one",
                "connect past it, or take strategy=table",
                null);
    }

    /** A session, and what the server calls it at each statement. */
    private static final class Own implements Session {
        private final Session session;
        private final long id;

        Own(Session session, long id) {
            this.session = session;
            this.id = id;
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
        public String limited(String sql) {
            return session.limited(sql);
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
            session.close();
        }
    }

    /** What such a function has answered: true, or false; NULL, if it was interrupted or failed, is neither. */
    private static boolean answer(Connected db, List<Object[]> rows) throws SQLException {
        Object[] row = rows.get(0);
        if (((Number) row[1]).longValue() != ((Own) db.session).id) {
            throw pooled();
        }
        if (row[0] == null) {
            throw new SQLException("the server could not tell whether it has given the lock", "70100", 1317);
        }
        return ((Number) row[0]).longValue() == 1;
    }

    @Override
    public void settle(Connected db, long leaseMillis) throws SQLException {
        // Whole seconds, rounded up: the row ends when it should in any case.
        try (Statement statement = db.session.connection().createStatement()) {
            statement.execute("SET SESSION wait_timeout = " + Math.max(1, (leaseMillis + 999) / 1000));
        }
    }

    @Override
    public String acquireWithKey() {
        return texts().acquireWithKey;
    }

    // ---- Keys ----------------------------------------------------------------------------------------------------

    @Override
    public Taken take(Connected db, Object key, String name, String owner, long leaseMillis) throws SQLException {
        List<List<Object[]>> answers = db.queries(TRY + NEXT + texts().take, key, name, owner, leaseMillis, key, owner);
        boolean had = answer(db, answers.get(0));
        List<Object[]> rows = answers.get(1);
        return new Taken(had, rows.isEmpty() || rows.get(0)[0] == null ? null : ((Number) rows.get(0)[0]).longValue());
    }

    @Override
    public boolean tryLock(Connected db, Object key) throws SQLException {
        return answer(db, db.queries(TRY, key).get(0));
    }

    @Override
    public void await(Connected db, Object key, long millis) throws SQLException {
        if (!answer(db, db.queries(AWAIT, key, BigDecimal.valueOf(millis, 3)).get(0))) {
            throw new SQLException("the lock was not given up in this time", "HY000", 1205);
        }
    }

    @Override
    public boolean unlock(Connected db, Object key) throws SQLException {
        return unlocked(db, db.queries(UNLOCK, key).get(0));
    }

    /** NULL, too, says that the session does not have it. */
    private static boolean unlocked(Connected db, List<Object[]> rows) throws SQLException {
        return rows.get(0)[0] != null && answer(db, rows);
    }

    @Override
    public Released release(Connected db, Object key, String name, String owner) throws SQLException {
        List<List<Object[]>> answers = db.queries(statements().release() + NEXT + UNLOCK, name, owner, key);
        List<Object[]> rows = answers.get(0);
        return new Released(
                !rows.isEmpty() && ((Number) rows.get(0)[0]).longValue() == 1, unlocked(db, answers.get(1)));
    }

    @Override
    public Kept renew(Connected db, Object key, Grant grant) throws SQLException {
        Query query = renew(List.of(grant));
        List<List<Object[]>> answers =
                db.queries(query.sql() + NEXT + HAS, query.parameters().get(0), key);
        boolean had = ((Number) answers.get(1).get(0)[0]).longValue() == 1;
        List<Object[]> rows = answers.get(0);
        if (!rows.isEmpty()) {
            return new Kept(((Number) rows.get(0)[3]).longValue(), had);
        }
        Query whether = ended(List.of(grant));
        boolean over = !db.query(
                        whether.sql(), row -> true, whether.parameters().toArray())
                .isEmpty();
        return new Kept(over ? 0 : Kept.UNKNOWN, had);
    }
}
