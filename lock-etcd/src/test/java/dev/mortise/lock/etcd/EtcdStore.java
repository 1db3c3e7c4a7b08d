package dev.mortise.lock.etcd;

import dev.mortise.lock.ClockShim;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
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
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/** One etcd, or members that are one store, each behind a network that fails as it is told. */
final class EtcdStore implements Store {
    /** Longer than the latest end of the kit's leases: it holds requests up for that long. */
    static final Duration CALL_TIMEOUT = Duration.ofSeconds(10);

    /** The only one, or the first of several. */
    final EtcdServer server;

    final TcpProxy network;
    private final List<TcpProxy> networks = new ArrayList<>();

    /** Before the networks, and where clients connect to. */
    private final List<Late> doors = new ArrayList<>();

    private final @Nullable EtcdCluster cluster;
    private final Optional<ClockShim> shim;
    private final List<ClockShim.Clock> clocks;
    private final Faults faults;
    private final AtomicInteger clients = new AtomicInteger();

    /** One whose clock is the machine's. */
    EtcdStore(String... settings) {
        this(0, Optional.empty(), settings);
    }

    /** One whose clock can be stepped. */
    static EtcdStore one() {
        return new EtcdStore(0, ClockShim.compiled());
    }

    /** Three, whose clocks can be stepped. */
    static EtcdStore three() {
        return new EtcdStore(3, ClockShim.compiled());
    }

    /** @param members 0 for a server that is alone */
    private EtcdStore(int members, Optional<ClockShim> shim, String... settings) {
        this.shim = shim;
        int processes = Math.max(1, members);
        clocks = new ArrayList<>();
        List<Map<String, String>> environments = new ArrayList<>();
        for (int i = 0; i < processes; i++) {
            shim.ifPresent(each -> clocks.add(each.clock()));
            environments.add(shim.isPresent() ? clocks.get(i).environment() : Map.of());
        }
        List<EtcdServer> servers;
        if (members == 0) {
            cluster = null;
            servers = List.of(new EtcdServer("one", List.of(settings), environments.get(0)));
            servers.get(0).start();
        } else {
            cluster = new EtcdCluster(environments, settings);
            servers = cluster.members();
        }
        server = servers.get(0);
        try {
            for (EtcdServer each : servers) {
                TcpProxy behind = new TcpProxy(each.port());
                networks.add(behind);
                doors.add(new Late(behind.port()));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        network = networks.get(0);
        faults = new EtcdFaults(servers, cluster, networks, doors, clocks);
    }

    @Override
    public EtcdBackend connect() {
        return connect(CALL_TIMEOUT);
    }

    /** Each client of several servers has another one as its first. */
    @Override
    public EtcdBackend connect(Duration callTimeout) {
        return connect(callTimeout, Map.of());
    }

    /** A client over the network that fails. */
    EtcdBackend connect(Duration callTimeout, Map<String, String> options) {
        return connect(hosts(clients.getAndIncrement()), callTimeout, options);
    }

    /** Where clients connect to. */
    List<GrpcWire.Address> addresses() {
        return doors.stream()
                .map(each -> new GrpcWire.Address("127.0.0.1", each.port()))
                .toList();
    }

    private String hosts(int first) {
        List<String> all = new ArrayList<>();
        for (int i = 0; i < doors.size(); i++) {
            all.add("127.0.0.1:" + doors.get((first + i) % doors.size()).port());
        }
        return String.join(",", all);
    }

    static EtcdBackend connect(String hosts, Duration callTimeout, Map<String, String> options) {
        LockBackend backend = new EtcdProvider()
                .open(StoreUri.parse("etcd://" + hosts, options), BackendContext.of(System::nanoTime, callTimeout));
        return (EtcdBackend) backend;
    }

    /** For work that waits: since JDK 25 all futures share a pool, on a small machine with one thread. */
    static Thread inAThread(Runnable work) {
        Thread thread = new Thread(work, "test");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** The holder's key is the oldest: the others that there may be wait for it. */
    @Override
    public void evict(String name) {
        server.deleteAll(Keys.of(Keys.PREFIX, name).start());
    }

    @Override
    public Map<String, String> about() {
        Map<String, String> all = new LinkedHashMap<>();
        all.put("store", cluster == null ? "etcd, one member" : "etcd, three members");
        all.put("version", server.version());
        for (int i = 0; i < EtcdServer.QUICK.size(); i += 2) {
            all.put(EtcdServer.QUICK.get(i).substring(2), EtcdServer.QUICK.get(i + 1) + " ms");
        }
        return all;
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(faults);
    }

    @Override
    public Optional<String> uri() {
        return Optional.of("etcd://" + hosts(0));
    }

    @Override
    public void close() {
        doors.forEach(Late::close);
        networks.forEach(TcpProxy::close);
        if (cluster == null) {
            server.close();
        } else {
            cluster.close();
        }
        shim.ifPresent(ClockShim::close);
    }
}
