package dev.mortise.lock;

/** Work to be done while a lock is held. */
@FunctionalInterface
public interface LockBody<E extends Exception> {
    /** Does the work; {@code lease} gives the token, and the checkpoint for long loops. */
    void run(Lease lease) throws E;
}
