package org.example.lock.hazelcast;

import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.client.config.ClientConnectionStrategyConfig.ReconnectMode;
import com.hazelcast.client.properties.ClientProperty;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.LifecycleEvent.LifecycleState;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Opens locks in a Hazelcast cluster, as a client of it: {@code hazelcast://member,member:5702/cluster}. Found by its scheme;
 * not for users.
 */
public final class HazelcastProvider implements BackendProvider {
    private static final String SCHEME = "hazelcast";

    private static final Option<String> MAP = Option.text(
            "map", HazelcastLocks.MAP, "The map with the locks; the same for all who shall exclude each other.");

    /** For {@link java.util.ServiceLoader}. */
    public HazelcastProvider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        return Map.of(SCHEME, HazelcastBackend.GUARANTEES);
    }

    @Override
    public List<Option<?>> options() {
        return List.of(MAP);
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        HazelcastInstance client = connect(uri, context);
        try {
            return HazelcastBackend.open(uri.toString(), client, uri.get(MAP), context, client::shutdown);
        } catch (RuntimeException e) {
            client.shutdown();
            throw e;
        }
    }

    /** A client that is connected. */
    static HazelcastInstance connect(StoreUri uri, BackendContext context) {
        if (uri.user().isPresent() || uri.password().isPresent()) {
            throw new IllegalArgumentException("user and password mean nothing to hazelcast://");
        }
        if (uri.hosts().isEmpty()) {
            throw new IllegalArgumentException("uri names no member, as in hazelcast://host:5701/cluster");
        }
        ClientConfig config = new ClientConfig();
        if (uri.path().length() > 1) {
            config.setClusterName(uri.path().substring(1));
        }
        uri.hosts().forEach(host -> config.getNetworkConfig().addAddress(host.toString()));
        int millis = (int) Math.min(context.callTimeout().toMillis(), 60_000);
        config.getNetworkConfig().setConnectionTimeout(Math.max(1, millis));
        // It goes on trying for ever, and calls fail at once meanwhile: those who call have deadlines of their own.
        config.getConnectionStrategyConfig()
                .setAsyncStart(true)
                .setReconnectMode(ReconnectMode.ASYNC)
                .getConnectionRetryConfig()
                .setInitialBackoffMillis(20)
                .setMaxBackoffMillis(500)
                .setClusterConnectTimeoutMillis(-1);
        // What is not answered by then is not sent again.
        config.setProperty(
                ClientProperty.INVOCATION_TIMEOUT_SECONDS.getName(), String.valueOf(Math.max(1, millis / 1000)));
        // Copies confirm to the member, which answers then. They would to this client too, but not while it has no connection
        // to them yet: its first calls hung.
        config.setBackupAckToClientEnabled(false);
        CountDownLatch connected = new CountDownLatch(1);
        config.addListenerConfig(new com.hazelcast.config.ListenerConfig((com.hazelcast.core.LifecycleListener) event -> {
            if (event.getState() == LifecycleState.CLIENT_CONNECTED) {
                connected.countDown();
            }
        }));
        HazelcastInstance client = HazelcastClient.newHazelcastClient(config);
        try {
            if (connected.await(context.callTimeout().toNanos(), TimeUnit.NANOSECONDS)) {
                return client;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        client.shutdown();
        throw new LockStoreException(
                uri.toString(),
                "connect: no member answered within " + context.callTimeout(),
                "check that members of the cluster '" + config.getClusterName() + "' run there and can be reached",
                false,
                null);
    }
}
