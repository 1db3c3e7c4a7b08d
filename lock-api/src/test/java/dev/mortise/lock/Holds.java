package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/** What clients were granted, written down to the backend's advantage, and judged at the end. For any thread. */
public final class Holds {
    private static final AtomicLong OWNERS = new AtomicLong();

    /** One grant: when it was asked for and given, and until when its holder counted on it; all by System.nanoTime. */
    public static final class Hold {
        public final Claim claim;
        public final long asked;
        public final long given;
        public final long token;
        public Grant grant;
        public long until;

        private Hold(Grant grant, long asked, long given) {
            this.claim = grant.claim();
            this.asked = asked;
            this.given = given;
            this.token = grant.token();
            this.grant = grant;
            this.until = deadline(grant);
        }

        @Override
        public String toString() {
            return claim + " " + token + " [" + asked + " " + given + " " + until + "]";
        }
    }

    private final List<Hold> holds = new ArrayList<>();

    /** As the client counts: 1 % for clocks of different speed, and 2 ms for their grain. */
    public static long deadline(Grant grant) {
        long lease = grant.lease().toNanos();
        return grant.since() + lease - lease / 100 - 2_000_000;
    }

    public static Claim claim(String name, Duration lease) {
        return Claim.of(name, "test~" + OWNERS.incrementAndGet(), lease);
    }

    public Optional<Hold> take(LockBackend client, String name, Duration lease) throws InterruptedException {
        return take(client, claim(name, lease));
    }

    public Optional<Hold> take(LockBackend client, Claim claim) throws InterruptedException {
        return take(client, claim, Duration.ZERO);
    }

    public Optional<Hold> take(LockBackend client, Claim claim, Duration patience) throws InterruptedException {
        long asked = System.nanoTime();
        Attempt attempt = client.acquire(claim, patience);
        long given = System.nanoTime();
        return attempt.grant().filter(g -> deadline(g) - given > 0).map(g -> add(new Hold(g, asked, given)));
    }

    /** Takes a lock that is free, or becomes so, as the engine does: what has no answer is undone, and tried again. */
    public Hold sure(LockBackend client, String name, Duration lease) throws InterruptedException {
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (true) {
            Claim claim = claim(name, lease);
            RuntimeException silence = null;
            try {
                Optional<Hold> hold = take(client, claim);
                if (hold.isPresent()) {
                    return hold.get();
                }
            } catch (LockStoreException e) {
                silence = e;
            }
            if (System.nanoTime() - end > 0) {
                throw new AssertionError("not granted: " + name, silence);
            }
            try {
                client.release(claim);
            } catch (LockStoreException e) {
                Thread.sleep(20);
            }
        }
    }

    private synchronized Hold add(Hold hold) {
        holds.add(hold);
        return hold;
    }

    /** Whether it is still held. */
    public boolean renew(LockBackend client, Hold hold) {
        Renewal renewal = client.renew(List.of(hold.grant));
        synchronized (this) {
            long now = System.nanoTime();
            if (!renewal.ended().isEmpty()) {
                hold.until = Math.min(hold.until, now);
            } else if (!renewal.live().isEmpty() && now - hold.until < 0) {
                hold.grant = renewal.live().get(0);
                hold.until = deadline(hold.grant);
                assertThat(hold.grant.token()).isEqualTo(hold.token);
                return true;
            }
        }
        return false;
    }

    public boolean release(LockBackend client, Hold hold) {
        synchronized (this) {
            hold.until = Math.min(hold.until, System.nanoTime());
        }
        return client.release(hold.claim);
    }

    public synchronized int size() {
        return holds.size();
    }

    /** So many were asked for after this moment, and granted. */
    public synchronized long since(long moment) {
        return holds.stream().filter(hold -> hold.asked - moment > 0).count();
    }

    /**
     * No two grants with one token; every acquisition that began after a grant has a larger one; and, unless a clock was
     * stepped, no overlap, and tokens in the order of holding.
     */
    public synchronized void judge(boolean clocksStepped) {
        holds.stream()
                .collect(Collectors.groupingBy(hold -> hold.claim.name()))
                .values()
                .forEach(ofName -> judge(ofName, clocksStepped));
    }

    private static void judge(List<Hold> all, boolean clocksStepped) {
        List<Hold> given = all.stream()
                .sorted(Comparator.comparingLong(hold -> hold.given))
                .toList();
        List<Hold> asked = all.stream()
                .sorted(Comparator.comparingLong(hold -> hold.asked))
                .toList();
        Set<Long> tokens = new HashSet<>();
        given.forEach(hold -> assertThat(tokens.add(hold.token))
                .as("one token twice: %s", hold)
                .isTrue());
        Hold largest = null;
        int granted = 0;
        for (Hold hold : asked) {
            for (; granted < given.size() && given.get(granted).given - hold.asked < 0; granted++) {
                Hold earlier = given.get(granted);
                largest = largest == null || earlier.token > largest.token ? earlier : largest;
            }
            if (largest != null) {
                assertThat(hold.token)
                        .as("a later acquisition has no larger token: %s and %s", largest, hold)
                        .isGreaterThan(largest.token);
            }
        }
        if (!clocksStepped) {
            Hold last = null;
            for (Hold hold : given) {
                if (last != null) {
                    assertThat(hold.token)
                            .as("tokens out of the order of holding: %s and %s", last, hold)
                            .isGreaterThan(last.token);
                    assertThat(hold.given - last.until)
                            .as("two holders: %s and %s", last, hold)
                            .isNotNegative();
                }
                // Without an overlap so far, the last one to begin is the last one to end.
                last = hold;
            }
        }
    }
}
