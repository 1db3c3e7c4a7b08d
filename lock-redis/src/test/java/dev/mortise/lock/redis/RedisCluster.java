package dev.mortise.lock.redis;

import static org.awaitility.Awaitility.await;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.Store;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/** A Cluster of masters with a third of the slots each; its names stay usable when one of them is down. */
final class RedisCluster implements Store {
    private static final int MASTERS = 3;

    final List<RedisServer> masters = new ArrayList<>();
    private final List<RedisServer> replicas = new ArrayList<>();

    /** Null where nothing befalls them but what a test does. */
    private final Takeover faults;

    RedisCluster(String... settings) {
        this(null, settings);
    }

    /**
     * With a replica for each master, which takes over when the kit says, and not by itself when the network or a server was
     * away.
     */
    static RedisCluster forTheKit() {
        return new RedisCluster(new RedisFaults());
    }

    private RedisCluster(RedisFaults kit, String... settings) {
        faults = kit == null ? null : new Takeover(kit);
        boolean fine = false;
        try {
            for (int i = 0; i < MASTERS; i++) {
                masters.add(faults == null ? node(settings) : faults.node());
            }
            for (int i = 0; i < MASTERS; i++) {
                int from = Keys.SLOTS * i / MASTERS;
                int to = Keys.SLOTS * (i + 1) / MASTERS - 1;
                masters.get(i).ask("CLUSTER", "ADDSLOTSRANGE", String.valueOf(from), String.valueOf(to));
                // Without this two of them may choose the same one.
                masters.get(i).ask("CLUSTER", "SET-CONFIG-EPOCH", String.valueOf(i + 1));
            }
            for (int i = 1; i < MASTERS; i++) {
                meet(masters.get(0), masters.get(i));
            }
            awaitWell();
            if (faults != null) {
                for (RedisServer master : masters) {
                    RedisServer replica = faults.node();
                    replicas.add(replica);
                    meet(replica, master);
                    await().atMost(Duration.ofSeconds(60))
                            .ignoreExceptionsInstanceOf(AssertionError.class)
                            .until(() -> replica.ask("CLUSTER", "REPLICATE", id(master)) != null);
                }
                awaitReplicas();
            }
            fine = true;
        } finally {
            if (!fine) {
                close();
            }
        }
    }

    /** One that belongs to nothing yet. */
    static RedisServer node(String... settings) {
        List<String> words = new ArrayList<>(List.of("--cluster-enabled", "yes"));
        words.addAll(List.of("--cluster-require-full-coverage", "no", "--cluster-node-timeout", "2000"));
        // Not the usual one, ten thousand above, which may be none at all.
        words.addAll(List.of("--cluster-port", String.valueOf(RedisServer.freePort())));
        words.addAll(List.of(settings));
        return new RedisServer(words.toArray(String[]::new));
    }

    static void meet(RedisServer one, RedisServer other) {
        String bus =
                ((List<?>) other.ask("CONFIG", "GET", "cluster-port")).get(1).toString();
        one.ask("CLUSTER", "MEET", "127.0.0.1", String.valueOf(other.port()), bus);
    }

    private void awaitWell() {
        await().atMost(Duration.ofSeconds(60))
                .ignoreExceptions()
                .until(() -> masters.stream().allMatch(RedisCluster::isWell));
    }

    private void awaitReplicas() {
        awaitWell();
        await().atMost(Duration.ofSeconds(60))
                .ignoreExceptions()
                .until(() -> replicas.stream().noneMatch(RedisServer::isMaster)
                        && replicas.stream().allMatch(RedisCluster::isWell));
        replicas.forEach(RedisFaults::awaitLink);
    }

    private static boolean isWell(RedisServer node) {
        String info = (String) node.ask("CLUSTER", "INFO");
        return info.contains("cluster_state:ok")
                && info.contains("cluster_slots_ok:" + Keys.SLOTS)
                && ((List<?>) node.ask("CLUSTER", "SLOTS")).size() == MASTERS;
    }

    /**
     * Until all masters know the same of one another. Two changes in a row need it: a server that had not heard of the
     * first takes the second for older.
     */
    void agree() {
        List<String> ids = masters.stream().map(RedisCluster::id).toList();
        await().atMost(Duration.ofSeconds(60))
                .until(() -> masters.stream()
                                .map(each -> known(each, ids))
                                .distinct()
                                .count()
                        == 1);
    }

    /** The epoch and the slots of each. */
    private static List<String> known(RedisServer node, List<String> ids) {
        return ((String) node.ask("CLUSTER", "NODES"))
                .lines()
                .map(line -> line.split(" ", 9))
                .filter(words -> ids.contains(words[0]))
                .map(words -> words[0] + " " + words[6] + " " + (words.length > 8 ? words[8] : ""))
                .sorted()
                .toList();
    }

    static String id(RedisServer node) {
        return (String) node.ask("CLUSTER", "MYID");
    }

    /** The one that keeps this name, as long as no slots have been moved. */
    RedisServer of(String name) {
        int slot = Keys.of(Keys.PREFIX, name).slot();
        for (int i = 0; i < MASTERS; i++) {
            if (slot < Keys.SLOTS * (i + 1) / MASTERS) {
                return masters.get(i);
            }
        }
        throw new AssertionError(slot);
    }

    /** A name that this one keeps, the number-th. */
    String name(int master, int number) {
        for (int i = 0, found = 0; ; i++) {
            String name = "n-" + i;
            if (of(name) == masters.get(master) && found++ == number) {
                return name;
            }
        }
    }

    @Override
    public Optional<String> uri() {
        return Optional.of(masters.stream()
                .map(each -> "127.0.0.1:" + (faults == null ? each.port() : faults.port(each)))
                .collect(Collectors.joining(",", "redis+cluster://", "")));
    }

    static RedisBackend connect(String uri, Map<String, String> options) {
        return connect(uri, options, RedisStore.CALL_TIMEOUT);
    }

    static RedisBackend connect(String uri, Map<String, String> options, Duration callTimeout) {
        return (RedisBackend) new RedisProvider()
                .open(StoreUri.parse(uri, options), BackendContext.of(System::nanoTime, callTimeout));
    }

    @Override
    public RedisBackend connect() {
        return connect(RedisStore.CALL_TIMEOUT);
    }

    @Override
    public RedisBackend connect(Duration callTimeout) {
        return connect(uri().orElseThrow(), Map.of(), callTimeout);
    }

    @Override
    public void evict(String name) {
        of(name).ask("DEL", Keys.of(Keys.PREFIX, name).lock());
    }

    /** What befalls all servers: those of one name would be few. */
    private final class Takeover extends RedisNetwork {
        Takeover(RedisFaults servers) {
            super(servers);
        }

        /** One whose address, for all, is that of the way to it. */
        RedisServer node() {
            int port = RedisServer.freePort();
            String bus = String.valueOf(RedisServer.freePort());
            TcpProxy way = to(port);
            List<String> settings = new ArrayList<>(List.of("--cluster-enabled", "yes"));
            settings.addAll(List.of("--port", String.valueOf(port), "--cluster-port", bus));
            settings.addAll(List.of("--cluster-announce-port", String.valueOf(way.port())));
            settings.addAll(List.of("--cluster-announce-bus-port", bus));
            settings.addAll(List.of("--cluster-node-timeout", "15000", "--cluster-replica-no-failover", "yes"));
            settings.addAll(List.of("--repl-diskless-sync-delay", "0"));
            settings.addAll(RedisFaults.DEFAULT_PERSISTENCE);
            RedisServer server = servers.server(settings);
            add(server, way);
            return server;
        }

        @Override
        List<RedisServer> masters() {
            return masters;
        }

        @Override
        public Set<Fault> possible() {
            Set<Fault> all = super.possible();
            all.add(Fault.LEADER_KILLED);
            return all;
        }

        @Override
        public AutoCloseable begin(Fault fault) throws Exception {
            if (fault != Fault.LEADER_KILLED) {
                AutoCloseable end = super.begin(fault);
                return () -> {
                    end.close();
                    awaitReplicas();
                };
            }
            // From here on the replicas hear nothing, while the masters grant: those want no password, and refuse.
            replicas.forEach(each -> each.ask("CONFIG", "SET", "masterauth", "none-is-wanted"));
            masters.forEach(each -> each.ask("CLIENT", "KILL", "TYPE", "replica"));
            RedisFaults.lack();
            List<RedisServer> next = List.copyOf(replicas);
            replicas.clear();
            replicas.addAll(masters);
            masters.clear();
            masters.addAll(next);
            replicas.forEach(RedisServer::kill);
            masters.forEach(each -> {
                each.ask("CONFIG", "SET", "masterauth", "");
                each.ask("CLUSTER", "FAILOVER", "TAKEOVER");
            });
            awaitWell();
            return () -> {
                replicas.forEach(RedisServer::start);
                awaitReplicas();
            };
        }
    }

    @Override
    public Map<String, String> about() {
        Map<String, String> about = faults.servers.about("Redis Cluster", masters.get(0));
        about.put("servers", masters.size() + " masters with a replica each");
        return about;
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.ofNullable(faults);
    }

    @Override
    public void close() {
        masters.forEach(RedisServer::close);
        replicas.forEach(RedisServer::close);
        if (faults != null) {
            faults.close();
        }
    }
}
