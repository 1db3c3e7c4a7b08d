package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Renewal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.lifecycle.BeforeTry;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The contract of {@link dev.mortise.lock.spi.LockBackend}, sentence by sentence, for the backend in memory. */
class InMemoryBackendTest {
    private static final Duration LEASE = Duration.ofSeconds(10);
    private static final Duration NANO = Duration.ofNanos(1);

    private VirtualTime time;
    private InMemoryBackend store;

    @BeforeEach
    @BeforeTry
    void empty() {
        time = new VirtualTime();
        time.advance(Duration.ofHours(1));
        store = new InMemoryBackend(time);
    }

    private static Claim claim(String owner) {
        return Claim.of("n", owner, LEASE);
    }

    private Grant grant(Claim claim) {
        return store.acquire(claim, Duration.ZERO).grant().orElseThrow();
    }

    private boolean held(String name) {
        return store.holder(name).isPresent();
    }

    // acquire

    @Test
    void aFreeNameIsGrantedToItsClaimForTheLeaseAskedForFromNow() {
        Claim claim = claim("a");
        Grant grant = grant(claim);
        assertThat(grant.claim()).isSameAs(claim);
        assertThat(grant.lease()).isEqualTo(LEASE);
        assertThat(grant.since()).isEqualTo(time.nanoTime());
        assertThat(grant.token()).isPositive();
    }

    @Test
    void aHeldNameIsNotGrantedAndTheRestIsTold() {
        Grant unused = grant(claim("a"));
        time.advance(Duration.ofSeconds(4));
        Attempt attempt = store.acquire(claim("b"), Duration.ZERO);
        assertThat(attempt.grant()).isEmpty();
        assertThat(attempt.pause()).isPositive();
        assertThat(attempt.rest()).contains(Duration.ofSeconds(6));
    }

    /** It polls: whatever the patience, it answers at once. */
    @Test
    void aHeldNameIsAnsweredAtOnceWhateverThePatience() {
        Grant unused = grant(claim("a"));
        long before = time.nanoTime();
        assertThat(store.acquire(claim("b"), Duration.ofDays(1_000_000)).grant())
                .isEmpty();
        assertThat(time.nanoTime()).isEqualTo(before);
    }

    /** Held means that nothing of this owner is left, queued or live. */
    @Test
    void aRefusedClaimLeavesNothingBehind() {
        Grant first = grant(claim("a"));
        assertThat(store.acquire(claim("b"), LEASE).grant()).isEmpty();
        assertThat(store.release(claim("b"))).isFalse();
        assertThat(store.release(first.claim())).isTrue();
        assertThat(held("n")).isFalse();
        assertThat(grant(claim("c")).owner()).isEqualTo("c");
    }

    @Test
    void theSameOwnerAgainGetsTheSameTokenAndTheFullLeaseFromThen() {
        Grant first = grant(claim("a"));
        time.advance(Duration.ofSeconds(9));
        Grant again = grant(claim("a"));
        assertThat(again.token()).isEqualTo(first.token());
        assertThat(again.since()).isEqualTo(time.nanoTime());
        assertThat(again.lease()).isEqualTo(LEASE);
        time.advance(LEASE.minus(NANO));
        assertThat(held("n")).isTrue();
        time.advance(NANO);
        assertThat(held("n")).isFalse();
    }

    @Test
    void anOwnerWhoseClaimHasEndedGetsANewToken() {
        Grant first = grant(claim("a"));
        time.advance(LEASE);
        assertThat(grant(claim("a")).token()).isGreaterThan(first.token());
    }

    @Test
    void namesAreToldApartToTheLastBit() {
        List<String> names = List.of(
                "a",
                "A",
                "á",
                "a\u0301",
                "a ",
                " a",
                "a\u0000",
                "a/",
                "/a",
                "ß",
                "ss",
                "SS",
                "\ud83d\ude00",
                "x".repeat(512));
        for (String name : names) {
            assertThat(grant(Claim.of(name, "o", LEASE)).name()).isEqualTo(name);
        }
        for (String name : names) {
            assertThat(store.release(Claim.of(name, "o", LEASE))).isTrue();
        }
    }

    // ends by itself

    @Test
    void aClaimEndsAtTheEndOfItsLeaseToTheNanosecond() {
        Grant first = grant(claim("a"));
        time.advance(LEASE.minus(NANO));
        assertThat(store.acquire(claim("b"), Duration.ZERO).rest()).contains(NANO);
        time.advance(NANO);
        assertThat(held("n")).isFalse();
        assertThat(grant(claim("b")).token()).isGreaterThan(first.token());
        assertThat(store.guarantees().freedWithin(LEASE)).isEqualTo(LEASE);
    }

    @Test
    void aVeryLongLeaseDoesNotEndInThePast() {
        Grant grant = grant(Claim.of("n", "a", Duration.ofSeconds(Long.MAX_VALUE)));
        assertThat(grant.token()).isPositive();
        time.advance(Duration.ofDays(365 * 50));
        assertThat(held("n")).isTrue();
    }

    // renew

    @Test
    void aRenewalIsLiveForTheFullLeaseFromThenWithTheSameToken() {
        Grant first = grant(claim("a"));
        time.advance(Duration.ofSeconds(9));
        Renewal renewal = store.renew(List.of(first));
        assertThat(renewal.ended()).isEmpty();
        assertThat(renewal.live()).singleElement().satisfies(grant -> {
            assertThat(grant.claim()).isSameAs(first.claim());
            assertThat(grant.token()).isEqualTo(first.token());
            assertThat(grant.since()).isEqualTo(time.nanoTime());
            assertThat(grant.lease()).isEqualTo(LEASE);
        });
        time.advance(LEASE.minus(NANO));
        assertThat(held("n")).isTrue();
        time.advance(NANO);
        assertThat(held("n")).isFalse();
    }

    @Test
    void anEndedClaimIsNotRevived() {
        Grant expired = grant(claim("a"));
        time.advance(LEASE);
        Renewal renewal = store.renew(List.of(expired));
        assertThat(renewal.live()).isEmpty();
        assertThat(renewal.ended()).containsExactly(expired);
        assertThat(held("n")).isFalse();

        Grant released = grant(claim("b"));
        assertThat(store.release(released.claim())).isTrue();
        assertThat(store.renew(List.of(released)).ended()).containsExactly(released);
        assertThat(held("n")).isFalse();
    }

    @Test
    void aRenewalOfAFormerOwnerDoesNotTouchTheNext() {
        Grant former = grant(claim("a"));
        time.advance(LEASE);
        Grant unused = grant(claim("b"));
        time.advance(Duration.ofSeconds(4));
        assertThat(store.renew(List.of(former)).ended()).containsExactly(former);
        assertThat(store.holder("n").orElseThrow().owner()).isEqualTo("b");
        assertThat(store.holder("n").orElseThrow().rest()).isEqualTo(Duration.ofSeconds(6));
    }

    /** Each by itself: what has ended does not keep the others from being renewed. */
    @Test
    void manyAreRenewedEachByItself() {
        Grant one = grant(Claim.of("one", "a", LEASE));
        Grant two = grant(Claim.of("two", "a", LEASE.dividedBy(2)));
        Grant three = grant(Claim.of("three", "a", LEASE));
        time.advance(Duration.ofSeconds(6));
        Renewal renewal = store.renew(List.of(one, two, three));
        assertThat(renewal.live()).extracting(Grant::name).containsExactlyInAnyOrder("one", "three");
        assertThat(renewal.ended()).containsExactly(two);
        assertThat(store.renew(List.of()).live()).isEmpty();
    }

    // release

    @Test
    void aReleaseEndsTheClaimAndIsIdempotent() {
        Grant grant = grant(claim("a"));
        assertThat(store.release(grant.claim())).isTrue();
        assertThat(store.release(grant.claim())).isFalse();
        assertThat(held("n")).isFalse();
    }

    @Test
    void aReleaseEndsNoOtherOwnersClaim() {
        Grant former = grant(claim("a"));
        time.advance(LEASE);
        Grant next = grant(claim("b"));
        assertThat(store.release(former.claim())).isFalse();
        assertThat(store.release(claim("c"))).isFalse();
        assertThat(store.holder("n").orElseThrow().token()).isEqualTo(next.token());
    }

    @Test
    void aReleaseAfterTheEndEndedNothing() {
        Grant grant = grant(claim("a"));
        time.advance(LEASE);
        assertThat(store.release(grant.claim())).isFalse();
        assertThat(store.release(Claim.of("never", "a", LEASE))).isFalse();
    }

    // adopt

    @Test
    void theHeirTakesThePlaceForItsOwnLeaseWithALargerToken() {
        Grant held = grant(claim("a"));
        time.advance(Duration.ofSeconds(4));
        Claim heir = Claim.of("n", "h", LEASE.multipliedBy(2));
        Grant adopted = store.adopt(held, heir).orElseThrow();
        assertThat(adopted.claim()).isSameAs(heir);
        assertThat(adopted.token()).isGreaterThan(held.token());
        assertThat(adopted.lease()).isEqualTo(LEASE.multipliedBy(2));
        assertThat(adopted.since()).isEqualTo(time.nanoTime());
        assertThat(store.holder("n").orElseThrow().owner()).isEqualTo("h");
        assertThat(store.holder("n").orElseThrow().rest()).isEqualTo(LEASE.multipliedBy(2));
        assertThat(store.guarantees().outlivesClient()).isTrue();
    }

    @Test
    void adoptingAgainIsTheSameTokenWithTheLeaseAnew() {
        Grant held = grant(claim("a"));
        Grant first = store.adopt(held, claim("h")).orElseThrow();
        time.advance(Duration.ofSeconds(9));
        Grant again = store.adopt(held, claim("h")).orElseThrow();
        assertThat(again.token()).isEqualTo(first.token());
        assertThat(again.since()).isEqualTo(time.nanoTime());
        assertThat(store.holder("n").orElseThrow().rest()).isEqualTo(LEASE);
    }

    @Test
    void aSecondHeirGetsNothing() {
        Grant held = grant(claim("a"));
        Grant first = store.adopt(held, claim("h")).orElseThrow();
        assertThat(store.adopt(held, claim("i"))).isEmpty();
        assertThat(store.holder("n").orElseThrow().token()).isEqualTo(first.token());
    }

    @Test
    void aHeirCanHandOnInTurn() {
        Grant first = grant(claim("a"));
        Grant second = store.adopt(first, claim("h")).orElseThrow();
        Grant third = store.adopt(second, claim("i")).orElseThrow();
        assertThat(third.token()).isGreaterThan(second.token());
        assertThat(store.adopt(first, claim("h"))).isEmpty();
    }

    @Test
    void theFormerOwnerNoLongerTouchesWhatWasAdopted() {
        Grant held = grant(claim("a"));
        Grant adopted = store.adopt(held, claim("h")).orElseThrow();
        assertThat(store.renew(List.of(held)).ended()).containsExactly(held);
        assertThat(store.release(held.claim())).isFalse();
        assertThat(store.acquire(held.claim(), Duration.ZERO).grant()).isEmpty();
        assertThat(store.holder("n").orElseThrow().token()).isEqualTo(adopted.token());
    }

    @Test
    void whatHasEndedCannotBeAdopted() {
        Grant expired = grant(claim("a"));
        time.advance(LEASE);
        assertThat(store.adopt(expired, claim("h"))).isEmpty();
        Grant released = grant(claim("b"));
        assertThat(store.release(released.claim())).isTrue();
        assertThat(store.adopt(released, claim("h"))).isEmpty();
        Grant unused = grant(claim("c"));
        assertThat(store.adopt(released, claim("h"))).isEmpty();
        assertThat(store.adopt(claim("x").granted(LEASE, 99, 0), claim("h"))).isEmpty();
    }

    /** Live means by owner and token: a claim of the same owner under another token is another claim. */
    @Test
    void aClaimUnderAnotherTokenCannotBeAdopted() {
        Grant old = grant(claim("a"));
        time.advance(LEASE);
        Grant unused = grant(claim("a"));
        assertThat(store.adopt(old, claim("h"))).isEmpty();
    }

    @Test
    void anHeirAfterTheEndOfItsOwnLeaseGetsNothing() {
        Grant held = grant(claim("a"));
        assertThat(store.adopt(held, claim("h"))).isPresent();
        time.advance(LEASE);
        assertThat(store.adopt(held, claim("h"))).isEmpty();
    }

    // evict, holder, close

    @Test
    void anEvictedClaimHasEnded() {
        Grant grant = grant(claim("a"));
        assertThat(store.evict("n")).isTrue();
        assertThat(store.evict("n")).isFalse();
        assertThat(store.renew(List.of(grant)).ended()).containsExactly(grant);
        assertThat(store.release(grant.claim())).isFalse();
        assertThat(store.adopt(grant, claim("h"))).isEmpty();
        assertThat(grant(claim("b")).token()).isGreaterThan(grant.token());
    }

    @Test
    void thereIsNothingToEvictAfterTheEnd() {
        assertThat(store.evict("n")).isFalse();
        Grant unused = grant(claim("a"));
        time.advance(LEASE);
        assertThat(store.evict("n")).isFalse();
    }

    @Test
    void theHolderIsToldWithOwnerTokenAndRest() {
        assertThat(store.holder("n")).isEmpty();
        Grant grant = grant(claim("a"));
        time.advance(Duration.ofSeconds(3));
        assertThat(store.holder("n").orElseThrow()).satisfies(holder -> {
            assertThat(holder.owner()).isEqualTo("a");
            assertThat(holder.token()).isEqualTo(grant.token());
            assertThat(holder.rest()).isEqualTo(Duration.ofSeconds(7));
        });
        assertThat(store.holder("N")).isEmpty();
    }

    /** Several clients share it, as several processes share a store. */
    @Test
    void closingLeavesItOpenForOthers() {
        Grant grant = grant(claim("a"));
        store.close();
        store.close();
        assertThat(store.renew(List.of(grant)).live()).hasSize(1);
    }

    @Test
    void tokensGrowThroughReleaseExpiryEvictionAndAdoption() {
        long last = 0;
        for (int i = 0; i < 100; i++) {
            Grant grant = grant(claim("o" + i));
            assertThat(grant.token()).isGreaterThan(last);
            last = grant.token();
            switch (i % 4) {
                case 0 -> assertThat(store.release(grant.claim())).isTrue();
                case 1 -> time.advance(LEASE);
                case 2 -> assertThat(store.evict("n")).isTrue();
                default -> {
                    Grant heir = store.adopt(grant, claim("h" + i)).orElseThrow();
                    assertThat(heir.token()).isGreaterThan(last);
                    last = heir.token();
                    assertThat(store.release(heir.claim())).isTrue();
                }
            }
        }
    }

    /**
     * Through any sequence of calls: at most one claim of a name is counted on at a time; a token is of one owner; a new
     * one is larger than all before; and who is told to be live is the holder.
     */
    @Property(tries = 300)
    void noTwoOwnersCountOnANameAndTokensOnlyGrow(@ForAll Random random) {
        Map<Claim, Grant> counted = new HashMap<>();
        List<Grant> all = new ArrayList<>();
        Map<String, Long> largest = new HashMap<>();
        Map<String, Claim> owners = new HashMap<>();
        for (int step = 0; step < 200; step++) {
            String name = "n" + random.nextInt(2);
            int who = random.nextInt(6);
            Claim claim = Claim.of(name, "o" + who, Duration.ofMillis(1 + 9 * who));
            Grant old = all.isEmpty() ? null : all.get(random.nextInt(all.size()));
            Optional<Grant> answer = Optional.empty();
            switch (random.nextInt(7)) {
                case 0, 1 -> answer = store.acquire(claim, Duration.ZERO).grant();
                case 2 -> {
                    if (old != null) {
                        Renewal renewal = store.renew(List.of(old));
                        assertThat(renewal.live().size() + renewal.ended().size())
                                .isEqualTo(1);
                        renewal.ended()
                                .forEach(ended -> counted.computeIfPresent(
                                        ended.claim(), (c, now) -> now.token() == ended.token() ? null : now));
                        renewal.live().forEach(live -> {
                            assertThat(store.holder(old.name()).orElseThrow().owner())
                                    .isEqualTo(old.owner());
                            counted.put(old.claim(), counted.get(old.claim()).renewed(live.since()));
                        });
                    }
                }
                case 3 -> {
                    assertThat(store.release(claim)).isEqualTo(live(counted.remove(claim)));
                    assertThat(store.release(claim)).isFalse();
                }
                case 4 -> {
                    if (old != null) {
                        Claim heir = Claim.of(old.name(), claim.owner(), claim.lease());
                        answer = store.adopt(old, heir);
                        if (answer.isPresent() && !heir.equals(old.claim())) {
                            counted.remove(old.claim());
                        }
                    }
                }
                case 5 -> {
                    boolean evicted = store.evict(name);
                    boolean any =
                            counted.values().stream().anyMatch(g -> g.name().equals(name) && live(g));
                    assertThat(evicted).isEqualTo(any);
                    counted.keySet().removeIf(c -> c.name().equals(name));
                }
                default -> time.advance(Duration.ofMillis(random.nextInt(30)));
            }
            answer.ifPresent(grant -> {
                Claim owner = owners.putIfAbsent(grant.name() + grant.token(), grant.claim());
                assertThat(owner == null || owner.equals(grant.claim())).isTrue();
                if (owner == null) {
                    assertThat(grant.token()).isGreaterThan(largest.getOrDefault(grant.name(), 0L));
                    largest.put(grant.name(), grant.token());
                }
                counted.put(grant.claim(), grant);
                all.add(grant);
            });
            Set<String> busy = new HashSet<>();
            for (Grant grant : counted.values()) {
                assertThat(!live(grant) || busy.add(grant.name()))
                        .as("one owner of " + grant.name())
                        .isTrue();
            }
        }
    }

    private boolean live(Grant grant) {
        return grant != null && time.nanoTime() - grant.since() < grant.lease().toNanos();
    }

    /** Any method, any thread, at any time. */
    @Test
    void threadsExcludeEachOtherAndGetTokensOfTheirOwn() throws Exception {
        int threads = 8;
        AtomicInteger inside = new AtomicInteger();
        Set<Long> tokens = ConcurrentHashMap.newKeySet();
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        try {
            List<Callable<Integer>> tasks = new ArrayList<>();
            for (int t = 0; t < threads; t++) {
                int thread = t;
                tasks.add(() -> {
                    int granted = 0;
                    for (int i = 0; granted < 200; i++) {
                        Claim claim = claim("t" + thread + "-" + i);
                        Optional<Grant> grant =
                                store.acquire(claim, Duration.ZERO).grant();
                        if (grant.isPresent()) {
                            assertThat(inside.incrementAndGet()).isEqualTo(1);
                            assertThat(tokens.add(grant.get().token())).isTrue();
                            inside.decrementAndGet();
                            assertThat(store.release(claim)).isTrue();
                            granted++;
                        } else {
                            Thread.onSpinWait();
                        }
                    }
                    return granted;
                });
            }
            for (Future<Integer> done : executor.invokeAll(tasks)) {
                assertThat(done.get()).isEqualTo(200);
            }
            assertThat(tokens).hasSize(threads * 200);
        } finally {
            executor.shutdownNow();
        }
    }
}
