package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The tests' own tool does what the tests believe. */
class RedisServerTest {
    @Test
    void startsAgainWithWhatIsLeft() {
        try (RedisServer server = new RedisServer("--appendonly", "yes", "--appendfsync", "always")) {
            server.ask("SET", "a", "ä 1");
            server.kill();
            assertThatThrownBy(() -> server.ask("PING")).isInstanceOf(UncheckedIOException.class);
            server.start();
            assertThat(server.ask("GET", "a")).isEqualTo("ä 1");
            server.kill();
            server.wipe();
            server.start();
            assertThat(server.ask("MGET", "a", "b")).isEqualTo(java.util.Arrays.asList(null, null));
        }
    }

    @Test
    void countsAndCleansUp() {
        RedisServer server = new RedisServer("--requirepass", "secret");
        try (server) {
            server.ask("CONFIG", "RESETSTAT");
            server.ask("EVAL", "return redis.call('GET', KEYS[1])", "1", "k");
            assertThat(server.calls()).containsEntry("get", 1L).containsEntry("eval", 1L);
            assertThatThrownBy(() -> server.ask("NONSENSE")).isInstanceOf(AssertionError.class);
            assertThat(server.ask("LRANGE", "k", "0", "-1")).isEqualTo(List.of());
        }
        assertThat(Files.exists(server.folder())).isFalse();
    }
}
