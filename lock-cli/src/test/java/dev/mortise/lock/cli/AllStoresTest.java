package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.etcd.EtcdServer;
import dev.mortise.lock.jdbc.MariaDbServer;
import dev.mortise.lock.jdbc.PostgresServer;
import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.redlock.RedlockLocks;
import dev.mortise.lock.zookeeper.ZooKeeperServer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Every store works on the command line's class path, beside all others and their libraries, at the same time. */
class AllStoresTest {
    @TempDir
    private Path folder;

    private final List<AutoCloseable> running = new ArrayList<>();

    /** Starts the server of a store, and says where it is. A new store adds its line to {@link #uris}. */
    private <T extends AutoCloseable> String start(T server, Function<T, String> where) {
        running.add(server);
        return where.apply(server);
    }

    private List<String> uris() {
        return List.of(
                "jdbc:sqlite:" + folder.resolve("locks.db"),
                start(new RedisServer(), server -> "redis://127.0.0.1:" + server.port()),
                "redlock://" + start(new RedisServer(), server -> "127.0.0.1:" + server.port())
                        + start(new RedisServer(), server -> ",127.0.0.1:" + server.port())
                        + start(new RedisServer(), server -> ",127.0.0.1:" + server.port()),
                start(new EtcdServer(), server -> "etcd://127.0.0.1:" + server.port()),
                start(new ZooKeeperServer(), server -> "zookeeper://" + server.connectString()),
                start(new PostgresServer(), PostgresServer::url),
                start(new MariaDbServer(), server -> server.url("test")),
                "jdbc:h2:file:" + folder.resolve("h2"));
    }

    @Test
    void aLockInEachAtTheSameTime() throws Exception {
        List<Lease> leases = new ArrayList<>();
        List<LockClient> clients = new ArrayList<>();
        try {
            for (String uri : uris()) {
                if (uri.startsWith("redlock")) {
                    RedlockLocks.initialise(uri, Map.of()); // Or new servers do not vote yet.
                }
                LockClient client = LockClient.connect(
                        uri, uri.matches("jdbc:(postgresql|mariadb):.*") ? Map.of("user", "test") : Map.of());
                clients.add(client);
                Optional<Lease> lease = client.lock("all").tryAcquire();
                assertThat(lease).as(uri).isPresent();
                leases.add(lease.get());
                assertThat(client.lock("all").tryAcquire()).as(uri).isEmpty();
            }
            for (Lease lease : leases) {
                assertThat(lease.isHeld()).isTrue();
                assertThat(lease.release()).isTrue();
            }
        } finally {
            for (LockClient client : clients) {
                client.close();
            }
            for (AutoCloseable each : running) {
                each.close();
            }
        }
    }
}
