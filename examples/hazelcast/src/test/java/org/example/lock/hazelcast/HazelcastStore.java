package org.example.lock.hazelcast;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.BuildInfoProvider;
import com.hazelcast.map.IMap;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.Store;
import dev.mortise.lock.tck.TcpProxy;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/** A cluster of three members in JVMs of their own, and networks before them that fail as they are told. */
class HazelcastStore implements Store {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    /** What Hazelcast asks for at its start, with a warning, where it does not get it. */
    private static final List<String> OPENED = List.of(
            "--add-modules=java.se",
            "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
            "--add-opens=java.management/sun.management=ALL-UNNAMED",
            "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED");

    private final List<Server> servers = new ArrayList<>();
    private final String map;
    private final HazelcastInstance admin;

    /** A member: its process, which comes and goes, and how others reach it. */
    private static final class Server {
        final int memberPort = freePort();
        final int clientPort = freePort();
        final TcpProxy fromMembers = proxy(memberPort);
        final TcpProxy fromClients = proxy(clientPort);
        Process process;
        volatile int sees;

        private static int freePort() {
            try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                return socket.getLocalPort();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private static TcpProxy proxy(int port) {
            try {
                return new TcpProxy(port);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        void start(String all) throws IOException {
            List<String> command = new ArrayList<>();
            command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
            command.addAll(OPENED);
            command.addAll(List.of(
                    "-Xmx96m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-cp",
                    System.getProperty("java.class.path"),
                    Member.class.getName(),
                    "tck",
                    String.valueOf(memberPort),
                    "127.0.0.1:" + fromMembers.port(),
                    String.valueOf(clientPort),
                    "127.0.0.1:" + fromClients.port(),
                    all));
            process = new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            BufferedReader out =
                    new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            Thread reader = new Thread(() -> out.lines().forEach(line -> sees = Integer.parseInt(line)), "member");
            reader.setDaemon(true);
            reader.start();
        }

        void kill() throws InterruptedException {
            process.destroyForcibly().waitFor();
            sees = 0;
        }

        void signal(String signal) throws IOException, InterruptedException {
            new ProcessBuilder("kill", "-s", signal, String.valueOf(process.pid())).start().waitFor();
        }
    }

    HazelcastStore() throws Exception {
        this(3, HazelcastLocks.MAP);
    }

    /**
     * A cluster.
     *
     * @param map the one whose requests are lost and held up
     */
    HazelcastStore(int members, String map) throws Exception {
        this.map = map;
        for (int i = 0; i < members; i++) {
            servers.add(new Server());
        }
        try {
            for (Server server : servers) {
                server.start(members());
            }
            await(servers.size(), servers);
            admin = HazelcastProvider.connect(address(), BackendContext.of(System::nanoTime, Duration.ofSeconds(20)));
            warmUp();
        } catch (Exception e) {
            stop();
            throw e;
        }
    }

    /** A member's first answer of each kind may take seconds on a busy machine, and the kit does not wait that long. */
    private void warmUp() {
        IMap<String, Row> rows = admin.getMap(HazelcastLocks.MAP);
        for (int i = 0; i < 50; i++) {
            rows.executeOnKey("warm-" + i, new Step.Acquire("warm", 1));
            rows.executeOnKey("warm-" + i, new Step.Release("warm"));
        }
    }

    private String members() {
        return servers.stream().map(s -> "127.0.0.1:" + s.fromMembers.port()).collect(Collectors.joining(","));
    }

    private static void await(int members, List<Server> servers) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
        while (servers.stream().anyMatch(s -> s.sees != members)) {
            if (System.nanoTime() - end > 0 || servers.stream().anyMatch(s -> !s.process.isAlive())) {
                throw new IllegalStateException("the members see "
                        + servers.stream().map(s -> s.sees).toList() + " instead of " + members + " members");
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    /** Where clients come in, over the networks that fail. */
    final StoreUri address() {
        return StoreUri.parse(
                servers.stream()
                        .map(s -> "127.0.0.1:" + s.fromClients.port())
                        .collect(Collectors.joining(",", "hazelcast://", "/tck")),
                Map.of());
    }

    /** A client that is not under test. */
    final HazelcastInstance admin() {
        return admin;
    }

    @Override
    public LockBackend connect() {
        return connect(CALL_TIMEOUT);
    }

    @Override
    public LockBackend connect(Duration callTimeout) {
        return new HazelcastProvider().open(address(), BackendContext.of(System::nanoTime, callTimeout));
    }

    @Override
    public void evict(String name) {
        IMap<String, Row> rows = admin.getMap(HazelcastLocks.MAP);
        Row row = rows.executeOnKey(name, new Step.Look());
        if (row != null) {
            rows.executeOnKey(name, new Step.Release(row.owner()));
        }
    }

    @Override
    public Map<String, String> about() {
        Map<String, String> about = new LinkedHashMap<>();
        about.put("store", "Hazelcast, three members");
        about.put("version", BuildInfoProvider.getBuildInfo().getVersion());
        about.put("backup-count", "1");
        about.put("in-memory-format", "OBJECT");
        about.put("fail on indeterminate state", "true");
        return about;
    }

    @Override
    public Optional<String> uri() {
        return Optional.of(address().verbatim());
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(new HazelcastFaults());
    }

    class HazelcastFaults implements Faults {
        private void eachFromClients(Consumer<TcpProxy> what) {
            servers.forEach(server -> what.accept(server.fromClients));
        }

        private void eachFromMembers(Consumer<TcpProxy> what) {
            servers.forEach(server -> what.accept(server.fromMembers));
        }

        @Override
        public void delayReplies(Duration by) {
            eachFromClients(network -> network.delayReplies(by));
        }

        /** The request goes to the member that has the row: only one of the networks may lose an answer. */
        @Override
        public void loseReply() {
            AtomicBoolean lost = new AtomicBoolean();
            eachFromClients(network ->
                    network.loseReplyTo(request -> request.contains(map) && !lost.getAndSet(true)));
        }

        /** A step waits, on the member, for whoever has locked the key. */
        @Override
        public Optional<AutoCloseable> holdUp(String name) {
            IMap<String, Object> rows = admin.getMap(map);
            rows.lock(name);
            return Optional.of(() -> rows.forceUnlock(name));
        }

        @Override
        public void heal() {
            eachFromClients(TcpProxy::heal);
        }

        /** Two hold at a time only if the members are back before the lease of the first is over. */
        @Override
        public Set<StoreEvent> seldom() {
            return Set.of(StoreEvent.RESTART_WITHOUT_DATA);
        }

        @Override
        public Set<Fault> possible() {
            Set<Fault> possible = EnumSet.of(Fault.SERVER_STOPPED, Fault.LEADER_CUT_OFF, Fault.DATA_LOST);
            possible.addAll(TcpProxy.FAULTS);
            return possible;
        }

        @Override
        public AutoCloseable begin(Fault fault) throws Exception {
            if (TcpProxy.FAULTS.contains(fault)) {
                return TcpProxy.begin(
                        fault, servers.stream().map(server -> server.fromClients).toList());
            }
            return switch (fault) {
                case SERVER_STOPPED -> {
                    for (Server server : servers) {
                        server.signal("STOP");
                    }
                    yield () -> {
                        for (Server server : servers) {
                            server.signal("CONT");
                        }
                    };
                }
                case LEADER_CUT_OFF -> {
                    eachFromMembers(network -> {
                        network.refuse(true);
                        network.cut();
                    });
                    // Each one is a cluster of its own now, and leads it.
                    await(1, servers);
                    yield () -> {
                        eachFromMembers(TcpProxy::heal);
                        await(servers.size(), servers);
                    };
                }
                case DATA_LOST -> {
                    for (Server server : servers) {
                        server.kill();
                    }
                    yield () -> {
                        for (Server server : servers) {
                            server.start(members());
                        }
                        await(servers.size(), servers);
                    };
                }
                default -> throw new IllegalArgumentException(fault + " cannot be caused here");
            };
        }
    }

    private void stop() throws InterruptedException {
        for (Server server : servers) {
            if (server.process != null) {
                server.kill();
            }
            server.fromMembers.close();
            server.fromClients.close();
        }
    }

    @Override
    public void close() throws Exception {
        admin.shutdown();
        stop();
    }
}
