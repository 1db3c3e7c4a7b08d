package dev.mortise.lock.etcd;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * What is asked of etcd. Each call ends by its limit, whatever the servers do. What it asks for again is said; an entering is
 * never asked for again once it may have been sent. For any thread.
 */
interface Wire extends AutoCloseable {

    /**
     * One owner's key.
     *
     * @param key the whole key
     * @param value what stands in it
     * @param created the revision that made it: the fencing token
     * @param lease on which it is
     */
    record Entry(String key, String value, long created, long lease) {}

    /**
     * A part of a name's line.
     *
     * @param own the own entry, or null
     * @param made whether this call made it
     * @param ahead another one's entry that was there before, or null if the own one is the oldest; where there is no own
     *     one, the oldest
     * @param term of the leader, when it was answered
     */
    record Line(@Nullable Entry own, boolean made, @Nullable Entry ahead, long term) {}

    /**
     * Entries that are there.
     *
     * @param term of the leader, when it was answered
     */
    record Found(List<Entry> entries, long term) {}

    /**
     * The answer to a proof of life.
     *
     * <p>It comes from one server alone, and that may have been the leader once: stopped for a while, it answers before it
     * notices. So it counts only if the term is still the same in the answer to something that a majority stands behind and
     * that was sent after this one came: there is one leader a term, and it was that one then.
     *
     * @param seconds that the lease now has; 0 if there is none of this id; negative if there was no answer
     * @param term which was the server's before it looked at the lease
     */
    record Proof(long seconds, long term) {
        static final Proof NONE = new Proof(-1, 0);
    }

    /**
     * What was removed.
     *
     * @param own what was there, or null
     * @param oldest the oldest of all before, the own one too
     * @param next the oldest of all after
     * @param term of the leader, when it was answered
     * @param again whether an earlier request of this call was left without an answer, and may have removed it
     */
    record Left(
            @Nullable Entry own,
            @Nullable Entry oldest,
            @Nullable Entry next,
            long term,
            boolean again) {
        /**
         * What was removed.
         *
         * @param oldest the two oldest before; the second is the oldest after if the first is what was removed
         */
        static Left of(@Nullable Entry own, List<Entry> oldest, long term, boolean again) {
            Entry first = oldest.isEmpty() ? null : oldest.get(0);
            boolean isOwn = own != null && first != null && own.key().equals(first.key());
            Entry next = isOwn ? oldest.size() < 2 ? null : oldest.get(1) : first;
            return new Left(own, first, next, term, again);
        }
    }

    /**
     * A lease granted.
     *
     * @param seconds as given, which may be more than was asked for
     */
    record Granted(long id, long seconds) {}

    /** One proof of life sent. */
    interface Beat {
        Proof await(Limit limit) throws InterruptedException;
    }

    /** Tells that something has become of a key. For one waiting thread. */
    interface Watching extends AutoCloseable {
        /** Waits until the store watches; false if it does not. */
        boolean begun(Limit limit) throws InterruptedException;

        /** Waits for an event, or for the end of the watch; false if there was neither by the end. */
        boolean await(Limit limit) throws InterruptedException;

        /** Whether it tells nothing any more. */
        boolean isBroken();

        @Override
        void close();
    }

    /** Without a server's name, for messages. */
    String shown();

    /**
     * Enters the line.
     *
     * @param ifFree only if nobody is in it
     * @throws LeaseGone if there is no such lease; nothing was done
     */
    Line enter(Keys keys, String owner, String value, long lease, boolean ifFree, Limit limit)
            throws Trouble, InterruptedException;

    /** Looks at the own entry, and at the one next before it. */
    Line look(Keys keys, String owner, long created, Limit limit) throws Trouble, InterruptedException;

    /** Removes the own entry. Asked again without an answer. */
    Left leave(Keys keys, String owner, Limit limit) throws Trouble, InterruptedException;

    /** Those of these keys that are there. A read that a majority stands behind. */
    Found find(List<String> keys, Limit limit) throws Trouble, InterruptedException;

    /** The oldest of a name. */
    @Nullable
    Entry oldest(Keys keys, Limit limit) throws Trouble, InterruptedException;

    Granted grant(long seconds, Limit limit) throws Trouble, InterruptedException;

    /** Ends a lease, with all keys on it; also fine if there is none. */
    void revoke(long lease, Limit limit) throws Trouble, InterruptedException;

    /** The same; nobody waits for it. */
    CompletableFuture<?> revokeSoon(long lease);

    /** What is left of a lease in whole seconds, rounded down; negative if there is none. */
    long left(long lease, Limit limit) throws Trouble, InterruptedException;

    /** Sends a proof of life. */
    Beat beat(long lease);

    Watching watch(String key);

    /**
     * What is looked at once, when the store is opened.
     *
     * @return whether all servers that were reached are known to leave the leases of a new leader alone
     */
    boolean probe(String prefix, Limit limit) throws Trouble, InterruptedException;

    boolean isClosed();

    @Override
    void close();

    /** There is no such lease. */
    final class LeaseGone extends Trouble {
        private static final long serialVersionUID = 1;

        LeaseGone(@Nullable Throwable cause) {
            super("the lease has ended", "try again", false, cause);
        }
    }
}
