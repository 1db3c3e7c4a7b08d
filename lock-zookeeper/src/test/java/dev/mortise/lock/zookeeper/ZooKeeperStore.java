package dev.mortise.lock.zookeeper;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.Store;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/** One ZooKeeper, and a network before it that fails as it is told. */
final class ZooKeeperStore implements Store {
    static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    /** So that what waits for the end of a lease waits not for long. */
    static final Map<String, String> OPTIONS = Map.of("shortest-lease", "300ms");

    final ZooKeeperServer server;
    final TcpProxy network;
    private final ZooKeeper administrator;

    ZooKeeperStore(String... settings) {
        server = new ZooKeeperServer(settings);
        try {
            network = new TcpProxy(server.port());
            administrator = connectPlainly(server.connectString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A client of ZooKeeper itself, with nothing of the library under test. */
    static ZooKeeper connectPlainly(String hosts) throws IOException {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(hosts, 60_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        try {
            if (!connected.await(60, TimeUnit.SECONDS)) {
                throw new AssertionError("no connection to " + hosts);
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        return client;
    }

    @Override
    public ZooKeeperBackend connect() {
        return connect(CALL_TIMEOUT);
    }

    /** A client over the network that fails. */
    ZooKeeperBackend connect(Duration callTimeout) {
        return connect("127.0.0.1:" + network.port(), callTimeout, OPTIONS);
    }

    static ZooKeeperBackend connect(String hosts, Duration callTimeout, Map<String, String> options) {
        return (ZooKeeperBackend) new ZooKeeperProvider()
                .open(
                        StoreUri.parse("zookeeper://" + hosts, options),
                        BackendContext.of(System::nanoTime, callTimeout));
    }

    ZooKeeper administrator() {
        return administrator;
    }

    @Override
    public void evict(String name) {
        evict(administrator, name);
    }

    /** Removes the first node in the queue. */
    static void evict(ZooKeeper administrator, String name) {
        String container = new Paths("").container(name);
        try {
            // Of several servers this one may lag behind; what is read behind a sync is no older than now.
            administrator.sync(container, (code, path, context) -> {}, null);
            List<String> queue = administrator.getChildren(container, false);
            String first = Paths.first(queue);
            if (first != null) {
                administrator.delete(container + "/" + first, -1);
            }
        } catch (KeeperException.NoNodeException e) {
            // Nobody holds it.
        } catch (KeeperException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(faults(network));
    }

    static Faults faults(TcpProxy network) {
        return new Faults() {
            @Override
            public void delayReplies(Duration by) {
                network.delayReplies(by);
            }

            /** Requests of the library name the container or the node; its signs of life do not. */
            @Override
            public void loseReply() {
                network.loseReplyTo(request -> request.contains(Paths.ROOT));
            }

            /** At the door, as no server lets itself be stopped without its clock. */
            @Override
            public Optional<AutoCloseable> holdUp(String name) {
                network.requests(TcpProxy.Mode.HOLD);
                return Optional.of(() -> network.requests(TcpProxy.Mode.PASS));
            }

            @Override
            public void heal() {
                network.heal();
            }
        };
    }

    @Override
    public Optional<String> uri() {
        return Optional.of("zookeeper://" + server.connectString());
    }

    @Override
    public Map<String, String> options() {
        return OPTIONS;
    }

    @Override
    public void close() throws Exception {
        administrator.close();
        network.close();
        server.close();
    }
}
