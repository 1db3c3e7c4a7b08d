package dev.mortise.lock.spi;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The answer to an acquire: granted, or held by somebody else. Immutable. */
public final class Attempt {
    private final @Nullable Grant grant;
    private final Duration pause;
    private final @Nullable Duration rest;

    private Attempt(@Nullable Grant grant, Duration pause, @Nullable Duration rest) {
        this.grant = grant;
        this.pause = pause;
        this.rest = rest;
    }

    public static Attempt granted(Grant grant) {
        return new Attempt(Objects.requireNonNull(grant, "grant"), Duration.ZERO, null);
    }

    /**
     * Somebody else holds it, and it is not known for how long. Nothing of this owner is left in the store.
     *
     * @param pause the shortest pause after which it makes sense to ask this store again; the caller lengthens it from
     *     try to try
     */
    public static Attempt held(Duration pause) {
        return new Attempt(null, requirePositive(pause), null);
    }

    /**
     * Somebody else holds it, for at most {@code rest} more unless he renews. Nothing of this owner is left.
     *
     * @param pause as above
     * @param rest what is left of the holder's lease by the store's clock; the caller comes back no later than that
     */
    public static Attempt held(Duration pause, Duration rest) {
        Objects.requireNonNull(rest, "rest");
        return new Attempt(null, requirePositive(pause), rest.isNegative() ? Duration.ZERO : rest);
    }

    private static Duration requirePositive(Duration pause) {
        if (pause.isZero() || pause.isNegative()) {
            throw new IllegalArgumentException("pause must be positive: " + pause);
        }
        return pause;
    }

    /** The grant, or empty if the lock is held. */
    public Optional<Grant> grant() {
        return Optional.ofNullable(grant);
    }

    /** The shortest sensible pause; zero for a grant. */
    public Duration pause() {
        return pause;
    }

    /** What is left of the holder's lease, if the store told. */
    public Optional<Duration> rest() {
        return Optional.ofNullable(rest);
    }

    @Override
    public String toString() {
        return grant != null ? "granted " + grant : "held, pause " + pause + ", rest " + rest;
    }
}
