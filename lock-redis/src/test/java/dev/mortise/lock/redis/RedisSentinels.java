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
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/** A master, a replica, and sentinels that watch over them. */
final class RedisSentinels implements Store {
    static final String MASTER = "mymaster";

    final List<RedisServer> servers = new ArrayList<>();
    final List<RedisServer> sentinels = new ArrayList<>();

    /** Null where nothing befalls them but what a test does. */
    private final Takeover faults;

    /**
     * A sentinel that does nothing by itself, so that another server takes over when the kit says, and not when the network
     * was away.
     */
    static RedisSentinels forTheKit() {
        return new RedisSentinels(1, null, null, Duration.ofMinutes(10), new RedisFaults());
    }

    /**
     * Starts them, and waits until the sentinels know of all.
     *
     * @param password of the servers; null for none
     * @param sentinelPassword null for none
     */
    RedisSentinels(int count, String password, String sentinelPassword) {
        this(count, password, sentinelPassword, Duration.ofMillis(1500), null);
    }

    private RedisSentinels(int count, String password, String sentinelPassword, Duration downAfter, RedisFaults kit) {
        faults = kit == null ? null : new Takeover(kit);
        boolean fine = false;
        try {
            List<String> settings = new ArrayList<>();
            if (password != null) {
                settings.addAll(List.of("--requirepass", password, "--masterauth", password));
            }
            for (int i = 0; i < 2; i++) {
                servers.add(faults == null ? new RedisServer(settings.toArray(String[]::new)) : faults.server());
            }
            follow(servers.get(1), servers.get(0));
            List<String> file = new ArrayList<>();
            file.add("sentinel monitor " + MASTER + " 127.0.0.1 " + port(servers.get(0)) + " " + (count / 2 + 1));
            file.add("sentinel down-after-milliseconds " + MASTER + " " + downAfter.toMillis());
            file.add("sentinel failover-timeout " + MASTER + " 6000");
            if (password != null) {
                file.add("sentinel auth-pass " + MASTER + " " + password);
            }
            List<String> words = new ArrayList<>();
            if (sentinelPassword != null) {
                file.add("sentinel sentinel-pass " + sentinelPassword);
                words.addAll(List.of("--requirepass", sentinelPassword));
            }
            for (int i = 0; i < count; i++) {
                sentinels.add(RedisServer.sentinel(file, words.toArray(String[]::new)));
            }
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> sentinels.stream().allMatch(each -> {
                        Map<String, String> known = master(each);
                        return known.get("num-slaves").equals("1")
                                && known.get("num-other-sentinels").equals(String.valueOf(count - 1))
                                && known.get("flags").equals("master");
                    }));
            fine = true;
        } finally {
            if (!fine) {
                close();
            }
        }
    }

    /** By which clients, the sentinels and the other server reach this one. */
    private String port(RedisServer server) {
        return faults == null ? String.valueOf(server.port()) : faults.port(server);
    }

    private void follow(RedisServer replica, RedisServer master) {
        replica.ask("REPLICAOF", "127.0.0.1", port(master));
        RedisFaults.awaitLink(replica);
    }

    private static Map<String, String> master(RedisServer sentinel) {
        List<?> words = (List<?>) sentinel.ask("SENTINEL", "MASTER", MASTER);
        Map<String, String> all = new HashMap<>();
        for (int i = 0; i < words.size(); i += 2) {
            all.put((String) words.get(i), (String) words.get(i + 1));
        }
        return all;
    }

    /** The server that is the master by its own word, and by that of the first sentinel that runs. */
    RedisServer master() {
        for (RedisServer server : servers) {
            try {
                if (server.isMaster()) {
                    return server;
                }
            } catch (java.io.UncheckedIOException e) {
                // Not this one.
            }
        }
        throw new AssertionError("no master");
    }

    @Override
    public Optional<String> uri() {
        return Optional.of(sentinels.stream()
                .map(each -> "127.0.0.1:" + each.port())
                .collect(Collectors.joining(",", "redis+sentinel://", "/" + MASTER)));
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
        master().ask("DEL", Keys.of(Keys.PREFIX, name).lock());
    }

    /** What befalls the two servers, of which each may be the master. */
    private final class Takeover extends RedisNetwork {
        Takeover(RedisFaults servers) {
            super(servers);
        }

        /** One whose address, for all, is that of the way to it. */
        RedisServer server() {
            int port = RedisServer.freePort();
            TcpProxy way = to(port);
            List<String> settings = new ArrayList<>(RedisFaults.DEFAULT_PERSISTENCE);
            settings.addAll(List.of("--replica-announce-ip", "127.0.0.1"));
            settings.addAll(List.of("--replica-announce-port", String.valueOf(way.port())));
            settings.addAll(List.of("--port", String.valueOf(port), "--repl-diskless-sync-delay", "0"));
            RedisServer server = servers.server(settings);
            add(server, way);
            return server;
        }

        @Override
        List<RedisServer> masters() {
            return List.of(master());
        }

        @Override
        public Set<Fault> possible() {
            Set<Fault> all = super.possible();
            all.addAll(List.of(Fault.LEADER_KILLED, Fault.LEADER_CUT_OFF));
            return all;
        }

        @Override
        public AutoCloseable begin(Fault fault) throws Exception {
            RedisServer leader = master();
            RedisServer replica = RedisSentinels.this.servers.get(RedisSentinels.this.servers.get(0) == leader ? 1 : 0);
            switch (fault) {
                case LEADER_KILLED -> {
                    leave(replica);
                    leader.kill();
                    // It looks for a replica that it has heard of lately, which it does once a second.
                    await().atMost(Duration.ofSeconds(60))
                            .ignoreExceptionsInstanceOf(AssertionError.class)
                            .until(() -> sentinels.get(0).ask("SENTINEL", "FAILOVER", MASTER) != null);
                    awaitNext(replica);
                    return () -> {
                        leader.start();
                        follow(leader, replica);
                    };
                }
                case LEADER_CUT_OFF -> {
                    leave(replica);
                    replica.ask("REPLICAOF", "NO", "ONE");
                    RedisServer sentinel = sentinels.get(0);
                    sentinel.ask("SENTINEL", "REMOVE", MASTER);
                    sentinel.ask("SENTINEL", "MONITOR", MASTER, "127.0.0.1", port(replica), "1");
                    sentinel.ask("SENTINEL", "SET", MASTER, "down-after-milliseconds", "600000");
                    awaitNext(replica);
                    return () -> {
                        follow(leader, replica);
                        // As a sentinel does to one that it makes a replica.
                        leader.ask("CLIENT", "KILL", "TYPE", "normal");
                        awaitReplica();
                    };
                }
                default -> {
                    AutoCloseable end = super.begin(fault);
                    return () -> {
                        end.close();
                        if (replica.isMaster()) {
                            // Started anew it is one for itself.
                            follow(replica, leader);
                        }
                        RedisFaults.awaitLink(replica);
                    };
                }
            }
        }

        /** From here on the replica hears nothing, while the leader grants. */
        private void leave(RedisServer replica) throws InterruptedException {
            replica.ask("REPLICAOF", "127.0.0.1", String.valueOf(RedisServer.freePort()));
            RedisFaults.lack();
        }

        private void awaitNext(RedisServer next) {
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> next.isMaster()
                            && port(next).equals(master(sentinels.get(0)).get("port")));
        }

        private void awaitReplica() {
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> master(sentinels.get(0)).get("num-slaves").equals("1"));
        }
    }

    @Override
    public Map<String, String> about() {
        Map<String, String> about = faults.servers.about("Redis Sentinel", servers.get(0));
        about.put("servers", "a master, a replica, a sentinel");
        return about;
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.ofNullable(faults);
    }

    @Override
    public void close() {
        sentinels.forEach(RedisServer::close);
        servers.forEach(RedisServer::close);
        if (faults != null) {
            faults.close();
        }
    }
}
