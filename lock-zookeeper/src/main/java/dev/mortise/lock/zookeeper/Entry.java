package dev.mortise.lock.zookeeper;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.zookeeper.Session.Reply;
import java.util.concurrent.CompletableFuture;
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

    /** Null as long as it does not wait. */
    @Nullable
    Turn turn;

    /** The last removal by this client of a claim that this one may have waited for. */
    volatile @Nullable Passed passed;

    /**
     * What it waits for.
     *
     * @param node the name of the node before it
     * @param come completed when that may be gone
     */
    record Turn(String node, CompletableFuture<Void> come) {}

    /**
     * A node removed, and the queue as it was read behind that.
     *
     * @param node its name
     */
    record Passed(String node, CompletableFuture<Reply> delete, CompletableFuture<Reply> list) {}

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
