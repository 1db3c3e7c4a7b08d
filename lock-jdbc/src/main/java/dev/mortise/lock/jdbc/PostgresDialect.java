package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** PostgreSQL, whose server's clock is the database's clock. */
class PostgresDialect extends ServerDialect {
    static final String DDL = "postgresql.sql";

    /** With settings under which what was committed is on the disk. */
    static final Guarantees GUARANTEES = Dialect.guarantees(
            StoreEvent.RELEASE_AND_EXPIRY,
            StoreEvent.CLIENT_CRASH,
            StoreEvent.CONNECTION_LOSS,
            StoreEvent.STORE_RESTART);

    /** Without: a crash of the server may bring a row back as it was some time before. */
    static final Guarantees NOT_DURABLE =
            Dialect.guarantees(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS);

    private static final int OLDEST = 14;

    /**
     * Not now(), which is the time of the transaction's start, before it waited for a row. Rounded down.
     */
    private static final String NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

    private static final String MICROS = "floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

    /**
     * In the statement, so that it costs no round trip and ends with it, whatever the role, the database or a pool have
     * set. It is evaluated before the row is waited for.
     */
    static final String WAITS = "set_config('lock_timeout', ?, true)";

    private static String until(String lease) {
        return NOW + " + " + lease + " + 1";
    }

    final String schema;
    private final Guarantees whereDurable;
    private final Guarantees elsewhere;

    /** The schema as it stands in a statement. */
    private final String quoted;

    private final String table;
    private final String ours;
    private final Statements statements;
    private final String renew;

    private volatile boolean durable = true;

    /** Whether the isolation of the application's connections must be changed, which costs two statements a call. */
    private volatile boolean isolate;

    PostgresDialect(Source source, String schema) {
        this(source, schema, TABLE, GUARANTEES, NOT_DURABLE, WAITS + " AS waits");
    }

    /**
     * The same for another strategy.
     *
     * @param released what a release does beside waiting for the row, as columns
     */
    PostgresDialect(
            Source source,
            String schema,
            String strategy,
            Guarantees whereDurable,
            Guarantees elsewhere,
            String released) {
        super(source, strategy);
        this.schema = schema;
        this.whereDurable = whereDurable;
        this.elsewhere = elsewhere;
        if (schema.isEmpty() || schema.indexOf('\0') >= 0 || schema.getBytes(StandardCharsets.UTF_8).length > 63) {
            throw new IllegalArgumentException("schema must be a name of 1 to 63 bytes");
        }
        quoted = '"' + schema.replace("\"", "\"\"") + '"';
        table = quoted + ".mortise_lock";
        ours = "l.format = " + FORMAT + " AND l.strategy = '" + strategy + "'";
        // Who would lose does not get as far as the row: locking it would be a write, with a commit on the disk.
        String acquire = acquire("NOT EXISTS (SELECT 1 FROM " + table
                + " l WHERE l.name = q.name AND l.owner <> q.owner" + " AND l.until_ms > " + NOW + ")");
        String look = "SELECT l.format, l.strategy, l.owner, l.token, l.lease_ms, l.until_ms - (" + NOW + ") FROM "
                + table + " l WHERE l.name = ?";
        // Judged by the row as it was locked, not as the statement's snapshot has it. A row that the snapshot has with
        // this owner and token, and that was not to be locked, is unknown.
        renew = "WITH asked AS MATERIALIZED (SELECT a.name, a.owner, a.token"
                + " FROM unnest(?::text[], ?::text[], ?::bigint[]) AS a(name, owner, token)),"
                + " mine AS MATERIALIZED (SELECT l.name, l.owner, l.token, l.until_ms FROM asked a JOIN " + table + " l"
                + " ON l.name = a.name AND l.owner = a.owner AND l.token = a.token AND " + ours
                + " FOR NO KEY UPDATE OF l SKIP LOCKED),"
                + " renewed AS (UPDATE " + table + " l SET until_ms = " + until("l.lease_ms") + " FROM mine m"
                + " WHERE l.name = m.name AND m.until_ms > " + NOW + " RETURNING l.name, l.owner, l.token, l.lease_ms)"
                + " SELECT a.name, a.owner, a.token, r.lease_ms FROM asked a"
                + " LEFT JOIN renewed r USING (name, owner, token) LEFT JOIN mine m USING (name, owner, token)"
                + " LEFT JOIN " + table + " l ON l.name = a.name AND l.owner = a.owner AND l.token = a.token AND "
                + ours
                + " WHERE l.name IS NULL OR m.name IS NOT NULL";
        String release = "UPDATE " + table + " l SET owner = NULL"
                + " FROM (SELECT ?::text AS name, ?::text AS owner, " + released + ") q"
                + " WHERE l.name = q.name AND l.owner = q.owner AND " + ours
                + " RETURNING CASE WHEN l.until_ms > " + NOW + " THEN 1 ELSE 0 END";
        // Locked first and judged then: an UPDATE alone judges before it waits, and again only if the row was changed.
        String adopt =
                "WITH q AS MATERIALIZED (SELECT ?::text AS name, ?::text AS held, ?::bigint AS token, ?::text AS heir,"
                        + " ?::bigint AS lease, " + WAITS + " AS waits),"
                        + " mine AS MATERIALIZED (SELECT l.name, l.owner, l.token, l.until_ms FROM q JOIN " + table
                        + " l"
                        + " ON l.name = q.name WHERE " + ours
                        + " AND ((l.owner = q.held AND l.token = q.token) OR l.owner = q.heir) FOR NO KEY UPDATE OF l)"
                        + " UPDATE " + table + " l SET"
                        + " token = CASE WHEN m.owner = q.heir THEN m.token ELSE greatest(m.token + 1, " + MICROS
                        + ") END,"
                        + " owner = q.heir, lease_ms = q.lease, until_ms = " + until("q.lease")
                        + " FROM q, mine m WHERE l.name = m.name AND m.until_ms > " + NOW
                        + " RETURNING l.token";
        String clamp = "UPDATE " + table + " l SET until_ms = " + until("l.lease_ms")
                + " FROM (SELECT ?::text AS name, ?::text AS owner, " + WAITS + " AS waits) q"
                + " WHERE l.name = q.name AND l.owner = q.owner AND " + ours
                + " AND l.until_ms > " + until("l.lease_ms")
                + " RETURNING 1";
        statements = new Statements(acquire, look, release, adopt, clamp);
    }

    /** {@link Dialect.Statements#acquire} that gets as far as the row only where this holds. */
    final String acquire(String condition) {
        return "INSERT INTO " + table + " AS l (name, format, strategy, token, owner, lease_ms, until_ms)"
                + " SELECT q.name, " + FORMAT + ", '" + strategy() + "', " + MICROS + ", q.owner, q.lease, "
                + until("q.lease")
                + " FROM (SELECT ?::text AS name, ?::text AS owner, ?::bigint AS lease, " + WAITS + " AS waits) q"
                + " WHERE " + condition
                + " ON CONFLICT (name) DO UPDATE SET"
                + " token = CASE WHEN l.owner = excluded.owner AND l.until_ms > " + NOW + " THEN l.token"
                + " ELSE greatest(l.token + 1, " + MICROS + ") END,"
                + " owner = excluded.owner, lease_ms = excluded.lease_ms, until_ms = " + until("excluded.lease_ms")
                + " WHERE " + ours
                + " AND (l.owner IS NULL OR l.until_ms <= " + NOW + " OR l.owner = excluded.owner)"
                + " RETURNING l.token";
    }

    @Override
    public Guarantees guarantees() {
        return durable ? whereDurable : elsewhere;
    }

    // ---- Connections ---------------------------------------------------------------------------------------------

    @Override
    PlainSession session(Connection connection) {
        return new PostgresSession(connection);
    }

    @Override
    final String product() {
        return "PostgreSQL";
    }

    /** In one statement. */
    @Override
    final void probe(Connection connection, boolean again, long end) throws SQLException {
        boolean there;
        boolean usable;
        try (PreparedStatement statement = connection.prepareStatement("SELECT pg_is_in_recovery(),"
                + " current_setting('transaction_read_only'), current_setting('transaction_isolation'),"
                + " current_setting('server_version_num')::int / 10000, current_setting('fsync'),"
                + " current_setting('full_page_writes'), current_setting('synchronous_commit'),"
                + " t.oid IS NOT NULL, has_table_privilege(t.oid, 'SELECT') AND has_table_privilege(t.oid, 'INSERT')"
                + " AND has_table_privilege(t.oid, 'UPDATE'), n.oid IS NOT NULL, version()"
                + " FROM (SELECT ?::text AS name) q LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = q.name"
                + " LEFT JOIN pg_catalog.pg_class t ON t.relnamespace = n.oid AND t.relname = 'mortise_lock'")) {
            statement.setString(1, schema);
            try (ResultSet row = statement.executeQuery()) {
                row.next();
                if (!row.getString(11).startsWith("PostgreSQL ")) {
                    throw new Refusal(
                            "the server speaks as PostgreSQL does, and is another: "
                                    + row.getString(11).split("[ ,]", 2)[0],
                            "give one of PostgreSQL, whose locks are locks",
                            null);
                }
                if (row.getBoolean(1)) {
                    throw new Refusal(
                            "this server is a replica, which can neither lock nor tell who has",
                            "name the primary; with several hosts in the URL add targetServerType=primary",
                            null);
                }
                if (row.getString(2).equals("on")) {
                    throw new Refusal(
                            "transactions are read-only here",
                            source.own()
                                    ? "use a server that takes writes"
                                    : "ALTER ROLE … SET default_transaction_read_only = off, or give a DataSource that"
                                            + " may write",
                            null);
                }
                if (row.getInt(4) < OLDEST) {
                    throw new Refusal("the server is PostgreSQL " + row.getInt(4), "use " + OLDEST + " or later", null);
                }
                isolate = !source.own() && !row.getString(3).equals("read committed");
                boolean flushes =
                        row.getString(5).equals("on") && row.getString(6).equals("on");
                boolean commits = !row.getString(7).equals("off");
                if (!commits && source.own()) {
                    try (Statement set = connection.createStatement()) {
                        set.execute("SET synchronous_commit = on");
                    }
                    commits = true;
                }
                declare(flushes && commits, again);
                there = row.getBoolean(8);
                usable = row.getBoolean(9);
                if (!row.getBoolean(10)) {
                    throw new Refusal(
                            "there is no schema " + quoted, "make it, or name another in the option schema", null);
                }
            }
        }
        if (!there) {
            if (again) {
                throw new Refusal(
                        "the table " + quoted + ".mortise_lock was dropped while it was in use",
                        "put it back, or stop all programs that use it first",
                        null);
            }
            create(connection, end);
        } else if (!usable) {
            throw new Refusal(
                    "this role may not use the table " + quoted + ".mortise_lock",
                    "GRANT SELECT, INSERT, UPDATE ON " + quoted + ".mortise_lock TO the role",
                    null);
        }
        try (PreparedStatement statement = connection.prepareStatement(statements.look())) {
            // No lock has this name; a table with other columns fails here.
            statement.setString(1, "");
            statement.executeQuery().close();
        }
    }

    private void declare(boolean nowDurable, boolean again) throws Refusal {
        if (!again) {
            durable = nowDurable;
            if (!nowDurable) {
                System.getLogger(PostgresDialect.class.getName())
                        .log(
                                System.Logger.Level.WARNING,
                                store() + ": fsync, full_page_writes or synchronous_commit is off, so that a crash of"
                                        + " the server may bring locks back that were given up, and free others");
            }
        } else if (durable && !nowDurable) {
            throw new Refusal(
                    "fsync or full_page_writes was switched off since this client was opened",
                    "switch them on, or open another client, which then promises less",
                    null);
        }
    }

    /** Eight clients may come here at the same moment: IF NOT EXISTS looks first, and can fail at the second. */
    private void create(Connection connection, long end) throws SQLException {
        while (true) {
            try (Statement statement = connection.createStatement()) {
                statement.execute(Dialect.ddl(DDL, "mortise_lock")
                        .replace(
                                "CREATE TABLE IF NOT EXISTS mortise_lock",
                                "CREATE TABLE IF NOT EXISTS " + quoted + ".mortise_lock"));
                return;
            } catch (SQLException e) {
                boolean raced = Set.of("23505", "42P07", "42710").contains(state(e));
                if (!raced || System.nanoTime() - end > 0) {
                    throw state(e).equals("42501")
                            ? new Refusal(
                                    "its table is not there, and this role may not make one in the schema " + quoted,
                                    "run the statement CREATE TABLE … mortise_lock of the shipped postgresql.sql in"
                                            + " that schema once, and GRANT SELECT, INSERT, UPDATE on it; or name"
                                            + " another schema in the option schema",
                                    e)
                            : e;
                }
            }
        }
    }

    /** A connection, and how the application's own is given back as it was. */
    private final class PostgresSession extends PlainSession {
        PostgresSession(Connection connection) {
            super(connection, source.own());
        }

        /** Costs no round trip. */
        @Override
        void requireNoTransaction() throws SQLException {
            try {
                // Changes nothing, and fails inside of a transaction.
                connection.setReadOnly(connection.isReadOnly());
            } catch (SQLException e) {
                throw state(e).equals("25001") ? transactionOpen(e) : e;
            }
        }

        @Override
        void settle() throws SQLException {
            if (isolate && !source.own()) {
                isolate(connection.getTransactionIsolation());
            }
        }
    }

    // ---- Errors --------------------------------------------------------------------------------------------------

    /** The SQLSTATE, never null. */
    static String state(SQLException e) {
        return Objects.requireNonNullElse(e.getSQLState(), "");
    }

    @Override
    public boolean isBusy(SQLException e) {
        return switch (state(e)) {
            // The server rolled the statement back: serialization failure, deadlock, lock timeout, cancelled (which a
            // commit under way is not). Or it did not come to it: too many connections, starting, idle for too long.
            case "40001", "40P01", "55P03", "57014", "53300", "57P03", "57P05" -> true;
            default -> false;
        };
    }

    @Override
    public boolean isBroken(SQLException e) {
        String state = state(e);
        return state.startsWith("08") || state.startsWith("57P");
    }

    @Override
    public long leastNanos() {
        return TimeUnit.MILLISECONDS.toNanos(300);
    }

    @Override
    public boolean limitsWaits() {
        return true;
    }

    @Override
    public boolean mayHaveTakenEffect(SQLException e) {
        if (e instanceof Refusal) {
            return false;
        }
        String state = state(e);
        return switch (state.length() < 2 ? "" : state.substring(0, 2)) {
            // Said by the server of a statement that it then rolled back. Not 40003, whose outcome it does not know.
            case "0A", "21", "22", "23", "25", "26", "28", "34", "3D", "3F", "42", "53", "54", "55" -> false;
            case "40" -> state.equals("40003");
            default -> !isBusy(e);
        };
    }

    @Override
    public String what(SQLException e) {
        return switch (state(e)) {
            case "53300" -> "the server has no connection left for this role";
            case "40001", "40P01" -> "in conflict with other transactions again and again";
            case "55P03" -> "somebody else kept the row or the table locked for too long";
            default -> String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
        };
    }

    @Override
    public String advice(SQLException e) {
        if (e instanceof Refusal refusal) {
            return refusal.advice();
        }
        String state = state(e);
        return switch (state) {
            case "40001", "40P01", "55P03" ->
                "look in pg_stat_activity for the transaction that keeps rows of " + quoted + ".mortise_lock locked";
            case "57014" ->
                "raise statement_timeout for this role, or look in pg_stat_activity for what keeps the server busy";
            case "53300" -> "raise max_connections, or the limit of this role or database";
            case "3D000" -> "make that database, or name another";
            case "42501" ->
                "GRANT SELECT, INSERT, UPDATE ON " + quoted + ".mortise_lock, and USAGE ON SCHEMA " + quoted
                        + ", to the role";
            case "42P01" -> "the table was dropped: put it back, or open another client, which makes it";
            case "42703", "42P10", "42804", "42883" ->
                "the table " + quoted + ".mortise_lock is not of format " + FORMAT + ", the one this client knows: let"
                        + " all users have the same version of Mortise, or name another schema in the option schema";
            case "25006" -> "the server takes no writes now: name the primary";
            case "26000", "42P05" ->
                "a proxy that pools transactions is between: add prepareThreshold=0 to the URL, or connect past it";
            default ->
                state.startsWith("08") || state.startsWith("57P")
                        ? "check that the server runs and answers at this address"
                        : "look at what the server says, and into its log";
        };
    }

    // ---- Statements ----------------------------------------------------------------------------------------------

    @Override
    public Statements statements() {
        return statements;
    }

    @Override
    public Query renew(List<Grant> grants) {
        String[] names = new String[grants.size()];
        String[] owners = new String[grants.size()];
        Long[] tokens = new Long[grants.size()];
        for (int i = 0; i < names.length; i++) {
            Grant grant = grants.get(i);
            names[i] = Names.encode(grant.name());
            owners[i] = grant.owner();
            tokens[i] = grant.token();
        }
        return new Query(renew, List.of(names, owners, tokens));
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

    /** {@link JdbcFence}: in resource, token; out one row if that token is not older than the row's. */
    static final String RAISE = "INSERT INTO mortise_fence AS f (resource, token) VALUES (?, ?)"
            + " ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token >= f.token"
            + " RETURNING f.token";

    /** In resource; out the largest token that it has seen. */
    static final String NEWEST = "SELECT token FROM mortise_fence WHERE resource = ?";
}
