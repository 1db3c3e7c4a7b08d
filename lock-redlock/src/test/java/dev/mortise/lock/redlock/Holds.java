package dev.mortise.lock.redlock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;

/** What clients were granted, written down to the backend's advantage, and judged at the end. For any thread. */
final class Holds {
    private static final AtomicLong OWNERS = new AtomicLong();

    /** One grant: when it was asked for and given, and until when its holder counted on it; all by System.nanoTime. */
    static final class Hold {
        final Claim claim;
        final long asked;
        final long given;
        final long token;
        Grant grant;
        long until;

        private Hold(Grant grant, long asked, long given) {
            this.claim = grant.claim();
            this.asked = asked;
            this.given = given;
            this.token = grant.token();
            this.grant = grant;
            this.until = deadline(grant);
        }
    }

    private final List<Hold> holds = new ArrayList<>();

    static long deadline(Grant grant) {
        return grant.since()
                + grant.lease().toNanos()
                - Protocol.margin(grant.lease().toMillis());
    }

    static Claim claim(String name, Duration lease) {
        return Claim.of(name, "test~" + OWNERS.incrementAndGet(), lease);
    }

    Optional<Hold> take(LockBackend client, String name, Duration lease) throws InterruptedException {
        return take(client, claim(name, lease));
    }

    Optional<Hold> take(LockBackend client, Claim claim) throws InterruptedException {
        long asked = System.nanoTime();
        Attempt attempt = client.acquire(claim, Duration.ZERO);
        long given = System.nanoTime();
        return attempt.grant().filter(g -> deadline(g) - given > 0).map(g -> add(new Hold(g, asked, given)));
    }

    /** Takes a lock that is free, or becomes so, as the engine does: what has no answer is undone, and tried again. */
    Hold sure(LockBackend client, String name, Duration lease) throws InterruptedException {
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
    boolean renew(LockBackend client, Hold hold) {
        List<Grant> live = client.renew(List.of(hold.grant)).live();
        synchronized (this) {
            if (!live.isEmpty() && System.nanoTime() - hold.until < 0) {
                hold.grant = live.get(0);
                hold.until = deadline(hold.grant);
                assertThat(hold.grant.token()).isEqualTo(hold.token);
                return true;
            }
        }
        return false;
    }

    boolean release(LockBackend client, Hold hold) {
        synchronized (this) {
            hold.until = Math.min(hold.until, System.nanoTime());
        }
        return client.release(hold.claim);
    }

    synchronized int size() {
        return holds.size();
    }

    /**
     * No two grants with one token; every acquisition that began after a grant has a larger one; and, unless a clock was
     * stepped, no overlap, and tokens in the order of holding.
     */
    synchronized void judge(boolean clocksStepped) {
        for (Hold a : holds) {
            for (Hold b : holds) {
                if (a == b || !a.claim.name().equals(b.claim.name())) {
                    continue;
                }
                String both = a.claim + " " + a.token + " [" + a.asked + " " + a.given + " " + a.until + "] and "
                        + b.claim + " " + b.token + " [" + b.asked + " " + b.given + " " + b.until + "]";
                assertThat(a.token).as("one token twice: " + both).isNotEqualTo(b.token);
                if (a.given - b.asked < 0) {
                    assertThat(b.token)
                            .as("a later acquisition has no larger token: " + both)
                            .isGreaterThan(a.token);
                }
                if (!clocksStepped && a.given - b.given <= 0) {
                    assertThat(b.token)
                            .as("tokens out of the order of holding: " + both)
                            .isGreaterThan(a.token);
                    assertThat(b.given - a.until).as("two holders: " + both).isNotNegative();
                }
            }
        }
    }
}
