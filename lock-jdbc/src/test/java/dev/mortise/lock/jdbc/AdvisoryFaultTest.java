package dev.mortise.lock.jdbc;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.ResourceLock;

/** On PostgreSQL. What was committed and need not wait for the disk is lost with the memory, if the server loses that. */
// Beside other classes, because most of it is waiting; its methods, which share a server, one after the other.
@Execution(ExecutionMode.CONCURRENT)
@ResourceLock("AdvisoryFaultTest")
class AdvisoryFaultTest extends AdvisoryFaults {
    private static PostgresServer server;

    @BeforeAll
    static void start() {
        server = new PostgresServer("wal_writer_delay=10s");
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @Override
    AdvisoryScene scene() {
        return new Scene(server);
    }
}
