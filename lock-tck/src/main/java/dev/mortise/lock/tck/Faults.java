package dev.mortise.lock.tck;

import dev.mortise.lock.spi.StoreEvent;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** Faults between the clients of a {@link Store} and its servers, and of those themselves. For any thread. */
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

    /**
     * Holds up the requests for this name: from the return of this method until what it returned is closed, each one that
     * any client sends waits. It is neither carried out nor refused meanwhile, and carried out then, as if it had just come.
     * Where one name cannot be held up alone, requests for others wait too. Time goes on: what ends meanwhile has ended,
     * within what the backend declares, when requests are carried out again.
     *
     * <p>The farther a request comes before it waits, the more it shows. Best is one that has begun, and waits for a lock
     * that another transaction has on the row, the table or the file: it may have looked at the clock already. {@code CLIENT
     * PAUSE}, or a signal that stops the server for a while, holds it up at the door. The signal will not do where it is the
     * server that has to notice the end of a lease, because it then notices too late. A proxy that keeps requests back does
     * for every store, and shows least.
     *
     * <p>The kit holds up one name at a time, mostly for half a lease, and at most until shortly after the latest end that is
     * declared for one: less than the call timeout, or the calls that wait only fail. It does not {@link Store#evict}
     * meanwhile, and closes once, mostly from another thread, while the thread that called this waits for the answer to a
     * request. {@link #heal} does not end it.
     *
     * @return what ends it at once when it is closed; empty if requests cannot be held up here, and a rule that needs it is
     *     skipped
     * @throws Exception if it could not be done, which ends the run of the kit, as one at the close does
     */
    default Optional<AutoCloseable> holdUp(String name) throws Exception {
        return Optional.empty();
    }

    /**
     * The faults that {@link #begin} can cause here. A declared event that has none of its own fails the kit, and so does one
     * that is not declared and none of whose faults breaks anything: it need not be each of them that does.
     */
    default Set<Fault> possible() {
        return Set.of();
    }

    /**
     * The events that cannot befall this store as it is set up here, each with the reason, such as {@code one server has
     * none that takes over}: the report says that they were not tested. Not for what is merely hard to cause.
     */
    default Map<StoreEvent, String> impossible() {
        return Map.of();
    }

    /**
     * Events that do harm here only now and then, so that one which is not declared may pass without any being seen. They
     * are caused once, and rule 6.6 does not ask for more.
     */
    default Set<StoreEvent> seldom() {
        return Set.of();
    }

    /**
     * Lets this befall the store, and returns when it has: for all clients, those of other processes included. The kit
     * begins one at a time, and calls no other method of this interface until it has ended.
     *
     * @return what ends it, and returns when the store is well again and answers; closed once, from any thread
     * @throws Exception if it could not be done, which ends the run of the kit, as one at the close does
     */
    default AutoCloseable begin(Fault fault) throws Exception {
        throw new UnsupportedOperationException(fault + " cannot be caused here");
    }

    /** Ends {@link #delayReplies}, and {@link #loseReply} if that has befallen nobody yet. */
    void heal();
}
