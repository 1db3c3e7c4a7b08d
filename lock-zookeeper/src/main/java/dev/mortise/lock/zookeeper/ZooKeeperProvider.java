package dev.mortise.lock.zookeeper;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.common.PathUtils;

/** Opens locks in ZooKeeper: {@code zookeeper://h1:2181,h2:2181,h3:2181/chroot}. Found by its scheme; not for users. */
public final class ZooKeeperProvider implements BackendProvider {
    private static final String SCHEME = "zookeeper";
    private static final int PORT = 2181;

    private static final Option<Boolean> TLS = Option.flag("tls", false, "Whether to use TLS.");

    private static final Option<String> TRUST = Option.text(
            "trust", "", "A PEM file with the certificates to trust, in place of those that the JVM trusts.");

    private static final Option<String> IDENTITY = Option.text(
            "identity", "", "A PEM file with this client's certificate and private key, for servers that ask for one.");

    private static final Option<Duration> SHORTEST = Option.duration(
            "shortest-lease",
            "1s",
            "The shortest lease to offer, from 100ms to 60s; where the servers' shortest session is longer, it is that.");

    /** For {@link java.util.ServiceLoader}. */
    public ZooKeeperProvider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        return Map.of(SCHEME, ZooKeeperBackend.guarantees(ZooKeeperBackend.USUAL_SHORTEST));
    }

    @Override
    public List<Option<?>> options() {
        return List.of(TLS, TRUST, IDENTITY, SHORTEST);
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        if (!uri.scheme().equals(SCHEME)) {
            throw new IllegalArgumentException("scheme " + uri.scheme() + " is not served; zookeeper is");
        }
        if (uri.hosts().isEmpty()) {
            throw new IllegalArgumentException("uri names no host, as in zookeeper://host:2181");
        }
        String hosts = uri.hosts().stream()
                .map(host -> (host.name().indexOf(':') >= 0 ? "[" + host.name() + "]" : host.name()) + ":"
                        + host.port().orElse(PORT))
                .collect(Collectors.joining(","));
        boolean secure = uri.get(TLS);
        String trust = uri.get(TRUST);
        String identity = uri.get(IDENTITY);
        if (!secure && !(trust.isEmpty() && identity.isEmpty())) {
            throw new IllegalArgumentException(
                    "option " + (trust.isEmpty() ? "identity" : "trust") + " means nothing without TLS: use tls=true");
        }
        if (uri.user().isPresent() != uri.password().isPresent()) {
            throw new IllegalArgumentException(
                    uri.user().isPresent() ? "user is given without a password" : "password is given without a user");
        }
        if (uri.user().map(user -> user.indexOf(':') >= 0).orElse(false)) {
            throw new IllegalArgumentException("user has a colon, which ends it for ZooKeeper");
        }
        Duration shortest = uri.get(SHORTEST);
        if (shortest.toMillis() < 100 || shortest.toSeconds() > 60) {
            throw new IllegalArgumentException("option shortest-lease must be from 100ms to 60s: " + shortest);
        }
        ZKClientConfig config = new ZKClientConfig();
        if (secure) {
            Tls.configure(config, trust, identity);
        }
        List<Connector.Login> logins = uri.user()
                .map(user -> List.of(new Connector.Login(
                        "digest", (user + ":" + uri.password().orElse("")).getBytes(StandardCharsets.UTF_8))))
                .orElse(List.of());
        Connector connector = new Connector(() -> hosts, logins, config);
        return ZooKeeperBackend.open(uri.toString(), connector, chroot(uri.path()), shortest, context);
    }

    private static String chroot(String path) {
        String chroot = path.endsWith("/") ? path.substring(0, path.length() - 1) : path;
        if (chroot.isEmpty()) {
            return "";
        }
        try {
            PathUtils.validatePath(chroot);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("the path of the uri is no path of ZooKeeper: " + e.getMessage(), e);
        }
        if (chroot.equals("/zookeeper") || chroot.startsWith("/zookeeper/")) {
            throw new IllegalArgumentException("the path of the uri is ZooKeeper's own: " + chroot);
        }
        return chroot;
    }
}
