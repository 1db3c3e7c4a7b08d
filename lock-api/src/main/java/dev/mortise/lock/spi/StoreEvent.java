package dev.mortise.lock.spi;

/** What can befall a store or a holder. A backend declares which of these exclusion and tokens survive. */
public enum StoreEvent {
    /** A claim is released, or its lease ends. */
    RELEASE_AND_EXPIRY,
    /** A client is killed or stopped. */
    CLIENT_CRASH,
    /** A client's connection breaks, or hangs. */
    CONNECTION_LOSS,
    /** A server is killed and comes back with its data. */
    STORE_RESTART,
    /** A server comes back without its data, or with old data. */
    RESTART_WITHOUT_DATA,
    /** Another server takes over from one that is gone or cut off. */
    FAILOVER,
    /** Fewer than half of the servers are lost. */
    MINORITY_LOSS,
    /** The wall clock of a server is set forward or back. */
    STORE_CLOCK_STEP
}
