package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.spi.StoreUri;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.jspecify.annotations.Nullable;

/** SQLite: one file, used by the processes of one machine, whose clock is the database's clock. */
final class SqliteDialect implements Dialect {
    static final String DDL = "sqlite.sql";

    static final Guarantees GUARANTEES = Dialect.guarantees(
            StoreEvent.RELEASE_AND_EXPIRY,
            StoreEvent.CLIENT_CRASH,
            StoreEvent.CONNECTION_LOSS,
            StoreEvent.STORE_RESTART);

    /** The wall clock in milliseconds. SQLite reads it once a statement, when first asked: after it has its locks. */
    private static final String NOW = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";

    private static final String OURS = "format = " + FORMAT + " AND strategy = '" + TABLE + "'";

    /** Rounded up by the millisecond that NOW may have been rounded down by. */
    private static String until(String lease) {
        return NOW + " + " + lease + " + 1";
    }

    private static String nextToken(String floor) {
        return "max(token + 1, " + floor + ")";
    }

    private static final String ACQUIRE = "INSERT INTO mortise_lock"
            + " (name, format, strategy, token, owner, lease_ms, until_ms)"
            + " VALUES (?1, " + FORMAT + ", '" + TABLE + "', " + NOW + " * 1000, ?2, ?3, " + until("?3") + ")"
            + " ON CONFLICT (name) DO UPDATE SET"
            + " token = CASE WHEN owner = excluded.owner AND until_ms > " + NOW + " THEN token"
            + " ELSE " + nextToken("excluded.token") + " END,"
            + " owner = excluded.owner, lease_ms = excluded.lease_ms, until_ms = excluded.until_ms"
            + " WHERE " + OURS
            + " AND (owner IS NULL OR until_ms <= " + NOW + " OR owner = excluded.owner)"
            + " RETURNING token";

    private static final String LOOK =
            "SELECT format, strategy, owner, token, lease_ms, until_ms - " + NOW + " FROM mortise_lock WHERE name = ?1";

    // The end stays as it was: it tells here whether the claim was live, and a row without an owner is free anyway.
    private static final String RELEASE = "UPDATE mortise_lock SET owner = NULL"
            + " WHERE name = ?1 AND owner = ?2 AND " + OURS
            + " RETURNING until_ms > " + NOW;

    private static final String ADOPT = "UPDATE mortise_lock SET"
            + " token = CASE WHEN owner = ?4 THEN token ELSE " + nextToken(NOW + " * 1000") + " END,"
            + " owner = ?4, lease_ms = ?5, until_ms = " + until("?5")
            + " WHERE name = ?1 AND " + OURS + " AND until_ms > " + NOW
            + " AND ((owner = ?2 AND token = ?3) OR owner = ?4)"
            + " RETURNING token";

    private static final String CLAMP = "UPDATE mortise_lock SET until_ms = " + until("lease_ms")
            + " WHERE name = ?1 AND owner = ?2 AND " + OURS
            + " AND until_ms > " + until("lease_ms")
            + " RETURNING 1";

    private static final Statements STATEMENTS = new Statements(ACQUIRE, LOOK, RELEASE, ADOPT, CLAMP);

    /** {@link JdbcFence}: in resource, token; out one row if that token is not older than the row's. */
    static final String RAISE = "INSERT INTO mortise_fence (resource, token) VALUES (?1, ?2)"
            + " ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token >= token"
            + " RETURNING token";

    /** In resource; out the largest token that it has seen. */
    static final String NEWEST = "SELECT token FROM mortise_fence WHERE resource = ?1";

    /** Settings that the lock depends on, with what SQLite must answer. Set by us, whatever the URL says. */
    private static final Map<String, String[]> SETTINGS = Map.of(
            // An exclusive connection would keep everybody else out between its statements.
            "locking_mode", new String[] {"NORMAL", "normal"},
            // Readers do not wait for writers, and a kill at any moment leaves a whole database.
            "journal_mode", new String[] {"WAL", "wal"},
            // A commit is on the disk before it is answered; with less a crash of the machine brings tokens back.
            "synchronous", new String[] {"FULL", "2"},
            // As above on a Mac, where a flush otherwise ends in the drive's cache.
            "fullfsync", new String[] {"1", "1"},
            "checkpoint_fullfsync", new String[] {"1", "1"},
            // With a shared cache, another connection's write is seen before it is committed.
            "read_uncommitted", new String[] {"0", "0"});

    /**
     * Milliseconds for which SQLite waits itself while a connection is made. Turning a new file into one with a log takes
     * a moment without any reader, and only a waiter inside SQLite keeps new readers out meanwhile: several processes
     * that start at once, and just come back, can keep each other from it for seconds. Afterwards we wait ourselves.
     */
    private static final int BUSY_TIMEOUT = 100;

    /**
     * Files of which a connection of this process has lost its log for good. SQLite shares what it knows of a log
     * between the connections of a process, a new one would go on in the lost one.
     */
    private static final Set<String> LOST = ConcurrentHashMap.newKeySet();

    private final String store;
    private final StoreFile file;
    private final String query;
    private final UnaryOperator<Connection> wrapping;

    SqliteDialect(StoreUri uri) {
        this(uri, StoreFile::fileSystem, connection -> connection);
    }

    /**
     * For tests.
     *
     * @param fileSystems the type of the file system of a path
     * @param wrapping put around each connection that the lock then uses
     */
    SqliteDialect(StoreUri uri, StoreFile.FileSystems fileSystems, UnaryOperator<Connection> wrapping) {
        this.store = uri.toString();
        this.wrapping = wrapping;
        // The driver trims it, too.
        String rest = uri.verbatim().trim().substring("jdbc:sqlite:".length());
        int question = rest.indexOf('?');
        String name = question < 0 ? rest : rest.substring(0, question);
        query = question < 0 ? "" : rest.substring(question + 1);
        if (name.isEmpty() || name.startsWith(":") || name.startsWith("file:")) {
            throw new IllegalArgumentException(
                    "the store must be a file, given by its path as in jdbc:sqlite:/folder/file.db, not '" + name
                            + "': a database in memory excludes nobody, and a file: URI can switch locking off");
        }
        file = new StoreFile(Path.of(name).toAbsolutePath(), fileSystems);
    }

    @Override
    public String strategy() {
        return TABLE;
    }

    @Override
    public String store() {
        return store;
    }

    @Override
    public Guarantees guarantees() {
        return GUARANTEES;
    }

    /** One: SQLite has one write lock, and whoever waits for it waits outside of the connection. */
    @Override
    public int sessions() {
        return 1;
    }

    @Override
    public boolean keepsSessions() {
        return true;
    }

    @Override
    public Session open(boolean again, long nanos) throws SQLException {
        Driver driver = Drivers.find("org.sqlite.", "jdbc:sqlite:", "SQLite", "org.xerial:sqlite-jdbc");
        Drivers.options(driver, "jdbc:sqlite:", query);
        file.requireUsable(again);
        Copy copy = Copy.enter(driver, file.real());
        Session session = null;
        try {
            session = open(driver, again, copy);
            return session;
        } finally {
            if (session == null) {
                copy.leave();
            }
        }
    }

    private Session open(Driver driver, boolean again, Copy copy) throws SQLException {
        // The file is made by one connection and used by the next: only a file that was there before and after has
        // certainly been the one opened. (Looking at what is open would take opening it ourselves, and closing a file
        // drops all locks that this process has on it.)
        for (int i = 0; i < 10; i++) {
            String before = file.identity();
            if (before != null && LOST.contains(before)) {
                throw new Refusal(
                        "its companion -wal or -shm was deleted while this program used it",
                        "start this program anew: SQLite cannot take the file up again in this process",
                        null);
            }
            Connection connection = connect(driver, again);
            boolean kept = false;
            try {
                set(connection);
                Path real = real(connection);
                String[] companions = {StoreFile.identity(real + "-wal"), StoreFile.identity(real + "-shm")};
                String after = file.identity();
                if (after != null && after.equals(before) && companions[0] != null && companions[1] != null) {
                    file.requireOneName();
                    Session session =
                            new SqliteSession(wrapping.apply(connection), file, real, after, companions, copy);
                    kept = true;
                    return session;
                }
            } finally {
                if (!kept) {
                    close(connection);
                }
            }
        }
        throw new Refusal(
                "the file was replaced again and again while it was opened",
                "find the program that moves or deletes " + file,
                null);
    }

    private Connection connect(Driver driver, boolean again) throws SQLException {
        Properties properties = new Properties();
        // Read and write, and create only at first: what was there and is gone is not to be made anew in silence.
        properties.setProperty("open_mode", again ? "2" : "6");
        properties.setProperty("shared_cache", "false");
        properties.setProperty("busy_timeout", String.valueOf(BUSY_TIMEOUT));
        SETTINGS.forEach((name, value) -> {
            if (!name.contains("fullfsync")) {
                properties.setProperty(name, value[0]);
            }
        });
        String url = "jdbc:sqlite:" + file + (query.isEmpty() ? "" : "?" + query);
        Connection connection;
        // The driver logs, with its stacks, what it then throws. Where nobody has set that logger, once is enough.
        Logger logger = Logger.getLogger("org.sqlite.SQLiteJDBCLoader");
        boolean quiet = logger.getLevel() == null;
        try {
            if (quiet) {
                logger.setLevel(Level.OFF);
            }
            connection = driver.connect(url, properties);
        } catch (LinkageError e) {
            throw noLibrary(e);
        } catch (SQLException e) {
            if (e.getErrorCode() == 0 && e.getCause() != null) {
                throw noLibrary(e.getCause());
            }
            throw e;
        } finally {
            if (quiet) {
                logger.setLevel(null);
            }
        }
        if (connection == null) {
            throw new SQLException("the driver did not take the URL");
        }
        return connection;
    }

    private static Refusal noLibrary(Throwable cause) {
        String folder = System.getProperty("org.sqlite.tmpdir", System.getProperty("java.io.tmpdir"));
        return new Refusal(
                "SQLite's native library for " + System.getProperty("os.name") + " on " + System.getProperty("os.arch")
                        + " cannot be loaded by way of the folder " + folder,
                "that folder must be writable, with some free space, and must allow programs (no noexec mount); name"
                        + " another with the JVM option -Dorg.sqlite.tmpdir=FOLDER",
                cause);
    }

    private void set(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (Map.Entry<String, String[]> setting : new TreeMap<>(SETTINGS).entrySet()) {
                String name = setting.getKey();
                statement.execute("PRAGMA " + name + " = " + setting.getValue()[0]);
                String answer = one(statement, "PRAGMA " + name, 1);
                if (!setting.getValue()[1].equalsIgnoreCase(answer)) {
                    throw new Refusal(
                            "SQLite does not take " + name + " = " + setting.getValue()[0] + " here; it says " + answer,
                            "take that out of the URL, and use a file on a local disk",
                            null);
                }
            }
            statement.execute(Dialect.ddl(DDL, "mortise_lock"));
            statement.execute("PRAGMA busy_timeout = 0");
        }
        try {
            // Finds a table with other columns, and reads the file, so that its companions are there.
            connection.prepareStatement(ACQUIRE).close();
            try (Statement statement = connection.createStatement()) {
                one(statement, "SELECT count(*) FROM (SELECT 1 FROM mortise_lock LIMIT 1)", 1);
            }
        } catch (SQLException e) {
            if (e.getErrorCode() == Code.ERROR) {
                throw new Refusal(
                        "its table mortise_lock is not of format " + FORMAT + ", the one this client knows ("
                                + e.getMessage() + ")",
                        "let all users of this store have the same version of Mortise, or name another file",
                        e);
            }
            throw e;
        }
    }

    /** The path that SQLite uses, of which it makes the names of the companions: absolute, without symbolic links. */
    private static Path real(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            String path = one(statement, "PRAGMA database_list", 3);
            if (path == null || path.isEmpty()) {
                throw new Refusal("the database is not in a file", "name a file: others are excluded by it", null);
            }
            return Path.of(path);
        }
    }

    private static @Nullable String one(Statement statement, String sql, int column) throws SQLException {
        try (ResultSet rows = statement.executeQuery(sql)) {
            return rows.next() ? rows.getString(column) : null;
        }
    }

    private static void close(Connection connection) {
        try {
            connection.close();
        } catch (SQLException e) {
            // It is given up either way; nothing of value was left in it.
            System.getLogger(SqliteDialect.class.getName()).log(System.Logger.Level.DEBUG, "close", e);
        }
    }

    // ---- Errors --------------------------------------------------------------------------------------------------

    /** SQLite's primary result codes, which the driver gives as the vendor's code. */
    private static final class Code {
        static final int ERROR = 1;
        static final int PERM = 3;
        static final int BUSY = 5;
        static final int LOCKED = 6;
        static final int READONLY = 8;
        static final int IOERR = 10;
        static final int CORRUPT = 11;
        static final int FULL = 13;
        static final int CANTOPEN = 14;
        static final int PROTOCOL = 15;
        static final int NOTADB = 26;
    }

    @Override
    public boolean isBusy(SQLException e) {
        int code = e.getErrorCode();
        // PROTOCOL: lost a race for the write-ahead log's locks many times over.
        return code == Code.BUSY || code == Code.LOCKED || code == Code.PROTOCOL;
    }

    @Override
    public boolean isBroken(SQLException e) {
        return false;
    }

    @Override
    public long leastNanos() {
        return 0;
    }

    @Override
    public boolean limitsWaits() {
        return false;
    }

    static boolean isMissingTable(SQLException e) {
        return e.getErrorCode() == Code.ERROR && String.valueOf(e.getMessage()).contains("no such table");
    }

    @Override
    public boolean mayHaveTakenEffect(SQLException e) {
        return switch (e.getErrorCode()) {
            // Refused before the last page of the commit was written. After IOERR it may lie in the log, to be found
            // by whoever opens the file after a crash.
            case Code.ERROR,
                    Code.PERM,
                    Code.BUSY,
                    Code.LOCKED,
                    Code.READONLY,
                    Code.FULL,
                    Code.CANTOPEN,
                    Code.PROTOCOL,
                    Code.NOTADB -> false;
            default -> true;
        };
    }

    @Override
    public String what(SQLException e) {
        return String.valueOf(e.getMessage());
    }

    @Override
    public String advice(SQLException e) {
        if (e instanceof Refusal refusal) {
            return refusal.advice();
        }
        return switch (e.getErrorCode()) {
            case Code.BUSY, Code.LOCKED, Code.PROTOCOL ->
                "find the program that keeps a write transaction open in " + file;
            case Code.PERM, Code.READONLY, Code.CANTOPEN ->
                "let this user write the file " + file + ", its companions -wal and -shm, and its folder";
            case Code.FULL -> "make room on the disk of " + file.folder();
            case Code.IOERR ->
                "look for a full or broken disk under " + file.folder()
                        + "; if its companion -wal or -shm was deleted, stop all programs that use it";
            case Code.NOTADB -> "name a file that is an SQLite database, or one that does not exist yet";
            case Code.CORRUPT ->
                "stop all programs that use " + file + ", and move it and its companions -wal and -shm"
                        + " away or restore them";
            default -> "look at what SQLite says, and at who else uses " + file;
        };
    }

    // ---- Statements ----------------------------------------------------------------------------------------------

    @Override
    public Statements statements() {
        return STATEMENTS;
    }

    @Override
    public Query renew(List<Grant> grants) {
        // Rounded up to a power of two with repeats of the last, so that few statements are ever prepared.
        int size = Integer.highestOneBit(2 * grants.size() - 1);
        Object[] parameters = new Object[3 * size];
        for (int i = 0; i < size; i++) {
            Grant grant = grants.get(Math.min(i, grants.size() - 1));
            parameters[3 * i] = Names.encode(grant.name());
            parameters[3 * i + 1] = grant.owner();
            parameters[3 * i + 2] = grant.token();
        }
        return new Query(renew(size), List.of(parameters));
    }

    @Override
    public boolean silenceMeansEnded() {
        return true;
    }

    static String renew(int size) {
        // The names once more by themselves: so SQLite looks each up by its key, whatever it believes of the table's
        // size. With the list of three alone, or joined, it may read the whole table.
        StringJoiner names = new StringJoiner(", ", "(", ")");
        StringJoiner claims = new StringJoiner(", ", "(VALUES ", ")");
        for (int i = 1; i <= 3 * size; i += 3) {
            names.add("?" + i);
            claims.add("(?" + i + ", ?" + (i + 1) + ", ?" + (i + 2) + ")");
        }
        return "UPDATE mortise_lock SET until_ms = " + until("lease_ms")
                + " WHERE name IN " + names + " AND (name, owner, token) IN " + claims
                + " AND " + OURS + " AND until_ms > " + NOW
                + " RETURNING name, owner, token, lease_ms";
    }

    @Override
    public int largestBatch() {
        // Three variables each; SQLite allows 32,766.
        return 1024;
    }

    /**
     * The copy of SQLite that this process uses for a file. Each class loader with a driver of its own loads a copy of
     * its own, and the system's file locks, which SQLite relies on, do not exclude within a process: with two copies, two
     * clients both got the lock in 197 of 200 tries. The one place that all class loaders share is the system properties.
     */
    private static final class Copy {
        private final String key;
        private boolean left;

        private Copy(String key) {
            this.key = key;
        }

        static Copy enter(Driver driver, Path real) throws Refusal {
            String key = "dev.mortise.lock.jdbc.sqlite:" + real;
            String mine = driver.getClass().getName() + "@" + System.identityHashCode(driver.getClass());
            Object now = System.getProperties().compute(key, (k, users) -> {
                String[] words = users == null
                        ? new String[] {mine, "0"}
                        : users.toString().split(" ", 2);
                return words[0].equals(mine) ? mine + " " + (Integer.parseInt(words[1]) + 1) : users;
            });
            if (!String.valueOf(now).startsWith(mine + " ")) {
                throw new Refusal(
                        "two class loaders of this JVM have loaded SQLite, and their locks do not exclude each other",
                        "put sqlite-jdbc into one class loader above both; an application that is unloaded must close"
                                + " its client",
                        null);
            }
            return new Copy(key);
        }

        /** Idempotent; for one thread. */
        void leave() {
            if (!left) {
                left = true;
                System.getProperties().computeIfPresent(key, (k, users) -> {
                    String[] words = users.toString().split(" ", 2);
                    int less = Integer.parseInt(words[1]) - 1;
                    return less == 0 ? null : words[0] + " " + less;
                });
            }
        }
    }

    private static final class SqliteSession implements Session {
        private final Connection connection;
        private final StoreFile file;
        private final Path real;
        private final String identity;
        private final @Nullable String[] companions;
        private final Copy copy;
        private boolean companionsGone;

        SqliteSession(
                Connection connection,
                StoreFile file,
                Path real,
                String identity,
                @Nullable String[] companions,
                Copy copy) {
            this.copy = copy;
            this.connection = connection;
            this.file = file;
            this.real = real;
            this.identity = identity;
            this.companions = companions;
        }

        @Override
        public Connection connection() {
            return connection;
        }

        @Override
        public void limit(long nanos) {
            // A statement in a file cannot be limited.
        }

        @Override
        public void requireAlive() {
            // There is no other side.
        }

        @Override
        public void requireSameStore() throws SQLException {
            if (!identity.equals(file.identity())) {
                throw new Refusal(
                        "the file was deleted, moved or replaced while it was in use",
                        "leave " + file + " in its place; put it back, or stop all programs that use it first",
                        null);
            }
            if (!Objects.equals(companions[0], StoreFile.identity(real + "-wal"))
                    || !Objects.equals(companions[1], StoreFile.identity(real + "-shm"))) {
                companionsGone = true;
                LOST.add(identity);
                throw new Refusal(
                        "its companion -wal or -shm was deleted, moved or replaced while it was in use",
                        "leave them beside " + file + ": they are a part of it",
                        null);
            }
        }

        @Override
        public void close() {
            // The last connection copies its log into the file. A log that is no longer the file's would undo there
            // what
            // others have committed since; SQLite itself looks only whether the file has been moved. So it stays open.
            if (!companionsGone) {
                SqliteDialect.close(connection);
                copy.leave();
            }
        }
    }
}
