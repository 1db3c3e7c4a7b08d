package dev.mortise.lock.jdbc;

import java.util.Objects;

/**
 * A transaction came with a token older than one that the resource has seen: its lock has been taken by somebody else
 * since. Nothing was read or written; roll the transaction back and give the work up.
 */
public final class StaleTokenException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String resource;
    private final long token;
    private final long newest;

    StaleTokenException(String resource, String shown, long token, long newest) {
        super("token " + token + " for " + shown + " is stale: the resource has seen token " + newest
                + ", so the lock was taken by somebody else since");
        this.resource = Objects.requireNonNull(resource, "resource");
        this.token = token;
        this.newest = newest;
    }

    /** The resource asked for. */
    public String resource() {
        return resource;
    }

    /** The token that was refused. */
    public long token() {
        return token;
    }

    /** The largest token that the resource has seen. */
    public long newest() {
        return newest;
    }
}
