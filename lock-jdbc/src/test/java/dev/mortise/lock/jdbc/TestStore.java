package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;

/** A store of a test's own, the clients of a test, and an administrator who acts behind their backs. */
abstract class TestStore implements AutoCloseable {
    /** The databases that the contract is tested on. */
    enum Kind {
        SQLITE {
            @Override
            TestStore open(Path folder) {
                return new SqliteStore(folder);
            }
        },
        POSTGRESQL {
            @Override
            TestStore open(Path folder) {
                return new PostgresStore();
            }
        },
        POSTGRESQL_ADVISORY {
            @Override
            TestStore open(Path folder) {
                return new PostgresStore(PostgresServer.shared(), "advisory");
            }
        },
        MARIADB {
            @Override
            TestStore open(Path folder) {
                return new MariaDbStore();
            }
        },
        MARIADB_ADVISORY {
            @Override
            TestStore open(Path folder) {
                return new MariaDbStore(MariaDbServer.shared(), "advisory");
            }
        },
        H2 {
            @Override
            TestStore open(Path folder) {
                return new H2Store();
            }
        };

        abstract TestStore open(Path folder);
    }

    static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);
    static final Duration LEASE = Duration.ofSeconds(30);
    private static final AtomicLong OWNERS = new AtomicLong();

    /** How often what only chance shows is tried: {@code -Dmortise.thorough=true} asks for more. */
    static int times(int usual, int thorough) {
        return Boolean.getBoolean("mortise.thorough") ? thorough : usual;
    }

    private final List<AutoCloseable> open = Collections.synchronizedList(new ArrayList<>());

    abstract BackendProvider provider();

    abstract StoreUri uri();

    /** The store and its options for another process. */
    abstract List<String> arguments();

    /** Of an administrator's connection, to which the tables need no schema. */
    abstract String adminUrl();

    /** The database's clock in milliseconds, as an expression. */
    abstract String now();

    /** What somebody else begins that keeps every statement of the clients waiting until he ends it; empty if nothing does. */
    abstract String standstill();

    /** How he ends it. */
    String resume() {
        return "ROLLBACK";
    }

    /** Whether this statement goes on during a standstill. */
    boolean ignoresStandstill(String sql) {
        return false;
    }

    /** With connections that are wrapped. */
    abstract Dialect dialect(Duration callTimeout, UnaryOperator<Connection> wrapping);

    static BackendContext context(Duration callTimeout) {
        return BackendContext.of(System::nanoTime, callTimeout);
    }

    /** A client as another process would have. */
    LockBackend client() {
        return client(CALL_TIMEOUT);
    }

    LockBackend client(Duration callTimeout) {
        return opened(provider().open(uri(), context(callTimeout)));
    }

    /** A client whose connections are wrapped. */
    LockBackend client(Duration callTimeout, UnaryOperator<Connection> wrapping) {
        return client(context(callTimeout), wrapping);
    }

    LockBackend client(BackendContext context, UnaryOperator<Connection> wrapping) {
        return opened(open(context, wrapping));
    }

    LockBackend open(BackendContext context, UnaryOperator<Connection> wrapping) {
        return TableBackend.open(dialect(context.callTimeout(), wrapping), context);
    }

    /** Closed at the end of the test. */
    LockBackend opened(LockBackend client) {
        open.add(client);
        return client;
    }

    static String owner() {
        return "test~" + OWNERS.incrementAndGet();
    }

    static Claim claim(String name) {
        return claim(name, LEASE);
    }

    static Claim claim(String name, Duration lease) {
        return Claim.of(name, owner(), lease);
    }

    static Attempt attempt(LockBackend client, Claim claim) {
        try {
            return client.acquire(claim, Duration.ZERO);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    static Optional<Grant> acquire(LockBackend client, Claim claim) {
        return attempt(client, claim).grant();
    }

    /** The grant of a claim that must get it. */
    static Grant granted(LockBackend client, Claim claim) {
        return acquire(client, claim).orElseThrow(() -> new AssertionError("not granted: " + claim));
    }

    /** An administrator's connection. */
    Connection sql() throws SQLException {
        Connection connection = admin();
        open.add(connection);
        return connection;
    }

    /** An administrator's connection, for who closes it. */
    Connection admin() throws SQLException {
        return DriverManager.getConnection(adminUrl());
    }

    int change(String sql, Object... parameters) throws SQLException {
        try (Connection connection = admin();
                PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i++) {
                statement.setObject(i + 1, parameters[i]);
            }
            return statement.executeUpdate();
        }
    }

    long number(String sql) throws SQLException {
        try (Connection connection = admin();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            if (!rows.next()) {
                throw new AssertionError("no row: " + sql);
            }
            return rows.getLong(1);
        }
    }

    /** Ends the lease now, as a step of the clock or an administrator would. */
    void expire(String name) throws SQLException {
        change("UPDATE mortise_lock SET until_ms = 1 WHERE name = ?", Names.encode(name));
    }

    interface Observer {
        void executes(String sql) throws SQLException;
    }

    /** A connection that tells of every prepared statement before it runs; the observer may throw instead. */
    static Connection observed(Connection connection, Observer observer) {
        return wrapped(connection, sql -> {
            observer.executes(sql);
            return false;
        });
    }

    /** A connection that runs a statement, commits it, and then fails instead of answering, where {@code loses} says. */
    static Connection losing(Connection connection, Predicate<String> loses) {
        return wrapped(connection, loses::test);
    }

    /** A connection that prepares other statements than it is asked for. */
    static Connection rewriting(Connection connection, UnaryOperator<String> rewritten) {
        return proxy(Connection.class, (method, arguments) -> {
            if (method.getName().equals("prepareStatement")) {
                arguments[0] = rewritten.apply((String) arguments[0]);
            }
            return method.invoke(connection, arguments);
        });
    }

    private interface Loses {
        boolean test(String sql) throws SQLException;
    }

    private static Connection wrapped(Connection connection, Loses loses) {
        return proxy(Connection.class, (method, arguments) -> {
            Object result = method.invoke(connection, arguments);
            if (!(result instanceof PreparedStatement statement)) {
                return result;
            }
            String sql = (String) arguments[0];
            return proxy(PreparedStatement.class, (m, args) -> {
                boolean runs = m.getName().equals("executeQuery") || m.getName().equals("execute");
                boolean lost = runs && loses.test(sql);
                Object answer = m.invoke(statement, args);
                if (lost && m.getName().equals("execute")) {
                    // All of it was read.
                    throw new SQLException("disk I/O error, says the test", null, 10);
                }
                if (lost) {
                    try (ResultSet rows = (ResultSet) answer) {
                        while (rows.next()) {
                            // To the end, where it commits.
                        }
                    }
                    throw new SQLException("disk I/O error, says the test", null, 10);
                }
                return answer;
            });
        });
    }

    private interface Invocation {
        Object invoke(Method method, Object[] arguments) throws Throwable;
    }

    private static <T> T proxy(Class<T> type, Invocation invocation) {
        return type.cast(Proxy.newProxyInstance(
                TestStore.class.getClassLoader(), new Class<?>[] {type}, (self, method, args) -> {
                    try {
                        return invocation.invoke(method, args);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                }));
    }

    @Override
    public void close() throws Exception {
        for (AutoCloseable each : open) {
            each.close();
        }
    }
}
