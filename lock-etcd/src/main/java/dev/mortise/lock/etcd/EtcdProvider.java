package dev.mortise.lock.etcd;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.util.List;
import java.util.Map;

/**
 * Opens locks in etcd: {@code etcd://h1,h2,h3}, {@code etcds://h1,h2,h3} with TLS. Found by its scheme; not for users.
 */
public final class EtcdProvider implements BackendProvider {
    private static final String PLAIN = "etcd";
    private static final String SECURE = "etcds";
    private static final int PORT = 2379;

    private static final Option<String> PREFIX = Option.text(
            "prefix", Keys.PREFIX, "What all keys begin with; the same for all who shall exclude each other.");

    private static final Option<String> TRUST = Option.text(
            "trust", "", "A PEM file with the certificates to trust, in place of those that the JVM trusts.");

    private static final Option<String> IDENTITY = Option.text(
            "identity", "", "A PEM file with this client's certificate and private key, for servers that ask for one.");

    /** For {@link java.util.ServiceLoader}. */
    public EtcdProvider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        return Map.of(PLAIN, EtcdBackend.GUARANTEES, SECURE, EtcdBackend.GUARANTEES);
    }

    @Override
    public List<Option<?>> options() {
        return List.of(PREFIX, TRUST, IDENTITY);
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        if (!schemes().containsKey(uri.scheme())) {
            throw new IllegalArgumentException("scheme " + uri.scheme() + " is not served; etcd and etcds are");
        }
        String prefix = Keys.requirePrefix(uri.get(PREFIX));
        if (uri.hosts().isEmpty()) {
            throw new IllegalArgumentException("uri names no host, as in " + uri.scheme() + "://host:" + PORT);
        }
        if (!uri.path().isEmpty() && !uri.path().equals("/")) {
            throw new IllegalArgumentException("uri has a path, which means nothing to etcd: use option prefix");
        }
        if (uri.user().isPresent() && uri.password().isEmpty()) {
            throw new IllegalArgumentException("user is given without a password");
        }
        if (uri.user().isEmpty() && uri.password().isPresent()) {
            throw new IllegalArgumentException("password is given without a user");
        }
        String trust = uri.get(TRUST);
        String identity = uri.get(IDENTITY);
        boolean secure = uri.scheme().equals(SECURE);
        if (!secure && !(trust.isEmpty() && identity.isEmpty())) {
            throw new IllegalArgumentException(
                    "option " + (trust.isEmpty() ? "identity" : "trust") + " means nothing without TLS: use etcds://");
        }
        List<GrpcWire.Address> addresses = uri.hosts().stream()
                .map(host -> new GrpcWire.Address(host.name(), host.port().orElse(PORT)))
                .distinct()
                .toList();
        Wire wire = new GrpcWire(
                uri.toString(),
                addresses,
                uri.user().orElse(null),
                uri.password().orElse(null),
                secure ? Tls.of(trust, identity) : null,
                !identity.isEmpty(),
                context.callTimeout());
        return new EtcdBackend(wire, prefix, context).opened();
    }
}
