package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * MariaDB, whose server's clock is the database's clock.
 *
 * <p>It has no UPDATE … RETURNING (before 13), but INSERT … RETURNING. So what changes a row is written as an insert of that
 * very row: its SELECT locks the row by its key and judges it, once, and the insert then meets it and updates it.
 */
class MariaDbDialect extends ServerDialect {
    static final String DDL = "mariadb.sql";

    /** With settings under which what was committed is on the disk. */
    static final Guarantees GUARANTEES = Dialect.guarantees(
            StoreEvent.RELEASE_AND_EXPIRY,
            StoreEvent.CLIENT_CRASH,
            StoreEvent.CONNECTION_LOSS,
            StoreEvent.STORE_RESTART);

    /** Without: a crash of the server or its machine may bring a row back as it was some time before. */
    static final Guarantees NOT_DURABLE =
            Dialect.guarantees(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS);

    private static final Pattern VERSION = Pattern.compile("(\\d+)\\.(\\d+)\\..*");

    /**
     * Microseconds since 1970. Not NOW(), which is the time of the statement's start, before it waited for a row, and which a
     * session can set. Not UNIX_TIMESTAMP, which ends in 2038 before 11.5. The statement's time zone is UTC.
     */
    private static final String MICROS = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', SYSDATE(6))";

    /** Rounded down. */
    private static final String NOW = "(" + MICROS + " DIV 1000)";

    private static final String COLUMNS = " (name, format, strategy, token, owner, lease_ms, until_ms)";

    /** Between the statements of a request. */
    static final String NEXT = ";\n";

    /** Begins a statement with settings of its own. */
    static final String SET = "SET STATEMENT";

    private static String until(String lease) {
        return NOW + " + " + lease + " + 1";
    }

    /** A parameter that is compared as the columns are, not by the connection's collation. */
    private static String ascii(String value) {
        return "CONVERT(" + value + " USING ascii) COLLATE ascii_bin";
    }

    private final Guarantees whenDurable;
    private final Guarantees whenNot;

    /** The database of the table; null for the one that the first connection has. Always the same from then on. */
    private volatile @Nullable String database;

    private volatile @Nullable Texts texts;
    private volatile boolean durable = true;

    /** The variable that tells the isolation. */
    private volatile String isolation = "tx_isolation";

    /** The strategy {@code table}. */
    MariaDbDialect(ServerDialect.Source source, @Nullable String database) {
        this(source, database, TABLE, GUARANTEES, NOT_DURABLE);
    }

    /** Promises the one or the other, as the server has it. */
    MariaDbDialect(
            ServerDialect.Source source,
            @Nullable String database,
            String strategy,
            Guarantees whenDurable,
            Guarantees whenNot) {
        super(source, strategy);
        this.whenDurable = whenDurable;
        this.whenNot = whenNot;
        this.database = database;
        if (database != null && (database.isEmpty() || database.length() > 64 || database.indexOf('\0') >= 0)) {
            throw new IllegalArgumentException("the database must have a name of 1 to 64 characters: " + database);
        }
    }

    static final class Texts {
        private final String table;

        /** The same for whoever has the name's key: it waits for the row, whatever is in it. */
        final String acquireWithKey;

        /** The same, if this session has the key: one parameter more, between lease and owner. */
        final String take;

        private final Statements statements;
        private final String renew;
        private final String ended;

        Texts(String database, String strategy) {
            table = quoted(database) + ".mortise_lock";
            String ours = "l.format = " + FORMAT + " AND l.strategy = '" + strategy + "'";
            String insert = "INSERT INTO " + table + COLUMNS;
            String t = "mortise_lock.";

            // Who would lose does not get as far as the row: locking it would wait for its holder's writes.
            // Judged once, by the row as it is locked, into the sign of the token: the assignments run from left to
            // right, see the values of those before them, and each would read the clock anew.
            String claim = insert + " SELECT q.n, " + FORMAT + ", '" + strategy + "', " + MICROS + ", q.o, q.ms, "
                    + until("q.ms") + " FROM (SELECT " + ascii("?") + " AS n, " + ascii("?") + " AS o, ? AS ms) q"
                    + " WHERE ";
            String judge = " ON DUPLICATE KEY UPDATE"
                    + " token = IF(" + ours.replace("l.", t) + " AND (" + t + "owner IS NULL OR " + t
                    + "owner = VALUES(owner) OR " + t + "until_ms <= " + NOW + "),"
                    + " IF(" + t + "owner = VALUES(owner) AND " + t + "until_ms > " + NOW + ", " + t + "token,"
                    + " GREATEST(" + t + "token + 1, " + MICROS + ")), -" + t + "token),"
                    + " owner = IF(" + t + "token > 0, VALUES(owner), " + t + "owner),"
                    + " lease_ms = IF(" + t + "token > 0, VALUES(lease_ms), " + t + "lease_ms),"
                    + " until_ms = IF(" + t + "token > 0, " + until("VALUES(lease_ms)") + ", " + t + "until_ms),"
                    + " token = ABS(" + t + "token)"
                    + " RETURNING IF(owner = " + ascii("?") + ", token, NULL)";
            String acquire = claim + "NOT EXISTS (SELECT 1 FROM " + table + " l WHERE l.name = q.n AND l.owner <> q.o"
                    + " AND l.until_ms > " + NOW + ")" + judge;
            acquireWithKey = claim + "TRUE" + judge;
            take = claim + "IS_USED_LOCK(?) = CONNECTION_ID()" + judge;
            String look = "SELECT format, strategy, owner, token, lease_ms, until_ms - " + NOW + " FROM " + table
                    + " WHERE name = " + ascii("?");
            String asked = "JSON_TABLE(?, '$[*]' COLUMNS (n varchar(1536) PATH '$[0]', o varchar(128) PATH '$[1]',"
                    + " t bigint PATH '$[2]')) a";
            String match =
                    "l.name = " + ascii("a.n") + " AND l.owner = " + ascii("a.o") + " AND l.token = a.t AND " + ours;
            String same = " SELECT l.name, l.format, l.strategy, l.token, l.owner, l.lease_ms, ";
            renew = insert + same + until("l.lease_ms") + " FROM " + asked + " STRAIGHT_JOIN " + table + " l ON "
                    + match + " WHERE l.until_ms > " + NOW + " FOR UPDATE SKIP LOCKED"
                    + " ON DUPLICATE KEY UPDATE until_ms = VALUES(until_ms) RETURNING name, owner, token, lease_ms";
            // Not there any more under this owner and token, for anybody to see; or ended, and locked by nobody who may
            // just be renewing it.
            ended = "SELECT a.n, a.o, a.t, NULL FROM " + asked + " LEFT JOIN " + table + " l ON " + match
                    + " WHERE l.name IS NULL UNION ALL (SELECT a.n, a.o, a.t, NULL FROM " + asked + " STRAIGHT_JOIN "
                    + table + " l ON " + match + " WHERE l.until_ms <= " + NOW + " FOR UPDATE SKIP LOCKED)";
            String mine = " FROM " + table + " l WHERE l.name = " + ascii("?") + " AND l.owner = " + ascii("?")
                    + " AND " + ours;
            String release = insert + same + "l.until_ms" + mine + " FOR UPDATE"
                    + " ON DUPLICATE KEY UPDATE owner = NULL RETURNING IF(until_ms > " + NOW + ", 1, 0)";
            String adopt = insert + " SELECT l.name, l.format, l.strategy,"
                    + " IF(l.owner = q.heir, l.token, GREATEST(l.token + 1, " + MICROS + ")), q.heir, q.ms, "
                    + until("q.ms") + " FROM (SELECT " + ascii("?") + " AS n, " + ascii("?") + " AS held, ? AS t, "
                    + ascii("?") + " AS heir, ? AS ms) q STRAIGHT_JOIN " + table + " l ON l.name = q.n WHERE " + ours
                    + " AND ((l.owner = q.held AND l.token = q.t) OR l.owner = q.heir) AND l.until_ms > " + NOW
                    + " FOR UPDATE ON DUPLICATE KEY UPDATE token = VALUES(token), owner = VALUES(owner),"
                    + " lease_ms = VALUES(lease_ms), until_ms = VALUES(until_ms) RETURNING token";
            String clamp = insert + same + until("l.lease_ms") + mine + " AND l.until_ms > " + until("l.lease_ms")
                    + " FOR UPDATE ON DUPLICATE KEY UPDATE until_ms = VALUES(until_ms) RETURNING 1";
            statements = new Statements(acquire, look, release, adopt, clamp);
        }
    }

    /** The database of the table, from the first connection on. */
    final String database() {
        return Objects.requireNonNull(database, "not open");
    }

    private static String quoted(String name) {
        return '`' + name.replace("`", "``") + '`';
    }

    final Texts texts() {
        return Objects.requireNonNull(texts, "not open");
    }

    @Override
    public Guarantees guarantees() {
        return durable ? whenDurable : whenNot;
    }

    // ---- Connections ---------------------------------------------------------------------------------------------

    @Override
    final PlainSession session(Connection connection) {
        return new MariaDbSession(connection);
    }

    @Override
    final String product() {
        return "MariaDB";
    }

    @Override
    final void probe(Connection connection, boolean again, long end) throws SQLException {
        Map<String, String> is = new TreeMap<>();
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(limited(
                        "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.SESSION_VARIABLES"
                                + " WHERE VARIABLE_NAME IN ('VERSION', 'WSREP_ON', 'READ_ONLY', 'INNODB_READ_ONLY',"
                                + " 'TX_READ_ONLY', 'TRANSACTION_READ_ONLY', 'INNODB_FLUSH_LOG_AT_TRX_COMMIT',"
                                + " 'INNODB_DOUBLEWRITE', 'INNODB_FLUSH_METHOD', 'DEBUG_NO_SYNC', 'LOG_BIN',"
                                + " 'SYNC_BINLOG', 'BINLOG_FORMAT', 'TX_ISOLATION', 'TRANSACTION_ISOLATION',"
                                + " 'AUTOCOMMIT')"
                                + " UNION ALL SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
                                + " WHERE VARIABLE_NAME IN ('SLAVE_RUNNING', 'SLAVES_RUNNING')"
                                + " UNION ALL SELECT 'DATABASE', DATABASE() UNION ALL SELECT 'BEFORE', SYSDATE(6)"
                                + " UNION ALL SELECT 'SLEPT', SLEEP(0.001) UNION ALL SELECT 'AFTER', SYSDATE(6)",
                        millis(end)))) {
            while (rows.next()) {
                is.put(rows.getString(1).toUpperCase(Locale.ROOT), String.valueOf(rows.getString(2)));
            }
        }
        requireServer(is);
        if (source.own()) {
            settle(connection, is);
        }
        boolean flushes = Set.of("1", "3").contains(is.getOrDefault("INNODB_FLUSH_LOG_AT_TRX_COMMIT", "1"))
                && !off(is, "INNODB_DOUBLEWRITE")
                && !Set.of("nosync", "littlesync")
                        .contains(is.getOrDefault("INNODB_FLUSH_METHOD", "").toLowerCase(Locale.ROOT))
                && !on(is, "DEBUG_NO_SYNC");
        // What the binary log lacks after a crash of the machine is undone.
        boolean logs = !on(is, "LOG_BIN") || is.getOrDefault("SYNC_BINLOG", "0").equals("1");
        declare(flushes && logs, again);
        isolation = is.containsKey("TRANSACTION_ISOLATION") ? "transaction_isolation" : "tx_isolation";
        if (texts == null) {
            String found = database == null ? is.get("DATABASE") : database;
            if (found == null || found.equals("null")) {
                throw new Refusal("no database is named", "name the one that is to have the table", null);
            }
            database = found;
            texts = new Texts(found, strategy());
        }
        Texts sql = texts();
        if (!usable(connection, sql, end)) {
            if (again) {
                throw new Refusal(
                        "the table " + sql.table + " was dropped while it was in use",
                        "put it back, or stop all programs that use it first",
                        null);
            }
            create(connection, sql, end);
        }
    }

    /** Whatever the server or the URL has the driver set, each statement commits by itself, under READ COMMITTED. */
    private static void settle(Connection connection, Map<String, String> is) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            if (!on(is, "AUTOCOMMIT")) {
                statement.execute("SET autocommit = 1");
            }
            if (!is.getOrDefault("TRANSACTION_ISOLATION", is.getOrDefault("TX_ISOLATION", ""))
                    .equals("READ-COMMITTED")) {
                statement.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
            }
        }
    }

    static void requireServer(Map<String, String> is) throws Refusal {
        String version = is.getOrDefault("VERSION", "");
        Matcher numbers = VERSION.matcher(version);
        if (!version.contains("MariaDB")
                || !numbers.matches()
                || Integer.parseInt(numbers.group(1)) * 100 + Integer.parseInt(numbers.group(2)) < 1006) {
            throw new Refusal("the server is " + version, "use MariaDB 10.6 or later", null);
        }
        if (on(is, "WSREP_ON")) {
            throw new Refusal(
                    "this server is a node of a Galera cluster, where each node has its own clock, session locks and"
                            + " last word",
                    "use a server that is not part of one",
                    null);
        }
        if (!off(is, "READ_ONLY") || on(is, "INNODB_READ_ONLY")) {
            throw new Refusal(
                    "this server is read-only, as replicas are, and can neither lock nor tell who has",
                    "name the primary",
                    null);
        }
        if (on(is, "SLAVE_RUNNING") || !is.getOrDefault("SLAVES_RUNNING", "0").equals("0")) {
            throw new Refusal(
                    "this server is a replica of another, and locks taken here exclude nobody there",
                    "name the primary",
                    null);
        }
        if (on(is, "TX_READ_ONLY") || on(is, "TRANSACTION_READ_ONLY")) {
            throw new Refusal(
                    "transactions are read-only here",
                    "SET GLOBAL tx_read_only = 0, or give a DataSource that may write",
                    null);
        }
        if (is.containsKey("BEFORE") && is.get("BEFORE").equals(is.get("AFTER"))) {
            throw new Refusal(
                    "the clock in its statements is not the server's but what a session sets it to (sysdate-is-now)",
                    "start the server without sysdate-is-now",
                    null);
        }
        if (on(is, "LOG_BIN") && is.getOrDefault("BINLOG_FORMAT", "").equals("STATEMENT")) {
            throw new Refusal(
                    "its binary log cannot take what is committed under READ COMMITTED (binlog_format = STATEMENT)",
                    "SET GLOBAL binlog_format = 'MIXED', or 'ROW'",
                    null);
        }
    }

    private static boolean on(Map<String, String> is, String variable) {
        return Set.of("ON", "1", "YES").contains(is.getOrDefault(variable, "").toUpperCase(Locale.ROOT));
    }

    private static boolean off(Map<String, String> is, String variable) {
        return Set.of("OFF", "0", "NO", "")
                .contains(is.getOrDefault(variable, "").toUpperCase(Locale.ROOT));
    }

    private void declare(boolean nowDurable, boolean again) throws Refusal {
        if (!again) {
            durable = nowDurable;
            if (!nowDurable) {
                System.getLogger(MariaDbDialect.class.getName())
                        .log(
                                System.Logger.Level.WARNING,
                                store() + ": innodb_flush_log_at_trx_commit is not 1, or innodb_doublewrite is off, or"
                                        + " there is a binary log and sync_binlog is not 1, so that a crash may bring"
                                        + " locks back that were given up, and free others");
            }
        } else if (durable && !nowDurable) {
            throw new Refusal(
                    "innodb_flush_log_at_trx_commit or sync_binlog was changed since this client was opened",
                    "set them to 1, or open another client, which then promises less",
                    null);
        }
    }

    /** Whether the table is there; with all rights and columns that are needed, or else this fails. */
    private boolean usable(Connection connection, Texts sql, long end) throws SQLException {
        // No lock has this name: nothing is changed.
        try (PreparedStatement statement =
                connection.prepareStatement(limited(sql.statements.release(), millis(end)))) {
            statement.setString(1, "");
            statement.setString(2, "");
            statement.executeQuery().close();
            return true;
        } catch (SQLException e) {
            if (e.getErrorCode() == 1146) {
                return false;
            }
            throw e;
        }
    }

    private void create(Connection connection, Texts sql, long end) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(limited(
                    Dialect.ddl(DDL, "mortise_lock")
                            .replace(
                                    "CREATE TABLE IF NOT EXISTS mortise_lock",
                                    "CREATE TABLE IF NOT EXISTS " + sql.table),
                    millis(end)));
        } catch (SQLException e) {
            throw e.getErrorCode() == 1142 || e.getErrorCode() == 1044
                    ? new Refusal(
                            "its table " + sql.table + " is not there, and this user may not make it",
                            "run the statement CREATE TABLE … mortise_lock of the shipped mariadb.sql there once, and"
                                    + " GRANT SELECT, INSERT, UPDATE ON " + sql.table + " to the user",
                            null)
                    : e;
        }
        usable(connection, sql, end);
    }

    /**
     * In the statement, so that it costs no round trip and ends with it, whatever the user, the server or a pool have set:
     * its time zone; that it may answer all rows; how long it waits for rows and for the table, in whole seconds; and how long it may take at all. That
     * is a power of two, so that there are few statements.
     */
    private static String limited(String sql, long millis) {
        long limit = Long.highestOneBit(Math.max(1, Math.min(millis, 3_600_000)));
        return SET
                + " time_zone='+00:00', sql_select_limit=18446744073709551615, innodb_lock_wait_timeout=1, lock_wait_timeout=1, max_statement_time="
                + limit / 1000 + "." + String.format(Locale.ROOT, "%03d", limit % 1000) + " FOR " + sql;
    }

    private static long millis(long end) {
        return Math.max(1, (end - System.nanoTime()) / 2_000_000);
    }

    /** A connection, and how the application's own is given back as it was. */
    private final class MariaDbSession extends PlainSession {
        private int isolated = Connection.TRANSACTION_READ_COMMITTED;
        private long millis = 1;

        MariaDbSession(Connection connection) {
            super(connection, source.own());
        }

        @Override
        public void limit(long nanos) throws SQLException {
            super.limit(nanos);
            // Half of it: the server gives a wait up, and says so, before we do.
            millis = nanos / 2_000_000;
        }

        @Override
        public String limited(String sql) {
            StringBuilder all = new StringBuilder();
            for (String each : sql.split(NEXT, -1)) {
                all.append(all.length() == 0 ? "" : NEXT)
                        .append(each.startsWith(SET) ? each : MariaDbDialect.limited(each, millis));
            }
            return all.toString();
        }

        @Override
        void requireNoTransaction() throws SQLException {
            try (Statement statement = connection.createStatement();
                    ResultSet row = statement.executeQuery("SELECT @@in_transaction, @@" + isolation)) {
                row.next();
                if (row.getInt(1) != 0) {
                    throw transactionOpen(null);
                }
                isolated = switch (row.getString(2)) {
                    case "READ-UNCOMMITTED" -> Connection.TRANSACTION_READ_UNCOMMITTED;
                    case "READ-COMMITTED" -> Connection.TRANSACTION_READ_COMMITTED;
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
    }

    // ---- Errors --------------------------------------------------------------------------------------------------

    private static String state(SQLException e) {
        return Objects.requireNonNullElse(e.getSQLState(), "");
    }

    @Override
    public boolean isBusy(SQLException e) {
        return switch (e.getErrorCode()) {
            // The server rolled the statement back: lock wait timeout, deadlock, its time is over, cancelled, changed
            // since it was read, the table is being changed. Or it did not come to it: too many connections, of this
            // user, of all.
            case 1205, 1213, 1969, 1317, 1020, 1412, 1040 -> true;
            default -> usersLimit(e) || state(e).equals("40001");
        };
    }

    /** Not those limits that count an hour. */
    private static boolean usersLimit(SQLException e) {
        return e.getErrorCode() == 1203
                || (e.getErrorCode() == 1226 && String.valueOf(e.getMessage()).contains("max_user_connections"));
    }

    @Override
    public boolean isBroken(SQLException e) {
        // Killed, or shut down.
        return (state(e).startsWith("08") && !isBusy(e)) || e.getErrorCode() == 1927 || e.getErrorCode() == 1053;
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
            // Said by the server of a statement that it then rolled back.
            case "21", "22", "23", "25", "28", "42" -> false;
            default -> !Set.of(1290, 1836, 1665, 1366, 1364, 1114).contains(e.getErrorCode());
        };
    }

    @Override
    public String what(SQLException e) {
        if (usersLimit(e)) {
            return "the server has no connection left for this user";
        }
        return switch (e.getErrorCode()) {
            case 1040 -> "the server has no connection left";
            case 1213, 1020 -> "in conflict with other transactions again and again";
            case 1205 -> "somebody else kept the row or the table locked for too long";
            case 1969 -> "somebody else kept the row or the table locked for too long, or the server is too slow";
            default ->
                String.valueOf(e.getMessage()).replaceAll("\\s+", " ").replaceFirst("^(\\(conn=-?\\d+\\) )+", "");
        };
    }

    @Override
    public String advice(SQLException e) {
        if (e instanceof Refusal refusal) {
            return refusal.advice();
        }
        Texts sql = texts;
        String table = sql == null ? "mortise_lock" : sql.table;
        return switch (e.getErrorCode()) {
            case 1205, 1213, 1020, 1969 ->
                "look in information_schema.INNODB_TRX for the transaction that keeps rows of " + table + " locked";
            case 1317 -> "look for who kills statements";
            case 1040 -> "raise max_connections";
            case 1203, 1226 -> "raise max_user_connections, or this user's limit";
            case 1049 -> "make that database, or name another";
            case 1044, 1142, 1143 ->
                "GRANT SELECT, INSERT, UPDATE ON " + table
                        + " to the user; and first, if it is not there, run the statement"
                        + " CREATE TABLE … mortise_lock of the shipped mariadb.sql";
            case 1146 -> "the table was dropped: put it back, or open another client, which makes it";
            case 1054, 1136, 1364, 1366 ->
                "the table " + table + " is not of format " + FORMAT + ", the one this client knows: let all users have"
                        + " the same version of Mortise, or use another database";
            case 1290, 1836 -> "the server takes no writes now: name the primary";
            case 1665 -> "SET GLOBAL binlog_format = 'MIXED', or 'ROW'";
            default ->
                isBroken(e)
                        ? "check that the server runs and answers at this address"
                        : "look at what the server says, and into its log";
        };
    }

    // ---- Statements ----------------------------------------------------------------------------------------------

    @Override
    public Statements statements() {
        return texts().statements;
    }

    @Override
    public Object[] acquireParameters(String name, String owner, long lease) {
        return new Object[] {name, owner, lease, owner};
    }

    @Override
    public Query renew(List<Grant> grants) {
        return new Query(texts().renew, List.of(json(grants)));
    }

    @Override
    public Query ended(List<Grant> grants) {
        String asked = json(grants);
        return new Query(texts().ended, List.of(asked, asked));
    }

    /** Arrays of name, owner and token. All are printable ASCII. */
    private static String json(List<Grant> grants) {
        StringBuilder json = new StringBuilder("[");
        for (Grant grant : grants) {
            json.append(json.length() > 1 ? ",[" : "[");
            quote(json, Names.encode(grant.name()));
            quote(json.append(','), grant.owner());
            json.append(',').append(grant.token()).append(']');
        }
        return json.append(']').toString();
    }

    private static void quote(StringBuilder json, String value) {
        json.append('"')
                .append(value.replace("\\", "\\\\").replace("\"", "\\\""))
                .append('"');
    }

    @Override
    public boolean silenceMeansEnded() {
        return false;
    }

    @Override
    public int largestBatch() {
        // One request that the system's buffers take, so that a server that reads nothing cannot make the sender wait.
        return 1024;
    }

    // ---- The fence -----------------------------------------------------------------------------------------------

    /** {@link JdbcFence}: in resource, token; out the largest token that the row has now. */
    static final String RAISE = "INSERT INTO mortise_fence (resource, token) VALUES (?, ?)"
            + " ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token)) RETURNING token";

    /** In resource; out the largest token that it has seen. */
    static final String NEWEST = "SELECT token FROM mortise_fence WHERE resource = ? FOR UPDATE";
}
