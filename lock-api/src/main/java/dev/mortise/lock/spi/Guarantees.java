package dev.mortise.lock.spi;

import java.time.Duration;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * What a backend promises. Declared, not found out: the compatibility kit tests that neither too much nor too little is
 * declared. Immutable.
 */
public final class Guarantees {
    private final Consistency consistency;
    private final Set<StoreEvent> exclusionSurvives;
    private final Set<StoreEvent> tokensSurvive;
    private final Duration shortestLease;
    private final Duration longestLease;
    private final Duration granularity;
    private final UnaryOperator<Duration> freedWithin;
    private final boolean fair;
    private final boolean outlivesClient;

    private Guarantees(Builder b) {
        consistency = b.consistency;
        exclusionSurvives = declared(b.exclusionSurvives, "exclusionSurvives");
        tokensSurvive = declared(b.tokensSurvive, "tokensSurvive");
        shortestLease = declared(b.shortestLease, "leases");
        longestLease = declared(b.longestLease, "leases");
        granularity = declared(b.granularity, "leases");
        freedWithin = declared(b.freedWithin, "freedWithin");
        fair = b.fair;
        outlivesClient = b.outlivesClient;
    }

    private static <T> T declared(@Nullable T value, String what) {
        if (value == null) {
            throw new IllegalStateException("a backend must declare " + what);
        }
        return value;
    }

    public static Builder builder(Consistency consistency) {
        return new Builder(consistency);
    }

    public Consistency consistency() {
        return consistency;
    }

    /** The events through which two holders' leases never overlap. */
    public Set<StoreEvent> exclusionSurvives() {
        return exclusionSurvives;
    }

    /** The events through which tokens stay unique and growing. */
    public Set<StoreEvent> tokensSurvive() {
        return tokensSurvive;
    }

    /** The shortest lease; a shorter one asked for is raised to it. */
    public Duration shortestLease() {
        return shortestLease;
    }

    /** The longest lease; a longer one is refused before any I/O. */
    public Duration longestLease() {
        return longestLease;
    }

    /** The unit of leases: others are rounded up to a multiple. */
    public Duration granularity() {
        return granularity;
    }

    /** The time, from its last renewal's arrival, within which a claim of this lease ends by itself. */
    public Duration freedWithin(Duration lease) {
        return freedWithin.apply(lease);
    }

    /**
     * True if claims that wait in the store are served in the order of their arrival there. Waiters inside one client
     * are always served in order; nothing orders waiters of two clients on a store that is not fair.
     */
    public boolean fair() {
        return fair;
    }

    /** True if a claim lives on when its client closes or dies, until its lease ends: needed for a hand-over. */
    public boolean outlivesClient() {
        return outlivesClient;
    }

    @Override
    public String toString() {
        return consistency + ", exclusion survives " + exclusionSurvives + ", tokens survive " + tokensSurvive
                + ", leases "
                + shortestLease + " to " + longestLease + (fair ? ", fair" : "")
                + (outlivesClient ? ", outlives its client" : "");
    }

    /** Collects a declaration; everything but {@link #fair} and {@link #outlivesClient} must be said. */
    public static final class Builder {
        private final Consistency consistency;
        private @Nullable Set<StoreEvent> exclusionSurvives;
        private @Nullable Set<StoreEvent> tokensSurvive;
        private @Nullable Duration shortestLease;
        private @Nullable Duration longestLease;
        private @Nullable Duration granularity;
        private @Nullable UnaryOperator<Duration> freedWithin;
        private boolean fair;
        private boolean outlivesClient;

        private Builder(Consistency consistency) {
            this.consistency = Objects.requireNonNull(consistency, "consistency");
        }

        public Builder exclusionSurvives(StoreEvent... events) {
            exclusionSurvives = set(events);
            return this;
        }

        public Builder tokensSurvive(StoreEvent... events) {
            tokensSurvive = set(events);
            return this;
        }

        /** The range and the unit of leases. */
        public Builder leases(Duration shortest, Duration longest, Duration granularity) {
            if (shortest.compareTo(Duration.ofMillis(1)) < 0 || longest.compareTo(shortest) < 0) {
                throw new IllegalArgumentException("leases from " + shortest + " to " + longest);
            }
            if (granularity.isZero() || granularity.isNegative()) {
                throw new IllegalArgumentException("granularity must be positive: " + granularity);
            }
            shortestLease = shortest;
            longestLease = longest;
            this.granularity = granularity;
            return this;
        }

        /** A function from the lease to the time within which a claim ends by itself. */
        public Builder freedWithin(UnaryOperator<Duration> function) {
            freedWithin = Objects.requireNonNull(function, "function");
            return this;
        }

        public Builder fair(boolean fair) {
            this.fair = fair;
            return this;
        }

        public Builder outlivesClient(boolean outlivesClient) {
            this.outlivesClient = outlivesClient;
            return this;
        }

        /** The declaration; {@link IllegalStateException} if something was not said. */
        public Guarantees build() {
            return new Guarantees(this);
        }

        private static Set<StoreEvent> set(StoreEvent... events) {
            EnumSet<StoreEvent> set = EnumSet.noneOf(StoreEvent.class);
            Collections.addAll(set, events);
            return Collections.unmodifiableSet(set);
        }
    }
}
