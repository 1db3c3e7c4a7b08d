package dev.mortise.lock.tck;

import java.time.Duration;

/** Faults between the clients of a {@link Store} and its servers. For any thread. */
public interface Faults {

    /**
     * From now on each answer of the store reaches its client this much later than it was given, for all clients of the
     * store. Less than the call timeout.
     */
    void delayReplies(Duration by);

    /**
     * The next request of any client takes effect, and its answer is lost: the call fails, as it does when a connection
     * breaks at that moment.
     */
    void loseReply();

    /** Ends all faults, also one that has befallen nobody yet. */
    void heal();
}
