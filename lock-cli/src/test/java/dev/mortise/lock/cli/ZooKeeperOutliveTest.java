package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.zookeeper.ZooKeeperServer;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** {@code mortise run} on one ZooKeeper. */
class ZooKeeperOutliveTest extends Outliving {
    private final ZooKeeperServer server =
            new ZooKeeperServer("tickTime=200", "minSessionTimeout=400", "maxSessionTimeout=60000");

    @AfterEach
    void stop() {
        server.close();
    }

    @Override
    List<String> store() {
        return List.of("--store", "zookeeper://127.0.0.1:" + server.port());
    }

    /** Two leases and a half, by its declaration: a session is twice as long as the leases in it. */
    @Override
    int freedWithin() {
        return 5 * LEASE / 2 + 2;
    }

    /**
     * ZooKeeper's client rests for up to a second before it connects again and hears that its session has ended; the release may not
     * be acknowledged by then, which is said.
     */
    @Override
    void assertSaysNoMore(String err) {
        if (err.lines().count() > 1) {
            assertThat(err).contains("did not acknowledge the release of x by");
        }
    }

    /** Its client waits for the end of its session too, for at most the call timeout, a quarter of the lease. */
    @Override
    int endedWithin() {
        return super.endedWithin() + LEASE / 4 + 1;
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
        assertThat(next.err())
                .contains("zookeeper://127.0.0.1:" + server.port())
                .hasLineCount(1);
        assertThat(next.out()).isEmpty();
        Files.createFile(log());
    }
}
