package dev.mortise.lock.zookeeper;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ConnectStringParser;
import org.apache.zookeeper.client.HostProvider;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;

/** How to come to the servers: where they are, who asks, and what TLS is asked for. Immutable. */
class Connector {
    /** A proof of who asks. */
    static final class Login {
        private final String scheme;
        private final byte[] secret;

        /**
         * @param secret for the scheme {@code digest} {@code user:password}
         */
        Login(String scheme, byte[] secret) {
            this.scheme = scheme;
            this.secret = secret.clone();
        }
    }

    private final Supplier<String> hosts;
    private final List<Login> logins;
    private final ZKClientConfig config;

    /**
     * @param hosts {@code h1:2181,h2:2181}, asked for anew with each session
     * @param logins none for anybody
     */
    Connector(Supplier<String> hosts, List<Login> logins, ZKClientConfig config) {
        this.hosts = hosts;
        this.logins = List.copyOf(logins);
        this.config = config;
    }

    /** What whoever logs in may do with the nodes that he makes: everything, and nobody else anything. */
    List<ACL> rights() {
        return logins.isEmpty() ? ZooDefs.Ids.OPEN_ACL_UNSAFE : ZooDefs.Ids.CREATOR_ALL_ACL;
    }

    List<InetSocketAddress> addresses() {
        return new ArrayList<>(new ConnectStringParser(hosts.get()).getServerAddresses());
    }

    String hosts() {
        return hosts.get();
    }

    /** Begins a session. Does not wait for it. */
    ZooKeeper connect(int timeoutMillis, Watcher watcher, Hosts provider) throws IOException {
        ZooKeeper handle = new ZooKeeper(hosts.get(), timeoutMillis, watcher, false, provider, config);
        for (Login login : logins) {
            handle.addAuthInfo(login.scheme, login.secret);
        }
        return handle;
    }

    /** A second way to a session that is there already, as one that has seen nothing yet. Does not wait for it. */
    Again again(ZooKeeper session, Watcher watcher) throws IOException {
        Hosts provider = new Hosts(addresses(), 1, System::nanoTime);
        return new Again(hosts.get(), session, watcher, provider, config);
    }

    /** Which can be left without an end of the session. */
    static final class Again extends ZooKeeper {
        private Again(String hosts, ZooKeeper session, Watcher watcher, Hosts provider, ZKClientConfig config)
                throws IOException {
            super(
                    hosts,
                    session.getSessionTimeout(),
                    watcher,
                    session.getSessionId(),
                    session.getSessionPasswd(),
                    false,
                    provider,
                    config);
        }

        /** Waits for its threads. */
        void leave() {
            cnxn.disconnect();
        }
    }

    /** Why no server lets this client in; the library only tells its log. Takes a moment for each server. */
    String whyNot(int millisEach) {
        List<String> all = new ArrayList<>();
        boolean secure = Boolean.parseBoolean(config.getProperty(ZKClientConfig.SECURE_CLIENT));
        for (InetSocketAddress each : addresses()) {
            String host = each.getHostString();
            InetSocketAddress address = new InetSocketAddress(host, each.getPort());
            if (address.isUnresolved()) {
                all.add(host + ": no such host");
                continue;
            }
            String server = host + ":" + each.getPort();
            try (Socket socket = new Socket()) {
                socket.connect(address, millisEach);
                socket.setSoTimeout(millisEach);
                all.add(
                        secure
                                ? Tls.whyNot(config, socket, host, each.getPort())
                                : server + ": connects, but gives no session; if it asks for TLS, use tls=true");
            } catch (IOException e) {
                all.add(server + ": " + e.getMessage());
            }
        }
        return String.join("; ", all);
    }

    /**
     * Which server to try next. ZooKeeper's own waits a second for each round, gives a server that does not answer a part of the
     * session's time, and cannot be made to leave one that hangs.
     */
    static final class Hosts implements HostProvider {
        private final LongSupplier ticker;
        private final int size;
        private final List<InetSocketAddress> all;
        private int at = -1;
        private int tried;
        private long begun;
        private long firstBegun;
        private boolean connected;

        /**
         * @param parts a connection may take this part of a session's time
         */
        Hosts(List<InetSocketAddress> all, int parts, LongSupplier ticker) {
            this.all = new ArrayList<>(all);
            Collections.shuffle(this.all);
            this.size = Math.max(parts, all.size());
            this.ticker = ticker;
        }

        @Override
        public int size() {
            return size;
        }

        @Override
        public InetSocketAddress next(long spinDelay) {
            InetSocketAddress next;
            boolean round;
            synchronized (this) {
                at = (at + 1) % all.size();
                next = all.get(at);
                round = tried >= all.size();
                tried++;
            }
            if (round) {
                try {
                    Thread.sleep(Math.min(spinDelay, 100));
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            InetSocketAddress resolved = resolve(next);
            synchronized (this) {
                begun = ticker.getAsLong();
            }
            return resolved;
        }

        private static InetSocketAddress resolve(InetSocketAddress address) {
            try {
                InetAddress[] found = InetAddress.getAllByName(address.getHostString());
                InetAddress one = found[(int) (System.nanoTime() >>> 10 & 0xffff) % found.length];
                return new InetSocketAddress(one, address.getPort());
            } catch (UnknownHostException e) {
                return address;
            }
        }

        /** On the thread that called {@link #next}. */
        @Override
        public synchronized void onConnected() {
            tried = 0;
            if (!connected) {
                connected = true;
                firstBegun = begun;
            }
        }

        /** When the connection was begun over which the session was made. */
        synchronized long firstBegun() {
            return firstBegun;
        }

        /** Always another one, please. */
        @Override
        public synchronized boolean updateServerList(Collection<InetSocketAddress> servers, InetSocketAddress current) {
            if (!all.containsAll(servers) || !servers.containsAll(all)) {
                all.clear();
                all.addAll(servers);
                Collections.shuffle(all);
                at = -1;
            }
            return true;
        }
    }
}
