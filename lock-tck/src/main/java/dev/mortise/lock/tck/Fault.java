package dev.mortise.lock.tck;

import dev.mortise.lock.spi.StoreEvent;

/**
 * What the kit lets befall a store and the way to it, as {@link Faults#begin} does it. Each stands for an event of {@link
 * dev.mortise.lock.spi.Guarantees}: a backend that declares to survive the event is put through every one of its faults
 * that can be had.
 *
 * <p>"Ends" is the close of what {@code begin} returned. From then on the store is well, and answers.
 */
public enum Fault {
    /** All connections of all clients break at once; new ones can be made. It is over when it has begun. */
    CONNECTIONS_BROKEN(StoreEvent.CONNECTION_LOSS),
    /** What clients and servers send each other is lost, and no connection breaks, until it ends. */
    NETWORK_GONE(StoreEvent.CONNECTION_LOSS),
    /** Requests take effect, and their answers are lost; no connection breaks until it ends, and then those do. */
    REPLIES_LOST(StoreEvent.CONNECTION_LOSS),
    /**
     * What is sent over the connections that are there now is kept, and arrives when it ends, also if its sender has given
     * up; connections that are made meanwhile work.
     */
    REQUESTS_LATE(StoreEvent.CONNECTION_LOSS),
    /** The server's process, all of them where there are several, stands still until it ends, as by SIGSTOP. */
    SERVER_STOPPED(StoreEvent.CONNECTION_LOSS),
    /** The server's process, each one where there are several, is killed, and started again with its data when it ends. */
    SERVER_KILLED(StoreEvent.STORE_RESTART),
    /** As {@link #SERVER_KILLED}, and starts without any data. Where there are several, so many that it shows. */
    DATA_LOST(StoreEvent.RESTART_WITHOUT_DATA),
    /** As {@link #SERVER_KILLED}, and starts with a copy of its data that was made before the fault began. */
    DATA_OLD(StoreEvent.RESTART_WITHOUT_DATA),
    /** The server that leads is killed, and another has taken over when it has begun; it comes back when it ends. */
    LEADER_KILLED(StoreEvent.FAILOVER),
    /**
     * The server that leads is cut off from the other servers, and not from clients that are connected to it; another has
     * taken over when it has begun, and new clients find that one. The network is whole again when it ends.
     */
    LEADER_CUT_OFF(StoreEvent.FAILOVER),
    /** The server that leads stands still, and another has taken over when it has begun; it goes on when it ends. */
    LEADER_STOPPED(StoreEvent.FAILOVER),
    /** As many servers are killed as may be lost; they come back when it ends. */
    MINORITY_KILLED(StoreEvent.MINORITY_LOSS),
    /**
     * As many servers as may be lost, none of which leads, are cut off from the others, and not from clients that are
     * connected to them. The network is whole again when it ends.
     */
    MINORITY_CUT_OFF(StoreEvent.MINORITY_LOSS),
    /** The wall clock of the store, or of one server, goes an hour ahead until it ends. */
    CLOCK_FORWARD(StoreEvent.STORE_CLOCK_STEP),
    /** The wall clock of the store, or of one server, goes an hour back until it ends. */
    CLOCK_BACK(StoreEvent.STORE_CLOCK_STEP);

    private final StoreEvent event;

    Fault(StoreEvent event) {
        this.event = event;
    }

    /** The event that it is one case of. */
    public StoreEvent event() {
        return event;
    }
}
