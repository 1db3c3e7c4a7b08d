package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.redis.RedisServer;
import java.nio.file.Files;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** {@code mortise run} on a majority of five servers. */
class RedlockOutliveTest extends Outliving {
    private final List<RedisServer> servers =
            Stream.generate(RedisServer::new).limit(5).collect(Collectors.toList());

    @BeforeEach
    void initialise() throws Exception {
        Mortise init = Mortise.start(processes, folder, "init", uri());
        assertThat(init.exit()).as(init.err()).isZero();
    }

    @AfterEach
    void stop() {
        servers.forEach(RedisServer::close);
    }

    private String uri() {
        return servers.stream()
                .map(server -> "127.0.0.1:" + server.port())
                .collect(Collectors.joining(",", "redlock://", ""));
    }

    @Override
    List<String> store() {
        return List.of("--store", uri());
    }

    @Override
    void loseStore() {
        servers.subList(0, 3).forEach(server -> server.signal("STOP"));
    }

    @Override
    void bringStoreBack() {
        servers.subList(0, 3).forEach(server -> server.signal("CONT"));
    }

    /** Two of five are gone: it works as if nothing had happened. */
    @Test
    void aMinorityIsGone() throws Exception {
        servers.get(1).kill();
        servers.get(3).signal("STOP");
        Mortise next = next();
        assertThat(next.exit()).as(next.err()).isZero();
    }

    /** Three of five are gone: one line with each of them, and nothing has run. */
    @Test
    void noMajority() throws Exception {
        servers.subList(0, 3).forEach(RedisServer::kill);
        Mortise next = next();
        assertThat(next.exit()).isEqualTo(69);
        assertThat(next.err()).hasLineCount(1);
        for (RedisServer server : servers.subList(0, 3)) {
            assertThat(next.err()).contains("127.0.0.1:" + server.port());
        }
        assertThat(next.out()).isEmpty();
        Files.createFile(log());
    }
}
