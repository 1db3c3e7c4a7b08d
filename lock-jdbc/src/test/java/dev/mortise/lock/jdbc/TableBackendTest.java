package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.LEASE;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.attempt;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.text.Normalizer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The contract of LockBackend, sentence by sentence. */
@ParameterizedClass
@EnumSource(value = TestStore.Kind.class, mode = EnumSource.Mode.MATCH_NONE, names = ".*ADVISORY")
class TableBackendTest {
    @Parameter
    TestStore.Kind kind;

    private static final String NAME = "invoice-42";

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

    // ---- acquire

    /** One claim of a name is live at a time, also between two clients. */
    @Test
    void excludes() {
        granted(a, claim(NAME));
        assertThat(acquire(a, claim(NAME))).isEmpty();
        assertThat(acquire(b, claim(NAME))).isEmpty();
    }

    /** A refusal names a pause, and what is left of the holder's lease, not of the loser's own. */
    @Test
    void refusalTellsTheHoldersRest() {
        granted(a, claim(NAME, Duration.ofSeconds(30)));
        Attempt attempt = attempt(b, claim(NAME, Duration.ofSeconds(2)));
        assertThat(attempt.pause()).isPositive();
        assertThat(attempt.rest().orElseThrow()).isBetween(Duration.ofSeconds(25), Duration.ofMillis(30_001));
    }

    /** A contender with a short lease does not steal from a holder with a long one (RT-15). */
    @Test
    void expiryIsTheHolders() {
        granted(a, claim(NAME, Duration.ofSeconds(30)));
        Claim shortOne = claim(NAME, Duration.ofMillis(100));
        for (int i = 0; i < 100; i++) {
            assertThat(acquire(b, shortOne)).isEmpty();
        }
    }

    /** Held means that nothing of this owner is left. */
    @Test
    void refusalLeavesNothing() throws SQLException {
        granted(a, claim(NAME));
        Claim loser = claim(NAME);
        assertThat(acquire(b, loser)).isEmpty();
        assertThat(store.number("SELECT count(*) FROM mortise_lock WHERE owner = '" + loser.owner() + "'"))
                .isZero();
        assertThat(b.release(loser)).isFalse();
    }

    /** The lease is granted as asked, from a reading of the ticker before the send. */
    @Test
    void sinceIsBeforeTheSend() {
        AtomicLong ticker = new AtomicLong();
        LockBackend c = store.client(
                BackendContext.of(ticker::incrementAndGet, Duration.ofSeconds(3)), connection -> connection);
        long before = ticker.get();
        Grant grant = granted(c, claim(NAME));
        assertThat(grant.since()).isBetween(before, ticker.get());
        assertThat(grant.lease()).isEqualTo(LEASE);
        long later = ticker.get();
        assertThat(c.renew(List.of(grant)).live().get(0).since()).isGreaterThan(later - 1);
    }

    /** The claim lives for its whole lease from since, to the millisecond, and ends within freedWithin. */
    @ParameterizedTest
    @ValueSource(longs = {100, 101, 250, 999})
    void endsByItselfAndNotBefore(long millis) {
        Duration lease = Duration.ofMillis(millis);
        for (int i = 0; i < 3; i++) {
            String name = NAME + "-" + i;
            Grant grant = granted(a, claim(name, lease));
            long arrived = System.nanoTime();
            Claim next = claim(name, lease);
            while (acquire(b, next).isEmpty()) {
                Thread.onSpinWait();
            }
            long granted = System.nanoTime();
            assertThat(granted - grant.since()).isGreaterThanOrEqualTo(lease.toNanos());
            // Ten times the declared lag: this machine has other work.
            assertThat(granted - arrived)
                    .isLessThan(
                            a.guarantees().freedWithin(lease).plusMillis(450).toNanos());
        }
    }

    /** Sent again for a live owner: the same token, and the full lease from that call. */
    @Test
    void sentAgainIsTheSameGrant() {
        Claim claim = claim(NAME, Duration.ofSeconds(3));
        Grant first = granted(a, claim);
        await().until(() -> a.holder(NAME).orElseThrow().rest().compareTo(Duration.ofMillis(2_700)) < 0);
        Grant second = granted(b, claim);
        assertThat(second.token()).isEqualTo(first.token());
        assertThat(second.since()).isGreaterThan(first.since());
        assertThat(a.holder(NAME).orElseThrow().rest()).isGreaterThan(Duration.ofMillis(2_700));
    }

    /** Sent again with another lease: that one counts from then on. */
    @Test
    void sentAgainTakesTheNewLease() {
        Claim claim = claim(NAME, Duration.ofSeconds(3));
        granted(a, claim);
        Grant longer = granted(a, Claim.of(NAME, claim.owner(), Duration.ofSeconds(60)));
        assertThat(a.renew(List.of(longer)).live().get(0).lease()).isEqualTo(Duration.ofSeconds(60));
    }

    /** An owner whose claim has ended gets a new grant with a new token, not the old one back. */
    @Test
    void endedOwnerGetsANewToken() throws SQLException {
        Claim claim = claim(NAME);
        Grant first = granted(a, claim);
        store.expire(NAME);
        Grant second = granted(a, claim);
        assertThat(second.token()).isGreaterThan(first.token());
        assertThat(a.renew(List.of(first)).ended()).containsExactly(first);
        assertThat(a.renew(List.of(second)).live()).hasSize(1);
    }

    /** The answer got lost on the way: asked again, the store gives the same grant, also to one who polled before. */
    @Test
    void lostReplyIsAskedForAgain() throws SQLException {
        List<String> script = new ArrayList<>();
        LockBackend c = store.client(Duration.ofSeconds(3), connection -> losing(connection, script));
        Grant holder = granted(a, claim(NAME));
        Claim claim = claim(NAME);
        assertThat(acquire(c, claim)).isEmpty();
        a.release(holder.claim());
        script.add("INSERT");
        assertThatThrownBy(() -> acquire(c, claim))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isTrue());
        long token = store.number("SELECT token FROM mortise_lock WHERE owner = '" + claim.owner() + "'");
        assertThat(granted(c, claim).token()).isEqualTo(token);
        assertThat(c.release(claim)).isTrue();
    }

    /** The reply of a release got lost: asked again, it says that it ended nothing; the lock is free. */
    @Test
    void lostReplyOfRelease() {
        List<String> script = new ArrayList<>();
        LockBackend c = store.client(Duration.ofSeconds(3), connection -> losing(connection, script));
        Claim claim = claim(NAME);
        granted(c, claim);
        script.add("owner = NULL");
        assertThatThrownBy(() -> c.release(claim)).isInstanceOf(LockStoreException.class);
        assertThat(c.release(claim)).isFalse();
        granted(b, claim(NAME));
    }

    /** The reply of a renewal got lost: nothing is known, the claim lives, and the next renewal says so. */
    @Test
    void lostReplyOfRenew() {
        List<String> script = new ArrayList<>();
        LockBackend c = store.client(Duration.ofSeconds(3), connection -> losing(connection, script));
        Grant grant = granted(c, claim(NAME));
        script.add("until_ms = ");
        assertThatThrownBy(() -> c.renew(List.of(grant))).isInstanceOf(LockStoreException.class);
        assertThat(c.renew(List.of(grant)).live()).hasSize(1);
    }

    /** The reply of an adopt got lost: the same heir again gets the token that he has. */
    @Test
    void lostReplyOfAdopt() throws SQLException {
        List<String> script = new ArrayList<>();
        LockBackend c = store.client(Duration.ofSeconds(3), connection -> losing(connection, script));
        Grant held = granted(c, claim(NAME));
        Claim heir = claim(NAME);
        script.add("token = ");
        assertThatThrownBy(() -> c.adopt(held, heir)).isInstanceOf(LockStoreException.class);
        long token = store.number("SELECT token FROM mortise_lock");
        assertThat(c.adopt(held, heir).orElseThrow().token()).isEqualTo(token).isGreaterThan(held.token());
    }

    /** Runs the statement, and then says that the disk failed, once for each word in the script. */
    private static Connection losing(Connection connection, List<String> script) {
        return TestStore.losing(connection, sql -> script.removeIf(sql::contains));
    }

    /** A short lease is raised to the shortest, a fraction of a millisecond rounded up. */
    @Test
    void leasesAreRoundedUp() {
        assertThat(granted(a, claim("x", Duration.ofMillis(1))).lease()).isEqualTo(Duration.ofMillis(100));
        assertThat(granted(a, claim("y", Duration.ofNanos(200_000_001))).lease())
                .isEqualTo(Duration.ofMillis(201));
        assertThat(granted(a, claim("z", Duration.ofDays(365))).lease()).isEqualTo(Duration.ofDays(365));
    }

    /** A lease beyond the longest is refused before any I/O, however large. */
    @Test
    void tooLongLeasesAreRefused() {
        a.close();
        for (Duration lease : List.of(Duration.ofDays(365).plusNanos(1), Duration.ofSeconds(Long.MAX_VALUE))) {
            assertThatThrownBy(() -> a.acquire(claim(NAME, lease), Duration.ZERO))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("lease");
        }
    }

    /** Patience "for ever" does not overflow, and this store does not wait for a release with it. */
    @Test
    void endlessPatienceIsAnsweredAtOnce() throws InterruptedException {
        granted(a, claim(NAME));
        long start = System.nanoTime();
        assertThat(b.acquire(claim(NAME), Duration.ofSeconds(Long.MAX_VALUE)).grant())
                .isEmpty();
        assertThat(b.acquire(claim(NAME), Duration.ofSeconds(Long.MAX_VALUE)).grant())
                .isEmpty();
        assertThat(System.nanoTime() - start).isLessThan(Duration.ofSeconds(3).toNanos());
    }

    // ---- tokens

    /** Tokens grow from grant to grant, whatever ended the one before. */
    @Test
    void tokensGrow() throws SQLException {
        long last = 0;
        for (int i = 0; i < 50; i++) {
            Grant grant = granted(i % 2 == 0 ? a : b, claim(NAME));
            assertThat(grant.token()).isGreaterThan(last);
            last = grant.token();
            if (i % 3 == 0) {
                store.expire(NAME);
            } else {
                a.release(grant.claim());
            }
        }
    }

    /** Tokens grow when the clock was far ahead for a while: the row's token counts, not the clock alone. */
    @Test
    void tokensGrowAfterTheClockWasAhead() throws SQLException {
        Grant first = granted(a, claim(NAME));
        long ahead = first.token() + Duration.ofDays(3650).toNanos() / 1000;
        store.change("UPDATE mortise_lock SET token = ?, owner = NULL", ahead);
        Grant second = granted(a, claim(NAME));
        assertThat(second.token()).isEqualTo(ahead + 1);
        assertThat(a.adopt(second, claim(NAME)).orElseThrow().token()).isEqualTo(ahead + 2);
    }

    /** Tokens grow beyond those of a row that is gone, or was brought back from a backup. */
    @Test
    void tokensGrowAfterTheRowIsLost() throws SQLException {
        Grant first = granted(a, claim(NAME));
        store.change("DELETE FROM mortise_lock");
        // The clock has milliseconds; a row lost and made anew within one is the stated limit.
        await().until(() -> store.number("SELECT " + store.now()) > first.token() / 1000);
        Grant second = granted(a, claim(NAME));
        assertThat(second.token()).isGreaterThan(first.token());
        store.change("UPDATE mortise_lock SET token = 5, owner = NULL");
        assertThat(granted(a, claim(NAME)).token()).isGreaterThan(second.token());
    }

    /** A token that cannot grow any more is an error, never a wrong token. */
    @Test
    void tokensDoNotOverflow() throws SQLException {
        Grant first = granted(a, claim(NAME));
        store.change("UPDATE mortise_lock SET token = ?, owner = NULL", Long.MAX_VALUE);
        assertThatThrownBy(() -> acquire(a, claim(NAME))).isInstanceOf(LockStoreException.class);
        assertThat(store.number("SELECT CASE WHEN token = 9223372036854775807 THEN 1 ELSE 0 END FROM mortise_lock"))
                .isEqualTo(1);
        assertThat(a.release(first.claim())).isFalse();
    }

    // ---- renew

    /** A renewal starts the full lease anew, keeps the token, and can be done any number of times (RT-09). */
    @Test
    void renewsAgainAndAgain() {
        Grant grant = granted(a, claim(NAME, Duration.ofMillis(500)));
        for (int i = 0; i < 30; i++) {
            Renewal renewal = a.renew(List.of(grant));
            assertThat(renewal.ended()).isEmpty();
            Grant renewed = renewal.live().get(0);
            assertThat(renewed.token()).isEqualTo(grant.token());
            assertThat(renewed.since()).isGreaterThan(grant.since());
            assertThat(renewed.lease()).isEqualTo(Duration.ofMillis(500));
            assertThat(acquire(b, claim(NAME))).isEmpty();
            grant = renewed;
        }
    }

    /** An ended claim is not revived, whoever asks, even while nobody else has the lock. */
    @Test
    void expiredIsNotRevived() throws SQLException {
        Grant grant = granted(a, claim(NAME));
        store.expire(NAME);
        assertThat(a.renew(List.of(grant)).ended()).containsExactly(grant);
        assertThat(a.holder(NAME)).isEmpty();
    }

    /** Released, taken over by another, never there, foreign owner, wrong token: ended, and the holder is untouched. */
    @Test
    void strangersAreEnded() {
        Grant released = granted(a, claim("released"));
        a.release(released.claim());
        Grant holder = granted(b, claim(NAME));
        Grant foreign = claim(NAME).granted(LEASE, holder.token(), 0);
        Grant wrongToken = holder.claim().granted(LEASE, holder.token() - 1, 0);
        Grant never = claim("never").granted(LEASE, 7, 0);
        Renewal renewal = a.renew(List.of(released, foreign, wrongToken, never, holder));
        assertThat(renewal.ended()).containsExactlyInAnyOrder(released, foreign, wrongToken, never);
        assertThat(renewal.live())
                .singleElement()
                .satisfies(live -> assertThat(live.claim()).isEqualTo(holder.claim()));
    }

    /** Of many grants each gets its own answer; every size of a batch, also beyond the largest. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 5, 127, 129, 1000, 1024, 1025, 2500})
    void renewsMany(int n) throws SQLException {
        List<Grant> all = new ArrayList<>();
        Set<Claim> dead = new HashSet<>();
        try (Connection connection = store.sql()) {
            connection.setAutoCommit(false);
            for (int i = 0; i < n; i++) {
                Claim claim = claim("n " + i, Duration.ofSeconds(60 + i));
                try (Statement statement = connection.createStatement()) {
                    statement.execute(
                            "INSERT INTO mortise_lock VALUES ('" + Names.encode("n " + i) + "', 1, 'table', 7, '"
                                    + claim.owner() + "', " + (60 + i) * 1000L + ", "
                                    + (i % 3 == 0 ? 1 : System.currentTimeMillis() + 60_000) + ")");
                }
                if (i % 3 == 0) {
                    dead.add(claim);
                }
                all.add(claim.granted(claim.lease(), 7, 0));
            }
            connection.commit();
        }
        Renewal renewal = a.renew(all);
        assertThat(renewal.ended()).extracting(Grant::claim).containsExactlyInAnyOrderElementsOf(dead);
        assertThat(renewal.live()).hasSize(n - dead.size()).allSatisfy(grant -> {
            assertThat(dead).doesNotContain(grant.claim());
            assertThat(grant.lease()).isEqualTo(grant.claim().lease());
        });
    }

    // ---- release

    /** Release ends this owner's claim at once, is true once, and can be repeated. */
    @Test
    void releases() {
        Grant grant = granted(a, claim(NAME));
        assertThat(b.release(grant.claim())).isTrue();
        assertThat(a.release(grant.claim())).isFalse();
        assertThat(a.renew(List.of(grant)).ended()).containsExactly(grant);
        granted(b, claim(NAME));
    }

    /** Nobody else's claim is ended, however late a release comes. */
    @Test
    void releaseTouchesNoOther() throws SQLException {
        Grant old = granted(a, claim(NAME));
        store.expire(NAME);
        Grant now = granted(b, claim(NAME));
        assertThat(a.release(old.claim())).isFalse();
        assertThat(a.release(claim(NAME))).isFalse();
        assertThat(a.release(Claim.of("other", now.owner(), LEASE))).isFalse();
        assertThat(b.renew(List.of(now)).live()).hasSize(1);
    }

    /** A claim that had ended by itself: false. */
    @Test
    void releaseOfTheEnded() throws SQLException {
        Grant grant = granted(a, claim(NAME));
        store.expire(NAME);
        assertThat(a.release(grant.claim())).isFalse();
        granted(b, claim(NAME));
    }

    /** A released claim stays released when the clock is set back behind its end. */
    @Test
    void releasedIsNotBroughtBackByTheClock() throws SQLException {
        Grant grant = granted(a, claim(NAME));
        store.expire(NAME);
        a.release(grant.claim());
        store.change("UPDATE mortise_lock SET until_ms = ?", System.currentTimeMillis() + 3_600_000);
        assertThat(a.renew(List.of(grant)).ended()).hasSize(1);
        granted(b, claim(NAME));
    }

    // ---- adopt

    /** The heir takes the place of a live grant with a larger token; the former owner has no hand in it any more. */
    @Test
    void adopts() {
        Grant held = granted(a, claim(NAME));
        Claim heir = claim(NAME, Duration.ofSeconds(7));
        Grant taken = b.adopt(held, heir).orElseThrow();
        assertThat(taken.token()).isGreaterThan(held.token());
        assertThat(taken.lease()).isEqualTo(Duration.ofSeconds(7));
        assertThat(a.renew(List.of(held)).ended()).containsExactly(held);
        assertThat(a.release(held.claim())).isFalse();
        assertThat(acquire(a, claim(NAME))).isEmpty();
        assertThat(b.renew(List.of(taken)).live()).hasSize(1);
    }

    /** Once for each heir, the same token again for the same; a second heir gets nothing. */
    @Test
    void adoptsOnce() {
        Grant held = granted(a, claim(NAME));
        Claim heir = claim(NAME);
        long token = b.adopt(held, heir).orElseThrow().token();
        assertThat(b.adopt(held, claim(NAME))).isEmpty();
        assertThat(a.adopt(held, heir).orElseThrow().token()).isEqualTo(token);
    }

    /** Nothing to adopt: ended, released, a wrong token, another owner; nor does an heir come back after his end. */
    @Test
    void adoptsOnlyTheLive() throws SQLException {
        Grant held = granted(a, claim(NAME));
        assertThat(b.adopt(held.claim().granted(LEASE, held.token() + 1, 0), claim(NAME)))
                .isEmpty();
        assertThat(b.adopt(claim(NAME).granted(LEASE, held.token(), 0), claim(NAME)))
                .isEmpty();
        Claim heir = claim(NAME);
        assertThat(b.adopt(held, heir)).isPresent();
        store.expire(NAME);
        assertThat(b.adopt(held, heir)).isEmpty();
        assertThat(b.adopt(held, claim(NAME))).isEmpty();
        Grant other = granted(a, claim("other"));
        a.release(other.claim());
        assertThat(b.adopt(other, claim("other"))).isEmpty();
        assertThatThrownBy(() -> b.adopt(other, claim(NAME))).isInstanceOf(IllegalArgumentException.class);
    }

    // ---- holder

    @Test
    void tellsTheHolder() throws SQLException {
        assertThat(a.holder(NAME)).isEmpty();
        Grant grant = granted(a, claim(NAME));
        Optional<Holder> holder = b.holder(NAME);
        assertThat(holder.orElseThrow().owner()).isEqualTo(grant.owner());
        assertThat(holder.orElseThrow().token()).isEqualTo(grant.token());
        assertThat(holder.orElseThrow().rest()).isBetween(Duration.ofSeconds(20), Duration.ofMillis(30_001));
        store.expire(NAME);
        assertThat(a.holder(NAME)).isEmpty();
        assertThatThrownBy(() -> a.holder("")).isInstanceOf(IllegalArgumentException.class);
    }

    // ---- names

    /** Every odd name is a lock of its own, and comes back as it went in. */
    @Test
    void oddNamesAreApart() throws SQLException {
        List<String> names = List.of(
                "a",
                "A",
                "a ",
                " a",
                "a  ",
                "\0",
                "a\0",
                "a\0b",
                "a\0c",
                "%",
                "%20",
                " ",
                "%00",
                "a%00",
                "/",
                "../..",
                "a/b",
                "{a}",
                "{}",
                "'; DROP TABLE mortise_lock; --",
                "\"",
                "?1",
                "\n",
                "\r\n",
                "\t",
                "\u00e9",
                "e\u0301",
                "\u00c9",
                "\u0130",
                "i\u0307",
                "ı",
                "ß",
                "ss",
                "ﬁ",
                "fi",
                "\ud83d\ude00",
                "\ud83d\ude01",
                "\u05e9\u05dc\u05d5\u05dd",
                "\u202eabc",
                "\u200b",
                "\ufeff",
                "\uffff",
                "a".repeat(512),
                "a".repeat(511),
                "a".repeat(511) + "b",
                "\ud83d\ude00".repeat(128),
                "\u00e9".repeat(256));
        assertThat(Normalizer.normalize(names.get(26), Normalizer.Form.NFC)).isEqualTo(names.get(25));
        List<Grant> grants = new ArrayList<>();
        for (String name : names) {
            Grant grant = granted(a, claim(name));
            assertThat(grant.name()).isEqualTo(name);
            grants.add(grant);
        }
        assertThat(store.number("SELECT count(*) FROM mortise_lock")).isEqualTo(names.size());
        for (Grant grant : grants) {
            assertThat(acquire(b, claim(grant.name()))).isEmpty();
            assertThat(b.holder(grant.name()).orElseThrow().owner()).isEqualTo(grant.owner());
        }
        assertThat(b.renew(grants).live()).hasSize(names.size());
        for (Grant grant : grants) {
            assertThat(b.release(grant.claim())).isTrue();
        }
        assertThat(store.number("SELECT count(*) FROM mortise_lock WHERE owner IS NOT NULL"))
                .isZero();
    }

    // ---- format

    /** A row of another format or strategy is refused by acquire, holder and adopt, with both named; it is not touched. */
    @Test
    void otherFormatsAreRefused() throws SQLException {
        Grant held = granted(a, claim(NAME));
        for (String foreign : List.of("format = 2", "strategy = 'advisory'")) {
            store.change("UPDATE mortise_lock SET owner = NULL, format = 1, strategy = 'table'");
            store.change("UPDATE mortise_lock SET " + foreign);
            for (ThrowingCallable call : List.<ThrowingCallable>of(
                    () -> acquire(a, claim(NAME)),
                    () -> acquire(b, claim(NAME)),
                    () -> a.holder(NAME),
                    () -> a.adopt(held, claim(NAME)))) {
                assertThatThrownBy(call)
                        .isInstanceOfSatisfying(
                                LockStoreException.class,
                                e -> assertThat(e.mayHaveTakenEffect()).isFalse())
                        .hasMessageContaining("format 1")
                        .hasMessageContaining("strategy table")
                        .hasMessageContaining(foreign.startsWith("format") ? "format 2" : "strategy advisory")
                        .hasMessageContaining("same version");
            }
            store.change("UPDATE mortise_lock SET owner = ?", held.owner());
            assertThat(a.renew(List.of(held)).ended()).containsExactly(held);
            assertThat(a.release(held.claim())).isFalse();
            assertThat(store.number("SELECT count(*) FROM mortise_lock WHERE owner IS NOT NULL AND " + foreign))
                    .isEqualTo(1);
        }
    }

    // ---- life cycle

    /** Claims outlive their client; close is idempotent and releases nothing; a closed client says so. */
    @Test
    void claimsOutliveTheClient() {
        Grant grant = granted(a, claim(NAME));
        a.close();
        a.close();
        assertThat(acquire(b, claim(NAME))).isEmpty();
        assertThat(b.renew(List.of(grant)).live()).hasSize(1);
        assertThatThrownBy(() -> a.renew(List.of(grant)))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("closed");
        assertThatThrownBy(() -> acquire(a, claim("x")))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isFalse());
    }

    /** An interrupt does not fail, shorten or lose what is not a wait: renew, release, adopt, holder. */
    @Test
    void interruptedThreadsStillRenewAndRelease() {
        Grant grant = granted(a, claim(NAME));
        Thread.currentThread().interrupt();
        try {
            assertThat(a.renew(List.of(grant)).live()).hasSize(1);
            assertThat(a.holder(NAME)).isPresent();
            Grant heir = a.adopt(grant, claim(NAME)).orElseThrow();
            assertThat(a.release(heir.claim())).isTrue();
            assertThatThrownBy(() -> a.acquire(claim("x"), Duration.ZERO)).isInstanceOf(InterruptedException.class);
        } finally {
            assertThat(Thread.interrupted()).isFalse();
        }
        assertThat(a.holder("x")).isEmpty();
    }
}
