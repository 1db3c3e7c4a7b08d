package dev.mortise.lock;

import dev.mortise.lock.spi.Claim;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/** One thing that happened to a lock in this client. Immutable. */
public final class LockEvent {
    private final Kind kind;
    private final String store;
    private final String name;
    private final String owner;
    private final long token;
    private final Duration took;
    private final Duration remaining;
    private final @Nullable Throwable cause;

    LockEvent(
            Kind kind,
            String store,
            String name,
            String owner,
            long token,
            Duration took,
            Duration remaining,
            @Nullable Throwable cause) {
        this.kind = kind;
        this.store = store;
        this.name = name;
        this.owner = owner;
        this.token = token;
        this.took = took;
        this.remaining = remaining;
        this.cause = cause;
    }

    /** What happened. */
    public enum Kind {
        /** The store is asked for the lock. */
        ATTEMPT,
        /** The lock was not acquired: held by somebody else until the patience ended, or the store failed. */
        WAITED,
        /** The lock was acquired. */
        ACQUIRED,
        /** The store confirmed a renewal. */
        RENEWED,
        /** A renewal was not answered; the lease is still good for {@link #remaining()}, and the store is asked again. */
        UNCERTAIN,
        /** The lease was lost, or reached the end chosen for it. */
        LOST,
        /** The lease was released by its holder, or detached to be handed over. */
        RELEASED,
        /** The store did not acknowledge a release; it is asked again until the claim must have ended by itself. */
        UNRELEASED,
        /** The holder dropped its handle without releasing it; the client released it. */
        LEAKED
    }

    public Kind kind() {
        return kind;
    }

    /** The store, without secrets. */
    public String store() {
        return store;
    }

    /** The lock's name. */
    public String name() {
        return name;
    }

    /** The owner id of the claim; empty if none was made. */
    public String owner() {
        return owner;
    }

    /** The fencing token; empty for ATTEMPT and WAITED, and for UNRELEASED of a claim that was never granted. */
    public OptionalLong token() {
        return token == 0 ? OptionalLong.empty() : OptionalLong.of(token);
    }

    /** ACQUIRED, WAITED: since the acquire was called. RELEASED, LOST, LEAKED: since it was acquired. Else zero. */
    public Duration took() {
        return took;
    }

    /** The lower bound of what is left of the lease, at the time of the event. */
    public Duration remaining() {
        return remaining;
    }

    /** What the store threw: for UNCERTAIN, UNRELEASED, and WAITED after a failure. */
    public Optional<Throwable> cause() {
        return Optional.ofNullable(cause);
    }

    @Override
    public String toString() {
        return kind + " " + Claim.printable(name) + (token == 0 ? "" : " token " + token) + " in " + store;
    }
}
