package dev.mortise.lock.jdbc;

/** A server of a test's own, which can be killed and started again at the port that it had. */
interface DatabaseServer extends AutoCloseable {
    int port();

    /** STOP or CONT to its processes. */
    void signal(String name);

    /** At once, as a crash of the machine would; the disk keeps what was written. */
    void kill();

    /** After {@link #kill}. Returns when it answers. */
    void start();

    @Override
    void close();
}
