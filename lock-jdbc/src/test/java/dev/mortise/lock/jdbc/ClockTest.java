package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.attempt;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The database's clock: when a statement reads it, and what its steps do. */
class ClockTest {
    private static final long YEAR = Duration.ofDays(365).toMillis();

    private TestStore store;
    private LockBackend a;
    private LockBackend b;

    @BeforeEach
    void open(@TempDir Path folder) {
        store = new TestStore(folder);
        a = store.client();
        b = store.client();
    }

    @AfterEach
    void close() throws Exception {
        store.close();
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
            PreparedStatement acquire = waiter.prepareStatement(new SqliteDialect(store.uri()).acquire());
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

    /** The clock was set back by a year after a grant: losers cut the row to one lease, and the lock comes free. */
    @Test
    void setBack() throws Exception {
        Grant grant = granted(a, claim("n", Duration.ofMillis(400)));
        store.change("UPDATE mortise_lock SET until_ms = until_ms + ?", YEAR);
        Duration rest = attempt(b, claim("n")).rest().orElseThrow();
        assertThat(rest).isLessThanOrEqualTo(Duration.ofMillis(401));
        assertThat(left()).isLessThanOrEqualTo(401);
        // By the ticker the holder's lease is over before anybody gets in.
        Claim next = claim("n");
        await().pollInterval(Duration.ofMillis(5)).until(() -> acquire(b, next).isPresent());
        assertThat(System.nanoTime() - grant.since()).isGreaterThanOrEqualTo(400_000_000L);
        assertThat(a.renew(List.of(grant)).ended()).hasSize(1);
    }

    /** The same, while the holder lives: his renewals go on, and nobody gets in. */
    @Test
    void setBackUnderALiveHolder() throws Exception {
        Grant grant = granted(a, claim("n", Duration.ofMillis(500)));
        store.change("UPDATE mortise_lock SET until_ms = until_ms + ?", YEAR);
        for (int i = 0; i < 30; i++) {
            assertThat(acquire(b, claim("n"))).isEmpty();
            assertThat(a.renew(List.of(grant)).live()).hasSize(1);
            assertThat(left()).isLessThanOrEqualTo(501);
        }
    }

    /** A claim with the longest lease is not cut by a loser: only what lies more than one lease ahead is. */
    @Test
    void liveRowsAreNotCut() throws Exception {
        granted(a, claim("n", Duration.ofDays(365)));
        long until = store.number("SELECT until_ms FROM mortise_lock");
        for (int i = 0; i < 50; i++) {
            assertThat(acquire(b, claim("n"))).isEmpty();
        }
        assertThat(store.number("SELECT until_ms FROM mortise_lock")).isEqualTo(until);
    }

    /** Set forward: leases end early, which is declared; tokens still grow, and grow after it is set back again. */
    @Test
    void setForwardAndBack() throws Exception {
        Grant first = granted(a, claim("n"));
        // Seen from a clock a year ahead, the row ended a year ago; what that clock then wrote has its tokens.
        store.change("UPDATE mortise_lock SET until_ms = until_ms - ?", YEAR);
        Grant second = granted(b, claim("n"));
        store.change("UPDATE mortise_lock SET token = token + ?, until_ms = until_ms + ?", YEAR * 1000, YEAR);
        long ahead = store.number("SELECT token FROM mortise_lock");
        assertThat(second.token()).isGreaterThan(first.token());
        assertThat(b.release(second.claim())).isTrue();
        assertThat(granted(a, claim("n")).token()).isEqualTo(ahead + 1);
    }

    /** A row from a backup ends by the clock: nothing needs to be repaired by hand (RT-11). */
    @Test
    void restoredRowsEnd() throws Exception {
        granted(a, claim("n"));
        store.change(
                "UPDATE mortise_lock SET until_ms = until_ms - ?",
                Duration.ofHours(1).toMillis());
        granted(b, claim("n"));
    }

    private long left() throws SQLException {
        return store.number("SELECT until_ms - CAST(round(unixepoch('subsec') * 1000) AS INTEGER) FROM mortise_lock");
    }
}
