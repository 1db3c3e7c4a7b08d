package dev.mortise.lock.jdbc;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.h2.tools.Server;

/** A database in which applications have transactions, with the table of {@link JdbcTransactionLock} where it needs one. */
abstract class TransactionDatabase implements AutoCloseable {
    private static final AtomicInteger NUMBERS = new AtomicInteger();

    /** The databases that have this lock. */
    enum Kind {
        POSTGRESQL {
            @Override
            TransactionDatabase open() {
                return new Postgres();
            }
        },
        MARIADB {
            @Override
            TransactionDatabase open() throws SQLException {
                return new MariaDb();
            }

            @Override
            boolean serves(int isolation, boolean readsBefore) {
                return isolation != Connection.TRANSACTION_REPEATABLE_READ || !readsBefore;
            }
        },
        H2 {
            @Override
            TransactionDatabase open() throws SQLException {
                return new H2();
            }
        };

        abstract TransactionDatabase open() throws SQLException;

        /** Whether a transaction of this isolation can have the lock. */
        boolean serves(int isolation, boolean readsBefore) {
            return isolation == Connection.TRANSACTION_READ_COMMITTED;
        }
    }

    /** With user and password. */
    abstract String url();

    /** How many wait for somebody else's lock, as the server says. */
    abstract int waiters() throws SQLException;

    /** Limits that are shorter than the waits of the tests, as they stand behind SET. */
    abstract List<String> settings();

    /** What says how these are now. */
    abstract List<String> questions();

    /** As an administrator does, or a network that breaks. */
    abstract void kill(Connection connection) throws SQLException;

    abstract String ddl();

    /** A table that nobody changes. */
    abstract String another();

    Connection connect() throws SQLException {
        return DriverManager.getConnection(url());
    }

    void execute(String... statements) throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            for (String each : statements) {
                statement.execute(each);
            }
        }
    }

    List<String> shown(Connection connection) throws SQLException {
        List<String> values = new ArrayList<>();
        try (Statement statement = connection.createStatement()) {
            for (String question : questions()) {
                try (ResultSet row = statement.executeQuery(question)) {
                    row.next();
                    values.add(row.getString(1));
                }
            }
        }
        return values;
    }

    int number(String sql) throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            row.next();
            return row.getInt(1);
        }
    }

    void makeFence() throws SQLException {
        execute(Dialect.ddl(ddl(), "mortise_fence"));
    }

    @Override
    public void close() throws Exception {}

    /** A database of its own: advisory locks are for all of one. */
    private static final class Postgres extends TransactionDatabase {
        private final PostgresServer server = PostgresServer.shared();
        private final String name = "d" + NUMBERS.incrementAndGet();

        Postgres() {
            server.sql("CREATE DATABASE " + name);
        }

        @Override
        String url() {
            return server.url(name) + "?user=test";
        }

        @Override
        int waiters() throws SQLException {
            return number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
        }

        @Override
        List<String> settings() {
            return List.of("lock_timeout = '70ms'", "statement_timeout = '900ms'");
        }

        @Override
        List<String> questions() {
            return List.of("SHOW lock_timeout", "SHOW statement_timeout");
        }

        @Override
        void kill(Connection connection) throws SQLException {
            try (Statement statement = connection.createStatement();
                    ResultSet row = statement.executeQuery("SELECT pg_backend_pid()")) {
                row.next();
                execute("SELECT pg_terminate_backend(" + row.getInt(1) + ")");
            }
        }

        @Override
        String ddl() {
            return PostgresDialect.DDL;
        }

        @Override
        String another() {
            return "pg_class";
        }

        @Override
        public void close() {
            server.sql("DROP DATABASE " + name + " WITH (FORCE)");
        }
    }

    /** A database of its own. */
    private static final class MariaDb extends TransactionDatabase {
        private final MariaDbServer server = MariaDbServer.shared();
        private final String name = "t" + NUMBERS.incrementAndGet();

        MariaDb() throws SQLException {
            server.sql("CREATE DATABASE " + name);
            execute(Dialect.ddl("mariadb.sql", "mortise_transaction_lock"), "CREATE TABLE nobodys (n INT)");
        }

        @Override
        String url() {
            return server.url(name) + "?user=test";
        }

        @Override
        int waiters() throws SQLException {
            return number("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'");
        }

        @Override
        List<String> settings() {
            return List.of("innodb_lock_wait_timeout = 1", "lock_wait_timeout = 1", "max_statement_time = 0.9");
        }

        @Override
        List<String> questions() {
            return List.of(
                    "SELECT @@innodb_lock_wait_timeout", "SELECT @@lock_wait_timeout", "SELECT @@max_statement_time");
        }

        @Override
        void kill(Connection connection) throws SQLException {
            try (Statement statement = connection.createStatement();
                    ResultSet row = statement.executeQuery("SELECT CONNECTION_ID()")) {
                row.next();
                execute("KILL " + row.getLong(1));
            }
        }

        @Override
        String ddl() {
            return "mariadb.sql";
        }

        @Override
        String another() {
            return "nobodys";
        }

        @Override
        public void close() {
            server.sql("DROP DATABASE " + name);
        }
    }

    /** In the memory of a server in this process, for clients of any. */
    private static final class H2 extends TransactionDatabase {
        private static final Server SERVER = start();

        private final String url =
                "jdbc:h2:" + SERVER.getURL() + "/mem:d" + NUMBERS.incrementAndGet() + ";DB_CLOSE_DELAY=-1;USER=sa";

        private int asked;
        private int growing;

        H2() throws SQLException {
            execute(
                    "SET QUERY_STATISTICS TRUE",
                    Dialect.ddl("h2.sql", "mortise_transaction_lock"),
                    "CREATE TABLE nobodys (n INT)");
        }

        private static Server start() {
            try {
                Server server = Server.createTcpServer("-tcpPort", "0", "-tcpDaemon", "-ifNotExists")
                        .start();
                Runtime.getRuntime().addShutdownHook(new Thread(server::stop));
                return server;
            } catch (SQLException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        String url() {
            return url;
        }

        @Override
        int waiters() throws SQLException {
            // Who waits asks again and again: seen in three looks.
            int now = number("SELECT coalesce(sum(EXECUTION_COUNT), 0) FROM INFORMATION_SCHEMA.QUERY_STATISTICS"
                    + " WHERE SQL_STATEMENT LIKE '% mortise_transaction_lock %'");
            growing = now > asked ? growing + 1 : 0;
            asked = now;
            return growing >= 3 ? 1 : 0;
        }

        @Override
        List<String> settings() {
            return List.of("LOCK_TIMEOUT 70");
        }

        @Override
        List<String> questions() {
            return List.of("SELECT LOCK_TIMEOUT()");
        }

        @Override
        void kill(Connection connection) throws SQLException {
            try (Statement statement = connection.createStatement();
                    ResultSet row = statement.executeQuery("SELECT SESSION_ID()")) {
                row.next();
                execute("CALL ABORT_SESSION(" + row.getInt(1) + ")");
            }
        }

        @Override
        String ddl() {
            return "h2.sql";
        }

        @Override
        String another() {
            return "nobodys";
        }

        @Override
        public void close() throws SQLException {
            execute("SHUTDOWN IMMEDIATELY");
        }
    }
}
