package dev.mortise.lock.etcd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Renewal;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Which proofs of life count, and which leases may be ended: over a store whose answers the test gives. */
class ProofTest {
    private static final Duration LEASE = Duration.ofSeconds(30);

    private final AtomicLong clock = new AtomicLong(TimeUnit.DAYS.toNanos(1));
    private final Scripted wire = new Scripted();
    private final EtcdBackend backend =
            new EtcdBackend(wire, "mortise", BackendContext.of(clock::get, Duration.ofSeconds(3)));

    @AfterEach
    void close() {
        backend.close();
    }

    private void pass(int seconds) {
        clock.addAndGet(TimeUnit.SECONDS.toNanos(seconds));
    }

    private static Claim claim(String owner) {
        return Claim.of("name", owner, LEASE);
    }

    private Grant grant(String owner) throws InterruptedException {
        return backend.acquire(claim(owner), Duration.ZERO).grant().orElseThrow();
    }

    @Test
    void aProofCountsInTheTermOfALaterAnswer() throws Exception {
        Grant before = grant("a");
        pass(10);
        Grant after = backend.renew(List.of(before)).live().get(0);
        assertThat(after.since() - before.since()).isEqualTo(TimeUnit.SECONDS.toNanos(10));
    }

    /** A leader that was stopped answers once more, in its own term; the one after it has never heard of that. */
    @Test
    void aProofOfAFormerLeaderDoesNotCount() throws Exception {
        Grant before = grant("a");
        wire.term = 2;
        wire.beatTerms.addAll(List.of(1L, 1L));
        assertThatThrownBy(() -> backend.renew(List.of(before)))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("no answer");
        assertThat(wire.beats).isEqualTo(2);
    }

    /** And is asked for once more in the same call, because the new one may well answer. */
    @Test
    void anotherProofIsAskedForWhenTheLeaderHasChanged() throws Exception {
        Grant before = grant("a");
        wire.term = 2;
        wire.beatTerms.add(1L);
        pass(5);
        wire.onFind = () -> pass(3);
        Grant after = backend.renew(List.of(before)).live().get(0);
        assertThat(after.since() - before.since()).isEqualTo(TimeUnit.SECONDS.toNanos(8));
        assertThat(wire.beats).isEqualTo(2);
    }

    /** Zero seconds and the key still there: a leader that is new, or a key that goes in a moment. Not known. */
    @Test
    void noLeaseButItsKeyIsUnknown() throws Exception {
        Grant kept = grant("a");
        wire.seconds.put(wire.leaseOf("a"), 0L);
        assertThatThrownBy(() -> backend.renew(List.of(kept))).isInstanceOf(LockStoreException.class);
        wire.remove("a");
        Renewal renewal = backend.renew(List.of(kept));
        assertThat(renewal.ended()).containsExactly(kept);
    }

    /** What keeps an idle lease alive may have been such a leader as well: the grant counts from before. */
    @Test
    void aPooledLeaseCountsFromItsLastProofInTheTermOfTheGrant() throws Exception {
        Grant first = grant("a");
        backend.release(first.claim());
        pass(10);
        wire.beatTerms.add(1L);
        wire.term = 2;
        // Older than a quarter of its length: asked for a proof, which the old leader gives.
        Grant second = grant("b");
        assertThat(wire.grants).isEqualTo(1);
        assertThat(second.since()).isEqualTo(first.since());
    }

    @Test
    void aPooledLeaseCountsFromItsProofWhenTheTermIsTheSame() throws Exception {
        Grant first = grant("a");
        backend.release(first.claim());
        pass(10);
        Grant second = grant("b");
        assertThat(wire.grants).isEqualTo(1);
        assertThat(second.since() - first.since()).isEqualTo(TimeUnit.SECONDS.toNanos(10));
    }

    /** Where too little would be left, there is another proof before the grant. */
    @Test
    void aPooledLeaseWhoseProofDoesNotCountIsProvenAgain() throws Exception {
        Grant first = grant("a");
        backend.release(first.claim());
        pass(20);
        wire.beatTerms.add(1L);
        wire.term = 2;
        Grant second = grant("b");
        assertThat(second.since() - first.since()).isEqualTo(TimeUnit.SECONDS.toNanos(20));
        assertThat(wire.beats).isEqualTo(2);
    }

    /** A renewal under way sees the key gone, and may not end the lease: it is another claim's by then. */
    @Test
    void aRenewalThatARelaseOvertakesDoesNotEndTheNextClaimsLease() throws Exception {
        Grant first = grant("a");
        List<Grant> next = new ArrayList<>();
        wire.onFind = () -> {
            wire.onFind = null;
            try {
                backend.release(first.claim());
                next.add(grant("b"));
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        };
        Renewal renewal = backend.renew(List.of(first));
        assertThat(renewal.ended()).containsExactly(first);
        assertThat(wire.grants).as("one lease for both").isEqualTo(1);
        assertThat(wire.revoked).isEmpty();
        assertThat(backend.renew(next).live()).hasSize(1);
    }

    /** The other way round it is nobody else's, and ended. */
    @Test
    void theLeaseOfAnEndedClaimIsEnded() throws Exception {
        Grant grant = grant("a");
        long lease = wire.leaseOf("a");
        wire.remove("a");
        assertThat(backend.renew(List.of(grant)).ended()).containsExactly(grant);
        assertThat(wire.revoked).containsExactly(lease);
        assertThat(backend.release(grant.claim())).isFalse();
        assertThat(backend.known()).isZero();
    }

    /** An entering without an answer may still be on its way: its lease is not used again. */
    @Test
    void theLeaseOfAnUnansweredAcquireIsEnded() throws Exception {
        wire.loseEntering = true;
        assertThatThrownBy(() -> grant("a"))
                .isInstanceOfSatisfying(
                        LockStoreException.class,
                        e -> assertThat(e.mayHaveTakenEffect()).isTrue());
        wire.loseEntering = false;
        assertThat(backend.release(claim("a"))).isTrue();
        assertThat(wire.revoked).hasSize(1);
        Grant second = grant("b");
        assertThat(wire.grants).isEqualTo(2);
        assertThat(second.token()).isPositive();
    }

    /** Asked for again, the claim counts from a proof that is new, not from when its lease was asked for. */
    @Test
    void anEarlierClaimIsFoundAgainWithItsTokenAndAProof() throws Exception {
        wire.put("a", 77, 5, 30);
        Grant grant = grant("a");
        assertThat(grant.token()).isEqualTo(5);
        assertThat(grant.since()).isEqualTo(clock.get());
        assertThat(wire.beats).isEqualTo(1);
        assertThat(backend.release(grant.claim())).isTrue();
    }

    /** A release that could not end the lease is not done, and the next one does it. */
    @Test
    void aReleaseIsRepeatedUntilTheLeaseHasEnded() throws Exception {
        wire.loseEntering = true;
        assertThatThrownBy(() -> grant("a")).isInstanceOf(LockStoreException.class);
        wire.loseRevoking = true;
        assertThatThrownBy(() -> backend.release(claim("a"))).isInstanceOf(LockStoreException.class);
        assertThat(wire.revoked).isEmpty();
        wire.loseRevoking = false;
        backend.release(claim("a"));
        assertThat(wire.revoked).hasSize(1);
        assertThat(backend.known()).isZero();
    }

    /** A store in memory, for one name. */
    private static final class Scripted implements Wire {
        final Map<String, Entry> line = new LinkedHashMap<>();
        final Map<Long, Long> seconds = new LinkedHashMap<>();
        final Deque<Long> beatTerms = new ArrayDeque<>();
        final Set<Long> revoked = new HashSet<>();
        long term = 1;
        long revision = 10;
        int beats;
        int grants;
        boolean loseEntering;
        boolean loseRevoking;
        Runnable onFind;

        private static String key(String owner) {
            return Keys.of("mortise", "name").of(owner);
        }

        long leaseOf(String owner) {
            return line.get(key(owner)).lease();
        }

        void remove(String owner) {
            line.remove(key(owner));
        }

        void put(String owner, long lease, long created, long length) {
            line.put(key(owner), new Entry(key(owner), Keys.value(length), created, lease));
            seconds.put(lease, length);
        }

        private Entry first() {
            return line.isEmpty() ? null : line.values().iterator().next();
        }

        @Override
        public String shown() {
            return "scripted";
        }

        @Override
        public Line enter(Keys keys, String owner, String value, long lease, boolean ifFree, Limit limit)
                throws Trouble {
            String own = keys.of(owner);
            if (!seconds.containsKey(lease)) {
                throw new LeaseGone(null);
            }
            boolean made = line.isEmpty();
            if (made) {
                line.put(own, new Entry(own, value, ++revision, lease));
            }
            if (loseEntering) {
                throw Trouble.late("scripted", true, null);
            }
            Entry oldest = first();
            return new Line(line.get(own), made, oldest.key().equals(own) ? null : oldest, term);
        }

        @Override
        public Line look(Keys keys, String owner, long created, Limit limit) {
            Entry oldest = first();
            return new Line(
                    line.get(keys.of(owner)),
                    false,
                    oldest == null || oldest.key().equals(keys.of(owner)) ? null : oldest,
                    term);
        }

        @Override
        public Left leave(Keys keys, String owner, Limit limit) {
            Entry oldest = first();
            Entry own = line.remove(keys.of(owner));
            return new Left(own, oldest, first(), term, false);
        }

        @Override
        public Found find(List<String> keys, Limit limit) {
            Runnable first = onFind;
            if (first != null) {
                onFind = null;
                first.run();
            }
            return new Found(
                    keys.stream().filter(line::containsKey).map(line::get).toList(), term);
        }

        @Override
        public Entry oldest(Keys keys, Limit limit) {
            return first();
        }

        @Override
        public Granted grant(long length, Limit limit) {
            long id = 100L + ++grants;
            seconds.put(id, length);
            return new Granted(id, length);
        }

        @Override
        public void revoke(long lease, Limit limit) throws Trouble {
            if (loseRevoking) {
                throw Trouble.late("scripted", true, null);
            }
            revoked.add(lease);
            seconds.remove(lease);
            line.values().removeIf(entry -> entry.lease() == lease);
        }

        @Override
        public CompletableFuture<?> revokeSoon(long lease) {
            revoked.add(lease);
            seconds.remove(lease);
            line.values().removeIf(entry -> entry.lease() == lease);
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public long left(long lease, Limit limit) {
            return seconds.getOrDefault(lease, -1L);
        }

        @Override
        public Beat beat(long lease) {
            beats++;
            Long old = beatTerms.poll();
            Proof proof = new Proof(seconds.getOrDefault(lease, 0L), old == null ? term : old);
            return limit -> proof;
        }

        @Override
        public Watching watch(String key) {
            throw new AssertionError("nobody waits here");
        }

        @Override
        public boolean probe(String prefix, Limit limit) {
            return true;
        }

        @Override
        public boolean isClosed() {
            return false;
        }

        @Override
        public void close() {}
    }
}
