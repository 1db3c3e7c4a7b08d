package dev.mortise.lock;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The store gave no usable answer. The message says which store, what was tried and what to do.
 *
 * <p>It never means that somebody else holds the lock: that is an empty result.
 */
public final class LockStoreException extends LockException {
    private static final long serialVersionUID = 1;

    private final String store;
    private final boolean mayHaveTakenEffect;

    /**
     * For backends.
     *
     * @param store the store as people know it, without secrets
     * @param tried what was tried and what came of it, such as {@code acquire invoice-42: connection refused}
     * @param advice what to do, such as {@code check that the server runs}
     * @param mayHaveTakenEffect false only if the request certainly did nothing to the store and never will
     */
    public LockStoreException(
            String store, String tried, String advice, boolean mayHaveTakenEffect, @Nullable Throwable cause) {
        super(store + ": " + tried + "; " + advice, cause);
        this.store = Objects.requireNonNull(store, "store");
        this.mayHaveTakenEffect = mayHaveTakenEffect;
    }

    /** The store as people know it, without secrets. */
    public String store() {
        return store;
    }

    /**
     * Whether the request may have taken effect in the store, now or later. The client has then begun to undo it; see
     * {@link LockClient}.
     */
    public boolean mayHaveTakenEffect() {
        return mayHaveTakenEffect;
    }
}
