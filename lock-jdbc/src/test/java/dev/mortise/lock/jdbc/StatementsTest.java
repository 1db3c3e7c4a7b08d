package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What each operation costs, counted where the statements go into the driver; and how SQLite runs them. */
class StatementsTest {
    private final List<String> sent = new ArrayList<>();
    private SqliteStore store;
    private LockBackend client;

    @BeforeEach
    void open(@TempDir Path folder) {
        store = new SqliteStore(folder);
        client = store.client(CALL_TIMEOUT, connection -> TestStore.observed(connection, sent::add));
        sent.clear();
    }

    @AfterEach
    void close() throws Exception {
        store.close();
    }

    /** Acquire costs one statement for a name that is new, free, ended or the owner's own; so does release. */
    @Test
    void uncontended() throws Exception {
        Claim claim = claim("n");
        granted(client, claim);
        assertThat(sent).hasSize(1);
        granted(client, claim);
        assertThat(sent).hasSize(2);
        client.release(claim);
        assertThat(sent).hasSize(3);
        granted(client, claim("n"));
        assertThat(sent).hasSize(4);
        store.expire("n");
        Grant grant = granted(client, claim("n"));
        assertThat(sent).hasSize(5);
        client.adopt(grant, claim("n"));
        assertThat(sent).hasSize(6);
        client.holder("n");
        assertThat(sent).hasSize(7);
    }

    /** A thousand renewals are one statement; so few kinds of statement are prepared that they can all be kept. */
    @Test
    void renewals() {
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            grants.add(granted(client, claim("n" + i)));
        }
        sent.clear();
        assertThat(client.renew(grants).live()).hasSize(1000);
        assertThat(sent).hasSize(1);
        for (int i = 1; i < 1000; i += 37) {
            client.renew(grants.subList(0, i));
        }
        Set<String> kinds = new HashSet<>(sent);
        assertThat(kinds).hasSizeLessThanOrEqualTo(11);
        sent.clear();
        assertThat(client.renew(List.of()).live()).isEmpty();
        assertThat(sent).isEmpty();
    }

    /** Who polls a held lock reads, and writes nothing: no statement but SELECT, no byte in the log, no new version. */
    @Test
    void losersDoNotWrite() throws Exception {
        LockBackend holder = store.client();
        granted(holder, claim("n"));
        Claim loser = claim("n");
        assertThat(acquire(client, loser)).isEmpty();
        assertThat(sent).hasSize(2);
        sent.clear();
        try (Connection other = store.sql();
                Statement statement = other.createStatement()) {
            long version = version(statement);
            long log = Files.size(Path.of(store.file + "-wal"));
            for (int i = 0; i < 500; i++) {
                assertThat(acquire(client, i % 2 == 0 ? loser : claim("n"))).isEmpty();
            }
            assertThat(version(statement)).isEqualTo(version);
            assertThat(Files.size(Path.of(store.file + "-wal"))).isEqualTo(log);
        }
        assertThat(sent).hasSize(500).allMatch(sql -> sql.startsWith("SELECT"));
    }

    private static long version(Statement statement) throws Exception {
        try (ResultSet rows = statement.executeQuery("PRAGMA data_version")) {
            return rows.getLong(1);
        }
    }

    /** Once the lock is free the poller gets it with the same call, and forgets that it was held. */
    @Test
    void pollerWins() {
        Claim first = claim("n");
        LockBackend holder = store.client();
        granted(holder, first);
        assertThat(acquire(client, claim("n"))).isEmpty();
        holder.release(first);
        sent.clear();
        Claim claim = claim("n");
        granted(client, claim);
        assertThat(sent).hasSize(2);
        client.release(claim);
        sent.clear();
        granted(client, claim("n"));
        assertThat(sent).hasSize(1);
    }

    /** What is remembered of names does not grow with them (XB-01, XB-09). */
    @Test
    void nothingGrowsPerName() throws Exception {
        LockBackend holder = store.client();
        for (int i = 0; i < 1200; i++) {
            granted(holder, claim("n" + i));
            assertThat(acquire(client, claim("n" + i))).isEmpty();
        }
        assertThat(((TableBackend) client).remembered()).isEqualTo(1024);
        // The one seen last is known, the one forgotten costs the statement that loses without writing.
        sent.clear();
        acquire(client, claim("n1199"));
        assertThat(sent).hasSize(1);
        sent.clear();
        acquire(client, claim("n0"));
        assertThat(sent).hasSize(2);
    }

    static List<String> statements() {
        SqliteDialect dialect = new SqliteDialect(new SqliteStore(Path.of("x")).uri());
        return List.of(
                dialect.statements().acquire(),
                dialect.statements().look(),
                SqliteDialect.renew(1),
                SqliteDialect.renew(1024),
                dialect.statements().release(),
                dialect.statements().adopt(),
                dialect.statements().clamp());
    }

    /** No statement reads the whole table, with and without statistics. */
    @ParameterizedTest
    @MethodSource("statements")
    void rowsAreFoundByKey(String sql) throws Exception {
        try (Connection connection = store.sql();
                Statement statement = connection.createStatement()) {
            for (int i = 0; i < 2; i++) {
                try (ResultSet rows = statement.executeQuery("EXPLAIN QUERY PLAN " + sql)) {
                    while (rows.next()) {
                        assertThat(rows.getString(4)).doesNotContain("SCAN mortise_lock");
                    }
                }
                granted(client, claim("n" + i));
                statement.execute("ANALYZE");
            }
        }
    }

    /**
     * SQLite reads the clock after it has the write lock, not before it waits for it. Else a claim would be judged, and
     * its end be counted, by a moment before the claim of the one waited for. (We let SQLite not wait at all; this is
     * about statements that do.)
     */
    @Test
    void theClockIsReadUnderTheWriteLock() throws Exception {
        ExecutorService threads = Executors.newSingleThreadExecutor();
        try (Connection writer = store.sql();
                Connection waiter = store.sql();
                Statement lock = writer.createStatement();
                Statement wait = waiter.createStatement()) {
            wait.execute("PRAGMA busy_timeout = 20000");
            // Prepared before, as our statements are.
            PreparedStatement acquire = waiter.prepareStatement(
                    new SqliteDialect(store.uri()).statements().acquire());
            acquire.setString(1, "n");
            acquire.setString(2, "waiter~1");
            acquire.setLong(3, 30_000);
            lock.execute("BEGIN IMMEDIATE");
            Future<Boolean> future = threads.submit(() -> {
                try (ResultSet rows = acquire.executeQuery()) {
                    return rows.next() && !rows.next();
                }
            });
            long start = System.nanoTime();
            await().until(() -> System.nanoTime() - start > 1_200_000_000L);
            assertThat(future).isNotDone();
            long released = System.currentTimeMillis();
            lock.execute("COMMIT");
            assertThat(future.get(20, TimeUnit.SECONDS)).isTrue();
            assertThat(store.number("SELECT until_ms - lease_ms - 1 FROM mortise_lock"))
                    .isBetween(released, System.currentTimeMillis());
            assertThat(store.number("SELECT token / 1000 FROM mortise_lock"))
                    .isBetween(released, System.currentTimeMillis());
        } finally {
            threads.shutdownNow();
        }
    }
}
