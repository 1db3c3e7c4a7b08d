package dev.mortise.lock.spi;

/** How strong a store's word is, weakest first. Compare with {@link #compareTo}. */
public enum Consistency {
    /** One server whose failover or restart can lose the lock. */
    BEST_EFFORT,
    /** A majority of independent servers: a minority may be lost, clocks may not jump. */
    QUORUM,
    /** As strong as one database and its failover. */
    DATABASE,
    /** A replicated log: no acknowledged grant is lost while a majority lives. */
    CONSENSUS
}
