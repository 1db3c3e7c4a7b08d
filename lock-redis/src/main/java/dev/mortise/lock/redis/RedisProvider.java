package dev.mortise.lock.redis;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.HostAndPort;

/**
 * Opens locks in one Redis: {@code redis://host}, {@code rediss://host} with TLS, {@code redis+sentinel://h1,h2,h3/master},
 * {@code redis+cluster://h1,h2,h3}. Found by its scheme; not for users.
 */
public final class RedisProvider implements BackendProvider {
    private static final String ONE = "redis";
    private static final String SECURE = "rediss";
    private static final String SENTINEL = "redis+sentinel";
    private static final String CLUSTER = "redis+cluster";

    private static final Option<String> PREFIX = Option.text(
            "prefix", Keys.PREFIX, "What all keys begin with; the same for all who shall exclude each other.");

    private static final Option<Integer> REPLICAS = Option.number(
            "replicas", 0, 0, 100, "How many replicas must have a grant before it counts; the narrower the window.");

    private static final Option<Boolean> TLS =
            Option.flag("tls", false, "Whether to use TLS with Sentinel and Cluster; rediss always does.");

    private static final Option<String> TRUST = Option.text(
            "trust", "", "A PEM file with the certificates to trust, in place of those that the JVM trusts.");

    private static final Option<String> IDENTITY = Option.text(
            "identity", "", "A PEM file with this client's certificate and private key, for servers that ask for one.");

    private static final Option<Integer> DATABASE = Option.number(
            "database", 0, 0, 1_000_000, "The number of the database with Sentinel; with redis it is the path.");

    private static final Option<String> SENTINEL_USER =
            Option.text("sentinel-user", "", "The user at the sentinels, if they ask for one.");

    private static final Option<String> SENTINEL_PASSWORD =
            Option.secret("sentinel-password", "The password at the sentinels, if they ask for one.");

    /** For {@link java.util.ServiceLoader}. */
    public RedisProvider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        return Map.of(
                ONE, RedisBackend.GUARANTEES,
                SECURE, RedisBackend.GUARANTEES,
                SENTINEL, RedisBackend.GUARANTEES,
                CLUSTER, RedisBackend.GUARANTEES);
    }

    @Override
    public List<Option<?>> options() {
        return List.of(PREFIX, REPLICAS, TLS, TRUST, IDENTITY, DATABASE, SENTINEL_USER, SENTINEL_PASSWORD);
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        if (!schemes().containsKey(uri.scheme())) {
            throw new IllegalArgumentException("scheme " + uri.scheme() + " is not served; redis, rediss,"
                    + " redis+sentinel and redis+cluster are");
        }
        boolean sentinel = uri.scheme().equals(SENTINEL);
        boolean cluster = uri.scheme().equals(CLUSTER);
        String prefix = Keys.requirePrefix(uri.get(PREFIX));
        int replicas = uri.get(REPLICAS);
        List<HostAndPort> hosts = hosts(uri, sentinel ? 26379 : 6379, sentinel || cluster);
        boolean secure = uri.scheme().equals(SECURE) || uri.get(TLS);
        String trust = uri.get(TRUST);
        String identity = uri.get(IDENTITY);
        if (!secure && !(trust.isEmpty() && identity.isEmpty())) {
            throw new IllegalArgumentException("option " + (trust.isEmpty() ? "identity" : "trust")
                    + " means nothing without TLS: use rediss://, or tls=true");
        }
        if (uri.user().isPresent() && uri.password().isEmpty()) {
            throw new IllegalArgumentException("user is given without a password");
        }
        Tls tls = secure ? Tls.of(trust, identity) : null;
        Dialer dialer = new Dialer(
                uri.user().orElse(null),
                uri.password().orElse(null),
                database(uri, sentinel, cluster),
                tls,
                context.callTimeout());
        // Each of several is given a part of the time: some may hang.
        Duration brief = context.callTimeout().dividedBy(Math.min(4, hosts.size() + 1));
        Dialer asks = new Dialer(uri.user().orElse(null), uri.password().orElse(null), 0, tls, brief);
        Servers.Layout layout;
        if (sentinel) {
            Dialer asksSentinels = new Dialer(
                    emptyToNull(uri.get(SENTINEL_USER)), emptyToNull(uri.get(SENTINEL_PASSWORD)), 0, tls, brief);
            layout = Layouts.sentinel(hosts, master(uri), asksSentinels::ask, asks::ask);
        } else {
            layout = cluster ? Layouts.cluster(hosts, asks::ask) : Layouts.one(hosts.get(0));
        }
        Servers servers = new Servers(layout, dialer, context.callTimeout());
        return new RedisBackend(uri.toString(), prefix, replicas, cluster, servers, context)
                .probed(new Probe(uri.toString(), replicas, cluster));
    }

    private static List<HostAndPort> hosts(StoreUri uri, int port, boolean several) {
        List<HostAndPort> hosts = uri.hosts().stream()
                .map(host -> new HostAndPort(host.name(), host.port().orElse(port)))
                .toList();
        if (hosts.isEmpty()) {
            throw new IllegalArgumentException("uri names no host, as in " + uri.scheme() + "://host:" + port);
        }
        if (hosts.size() > 1 && !several) {
            throw new IllegalArgumentException("uri names " + hosts.size() + " hosts, and " + uri.scheme()
                    + " is for one: use redis+sentinel, redis+cluster or redlock for several");
        }
        return hosts;
    }

    private static int database(StoreUri uri, boolean sentinel, boolean cluster) {
        boolean given = uri.options().containsKey(DATABASE.name());
        if (sentinel) {
            return uri.get(DATABASE);
        }
        if (given) {
            throw new IllegalArgumentException("option database is for redis+sentinel only: "
                    + (cluster ? "a cluster has one" : "it is the path, as in redis://host/1"));
        }
        String path = uri.path();
        if (path.isEmpty() || path.equals("/")) {
            return 0;
        }
        if (cluster || !path.matches("/\\d{1,6}")) {
            throw new IllegalArgumentException(
                    cluster
                            ? "uri has a path, and a cluster has one database"
                            : "the path of the uri must be the number of a database, as in redis://host/1");
        }
        return Integer.parseInt(path.substring(1));
    }

    private static String master(StoreUri uri) {
        String path = uri.path();
        if (path.length() < 2 || path.indexOf('/', 1) >= 0) {
            throw new IllegalArgumentException(
                    "the path of the uri must be the name of the master, as in redis+sentinel://host/mymaster");
        }
        return path.substring(1);
    }

    private static @Nullable String emptyToNull(String text) {
        return text.isEmpty() ? null : text;
    }
}
