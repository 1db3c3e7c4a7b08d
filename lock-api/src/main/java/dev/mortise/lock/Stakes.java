package dev.mortise.lock;

import dev.mortise.lock.spi.Consistency;

/** What two holders at a time would cost. Decides which store is strong enough. */
public enum Stakes {
    /** A nuisance: work done twice, a cache filled twice. Any store will do. */
    LOW(Consistency.BEST_EFFORT),
    /** Costly, and noticed: duplicate mails, a report to be repaired. A quorum or a database. */
    MEDIUM(Consistency.QUORUM),
    /** Severe: money, data, a second leader. Only a replicated log. */
    HIGH(Consistency.CONSENSUS);

    private final Consistency least;

    Stakes(Consistency least) {
        this.least = least;
    }

    /** The weakest consistency that suffices. */
    public Consistency least() {
        return least;
    }
}
