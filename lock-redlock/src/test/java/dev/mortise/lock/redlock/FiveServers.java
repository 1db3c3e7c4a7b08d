package dev.mortise.lock.redlock;

import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.redis.RedisFaults;
import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.Store;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.UnaryOperator;

/** Five servers for the kit, with all that may befall them. */
final class FiveServers implements Store, Faults {
    /** As short as it may be: so long a server that has lost its memory does not vote. */
    private static final Duration LONGEST = Duration.ofSeconds(4);

    private static final Duration ATTEMPT = Duration.ofSeconds(1);

    private final RedisFaults faults = new RedisFaults();
    private final Deployment deployment = new Deployment(0)
            .option("attempt", ATTEMPT.toMillis() + "ms")
            .option("longest-lease", LONGEST.toSeconds() + "s");

    /** Null for none. */
    private final UnaryOperator<Node> mistake;

    FiveServers() {
        this(null);
    }

    /** With a mistake in how clients take what servers say. */
    FiveServers(UnaryOperator<Node> mistake) {
        this.mistake = mistake;
        for (int i = 0; i < 5; i++) {
            deployment.add(faults.server(List.of("--appendonly", "yes", "--appendfsync", "always")));
        }
        deployment.initialise();
    }

    @Override
    public LockBackend connect() {
        return connect(Deployment.CALL_TIMEOUT);
    }

    @Override
    public LockBackend connect(Duration callTimeout) {
        return mistake == null ? deployment.client(callTimeout) : mistaken(callTimeout);
    }

    private LockBackend mistaken(Duration callTimeout) {
        Connector connector = new Connector();
        RedisNode.Twins twins = new RedisNode.Twins();
        long timeout = callTimeout.toNanos() / 4;
        List<Node> nodes = deployment.proxies.stream()
                .map(each -> mistake.apply(
                        new RedisNode(connector.link("127.0.0.1", each.port(), false, null, null, 0, timeout), twins)))
                .toList();
        Protocol protocol = new Protocol(
                nodes,
                new Node.Terms(ATTEMPT.toMillis(), LONGEST.toMillis()),
                true,
                System::nanoTime,
                () -> System.currentTimeMillis() * 1000,
                connector.alarm(),
                timeout,
                line -> {});
        return deployment.opened(
                new RedlockBackend("mistaken", protocol, Deployment.context(callTimeout), connector::close));
    }

    @Override
    public void evict(String name) {
        for (RedisServer server : deployment.servers) {
            server.ask("DEL", Deployment.lockKey(name));
        }
    }

    @Override
    public Map<String, String> about() {
        Map<String, String> about = faults.about("Redlock, five servers", deployment.servers.get(0));
        about.put("longest-lease", LONGEST.toSeconds() + "s");
        return about;
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(this);
    }

    @Override
    public Optional<String> uri() {
        return mistake == null ? Optional.of(deployment.text()) : Optional.empty();
    }

    @Override
    public Map<String, String> options() {
        return deployment.options();
    }

    @Override
    public void delayReplies(Duration by) {
        deployment.proxies.forEach(p -> p.delayReplies(by));
    }

    /** The next request that each of the servers gets is answered by a reset. */
    @Override
    public void loseReply() {
        deployment.proxies.forEach(p -> p.loseReplyTo(request -> true));
    }

    /**
     * At the doors of all five, for every name: scripts wait, the clocks go on, and connections still open. The kit
     * lets go before a client gives up a server, unless the machine is slow; what was sent by then still waits there.
     */
    @Override
    public Optional<AutoCloseable> holdUp(String name) {
        deployment.servers.forEach(s -> s.ask("CLIENT", "PAUSE", "60000", "WRITE"));
        return Optional.of(() -> deployment.servers.forEach(s -> s.ask("CLIENT", "UNPAUSE")));
    }

    @Override
    public Set<Fault> possible() {
        Set<Fault> all = EnumSet.copyOf(RedisFaults.with(TcpProxy.FAULTS));
        all.add(Fault.MINORITY_KILLED);
        return all;
    }

    @Override
    public AutoCloseable begin(Fault fault) throws Exception {
        List<RedisServer> all = deployment.servers;
        AutoCloseable end = switch (fault) {
            case CONNECTIONS_BROKEN, NETWORK_GONE, REPLIES_LOST, REQUESTS_LATE ->
                TcpProxy.begin(fault, deployment.proxies);
            case MINORITY_KILLED -> faults.begin(Fault.SERVER_KILLED, all.subList(0, 2));
            // More, and not all: no majority remembers, and an operator has to say what to believe.
            case DATA_OLD -> faults.begin(fault, all.subList(0, 2));
            case CLOCK_FORWARD, CLOCK_BACK -> faults.begin(fault, all.subList(0, 3));
            default -> faults.begin(fault, all);
        };
        return () -> {
            end.close();
            awaitVotes();
        };
    }

    /** Until each of them votes again. One that has lost its memory joins when it is asked, and stays out for a longest lease. */
    private void awaitVotes() {
        // A client does not open while the first of all joins.
        LockBackend client = await().atMost(Duration.ofMinutes(1))
                .ignoreExceptionsInstanceOf(LockStoreException.class)
                .until(
                        () -> new RedlockProvider().open(deployment.uri(), Deployment.context(Deployment.CALL_TIMEOUT)),
                        any -> true);
        try (client) {
            List<RedisServer> out = new ArrayList<>(deployment.servers);
            await().atMost(Duration.ofMinutes(1))
                    .ignoreExceptionsInstanceOf(LockStoreException.class)
                    .until(() -> {
                        Claim claim = Claim.of("tck-votes", "votes", Duration.ofMillis(200));
                        boolean granted =
                                client.acquire(claim, Duration.ZERO).grant().isPresent();
                        out.removeIf(FiveServers::votes);
                        return client.release(claim) && granted && out.isEmpty();
                    });
        }
    }

    private static boolean votes(RedisServer server) {
        List<?> memory = (List<?>) server.ask("HMGET", "mortise:redlock", "run", "ready");
        List<?> time = (List<?>) server.ask("TIME");
        return server.info("server").get("run_id").equals(memory.get(0))
                && Long.parseLong((String) memory.get(1)) <= Long.parseLong((String) time.get(0)) * 1_000_000;
    }

    @Override
    public void heal() {
        deployment.proxies.forEach(TcpProxy::heal);
    }

    @Override
    public void close() {
        deployment.close();
        faults.close();
    }
}
