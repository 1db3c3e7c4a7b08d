package dev.mortise.lock.zookeeper;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.apache.curator.framework.AuthInfo;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.imps.CuratorFrameworkState;
import org.apache.zookeeper.client.ZKClientConfig;

/**
 * Locks in the ZooKeeper of the application's own Curator client.
 *
 * <pre>{@code
 * LockClient locks = LockClient.builder(ZooKeeperLocks.over(curator)).build();
 * }</pre>
 *
 * <p>The client is asked for its servers, its namespace and its TLS; the locks live on sessions of their own, one for each length
 * of lease. A lease on the application's session would be as long as that session, would end with whatever ends it, and Curator
 * replaces a session that has ended by a new one without telling a lock. When Curator's list of servers changes, the sessions
 * stay, and know the new list from their next reconnection on.
 *
 * <p>Logins are not to be had from a Curator client, and are given here again. Nodes of a client with a login belong to that login
 * alone ({@code CREATOR_ALL}); the client's own {@code ACLProvider} is not asked.
 *
 * <p>The client stays the caller's, and is not closed.
 */
public final class ZooKeeperLocks {
    /** The longest that a client gives a call by itself. */
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    private ZooKeeperLocks() {}

    /**
     * Locks for the default lease of 30 seconds or longer ones, without a login.
     *
     * @see #over(CuratorFramework, List, BackendContext)
     */
    public static LockBackend over(CuratorFramework client) {
        return over(client, List.of(), BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    /**
     * Locks over the client's servers. Connects at once.
     *
     * @param client started; what it calls its namespace is the path below which the locks are
     * @param logins as the client itself has them; empty for none
     * @param context the ticker of the client, and its call timeout: at most a quarter of its shortest lease
     * @throws IllegalArgumentException if the client was not started
     * @throws LockStoreException if the store cannot be used; says what to do
     */
    public static LockBackend over(CuratorFramework client, List<AuthInfo> logins, BackendContext context) {
        Objects.requireNonNull(client, "client");
        Objects.requireNonNull(context, "context");
        List<Connector.Login> all = logins.stream()
                .map(login -> new Connector.Login(login.getScheme(), login.getAuth()))
                .toList();
        if (client.getState() != CuratorFrameworkState.STARTED) {
            throw new IllegalArgumentException("client must be started, and is " + client.getState());
        }
        ZKClientConfig config;
        try {
            config = client.getZookeeperClient().getZooKeeper().getClientConfig();
        } catch (Exception e) {
            throw new LockStoreException(
                    "ZooKeeper by the application's Curator client",
                    "open: the client has no connection: " + e.getMessage(),
                    "check that the servers run and can be reached",
                    false,
                    e);
        }
        String namespace = client.getNamespace();
        Connector connector =
                new Connector(() -> client.getZookeeperClient().getCurrentConnectionString(), all, config);
        return ZooKeeperBackend.open(
                "ZooKeeper by the application's Curator client",
                connector,
                namespace == null || namespace.isEmpty() ? "" : "/" + namespace,
                ZooKeeperBackend.SHORTEST_LEASE,
                context);
    }
}
