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
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** What steps of the database's clock do. */
@ParameterizedClass
@EnumSource(TestStore.Kind.class)
class ClockTest {
    @Parameter
    TestStore.Kind kind;

    private static final long YEAR = Duration.ofDays(365).toMillis();

    private TestStore store;
    private LockBackend a;
    private LockBackend b;

    @BeforeEach
    void open(@TempDir Path folder) {
        store = kind.open(folder);
        a = store.client();
        b = store.client();
    }

    @AfterEach
    void close() throws Exception {
        store.close();
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
        granted(a, claim("n", a.guarantees().longestLease()));
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
        assertThat(a.release(first.claim())).isFalse();
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
        return store.number("SELECT until_ms - (" + store.now() + ") FROM mortise_lock");
    }
}
