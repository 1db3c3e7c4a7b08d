package dev.mortise.lock;

import dev.mortise.lock.spi.Claim;
import java.io.Serializable;
import java.util.Objects;

/** That a lease ended other than by release. Immutable. */
public final class Loss implements Serializable {
    private static final long serialVersionUID = 1;

    private final String name;
    private final long token;
    private final Reason reason;
    private final String store;

    Loss(String name, long token, Reason reason, String store) {
        this.name = name;
        this.token = token;
        this.reason = Objects.requireNonNull(reason, "reason");
        this.store = store;
    }

    /** How a lease can be lost. */
    public enum Reason {
        /** The deadline passed without a confirmed renewal; the store may still hold the claim, or have given it away. */
        EXPIRED,
        /** The store said that the claim is gone, although its time had not come. */
        REVOKED
    }

    /** The lock's name. */
    public String name() {
        return name;
    }

    /** The token of the lost lease. The resource refuses it as soon as it has seen a larger one. */
    public long token() {
        return token;
    }

    public Reason reason() {
        return reason;
    }

    @Override
    public String toString() {
        return "the lease of '" + Claim.printable(name) + "' with token " + token + " in " + store
                + switch (reason) {
                    case EXPIRED -> " ended without a confirmed renewal";
                    case REVOKED -> " was ended by the store";
                };
    }
}
