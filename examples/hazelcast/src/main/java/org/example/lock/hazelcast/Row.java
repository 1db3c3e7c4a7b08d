package org.example.lock.hazelcast;

import java.io.InvalidObjectException;
import java.io.Serial;
import java.io.Serializable;

/**
 * What the map keeps for a name, for ever: the owner of the live claim, if there is one, and the token given last.
 *
 * <p>The end of the lease is a reading of this JVM's {@code System.nanoTime()}, which means nothing to another JVM: what is
 * sent is the rest of the lease, and whoever receives it counts from its arrival. So no wall clock is asked anywhere, and a
 * member that takes over ends no lease early.
 *
 * @param owner the owner id, or empty: the lock is free
 * @param token of the latest grant; 0 if there was none
 * @param end of the lease, by the clock of this JVM
 */
record Row(String owner, long token, long end) implements Serializable {
    static final Row NEW = new Row("", 0, 0);

    boolean live() {
        return !owner.isEmpty() && rest() > 0;
    }

    boolean heldBy(String other) {
        return owner.equals(other) && live();
    }

    /** Nanoseconds to the end of the lease. */
    long rest() {
        return end - System.nanoTime();
    }

    /** The same claim or another, with a lease from now on. */
    static Row from(String owner, long token, long lease) {
        return new Row(owner, token, System.nanoTime() + lease);
    }

    @Serial
    private Object writeReplace() {
        return new Sent(Sent.FORMAT, owner, token, rest());
    }

    /** On its way to another JVM. */
    private record Sent(int format, String owner, long token, long rest) implements Serializable {
        /** Raised when the meaning of what is kept changes. */
        private static final int FORMAT = 1;

        @Serial
        private Object readResolve() throws InvalidObjectException {
            if (format != FORMAT) {
                throw new InvalidObjectException("the locks are kept in format " + format + ", and this is for " + FORMAT
                        + ": run one version of lock-hazelcast on all members and clients");
            }
            return from(owner, token, rest);
        }
    }
}
