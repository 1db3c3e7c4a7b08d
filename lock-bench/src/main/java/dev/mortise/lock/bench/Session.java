package dev.mortise.lock.bench;

/** A client that is connected. For any threads; ends with its process. */
interface Session {
    /** The lock of this name for one thread: a floor gives it a connection of its own. */
    Door door(String name) throws Exception;

    /** Not for several threads. */
    interface Door extends AutoCloseable {
        /** Waits as long as it takes. */
        void acquire() throws Exception;

        void release() throws Exception;

        @Override
        default void close() throws Exception {}
    }
}
