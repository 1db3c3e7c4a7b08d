package dev.mortise.lock.tck;

/**
 * One call, as its caller saw it. All times are readings of one monotonic clock in nanoseconds; on one machine all
 * processes share it.
 *
 * @param attempt the number of the attempt; for a read or write, of the lease that it was done under
 * @param other for an adoption, the attempt that it takes over
 * @param returned when the answer came; {@link Long#MAX_VALUE} if none ever did
 * @param token of the grant; for a read or write, that of the lease
 * @param since of the grant
 * @param lease of the grant, or the one asked for, in nanoseconds
 * @param late so much later than the store gave it did the answer come, at least
 * @param batch how many grants were in the same renewal
 * @param value what was read, or was written and grew from the read of {@code since}; the rest of a refusal
 */
record Event(
        int client,
        int attempt,
        int other,
        String name,
        Op op,
        Outcome outcome,
        long invoked,
        long returned,
        long token,
        long since,
        long lease,
        long late,
        int batch,
        long value) {
    enum Op {
        ACQUIRE,
        AGAIN,
        RENEW,
        RELEASE,
        FOREIGN_RELEASE,
        FOREIGN_RENEW,
        ADOPT,
        EVICT,
        /** Requests for the name waited in the store: no call that was made meanwhile was carried out before its end. */
        HOLD_UP,
        /** A fault lasted from its call to its answer; its name stands for the lock's. Of no client: -1. */
        FAULT,
        /** The client's process stood still. Of no attempt: -1. */
        STOP,
        /** The client's process was killed, and gone at the answer. Of no attempt: -1. */
        KILL,
        READ,
        WRITE,
        /** The client was told, or saw, that its lease was over. */
        LOST
    }

    /** What the caller knows. */
    enum Outcome {
        DONE,
        /** The store said no: held, ended, false, empty. */
        REFUSED,
        UNKNOWN
    }

    /** From when the holder must not count on the lease, as the client counts it. */
    long deadline() {
        return since + lease - margin(lease);
    }

    /** For clocks of different speed, and coarse ones; the client's own. */
    static long margin(long lease) {
        return lease / 100 + 2_000_000;
    }

    static Event of(int client, int attempt, String name, Op op, Outcome outcome, long invoked, long returned) {
        return new Event(client, attempt, -1, name, op, outcome, invoked, returned, 0, 0, 0, 0, 1, 0);
    }

    Event granted(long token, long since, long lease) {
        return new Event(
                client, attempt, other, name, op, outcome, invoked, returned, token, since, lease, late, batch, value);
    }

    Event of(int attempt) {
        return new Event(
                client, attempt, other, name, op, outcome, invoked, returned, token, since, lease, late, batch, value);
    }

    Event after(int other) {
        return new Event(
                client, attempt, other, name, op, outcome, invoked, returned, token, since, lease, late, batch, value);
    }

    Event late(long late) {
        return new Event(
                client, attempt, other, name, op, outcome, invoked, returned, token, since, lease, late, batch, value);
    }

    Event batch(int batch) {
        return new Event(
                client, attempt, other, name, op, outcome, invoked, returned, token, since, lease, late, batch, value);
    }

    Event value(long value) {
        return new Event(
                client, attempt, other, name, op, outcome, invoked, returned, token, since, lease, late, batch, value);
    }
}
