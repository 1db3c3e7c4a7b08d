package dev.mortise.lock.zookeeper;

import java.util.ArrayDeque;

/**
 * Until when a session is certain to live, as far as the answers show that it has had.
 *
 * <p>A session ends when its <em>leader</em> has heard nothing of it for the session's timeout S. But the leader does not hear of
 * a client's requests: the server that the client is connected to notes that the client was there, and tells the leader in its
 * answer to the leader's next ping, sent every half tick. A write that this server forwards does not restart the leader's timer,
 * and neither does its commit. So an answered write proves nothing by itself. What proves it is a chain of three:
 *
 * <ol>
 *   <li><b>w1</b>, any request, sent at t1 and answered at r1: from r1 on at the latest the server has it noted;
 *   <li><b>w2</b>, a write sent at r1 + τ or later, and answered at r2. It was committed by a leader that had a ping due
 *       since r1, so that a ping left the leader after r1 and before the commit, or at the commit's heels before it; and it
 *       came to the server before the commit did, because they take the same way. So by r2 the server has answered a ping
 *       that it got after r1, and told of the client;
 *   <li><b>w3</b>, a write sent at r2 or later: it took the same way as that answer and came behind it. When w3 was
 *       committed, the leader had been told, after t1, that the client is there.
 * </ol>
 *
 * So the session lives until t1 + S at least. τ is the time between two pings: half a tick, which is at most a quarter of the
 * shortest session timeout, as long as that is two ticks or more, its default. Delays on the network and pauses of the client's
 * server only make it later. If the client changes its server in between, the new one asks the leader whether the session
 * lives, which restarts the timer; a new leader restarts all timers. A session's creation starts it at the leader, by a commit:
 * a new session lives until S after the connection was begun.
 *
 * <p>What remains is said in {@code docs/stores/zookeeper.md}: a leader whose thread for pings is due and does not get to run while
 * it commits writes, for as long as that. This is why the proof is asked for two ways, w2 and w3, and why leases are half a
 * session.
 *
 * <p>Source: ZooKeeper 3.9.5, {@code Leader.lead}, {@code LearnerHandler.run}, {@code Learner.ping}, {@code
 * SessionTrackerImpl.touchSession}. For any thread.
 */
final class Proof {
    private final long tau;
    private final long grain;
    private long timeout;
    private boolean opened;
    private long end;

    /** w1, oldest first: when it was sent and answered. */
    private final ArrayDeque<long[]> requests = new ArrayDeque<>();

    /** w2, oldest first: when it was answered, and the t1 that it stands for. */
    private final ArrayDeque<long[]> writes = new ArrayDeque<>();

    private long lastBase;

    /**
     * Of a session that is not open yet.
     *
     * @param tau the longest time between two pings of the leader, in nanoseconds
     * @param grain requests that follow each other within less need not be told apart
     */
    Proof(long tau, long grain) {
        this.tau = tau;
        this.grain = grain;
    }

    /** It was made over a connection begun at this time or later. */
    synchronized void opened(long begun, long timeout) {
        this.timeout = timeout;
        opened = true;
        end = begun + timeout;
        lastBase = begun;
    }

    /** A request was answered by the server. A write counts as one only if it has taken effect. */
    synchronized void answered(long sent, long at, boolean write) {
        if (!opened) {
            return;
        }
        if (write) {
            while (!writes.isEmpty() && writes.peekFirst()[0] - sent <= 0) {
                end = Math.max(end - lastBase, writes.pollFirst()[1] + timeout - lastBase) + lastBase;
            }
            long[] first = null;
            while (!requests.isEmpty() && requests.peekFirst()[1] - (sent - tau) <= 0) {
                first = requests.pollFirst();
            }
            if (first != null) {
                // It may serve the next write as well: nothing later may be old enough then.
                requests.addFirst(first);
                if (first[0] - lastBase > 0) {
                    lastBase = first[0];
                    writes.addLast(new long[] {at, first[0]});
                }
            }
        }
        long[] last = requests.peekLast();
        if (last == null || sent - last[0] >= grain) {
            requests.addLast(new long[] {sent, at});
        }
    }

    /** Until when the session lives at least; only if {@link #isOpened}. */
    synchronized long end() {
        return end;
    }

    synchronized boolean isOpened() {
        return opened;
    }
}
