package dev.mortise.lock.spi;

import java.time.Duration;
import java.util.Objects;

/** The store's yes to a claim: lease, fencing token and the moment it counts from. Immutable. */
public final class Grant {
    private final Claim claim;
    private final Duration lease;
    private final long token;
    private final long since;

    Grant(Claim claim, Duration lease, long token, long since) {
        this.claim = claim;
        this.lease = Objects.requireNonNull(lease, "lease");
        this.token = token;
        this.since = since;
        if (lease.isNegative()) {
            throw new IllegalArgumentException("lease must not be negative: " + lease);
        }
        if (token <= 0) {
            throw new IllegalArgumentException("token must be positive: " + token);
        }
    }

    /** The same grant after a renewal: the same lease, from a later {@code since}. */
    public Grant renewed(long since) {
        return new Grant(claim, lease, token, since);
    }

    /** The same grant after a renewal that the store gave another length. */
    public Grant renewed(Duration lease, long since) {
        return new Grant(claim, lease, token, since);
    }

    public Claim claim() {
        return claim;
    }

    public String name() {
        return claim.name();
    }

    public String owner() {
        return claim.owner();
    }

    /** What the holder may count on from {@link #since()}; may differ from the lease asked for. */
    public Duration lease() {
        return lease;
    }

    /** The fencing token: positive, one per grant, kept by every renewal. */
    public long token() {
        return token;
    }

    /**
     * A reading of {@link BackendContext#nanoTime()}, in nanoseconds, taken before the send of the last request known
     * to have started or restarted the lease.
     */
    public long since() {
        return since;
    }

    @Override
    public String toString() {
        return claim + " token " + token + " lease " + lease;
    }
}
