package dev.mortise.lock.redis;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPool;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.providers.ConnectionProvider;
import redis.clients.jedis.util.Pool;

/**
 * Locks over the application's own Jedis client.
 *
 * <pre>{@code
 * LockClient locks = LockClient.builder(RedisLocks.over(jedis)).build();
 * }</pre>
 *
 * <p>Each call borrows a connection for one exchange and gives it back; nothing that Jedis itself would send again is sent
 * again. While somebody waits for a lock, one more connection is borrowed for the messages that tell of releases; neither
 * holding a lock nor a further waiter costs another. So let the pool be larger by some: work under a lock that waits for a
 * connection of the same pool cannot renew. A call ends within the call timeout whatever the client's own timeouts are. It
 * borrows on another thread, which costs some microseconds; {@code LockClient.connect("redis://...")} does not.
 *
 * <p>The client stays the caller's, and is not closed. Its keys and the format are those of {@code redis://}: users of
 * both exclude each other.
 */
public final class RedisLocks {
    /** The longest that a client gives a call by itself. */
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    private RedisLocks() {}

    /**
     * Locks with the prefix {@code mortise}, for the default lease of 30 seconds or longer ones.
     *
     * @see #over(UnifiedJedis, String, BackendContext)
     */
    public static LockBackend over(UnifiedJedis client) {
        return over(client, Keys.PREFIX, BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    /**
     * Locks over one server or a Cluster. Connects at once.
     *
     * @param client a {@code RedisClient}, {@code JedisPooled}, {@code RedisClusterClient} or {@code JedisCluster}; other
     *     clients show nobody their connections: for these, pass their {@link ConnectionProvider}
     * @param prefix what all keys begin with, the same for all who shall exclude each other: 1 to 64 letters, digits and
     *     {@code . _ : / -}
     * @param context the ticker of the client, and its call timeout: at most a quarter of its shortest lease
     * @throws dev.mortise.lock.LockStoreException if the store cannot be used; says what to do
     */
    @SuppressWarnings("deprecation") // Many have the older clients.
    public static LockBackend over(UnifiedJedis client, String prefix, BackendContext context) {
        Objects.requireNonNull(client, "client");
        if (client instanceof RedisClient one) {
            return open(new OfServer(() -> borrow(one.getPool(), context), false), false, prefix, context);
        }
        if (client instanceof redis.clients.jedis.JedisPooled one) {
            return open(new OfServer(() -> borrow(one.getPool(), context), false), false, prefix, context);
        }
        if (client instanceof RedisClusterClient cluster) {
            return open(new OfNodes(cluster::getClusterNodes, context), true, prefix, context);
        }
        if (client instanceof redis.clients.jedis.JedisCluster cluster) {
            return open(new OfNodes(cluster::getClusterNodes, context), true, prefix, context);
        }
        throw new IllegalArgumentException("client is a " + client.getClass().getName()
                + ", which shows nobody its connections: pass the ConnectionProvider that it was made with");
    }

    /**
     * The same for what such a client is made with: for Sentinel a {@code SentineledConnectionProvider}.
     *
     * @param connections stays the caller's, and is not closed
     * @see #over(UnifiedJedis, String, BackendContext)
     */
    public static LockBackend over(ConnectionProvider connections, String prefix, BackendContext context) {
        Objects.requireNonNull(connections, "connections");
        if (connections instanceof ClusterConnectionProvider cluster) {
            return open(new OfCluster(cluster), true, prefix, context);
        }
        return open(new OfServer(connections::getConnection, true), false, prefix, context);
    }

    private static LockBackend open(Borrowed source, boolean slotted, String prefix, BackendContext context) {
        String checked = Keys.requirePrefix(Objects.requireNonNull(prefix, "prefix"));
        Servers servers = new Servers(source, source, context.callTimeout());
        String store = "Redis by the application's Jedis client";
        return new RedisBackend(store, checked, 0, slotted, servers, context).probed(new Probe(store, 0, slotted));
    }

    /**
     * For less time than a call has, whatever the pool itself would wait: a borrower that nobody waits for any more would
     * keep a thread, and the next connection that is given back.
     */
    private static Connection borrow(Pool<Connection> pool, BackendContext context) {
        Duration most = context.callTimeout().dividedBy(4).multipliedBy(3);
        Duration own = pool.getMaxWaitDuration();
        Duration wait = own.isNegative() || own.compareTo(most) > 0 ? most : own;
        try {
            Connection connection = pool.borrowObject(wait);
            if (pool instanceof ConnectionPool handling) {
                connection.setHandlingPool(handling);
            }
            return connection;
        } catch (NoSuchElementException e) {
            throw new Dialer.Refused(
                    "the pool of the application's client had no connection in " + wait.toMillis() + " ms",
                    "let it be larger (maxTotal), or look for what keeps its connections",
                    e);
        } catch (JedisException e) {
            throw e;
        } catch (Exception e) {
            throw new JedisException("the pool of the application's client: " + e.getMessage(), e);
        }
    }

    /** Connections of somebody else's pools. */
    private abstract static class Borrowed implements Servers.Layout, Servers.Opener {
        @Override
        public boolean keeps() {
            return false;
        }

        @Override
        public boolean changes() {
            return true;
        }
    }

    private interface Source {
        Connection borrow();
    }

    /** Whichever server the application's client is connected to now. */
    private static final class OfServer extends Borrowed {
        private static final HostAndPort SERVER = new HostAndPort("the server of the application's client", 0) {
            private static final long serialVersionUID = 1;

            @Override
            public String toString() {
                return getHost();
            }
        };

        private final Source source;
        private final boolean changes;

        /**
         * @param changes whether the next connection may be to another one
         */
        OfServer(Source source, boolean changes) {
            this.source = source;
            this.changes = changes;
        }

        @Override
        public boolean changes() {
            return changes;
        }

        @Override
        public Connection open(HostAndPort server, Link link) {
            return source.borrow();
        }

        @Override
        public HostAndPort known(int slot) {
            return SERVER;
        }

        @Override
        public HostAndPort lookUp(int slot) {
            return SERVER;
        }

        @Override
        public void forget(HostAndPort server) {}

        @Override
        public Collection<HostAndPort> all() {
            return List.of(SERVER);
        }
    }

    private interface Nodes {
        Map<String, ConnectionPool> now();
    }

    /** The servers that a client of a Cluster has pools for; which keeps what they are asked. */
    private static final class OfNodes extends Borrowed {
        private final Nodes nodes;
        private final BackendContext context;
        private final Servers.Layout layout;

        OfNodes(Nodes nodes, BackendContext context) {
            this.nodes = nodes;
            this.context = context;
            List<HostAndPort> seeds =
                    nodes.now().keySet().stream().map(HostAndPort::from).toList();
            layout = Layouts.cluster(seeds, this::ask);
        }

        private Object ask(HostAndPort server, Protocol.Command command, String... words) {
            try (Connection connection = borrow(server)) {
                connection.sendCommand(command, words);
                return connection.getOne();
            }
        }

        private Connection borrow(HostAndPort server) {
            ConnectionPool pool = nodes.now().get(server.toString());
            if (pool == null) {
                throw new JedisConnectionException("the application's client has not found " + server + " yet");
            }
            return RedisLocks.borrow(pool, context);
        }

        @Override
        public Connection open(HostAndPort server, Link link) {
            return borrow(server);
        }

        @Override
        public @Nullable HostAndPort known(int slot) {
            return layout.known(slot);
        }

        @Override
        public HostAndPort lookUp(int slot) {
            return layout.lookUp(slot);
        }

        @Override
        public void moved(int slot, HostAndPort from, HostAndPort to) {
            layout.moved(slot, from, to);
        }

        @Override
        public void forget(HostAndPort server) {
            layout.forget(server);
        }

        @Override
        public Collection<HostAndPort> all() {
            return layout.all();
        }
    }

    /** A Cluster as Jedis knows it. */
    private static final class OfCluster extends Borrowed {
        private final ClusterConnectionProvider cluster;
        private volatile boolean stale;

        OfCluster(ClusterConnectionProvider cluster) {
            this.cluster = cluster;
        }

        @Override
        public Connection open(HostAndPort server, Link link) {
            return cluster.getConnection(server);
        }

        @Override
        public @Nullable HostAndPort known(int slot) {
            return stale ? null : cluster.getNode(slot);
        }

        @Override
        public HostAndPort lookUp(int slot) {
            if (stale || cluster.getNode(slot) == null) {
                stale = false;
                cluster.renewSlotCache();
            }
            HostAndPort found = cluster.getNode(slot);
            if (found == null) {
                throw new JedisConnectionException("no server of the cluster keeps slot " + slot);
            }
            return found;
        }

        @Override
        public void forget(HostAndPort server) {
            stale = true;
        }

        @Override
        public Collection<HostAndPort> all() {
            return cluster.getPrimaryNodes().keySet().stream()
                    .map(HostAndPort::from)
                    .toList();
        }
    }
}
