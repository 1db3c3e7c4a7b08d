package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.jdbc.MariaDbServer;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** {@code mortise run} on MariaDB, by its default strategy: the advisory lock. */
class MariaDbOutliveTest extends Outliving {
    private final MariaDbServer server = new MariaDbServer();

    @AfterEach
    void stop() {
        server.close();
    }

    @Override
    List<String> store() {
        return List.of("--store", server.url("test"), "-o", "user=test");
    }

    /** The release waits for the server for a call timeout, a quarter of the lease, and so does the end of the client. */
    @Override
    int endedWithin() {
        return super.endedWithin() + LEASE / 4;
    }

    @Override
    void loseStore() {
        server.signal("STOP");
    }

    @Override
    void bringStoreBack() {
        server.signal("CONT");
    }

    /** The port is nobody's: one line that says what was tried, and nothing has run. */
    @Test
    void noStore() throws Exception {
        server.kill();
        Mortise next = next();
        assertThat(next.exit()).isEqualTo(69);
        assertThat(next.err()).contains(server.url("test")).hasLineCount(1);
        assertThat(next.out()).isEmpty();
        Files.createFile(log());
    }
}
