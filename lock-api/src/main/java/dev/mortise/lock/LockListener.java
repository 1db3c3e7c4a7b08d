package dev.mortise.lock;

/**
 * Is told what a client does: metrics, tracing and logs bind here. Called in the order of the events, one at a time per
 * client, on a thread of the client that does nothing else meanwhile; a listener that hangs delays no lock. If it does
 * not keep up, events beyond ten thousand waiting ones are dropped and their number is logged. What it throws is
 * logged.
 */
@FunctionalInterface
public interface LockListener {
    void onEvent(LockEvent event);
}
