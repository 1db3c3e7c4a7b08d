package dev.mortise.lock.spi;

import java.time.Duration;
import java.util.Objects;

/** Who held a lock when the store was asked: for people and logs, never for decisions. Immutable. */
public final class Holder {
    private final String owner;
    private final long token;
    private final Duration rest;

    private Holder(String owner, long token, Duration rest) {
        this.owner = Objects.requireNonNull(owner, "owner");
        this.token = token;
        this.rest = Objects.requireNonNull(rest, "rest");
    }

    /**
     * A holder.
     *
     * @param rest what is left of its lease by the store's clock
     */
    public static Holder of(String owner, long token, Duration rest) {
        return new Holder(owner, token, rest);
    }

    /** The owner id: the holding client's label, a tilde, and a part unique to the attempt. */
    public String owner() {
        return owner;
    }

    public long token() {
        return token;
    }

    /** What was left of the lease, by the store's clock, if it is not renewed. */
    public Duration rest() {
        return rest;
    }

    @Override
    public String toString() {
        return owner + " token " + token + " for " + rest;
    }
}
