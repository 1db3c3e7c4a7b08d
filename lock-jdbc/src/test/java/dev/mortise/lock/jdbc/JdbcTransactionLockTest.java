package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** The lock in the caller's transaction, on each database that has it, under the isolation that it has by default. */
@ParameterizedClass
@EnumSource(TransactionDatabase.Kind.class)
class JdbcTransactionLockTest {
    private static final Duration ONCE = Duration.ZERO;
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final int ROUNDS = TestStore.times(4, 12);

    @Parameter
    TransactionDatabase.Kind kind;

    private final JdbcTransactionLock lock = new JdbcTransactionLock();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Connection> open = Collections.synchronizedList(new ArrayList<>());
    private TransactionDatabase database;

    @BeforeEach
    void open() throws SQLException {
        database = kind.open();
    }

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        for (Connection each : open) {
            try {
                each.close();
            } catch (SQLException e) {
                // Of a test that has broken it.
            }
        }
        assertThat(threads.awaitTermination(60, TimeUnit.SECONDS)).isTrue();
        database.close();
    }

    private Connection begin() throws SQLException {
        Connection connection = database.connect();
        open.add(connection);
        connection.setAutoCommit(false);
        return connection;
    }

    private Connection begin(int isolation) throws SQLException {
        Connection connection = begin();
        connection.setTransactionIsolation(isolation);
        return connection;
    }

    private static void execute(Connection c, String sql) throws SQLException {
        try (Statement statement = c.createStatement()) {
            statement.execute(sql);
        }
    }

    static String text(Connection c, String sql) throws SQLException {
        try (Statement statement = c.createStatement();
                ResultSet row = statement.executeQuery(sql)) {
            return row.next() ? row.getString(1) : null;
        }
    }

    private static int number(Connection c, String sql) throws SQLException {
        return Integer.parseInt(String.valueOf(text(c, sql)));
    }

    private boolean isFree(String name) throws Exception {
        try (Connection c = begin()) {
            boolean free = lock.tryAcquire(c, name, ONCE);
            c.rollback();
            return free;
        }
    }

    /** Until somebody waits for a lock inside of the server. */
    private void awaitWaiters(int count) {
        await().until(() -> database.waiters() >= count);
    }

    private List<Future<?>> start(int count, Callable<?> work) {
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            all.add(threads.submit(work));
        }
        return all;
    }

    private static void join(List<Future<?>> all) throws Exception {
        for (Future<?> each : all) {
            each.get(120, TimeUnit.SECONDS);
        }
    }

    /** What is read under the lock is what the holder before has committed, and nobody else is in. */
    @Test
    void excludesUnderLoad() throws Exception {
        database.execute("CREATE TABLE counter (n INT)", "INSERT INTO counter VALUES (0)");
        AtomicInteger inside = new AtomicInteger();
        join(start(8, () -> {
            try (Connection c = begin()) {
                for (int i = 0; i < 10; i++) {
                    lock.acquire(c, "counter");
                    assertThat(inside.incrementAndGet()).isEqualTo(1);
                    int n = number(c, "SELECT n FROM counter");
                    execute(c, "UPDATE counter SET n = " + (n + 1));
                    inside.decrementAndGet();
                    if (i % 5 == 4) {
                        c.rollback();
                    } else {
                        c.commit();
                    }
                }
            }
            return null;
        }));
        try (Connection c = begin()) {
            assertThat(number(c, "SELECT n FROM counter")).isEqualTo(8 * 8);
        }
    }

    /** Held until the very commit, rollback or end of the session, whatever else happens in between. */
    @Test
    void endsWithTheTransaction() throws Exception {
        try (Connection c = begin()) {
            for (int i = 0; i < 2; i++) {
                assertThat(lock.tryAcquire(c, "a", ONCE)).isTrue();
                assertThat(isFree("a")).isFalse();
                Savepoint savepoint = c.setSavepoint();
                number(c, "SELECT 1");
                c.rollback(savepoint);
                assertThat(isFree("a")).isFalse();
                c.commit();
                assertThat(isFree("a")).isTrue();
                lock.acquire(c, "a");
                c.rollback();
                assertThat(isFree("a")).isTrue();
            }
            lock.acquire(c, "a");
        }
        // Closed in the middle, which the server may notice a little later.
        await().until(() -> isFree("a"));
    }

    /** A session that is lost loses what was written under the lock with it; the next one sees all or nothing. */
    @Test
    void aLostSessionLosesItsWrites() throws Exception {
        database.execute("CREATE TABLE counter (n INT)", "INSERT INTO counter VALUES (0)");
        try (Connection c = begin()) {
            lock.acquire(c, "counter");
            execute(c, "UPDATE counter SET n = 1");
            try (Connection next = begin()) {
                Future<Boolean> waits = threads.submit(() -> lock.tryAcquire(next, "counter", LONG));
                awaitWaiters(1);
                database.kill(c);
                assertThat(waits.get(60, TimeUnit.SECONDS)).isTrue();
                assertThat(number(next, "SELECT n FROM counter")).isZero();
                execute(next, "UPDATE counter SET n = n + 10");
                next.commit();
                assertThatThrownBy(() -> execute(c, "UPDATE counter SET n = 2")).isInstanceOf(SQLException.class);
                assertThat(number(next, "SELECT n FROM counter")).isEqualTo(10);
                next.rollback();
            }
        }
    }

    /** Sixteen start at once with a name that was never locked: one gets it, and the others are told so, without an error. */
    @Test
    void oneOfMany() throws Exception {
        int starters = 16;
        CyclicBarrier barrier = new CyclicBarrier(starters);
        AtomicInteger winners = new AtomicInteger();
        List<Integer> rounds = Collections.synchronizedList(new ArrayList<>());
        join(start(starters, () -> {
            try (Connection c = begin()) {
                for (int round = 0; round < ROUNDS; round++) {
                    barrier.await(60, TimeUnit.SECONDS);
                    if (lock.tryAcquire(c, "new-" + round, ONCE)) {
                        winners.incrementAndGet();
                    }
                    if (barrier.await(60, TimeUnit.SECONDS) == 0) {
                        rounds.add(winners.getAndSet(0));
                    }
                    // Who made the row undoes it every other time.
                    if (round % 2 == 0) {
                        c.commit();
                    } else {
                        c.rollback();
                    }
                }
            }
            return null;
        }));
        assertThat(rounds).hasSize(ROUNDS).containsOnly(1);
    }

    /**
     * Sixteen wait for a name that was never locked, and many of those who get it roll back, so that the row comes and goes
     * under those who wait: all get it, one after the other, without a deadlock to be seen (RT-07).
     */
    @Test
    void allOfMany() throws Exception {
        int starters = 16;
        CyclicBarrier barrier = new CyclicBarrier(starters);
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger got = new AtomicInteger();
        join(start(starters, () -> {
            try (Connection c = begin()) {
                for (int round = 0; round < ROUNDS; round++) {
                    int place = barrier.await(60, TimeUnit.SECONDS);
                    lock.acquire(c, "new-" + round);
                    got.incrementAndGet();
                    assertThat(inside.incrementAndGet()).isEqualTo(1);
                    if (place % 4 != 0) {
                        inside.decrementAndGet();
                        c.rollback();
                    } else {
                        inside.decrementAndGet();
                        c.commit();
                    }
                }
            }
            return null;
        }));
        assertThat(got.get()).isEqualTo(16 * ROUNDS);
    }

    /** Not shorter than the patience, and then the transaction is as before; in time if the lock comes free. */
    @Test
    void patience() throws Exception {
        for (boolean known : new boolean[] {false, true}) {
            String name = "known " + known;
            if (known) {
                assertThat(isFree(name)).isTrue();
                try (Connection c = begin()) {
                    lock.acquire(c, name);
                    c.commit();
                }
            }
            try (Connection holder = begin();
                    Connection c = begin()) {
                lock.acquire(holder, name);
                for (Duration patience :
                        List.of(ONCE, Duration.ofNanos(1), Duration.ofMillis(150), Duration.ofMillis(700))) {
                    long start = System.nanoTime();
                    assertThat(lock.tryAcquire(c, name, patience))
                            .as("after %s", patience)
                            .isFalse();
                    assertThat(System.nanoTime() - start).isGreaterThanOrEqualTo(patience.toNanos());
                }
                Future<Boolean> waits = threads.submit(() -> lock.tryAcquire(c, name, LONG));
                awaitWaiters(1);
                holder.commit();
                assertThat(waits.get(60, TimeUnit.SECONDS)).isTrue();
                assertThat(isFree(name)).isFalse();
                c.rollback();
            }
        }
    }

    /** A wait that lasts longer than the slices in which it is done. */
    @Test
    void longWait() throws Exception {
        try (Connection holder = begin();
                Connection c = begin()) {
            lock.acquire(holder, "long");
            long start = System.nanoTime();
            Future<?> waits = threads.submit(() -> {
                lock.acquire(c, "long");
                return null;
            });
            await().until(() -> System.nanoTime() - start > TimeUnit.MILLISECONDS.toNanos(2600));
            assertThat(waits).isNotDone();
            holder.rollback();
            waits.get(60, TimeUnit.SECONDS);
            assertThat(isFree("long")).isFalse();
        }
    }

    /** The caller's own limits do not end the wait, and are the caller's again, whether it got the lock or not (PG-12). */
    @Test
    void settingsAreGivenBack() throws Exception {
        try (Connection holder = begin();
                Connection c = begin()) {
            for (String setting : database.settings()) {
                execute(c, "SET " + setting);
            }
            c.commit();
            List<String> before = database.shown(c);
            c.commit();
            lock.acquire(holder, "a");
            assertThat(lock.tryAcquire(c, "a", Duration.ofMillis(120))).isFalse();
            assertThat(database.shown(c)).isEqualTo(before);
            c.rollback();
            long start = System.nanoTime();
            Future<Boolean> waits = threads.submit(() -> lock.tryAcquire(c, "a", LONG));
            // Longer than those limits.
            await().until(() -> System.nanoTime() - start > TimeUnit.MILLISECONDS.toNanos(1400));
            assertThat(waits).isNotDone();
            holder.commit();
            assertThat(waits.get(60, TimeUnit.SECONDS)).isTrue();
            assertThat(database.shown(c)).isEqualTo(before);
            c.commit();
            assertThat(database.shown(c)).isEqualTo(before);
        }
    }

    /** What the transaction did before a try that failed is still there, and is committed. */
    @Test
    void aFailedTryUndoesNothing() throws Exception {
        database.execute("CREATE TABLE counter (n INT)");
        try (Connection holder = begin();
                Connection c = begin(Connection.TRANSACTION_READ_COMMITTED)) {
            lock.acquire(holder, "a");
            lock.acquire(c, "b");
            execute(c, "INSERT INTO counter VALUES (1)");
            assertThat(lock.tryAcquire(c, "a", ONCE)).isFalse();
            assertThat(lock.tryAcquire(c, "a", Duration.ofMillis(100))).isFalse();
            execute(c, "INSERT INTO counter VALUES (2)");
            assertThat(isFree("b")).isFalse();
            c.commit();
            assertThat(number(c, "SELECT count(*) FROM counter")).isEqualTo(2);
        }
    }

    /** Different names do not wait for each other, also such as differ in case only, and new ones between others (MY-gap). */
    @Test
    void namesAreApart() throws Exception {
        List<String> names = List.of(
                "m",
                "a",
                "A",
                "a ",
                " a",
                "a\0",
                "aa",
                "\ud83d\ude00",
                "%20",
                "'; DROP TABLE x; --",
                "z",
                "n".repeat(512),
                "\u00fc".repeat(256),
                "b",
                "y");
        for (int i = 0; i < 2; i++) {
            List<Connection> holders = new ArrayList<>();
            for (String name : names) {
                Connection c = begin();
                holders.add(c);
                assertThat(lock.tryAcquire(c, name, ONCE)).as(name).isTrue();
                assertThat(isFree(name)).as(name).isFalse();
            }
            for (Connection each : holders) {
                each.commit();
                each.close();
            }
        }
    }

    /** A transaction may have several locks, and ask for one that it has; all end with it. */
    @Test
    void severalInOneTransaction() throws Exception {
        try (Connection c = begin(Connection.TRANSACTION_READ_COMMITTED)) {
            for (String name : List.of("a", "b", "a", "a", "c")) {
                assertThat(lock.tryAcquire(c, name, ONCE)).as(name).isTrue();
            }
            for (String name : List.of("a", "b", "c")) {
                assertThat(isFree(name)).as(name).isFalse();
            }
            c.commit();
            for (String name : List.of("a", "b", "c")) {
                assertThat(isFree(name)).as(name).isTrue();
            }
        }
    }

    /** Two in different order: the database ends one of them, and neither waits for ever. On H2 the patience does. */
    @Test
    void deadlock() throws Exception {
        Duration patience = kind == TransactionDatabase.Kind.H2 ? Duration.ofMillis(300) : Duration.ofDays(1);
        CyclicBarrier both = new CyclicBarrier(2);
        AtomicInteger failures = new AtomicInteger();
        List<Future<?>> all = new ArrayList<>();
        for (List<String> names : List.of(List.of("a", "b"), List.of("b", "a"))) {
            all.add(threads.submit(() -> {
                try (Connection c = begin(Connection.TRANSACTION_READ_COMMITTED)) {
                    lock.acquire(c, names.get(0));
                    both.await(60, TimeUnit.SECONDS);
                    try {
                        if (!lock.tryAcquire(c, names.get(1), patience)) {
                            failures.incrementAndGet();
                        }
                        c.commit();
                    } catch (SQLException e) {
                        assertThat(e.getSQLState()).startsWith("40");
                        failures.incrementAndGet();
                        c.rollback();
                    }
                }
                return null;
            }));
        }
        join(all);
        assertThat(failures.get()).isGreaterThanOrEqualTo(1);
        assertThat(isFree("a")).isTrue();
        assertThat(isFree("b")).isTrue();
    }

    /** An interrupt ends the wait, leaves no trace in the transaction, and nobody in the queue. */
    @Test
    void interrupt() throws Exception {
        try (Connection holder = begin();
                Connection c = begin()) {
            lock.acquire(holder, "a");
            CountDownLatch told = new CountDownLatch(1);
            Thread waiter = new Thread(() -> {
                try {
                    lock.acquire(c, "a");
                } catch (InterruptedException e) {
                    told.countDown();
                } catch (SQLException e) {
                    throw new AssertionError(e);
                }
            });
            waiter.start();
            awaitWaiters(1);
            waiter.interrupt();
            assertThat(told.await(60, TimeUnit.SECONDS)).isTrue();
            waiter.join();
            assertThat(number(c, "SELECT 1")).isEqualTo(1);
            holder.commit();
            assertThat(isFree("a")).isTrue();
            c.rollback();
            // One who comes interrupted, and need not wait, gets it; one who must wait does not begin to.
            Thread.currentThread().interrupt();
            assertThat(lock.tryAcquire(c, "a", LONG)).isTrue();
            holder.rollback();
            assertThat(Thread.currentThread().isInterrupted()).isTrue();
            assertThatThrownBy(() -> lock.tryAcquire(holder, "a", LONG)).isInstanceOf(InterruptedException.class);
            assertThat(Thread.interrupted()).isFalse();
        }
    }

    /** Nothing reaches the database. */
    @Test
    void badInput() throws Exception {
        try (Connection c = begin()) {
            assertThatThrownBy(() -> lock.tryAcquire(c, "", ONCE)).isInstanceOf(IllegalArgumentException.class);
            assertThatThrownBy(() -> lock.tryAcquire(c, "n".repeat(513), ONCE))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("name");
            assertThatThrownBy(() -> lock.acquire(c, "\ud800")).isInstanceOf(IllegalArgumentException.class);
            assertThatThrownBy(() -> lock.tryAcquire(c, "a", Duration.ofNanos(-1)))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("patience")
                    .hasMessageContaining("PT-0.000000001S");
            c.setAutoCommit(true);
            assertThatThrownBy(() -> lock.tryAcquire(c, "a", ONCE))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("auto-commit");
            assertThat(isFree("a")).isTrue();
        }
    }

    /** Under each isolation what is read after the lock is what was committed before it; else there is no lock. */
    @Test
    void isolations() throws Exception {
        database.execute("CREATE TABLE counter (n INT)", "INSERT INTO counter VALUES (0)");
        int value = 0;
        for (int isolation : List.of(
                Connection.TRANSACTION_READ_COMMITTED,
                Connection.TRANSACTION_REPEATABLE_READ,
                Connection.TRANSACTION_SERIALIZABLE)) {
            for (boolean readsBefore : new boolean[] {false, true}) {
                try (Connection holder = begin();
                        Connection c = begin(isolation)) {
                    if (readsBefore) {
                        // Not the row that the holder changes, which SERIALIZABLE may lock.
                        number(c, "SELECT count(*) FROM " + database.another());
                    }
                    lock.acquire(holder, "a");
                    if (!kind.serves(isolation, readsBefore)) {
                        assertThatThrownBy(() -> lock.tryAcquire(c, "b", ONCE))
                                .isInstanceOf(IllegalStateException.class)
                                .hasMessageContaining("isolation")
                                .hasMessageContaining("TRANSACTION_READ_COMMITTED");
                        assertThat(isFree("b")).isTrue();
                        continue;
                    }
                    Future<Boolean> waits = threads.submit(() -> lock.tryAcquire(c, "a", LONG));
                    awaitWaiters(1);
                    execute(holder, "UPDATE counter SET n = " + ++value);
                    holder.commit();
                    assertThat(waits.get(60, TimeUnit.SECONDS)).isTrue();
                    assertThat(number(c, "SELECT n FROM counter")).isEqualTo(value);
                    c.commit();
                }
            }
        }
    }

    /** As the documents say: where a savepoint was set before the lock, and where a statement commits. */
    @Test
    void whatElseEndsIt() throws Exception {
        try (Connection c = begin()) {
            Savepoint before = c.setSavepoint();
            lock.acquire(c, "a");
            c.rollback(before);
            assertThat(isFree("a")).isTrue();
            c.rollback();
            lock.acquire(c, "a");
            execute(c, "CREATE TABLE t (n INT)");
            assertThat(isFree("a")).isEqualTo(kind != TransactionDatabase.Kind.POSTGRESQL);
            c.rollback();
        }
    }

    /** Where it needs a table: the message says which statement makes it, and the transaction goes on. */
    @Test
    void withoutTheTable() throws Exception {
        try (Connection c = begin()) {
            if (kind == TransactionDatabase.Kind.POSTGRESQL) {
                assertThat(text(c, "SELECT to_regclass('mortise_transaction_lock')"))
                        .isNull();
                assertThat(lock.tryAcquire(c, "a", ONCE)).isTrue();
                return;
            }
            database.execute("DROP TABLE mortise_transaction_lock");
            for (Duration patience : List.of(ONCE, LONG)) {
                assertThatThrownBy(() -> lock.tryAcquire(c, "a", patience))
                        .isInstanceOf(SQLException.class)
                        .hasMessageContaining("mortise_transaction_lock is not there")
                        .hasMessageContaining(".sql");
                assertThat(number(c, "SELECT 1")).isEqualTo(1);
                c.rollback();
            }
        }
    }

    /** One transaction may have the lock and pass the fence. */
    @Test
    void withTheFence() throws Exception {
        database.makeFence();
        JdbcFence fence = new JdbcFence();
        try (Connection c = begin(Connection.TRANSACTION_READ_COMMITTED)) {
            lock.acquire(c, "a");
            fence.check(c, "a", 5);
            c.commit();
            lock.acquire(c, "a");
            assertThatThrownBy(() -> fence.check(c, "a", 4)).isInstanceOf(StaleTokenException.class);
            c.rollback();
            assertThat(isFree("a")).isTrue();
        }
    }

    /**
     * The example of the documents: processes that start at once, each of which would bring the schema up to date. Every
     * step is done once, by one of them.
     */
    @Test
    void schemaMigration() throws Exception {
        database.execute(
                "CREATE TABLE schema_version (version INT)",
                "INSERT INTO schema_version VALUES (0)",
                "CREATE TABLE gate (n INT)");
        List<Child> children = new ArrayList<>();
        try {
            for (int i = 0; i < 3; i++) {
                children.add(Child.start(List.of(), Migration.class, database.url()));
            }
            for (Child child : children) {
                assertThat(child.line(60_000)).isEqualTo("READY");
            }
            database.execute("INSERT INTO gate VALUES (1)");
            List<String> done = new ArrayList<>();
            for (Child child : children) {
                done.addAll(child.rest());
            }
            List<String> expected = new ArrayList<>();
            for (int step = 1; step <= Migration.STEPS; step++) {
                expected.add("step " + step);
            }
            assertThat(done).containsExactlyInAnyOrderElementsOf(expected);
        } finally {
            children.forEach(Child::close);
        }
        try (Connection c = begin()) {
            assertThat(number(c, "SELECT version FROM schema_version")).isEqualTo(Migration.STEPS);
        }
    }

    /** One process of {@link #schemaMigration}: says which steps it has done. */
    static final class Migration {
        static final int STEPS = 12;

        private Migration() {}

        public static void main(String[] arguments) throws Exception {
            JdbcTransactionLock lock = new JdbcTransactionLock();
            try (Connection c = DriverManager.getConnection(arguments[0]);
                    Connection second = DriverManager.getConnection(arguments[0])) {
                boolean transactional = c.getMetaData().getDatabaseProductName().equals("PostgreSQL");
                System.out.println("READY");
                await().atMost(LONG)
                        .pollInterval(Duration.ofMillis(5))
                        .until(() -> number(second, "SELECT count(*) FROM gate") == 1);
                c.setAutoCommit(false);
                for (int step = 1; step <= STEPS; step++) {
                    lock.acquire(c, "schema of shop");
                    // Where CREATE TABLE commits, it must not be on the connection whose transaction has the lock.
                    Connection changes = transactional ? c : second;
                    if (number(changes, "SELECT version FROM schema_version") < step) {
                        execute(changes, "CREATE TABLE step_" + step + " (n INT)");
                        execute(changes, "UPDATE schema_version SET version = " + step);
                        System.out.println("step " + step);
                    }
                    c.commit();
                }
            }
        }
    }

    /** SQLite and what is none of these say so, and what to do instead. */
    @Test
    void otherDatabases() throws SQLException {
        try (Connection c = DriverManager.getConnection("jdbc:sqlite::memory:")) {
            c.setAutoCommit(false);
            assertThatThrownBy(() -> lock.tryAcquire(c, "a", ONCE))
                    .isInstanceOf(SQLFeatureNotSupportedException.class)
                    .hasMessageContaining("BEGIN IMMEDIATE");
        }
    }
}
