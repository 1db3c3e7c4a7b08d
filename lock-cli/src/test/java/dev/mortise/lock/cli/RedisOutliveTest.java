package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.redis.RedisServer;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** {@code mortise run} on one Redis. */
class RedisOutliveTest extends Outliving {
    private final RedisServer server = new RedisServer("--appendonly", "yes", "--appendfsync", "always");

    @AfterEach
    void stop() {
        server.close();
    }

    @Override
    List<String> store() {
        return List.of("--store", "redis://127.0.0.1:" + server.port());
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
        assertThat(next.err()).contains("redis://127.0.0.1:" + server.port()).hasLineCount(1);
        assertThat(next.out()).isEmpty();
        java.nio.file.Files.createFile(log());
    }
}
