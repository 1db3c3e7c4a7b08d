package dev.mortise.lock.zookeeper;

import dev.mortise.lock.spi.Claim;
import org.jspecify.annotations.Nullable;

/** What a client knows of one of its claims. Guarded by itself. */
final class Entry {
    final Claim claim;
    final String container;
    final String prefix;

    /** Where it lives, if anywhere; never another one once a node may have been made. */
    @Nullable
    Session session;

    /** Its node; null if none was made, or nobody told. */
    @Nullable
    String path;

    long token;
    boolean granted;

    /** An acquire is on its way. */
    boolean busy = true;

    /** Waits for its turn, with a node that keeps its place. */
    boolean waiting;

    /** The owner has released it, or its own end has come: it is being removed. */
    boolean over;

    boolean removing;

    /** When it ends by itself, unless it is renewed; 0 as long as an acquire is on its way. */
    long end;

    boolean hasEnd;

    Entry(Claim claim, Paths paths) {
        this.claim = claim;
        container = paths.container(claim.name());
        prefix = paths.prefix(claim.name(), claim.owner());
    }

    synchronized void endsAt(long at) {
        end = at;
        hasEnd = true;
    }
}
