package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.Renewal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What the scripts do in the server: commands and keys, counted; formats; what becomes of the tokens. */
class ScriptsTest {
    private static final Duration LEASE = Duration.ofSeconds(30);

    private static RedisStore store;
    private RedisBackend backend;

    @BeforeAll
    static void start() {
        store = new RedisStore();
    }

    @AfterAll
    static void stop() {
        store.close();
    }

    @BeforeEach
    void connect() {
        store.server.ask("FLUSHALL");
        backend = store.connect();
    }

    @AfterEach
    void close() {
        backend.close();
    }

    /** What the server was asked, without what the tests themselves ask. */
    static Map<String, Long> commands(RedisServer server) {
        Map<String, Long> calls = server.calls();
        calls.keySet().removeAll(List.of("config|resetstat", "info", "client|list", "pubsub|channels"));
        return calls;
    }

    static Claim claim(String name) {
        return claim(name, LEASE);
    }

    static Claim claim(String name, Duration lease) {
        return Claim.of(name, "test~" + UUID.randomUUID(), lease);
    }

    private Grant acquire(Claim claim) throws InterruptedException {
        return backend.acquire(claim, Duration.ZERO).grant().orElseThrow();
    }

    private static Keys keys(String name) {
        return Keys.of(Keys.PREFIX, name);
    }

    private static long ttl(String key) {
        return (Long) store.server.ask("PTTL", key);
    }

    @Test
    void oneRequestEach() throws InterruptedException {
        // So that the scripts are there.
        Grant first = acquire(claim("a"));
        backend.renew(List.of(first));
        backend.release(first.claim());
        store.server.ask("CONFIG", "RESETSTAT");

        Grant grant = acquire(claim("a"));
        assertThat(commands(store.server))
                .isEqualTo(Map.of("evalsha", 1L, "set", 2L, "get", 2L, "exists", 1L, "time", 1L));

        store.server.ask("CONFIG", "RESETSTAT");
        assertThat(backend.acquire(claim("a"), Duration.ZERO).grant()).isEmpty();
        assertThat(commands(store.server)).isEqualTo(Map.of("evalsha", 1L, "get", 1L, "pttl", 1L));

        store.server.ask("CONFIG", "RESETSTAT");
        assertThat(backend.renew(List.of(grant)).live()).hasSize(1);
        assertThat(commands(store.server)).isEqualTo(Map.of("evalsha", 1L, "get", 1L, "pexpire", 1L));

        store.server.ask("CONFIG", "RESETSTAT");
        assertThat(backend.release(grant.claim())).isTrue();
        assertThat(commands(store.server)).isEqualTo(Map.of("evalsha", 1L, "get", 1L, "del", 1L, "publish", 1L));
    }

    @Test
    void aThousandLeasesAreRenewedInOneExchange() throws InterruptedException {
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            grants.add(acquire(claim("many-" + i)));
        }
        grants.addAll(backend.renew(grants).live().subList(0, 0));
        store.server.ask("PEXPIRE", keys("many-7").lock(), "500");
        backend.release(grants.get(500).claim());
        store.server.ask("CONFIG", "RESETSTAT");
        long packets = Long.parseLong(store.server.info("stats").get("total_reads_processed"));
        Renewal renewal = backend.renew(grants);
        long after = Long.parseLong(store.server.info("stats").get("total_reads_processed"));
        assertThat(renewal.live()).hasSize(999);
        assertThat(renewal.ended()).containsExactly(grants.get(500));
        assertThat(store.server.calls()).containsEntry("evalsha", 10L).containsEntry("pexpire", 999L);
        assertThat(ttl(keys("many-7").lock())).isGreaterThan(20_000);
        // One write of a hundred kilobytes and some, read in pieces of sixteen, and our own question.
        assertThat(after - packets).isLessThan(30);
    }

    @Test
    void scriptsComeBackByThemselves() throws InterruptedException {
        List<Grant> grants = new ArrayList<>();
        for (int i = 0; i < 250; i++) {
            grants.add(acquire(claim("flushed-" + i)));
        }
        store.server.ask("SCRIPT", "FLUSH");
        Renewal renewal = backend.renew(grants);
        assertThat(renewal.live()).hasSize(250);
        store.server.ask("SCRIPT", "FLUSH");
        assertThat(backend.release(grants.get(0).claim())).isTrue();
        store.server.ask("SCRIPT", "FLUSH");
        Claim heir = claim("flushed-1");
        assertThat(backend.adopt(grants.get(1), heir)).isPresent();
        store.server.ask("SCRIPT", "FLUSH");
        assertThat(backend.holder("flushed-1")).map(Holder::owner).contains(heir.owner());
        store.server.ask("SCRIPT", "FLUSH");
        assertThat(backend.acquire(claim("flushed-0"), Duration.ZERO).grant()).isPresent();
    }

    @Test
    void everyKeyEnds() throws InterruptedException {
        Grant grant = acquire(claim("{a}b%ä"));
        assertThat(ttl(keys("{a}b%ä").fence())).isBetween(86_000_000L, 86_400_000L);
        Claim never = claim("{a}b%ä");
        assertThat(backend.release(never)).isFalse();
        Grant heir = backend.adopt(grant, claim("{a}b%ä")).orElseThrow();
        backend.renew(List.of(heir));
        @SuppressWarnings("unchecked")
        List<String> all = (List<String>) store.server.ask("KEYS", "*");
        Keys keys = keys("{a}b%ä");
        assertThat(all).containsExactlyInAnyOrder(keys.lock(), keys.fence(), keys.released(never.owner()));
        assertThat(ttl(keys.lock())).isBetween(1L, 30_001L);
        assertThat(ttl(keys.fence())).isBetween(86_000_000L, 86_400_000L);
        assertThat(ttl(keys.released(never.owner()))).isBetween(1L, 600_000L);
        assertThat(keys.lock()).isEqualTo("mortise:{%7Ba%7Db%25%C3%A4}:lock");
    }

    @Test
    void anotherFormatIsRefused() throws InterruptedException {
        Grant grant = acquire(claim("a"));
        for (String other : List.of("2:30000:17:someone", "x", "1:30000:17:", "")) {
            store.server.ask("SET", keys("a").lock(), other, "PX", "60000");
            assertThatThrownBy(() -> backend.acquire(claim("a"), Duration.ZERO))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("not of format 1")
                    .hasMessageContaining("same version of Mortise")
                    .satisfies(e -> assertThat(((LockStoreException) e).mayHaveTakenEffect())
                            .isFalse());
            assertThatThrownBy(() -> backend.adopt(grant, claim("a"))).hasMessageContaining("not of format 1");
            assertThatThrownBy(() -> backend.holder("a")).hasMessageContaining("not of format 1");
            assertThat(backend.renew(List.of(grant)).ended()).hasSize(1);
            assertThat(backend.release(grant.claim())).isFalse();
            assertThat(store.server.ask("GET", keys("a").lock())).isEqualTo(other);
        }
        store.server.ask("DEL", keys("b").lock());
        for (String other : List.of("2:17", "17", "1:9007199254740991")) {
            store.server.ask("SET", keys("b").fence(), other);
            assertThatThrownBy(() -> backend.acquire(claim("b"), Duration.ZERO))
                    .hasMessageContaining("not of format 1");
            assertThat(store.server.ask("EXISTS", keys("b").lock())).isEqualTo(0L);
        }
    }

    @Test
    void somebodyElsesKeyIsLeftAlone() throws InterruptedException {
        Grant well = acquire(claim("well"));
        Grant hurt = acquire(claim("hurt"));
        store.server.ask("DEL", keys("hurt").lock());
        store.server.ask("LPUSH", keys("hurt").lock(), "x");
        store.server.ask("LPUSH", keys("fenced").fence(), "x");
        assertThatThrownBy(() -> backend.acquire(claim("hurt"), Duration.ZERO))
                .hasMessageContaining("choose another prefix");
        assertThatThrownBy(() -> backend.acquire(claim("fenced"), Duration.ZERO))
                .hasMessageContaining("choose another prefix");
        assertThatThrownBy(() -> backend.release(hurt.claim())).isInstanceOf(LockStoreException.class);
        // One that cannot be told is unknown, and does not cost the others theirs.
        Renewal renewal = backend.renew(List.of(hurt, well));
        assertThat(renewal.live()).extracting(Grant::claim).containsExactly(well.claim());
        assertThat(renewal.ended()).isEmpty();
        assertThat(store.server.ask("LLEN", keys("hurt").lock())).isEqualTo(1L);
    }

    @Test
    void anOwnerThatWasReleasedTakesNothing() throws InterruptedException {
        Claim gone = claim("a");
        assertThat(backend.release(gone)).isFalse();
        assertThatThrownBy(() -> backend.acquire(gone, Duration.ZERO))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("released before");
        assertThat(store.server.ask("EXISTS", keys("a").lock())).isEqualTo(0L);
        Grant held = acquire(claim("a"));
        Claim lateHeir = claim("a");
        assertThat(backend.release(lateHeir)).isFalse();
        assertThat(backend.adopt(held, lateHeir)).isEmpty();
        assertThat(backend.renew(List.of(held)).live()).hasSize(1);
    }

    @Test
    void tokensAreNeverBelowTheClock() throws InterruptedException {
        @SuppressWarnings("unchecked")
        List<String> time = (List<String>) store.server.ask("TIME");
        long micros = Long.parseLong(time.get(0)) * 1_000_000 + Long.parseLong(time.get(1));
        long token = acquire(claim("a")).token();
        assertThat(token).isBetween(micros, micros + TimeUnit.MINUTES.toMicros(1));
    }

    /** An owner with another token than its claim's has no part in it. */
    @Test
    void aClaimIsItsOwnerAndItsToken() throws InterruptedException {
        Grant grant = acquire(claim("a"));
        Grant forged = grant.claim().granted(grant.lease(), grant.token() + 1, grant.since());
        assertThat(backend.renew(List.of(forged)).ended()).containsExactly(forged);
        assertThat(backend.adopt(forged, claim("a"))).isEmpty();
        assertThat(backend.renew(List.of(grant)).live()).hasSize(1);
    }

    /** The clock of the server went back: the fence is ahead of it. */
    @Test
    void tokensGrowWhenTheClockGoesBack() throws InterruptedException {
        long ahead = 4_102_444_800_000_000L;
        store.server.ask("SET", keys("a").fence(), "1:" + ahead, "PX", "86400000");
        long last = ahead;
        for (int i = 0; i < 20; i++) {
            Grant grant = acquire(claim("a"));
            assertThat(grant.token()).isEqualTo(last + 1);
            Grant heir = backend.adopt(grant, claim("a")).orElseThrow();
            assertThat(heir.token()).isEqualTo(last + 2);
            last = heir.token();
            backend.release(heir.claim());
        }
    }

    @Test
    void tokensGrowAcrossAFlush() throws InterruptedException {
        long last = 0;
        for (int i = 0; i < 50; i++) {
            Grant grant = acquire(claim("a"));
            assertThat(grant.token()).isGreaterThan(last);
            last = grant.token();
            store.server.ask(i % 2 == 0 ? "FLUSHALL" : "FLUSHDB");
        }
    }

    /** A heir's token grows although the fence went: the holder's own is known. */
    @Test
    void adoptGrowsWithoutTheFence() throws InterruptedException {
        long ahead = 4_102_444_800_000_000L;
        store.server.ask("SET", keys("a").fence(), "1:" + ahead, "PX", "86400000");
        Grant grant = acquire(claim("a"));
        store.server.ask("DEL", keys("a").fence());
        assertThat(backend.adopt(grant, claim("a")).orElseThrow().token()).isGreaterThan(grant.token());
    }

    /** What a clock set back leaves: an end that is far away, or an administrator's PERSIST. */
    @Test
    void aLeaseIsNeverLongerThanItself() throws InterruptedException {
        for (boolean persisted : List.of(true, false)) {
            Grant grant = acquire(claim("a"));
            if (persisted) {
                store.server.ask("PERSIST", keys("a").lock());
            } else {
                store.server.ask("PEXPIRE", keys("a").lock(), "3600000");
            }
            Attempt attempt = backend.acquire(claim("a"), Duration.ZERO);
            assertThat(attempt.rest().orElseThrow()).isBetween(LEASE.minusSeconds(5), LEASE.plusMillis(1));
            assertThat(ttl(keys("a").lock())).isBetween(1L, 30_001L);
            assertThat(backend.renew(List.of(grant)).live()).hasSize(1);
            assertThat(backend.release(grant.claim())).isTrue();
        }
    }

    /** The stand-in for a clock that is set forward: the lease ends early, and the next token is larger. */
    @Test
    void anEarlyEndIsHarmlessToTokens() throws InterruptedException {
        Grant first = acquire(claim("a"));
        store.server.ask("PEXPIRE", keys("a").lock(), "1");
        Grant second =
                backend.acquire(claim("a"), Duration.ofSeconds(5)).grant().orElseThrow();
        assertThat(second.token()).isGreaterThan(first.token());
        assertThat(backend.renew(List.of(first)).ended()).containsExactly(first);
        assertThat(backend.release(first.claim())).isFalse();
        assertThat(backend.renew(List.of(second)).live()).hasSize(1);
    }

    @Test
    void namesCannotBreakOut() throws InterruptedException {
        List<String> names = List.of(
                "a",
                "{a}",
                "}",
                "{",
                "{}",
                "a}:lock",
                "%7Ba%7D",
                "a b",
                "a\r\nSET x y",
                "a\0b",
                "*",
                "ä",
                "a\u0308",
                "😀",
                "a:lock",
                "A");
        List<Grant> grants = new ArrayList<>();
        for (String name : names) {
            grants.add(acquire(claim(name)));
        }
        assertThat(store.server.ask("DBSIZE")).isEqualTo(2L * names.size());
        for (String name : names) {
            Keys keys = keys(name);
            String tag = keys.lock()
                    .substring(keys.lock().indexOf('{') + 1, keys.lock().indexOf('}'));
            assertThat(tag).isNotEmpty();
            for (String key : List.of(keys.lock(), keys.fence(), keys.released("o{x}"), keys.channel())) {
                assertThat(redis.clients.jedis.util.JedisClusterCRC16.getSlot(key))
                        .isEqualTo(keys.slot());
                assertThat(key).matches("[!-~]+");
            }
        }
        assertThat(backend.renew(grants).live()).hasSize(names.size());
    }

    @Test
    void theLongestLeaseAndTheShortest() throws InterruptedException {
        Grant year = acquire(claim("year", Duration.ofDays(365)));
        assertThat(ttl(keys("year").lock())).isGreaterThan(Duration.ofDays(364).toMillis());
        assertThat(backend.renew(List.of(year)).live()).hasSize(1);
        Grant shortest = acquire(claim("shortest", Duration.ofNanos(1_000_001)));
        assertThat(shortest.lease()).isEqualTo(Duration.ofMillis(100));
        Grant odd = acquire(claim("odd", Duration.ofNanos(1_500_000_001)));
        assertThat(odd.lease()).isEqualTo(Duration.ofMillis(1501));
        assertThatThrownBy(() -> backend.acquire(claim("x", Duration.ofDays(366)), Duration.ZERO))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("lease");
        assertThatThrownBy(() -> backend.acquire(claim("x", Duration.ofSeconds(Long.MAX_VALUE)), Duration.ZERO))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("lease");
    }

    @Test
    void aVeryLongPatienceIsForEver() throws InterruptedException {
        assertThat(backend.acquire(claim("a"), Duration.ofSeconds(Long.MAX_VALUE))
                        .grant())
                .isPresent();
        assertThat(backend.acquire(claim("a"), Duration.ofSeconds(-1)).grant()).isEmpty();
    }

    @Test
    void holderIsForPeople() throws InterruptedException {
        assertThat(backend.holder("a")).isEmpty();
        Grant grant = acquire(claim("a"));
        Holder holder = backend.holder("a").orElseThrow();
        assertThat(holder.owner()).isEqualTo(grant.owner());
        assertThat(holder.token()).isEqualTo(grant.token());
        assertThat(holder.rest()).isBetween(Duration.ofSeconds(20), Duration.ofSeconds(31));
    }

    /** A million names one after the other leave nothing in the client but what it began with. */
    @Test
    void nothingOfANameStaysInTheClient() throws Exception {
        for (int i = 0; i < 2000; i++) {
            Grant grant = acquire(claim("name-" + i));
            backend.release(grant.claim());
        }
        assertThat(store.server.info("clients").get("connected_clients")).isEqualTo("2");
        assertThat(backend.toString()).startsWith("redis://127.0.0.1:");
    }

    @Test
    void connectionsAreAsManyAsCallsAtATime() throws Exception {
        RedisBackend many = store.connect(Duration.ofSeconds(30), Map.of());
        List<Thread> threads = new ArrayList<>();
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        for (int t = 0; t < 100; t++) {
            int number = t;
            Thread thread = new Thread(() -> {
                try {
                    for (int i = 0; i < 20; i++) {
                        Claim claim = claim("t-" + number);
                        Grant grant = many.acquire(claim, Duration.ZERO).grant().orElseThrow();
                        assertThat(many.release(grant.claim())).isTrue();
                    }
                } catch (Throwable e) {
                    failures.add(e);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertThat(failures).isEmpty();
        int connected = Integer.parseInt(store.server.info("clients").get("connected_clients"));
        assertThat(connected).isBetween(3, 70);
        backend.close();
        many.close();
        await().until(() ->
                store.server.info("clients").get("connected_clients").equals("1"));
    }
}
