package dev.mortise.lock.zookeeper;

import dev.mortise.lock.ClockShim;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.Store;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;
import org.jspecify.annotations.Nullable;

/** One ZooKeeper, or members of an ensemble, each behind a network that fails as it is told. */
final class ZooKeeperStore implements Store {
    static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    /** So that what waits for the end of a lease waits not for long. */
    static final Map<String, String> OPTIONS = Map.of("shortest-lease", "300ms");

    /** The only one, or the first of several. */
    final ZooKeeperServer server;

    final TcpProxy network;
    private final List<ZooKeeperServer> servers;
    private final List<TcpProxy> networks = new ArrayList<>();
    private final @Nullable ZooKeeperCluster cluster;
    private final Optional<ClockShim> shim;
    private final Faults faults;
    private @Nullable ZooKeeper administrator;

    /** One whose clock is the machine's. */
    ZooKeeperStore(String... settings) {
        this(0, Optional.empty(), settings);
    }

    /** One whose clock can be stepped. */
    static ZooKeeperStore one() {
        return new ZooKeeperStore(0, ClockShim.compiled());
    }

    /** Three, whose clocks can be stepped. */
    static ZooKeeperStore three(String... settings) {
        return new ZooKeeperStore(3, ClockShim.compiled(), settings);
    }

    /** @param members 0 for a server that is alone */
    private ZooKeeperStore(int members, Optional<ClockShim> shim, String... settings) {
        this.shim = shim;
        List<ClockShim.Clock> clocks = new ArrayList<>();
        List<Map<String, String>> environments = new ArrayList<>();
        for (int i = 0; i < Math.max(1, members); i++) {
            shim.ifPresent(each -> clocks.add(each.clock()));
            environments.add(shim.isPresent() ? clocks.get(i).environment() : Map.of());
        }
        if (members == 0) {
            cluster = null;
            servers = List.of(new ZooKeeperServer(environments.get(0), settings));
        } else {
            cluster = new ZooKeeperCluster(environments, settings);
            servers = cluster.servers();
        }
        server = servers.get(0);
        try {
            for (ZooKeeperServer each : servers) {
                networks.add(new TcpProxy(each.port()));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        network = networks.get(0);
        faults = new ZooKeeperFaults(servers, cluster, networks, clocks);
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
    @Override
    public ZooKeeperBackend connect(Duration callTimeout) {
        return connect(hosts(), callTimeout, OPTIONS);
    }

    private String hosts() {
        return hosts(networks);
    }

    private static String hosts(List<TcpProxy> some) {
        return some.stream().map(each -> "127.0.0.1:" + each.port()).collect(Collectors.joining(","));
    }

    /** Where clients connect to that shall not be at the leader, as it is now. */
    String followers() {
        List<TcpProxy> some = new ArrayList<>(networks);
        if (cluster != null) {
            some.remove(cluster.leader());
        }
        return hosts(some);
    }

    static ZooKeeperBackend connect(String hosts, Duration callTimeout, Map<String, String> options) {
        return (ZooKeeperBackend) new ZooKeeperProvider()
                .open(
                        StoreUri.parse("zookeeper://" + hosts, options),
                        BackendContext.of(System::nanoTime, callTimeout));
    }

    /** Past the network. */
    synchronized ZooKeeper administrator() {
        ZooKeeper known = administrator;
        if (known == null) {
            try {
                known = connectPlainly(
                        servers.stream().map(ZooKeeperServer::connectString).collect(Collectors.joining(",")));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            administrator = known;
        }
        return known;
    }

    @Override
    public void evict(String name) {
        try {
            evict(administrator(), name);
        } catch (KeeperException.ConnectionLossException | KeeperException.SessionExpiredException e) {
            // The servers were restarted; those without their data do not let one in who has seen more than they have.
            closeAdministrator();
            try {
                evict(administrator(), name);
            } catch (KeeperException again) {
                throw new AssertionError(again);
            }
        } catch (KeeperException e) {
            throw new AssertionError(e);
        }
    }

    /** Removes the first node in the queue. */
    private static void evict(ZooKeeper administrator, String name) throws KeeperException {
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
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public Map<String, String> about() {
        Map<String, String> all = new LinkedHashMap<>();
        all.put("store", cluster == null ? "ZooKeeper, one server" : "ZooKeeper, three servers");
        all.put("version", server.version());
        all.put("tickTime", ZooKeeperServer.TICK + " ms");
        all.put("forceSync", "yes");
        all.putAll(OPTIONS);
        return all;
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(faults);
    }

    @Override
    public Optional<String> uri() {
        return Optional.of("zookeeper://" + hosts());
    }

    @Override
    public Map<String, String> options() {
        return OPTIONS;
    }

    private synchronized void closeAdministrator() {
        ZooKeeper known = administrator;
        administrator = null;
        if (known != null) {
            try {
                known.close(1000);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }
    }

    @Override
    public void close() {
        closeAdministrator();
        networks.forEach(TcpProxy::close);
        if (cluster == null) {
            server.close();
        } else {
            cluster.close();
        }
        shim.ifPresent(ClockShim::close);
    }
}
