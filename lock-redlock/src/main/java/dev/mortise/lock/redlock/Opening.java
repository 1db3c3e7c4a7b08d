package dev.mortise.lock.redlock;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.redlock.Node.Silence;
import dev.mortise.lock.redlock.Node.Terms;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongFunction;

/** From a URI, or a user's own clients, to a backend: what is checked before, and how it is put together. */
final class Opening {
    static final String PLAIN = "redlock";
    static final String TLS = "redlocks";

    private static final int PROBES = 3;
    private static final int PORT = 6379;
    private static final int FEWEST = 3;
    private static final int MOST = 9;

    static final Option<Duration> ATTEMPT = Option.duration(
            "attempt",
            "1s",
            "The longest that an attempt to acquire lasts; the same for all clients of the deployment.");
    static final Option<Duration> LONGEST = Option.duration(
            "longest-lease",
            "30s",
            "The longest lease, and how long a server that lost its memory stays out; the same for all clients.");
    static final Option<String> USER = Option.text("user", "", "The user at every server.");
    static final Option<String> PASSWORD = Option.secret("password", "The password at every server.");

    static final List<Option<?>> OPTIONS = List.of(ATTEMPT, LONGEST, USER, PASSWORD);

    private final String store;
    private final Terms terms;
    private final boolean termsGiven;
    private final BackendContext context;
    private final Protocol.Alarm alarm;

    /** Makes the ways to the servers; the argument is the node timeout in nanoseconds. */
    private final LongFunction<List<Wire>> wires;

    private final Runnable onClose;

    Opening(
            String store,
            Terms terms,
            boolean termsGiven,
            BackendContext context,
            Protocol.Alarm alarm,
            LongFunction<List<Wire>> wires,
            Runnable onClose) {
        this.store = store;
        this.terms = terms;
        this.termsGiven = termsGiven;
        this.context = context;
        this.alarm = alarm;
        this.wires = wires;
        this.onClose = onClose;
    }

    /** Checks the URI, without any I/O. */
    static Opening of(StoreUri uri, BackendContext context) {
        if (!uri.scheme().equals(PLAIN) && !uri.scheme().equals(TLS)) {
            throw new IllegalArgumentException(
                    "scheme " + uri.scheme() + " is not served; " + PLAIN + " and " + TLS + " are");
        }
        requireCount(uri.hosts().size(), uri.toString());
        Set<String> addresses = new LinkedHashSet<>();
        for (StoreUri.Host host : uri.hosts()) {
            if (!addresses.add(host.name() + " " + host.port().orElse(PORT))) {
                throw new IllegalArgumentException(
                        uri + " names " + host + " twice; its servers must be independent of each other");
            }
        }
        int database = database(uri.path());
        if (uri.user().isPresent() && uri.password().isEmpty()) {
            throw new IllegalArgumentException(
                    "a user without a password is no login at Redis; give both, or a password");
        }
        Terms terms = terms(uri.get(ATTEMPT), uri.get(LONGEST));
        boolean given =
                uri.options().containsKey(ATTEMPT.name()) || uri.options().containsKey(LONGEST.name());
        Connector connector = new Connector();
        return new Opening(
                uri.toString(),
                terms,
                given,
                context,
                connector.alarm(),
                timeout -> {
                    List<Wire> links = new ArrayList<>();
                    for (StoreUri.Host host : uri.hosts()) {
                        links.add(connector.link(
                                host.name(),
                                host.port().orElse(PORT),
                                uri.scheme().equals(TLS),
                                uri.user().orElse(null),
                                uri.password().orElse(null),
                                database,
                                timeout));
                    }
                    return links;
                },
                connector::close);
    }

    static void requireCount(int servers, String store) {
        if (servers < FEWEST || servers > MOST || servers % 2 == 0) {
            throw new IllegalArgumentException(store + " has " + servers
                    + " servers; it must be an odd number from " + FEWEST + " to " + MOST
                    + ": an even one survives the loss of no more of them, and two clients can each get half");
        }
    }

    static Terms terms(Duration attempt, Duration longest) {
        long attemptMillis = attempt.compareTo(Duration.ofMinutes(1)) > 0 ? Long.MAX_VALUE : attempt.toMillis();
        if (attemptMillis < 20 || attemptMillis > 60_000) {
            throw new IllegalArgumentException("option attempt must be from 20ms to 1m: " + attempt);
        }
        if (longest.compareTo(Duration.ofDays(1)) > 0
                || longest.compareTo(RedlockBackend.SHORTEST_LEASE) < 0
                || longest.compareTo(attempt) < 0) {
            throw new IllegalArgumentException(
                    "option longest-lease must be at least 100ms, at least the attempt, and at most 1d: " + longest);
        }
        return new Terms(attemptMillis, longest.toMillis());
    }

    private static int database(String path) {
        if (path.isEmpty() || path.equals("/")) {
            return 0;
        }
        if (!path.matches("/\\d{1,5}")) {
            throw new IllegalArgumentException("the path must be the number of a database, as in /0");
        }
        return Integer.parseInt(path.substring(1));
    }

    // -------------------------------------------------------------------------------------------------

    /** Connects, checks the servers, and starts. */
    LockBackend open() {
        return opened("open", (protocol, close) -> {
            await("open", protocol.start(), terms.longestMillis() * 3 + 10_000);
            return new RedlockBackend(store, protocol, context, close);
        });
    }

    /** Gives servers without memory a new one at once: an operator's act. What was done, a line each. */
    List<String> initialise() {
        return opened("initialise", (protocol, close) -> {
            try {
                List<String> written = await("initialise", protocol.repair(), 10_000);
                List<String> lines = new ArrayList<>();
                written.forEach(name -> lines.add(name + " has a new memory, and votes from now on"));
                if (written.isEmpty()) {
                    lines.add("nothing to do: every server that answers remembers");
                }
                return lines;
            } finally {
                protocol.close();
                close.run();
            }
        });
    }

    private interface Use<T> {
        T with(Protocol protocol, Runnable close);
    }

    private <T> T opened(String tried, Use<T> use) {
        long timeout = RedlockBackend.nodeTimeout(context, terms.attemptMillis());
        RedisNode.Twins twins = new RedisNode.Twins();
        List<RedisNode> nodes = new ArrayList<>();
        for (Wire wire : wires.apply(timeout)) {
            nodes.add(new RedisNode(wire, twins));
        }
        Runnable close = () -> {
            nodes.forEach(node -> node.wire().close());
            onClose.run();
        };
        boolean done = false;
        try {
            probe(tried, nodes);
            System.Logger logger = System.getLogger("dev.mortise.lock.redlock");
            Protocol protocol = new Protocol(
                    nodes,
                    terms,
                    termsGiven,
                    context::nanoTime,
                    Opening::wallMicros,
                    alarm,
                    timeout,
                    line -> logger.log(System.Logger.Level.WARNING, store + ": " + line));
            T result = use.with(protocol, close);
            done = true;
            return result;
        } finally {
            if (!done) {
                close.run();
            }
        }
    }

    private static long wallMicros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    /** Looks at each server once. A minority may be down; what is no independent, fit master is refused. */
    private void probe(String tried, List<RedisNode> nodes) {
        // A JVM that has just begun can be too slow for the node timeout.
        for (int tries = 1; !probe(tried, nodes, tries == PROBES); tries++) {
            System.getLogger("dev.mortise.lock.redlock").log(System.Logger.Level.DEBUG, store + ": asked once more");
        }
    }

    private boolean probe(String tried, List<RedisNode> nodes, boolean last) {
        List<CompletableFuture<Map<String, String>>> asked = new ArrayList<>();
        nodes.forEach(node -> asked.add(node.info()));
        StringJoiner silent = new StringJoiner("; ");
        int answers = 0;
        for (int i = 0; i < nodes.size(); i++) {
            String name = nodes.get(i).name();
            try {
                check(name, asked.get(i).get(5 * TimeUnit.NANOSECONDS.toMillis(nanosOfCall()), TimeUnit.MILLISECONDS));
                answers++;
            } catch (ExecutionException e) {
                Throwable cause = Protocol.cause(e.getCause() == null ? e : e.getCause());
                String why = cause instanceof Silence ? String.valueOf(cause.getMessage()) : cause.toString();
                if (why.startsWith("is the same server as")) {
                    throw refuse(name + " " + why, "name independent servers");
                }
                silent.add(name + ": " + why);
            } catch (TimeoutException e) {
                silent.add(name + ": no answer");
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw refuse(tried + ": interrupted", "try again");
            }
        }
        if (answers < nodes.size() / 2 + 1) {
            if (!last) {
                return false;
            }
            throw new LockStoreException(
                    store,
                    tried + ": " + answers + " of " + nodes.size() + " servers answered, no majority (" + silent + ")",
                    "check that the servers run and can be reached, and user and password",
                    false,
                    null);
        }
        if (answers < nodes.size()) {
            System.getLogger("dev.mortise.lock.redlock")
                    .log(System.Logger.Level.WARNING, store + ": goes on without a minority (" + silent + ")");
        }
        return true;
    }

    private long nanosOfCall() {
        return Math.min(context.callTimeout().toNanos(), Duration.ofMinutes(1).toNanos());
    }

    private void check(String name, Map<String, String> info) {
        String role = info.getOrDefault("role", "master");
        if (!role.equals("master")) {
            throw refuse(
                    name + " is a " + role + ", not a master",
                    "name masters only; a replica that takes over would not know what its master has promised");
        }
        String version = info.getOrDefault("redis_version", "0");
        String[] parts = version.split("\\.", -1);
        int major = number(parts, 0);
        if (major < 6 || (major == 6 && number(parts, 1) < 2)) {
            throw refuse(name + " has version " + version, "use Redis 6.2 or later");
        }
        if ("1".equals(info.get("cluster_enabled"))) {
            throw refuse(name + " is part of a cluster", "name independent servers, which are in no cluster");
        }
        String policy = info.getOrDefault("maxmemory_policy", "noeviction");
        if (!policy.equals("noeviction")) {
            throw refuse(
                    name + " has maxmemory-policy " + policy + ", by which it may forget locks",
                    "set it to noeviction, or use a server of its own for locks");
        }
    }

    private static int number(String[] parts, int at) {
        try {
            return at < parts.length ? Integer.parseInt(parts[at]) : 0;
        } catch (NumberFormatException e) {
            return 0;
        }
    }

    private LockStoreException refuse(String what, String advice) {
        return new LockStoreException(store, what, advice, false, null);
    }

    private <T> T await(String tried, CompletableFuture<T> future, long millis) {
        try {
            return future.get(millis, TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            throw RedlockBackend.failure(store, tried, Protocol.cause(e.getCause() == null ? e : e.getCause()));
        } catch (TimeoutException e) {
            throw refuse(tried + ": not ready after " + millis + " ms", "try again, and look at the servers");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw refuse(tried + ": interrupted", "try again");
        }
    }
}
