package dev.mortise.lock.tck;

import java.util.OptionalLong;

/**
 * What the locks of a history protect, as a user would have it: a number for each lock, behind a check of the token that
 * comes with every access. One that is smaller than the largest seen for that lock is refused, and a read raises the
 * largest as a write does. Check and access are one atomic step, over all processes that have it open. For any thread.
 *
 * <p>Every client process of the kit opens its own, by {@link Store#resource()}.
 */
public interface ProtectedResource extends AutoCloseable {

    /**
     * The number of this lock; 0 if none was written.
     *
     * @param token of the lease under which it is read
     * @return empty if it was refused
     * @throws Exception if the resource did not answer; then nobody knows whether it saw the token
     */
    OptionalLong read(String name, long token) throws Exception;

    /**
     * Puts another number in its place.
     *
     * @param token of the lease under which it is written
     * @param value positive, and written once only for this lock
     * @return whether it was accepted
     * @throws Exception if the resource did not answer; then nobody knows whether it was written
     */
    boolean write(String name, long token, long value) throws Exception;

    @Override
    default void close() throws Exception {}

    /**
     * How a process opens it.
     *
     * @param type a public class with a public constructor that takes a string, on the class path of the tests
     * @param argument what that takes: a URL, a file. Others on this machine can read it
     */
    record Reference(Class<? extends ProtectedResource> type, String argument) {}
}
