package dev.mortise.lock.redis;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

/** Where the servers are: one address, the master that Sentinel names, or the masters of a Cluster. */
final class Layouts {
    private Layouts() {}

    /** Asks one server something, on a connection of its own. */
    interface Asker {
        Object ask(HostAndPort server, Protocol.Command command, String... words);
    }

    static Servers.Layout one(HostAndPort server) {
        return new Servers.Layout() {
            @Override
            public HostAndPort known(int slot) {
                return server;
            }

            @Override
            public HostAndPort lookUp(int slot) {
                return server;
            }

            @Override
            public void forget(HostAndPort failed) {}

            @Override
            public Collection<HostAndPort> all() {
                return List.of(server);
            }

            @Override
            public boolean changes() {
                return false;
            }
        };
    }

    /** The server that these sentinels call the master, and that says so itself. */
    static Servers.Layout sentinel(List<HostAndPort> sentinels, String master, Asker asksSentinels, Asker asksServers) {
        return new Sentinel(sentinels, master, asksSentinels, asksServers);
    }

    /** The masters of the Cluster to which these servers belong, or one of them. */
    static Servers.Layout cluster(List<HostAndPort> seeds, Asker asker) {
        return new Cluster(seeds, asker);
    }

    /** Whether a server knows us not, or too little: then the others will not know us either. */
    private static boolean isRefusal(JedisException e) {
        return e instanceof JedisDataException d
                && Set.of("NOAUTH", "WRONGPASS", "NOPERM").contains(Trouble.code(d));
    }

    private static String text(Object bytes) {
        return bytes instanceof byte[] b ? new String(b, StandardCharsets.UTF_8) : String.valueOf(bytes);
    }

    private static final class Sentinel implements Servers.Layout {
        /** Those that failed are last. Under the lock. */
        private final List<HostAndPort> sentinels;

        private final String master;
        private final Asker asksSentinels;
        private final Asker asksServers;
        private final ReentrantLock lookingUp = new ReentrantLock();
        private volatile @Nullable HostAndPort known;

        Sentinel(List<HostAndPort> sentinels, String master, Asker asksSentinels, Asker asksServers) {
            this.sentinels = new ArrayList<>(sentinels);
            this.master = master;
            this.asksSentinels = asksSentinels;
            this.asksServers = asksServers;
        }

        @Override
        public @Nullable HostAndPort known(int slot) {
            return known;
        }

        @Override
        public HostAndPort lookUp(int slot) {
            lookingUp.lock();
            try {
                HostAndPort found = known;
                if (found == null) {
                    found = find();
                    known = found;
                }
                return found;
            } finally {
                lookingUp.unlock();
            }
        }

        private HostAndPort find() {
            JedisConnectionException none =
                    new JedisConnectionException("no sentinel of " + sentinels + " names a master " + master);
            for (HostAndPort sentinel : List.copyOf(sentinels)) {
                try {
                    Object answer =
                            asksSentinels.ask(sentinel, Protocol.Command.SENTINEL, "get-master-addr-by-name", master);
                    if (answer instanceof List<?> address && address.size() == 2) {
                        HostAndPort named =
                                new HostAndPort(text(address.get(0)), Integer.parseInt(text(address.get(1))));
                        // Right after a failover a sentinel may name the old one, or one that is not yet told.
                        Object role = asksServers.ask(named, Protocol.Command.ROLE);
                        if (role instanceof List<?> told && text(told.get(0)).equals("master")) {
                            return named;
                        }
                        none.addSuppressed(new JedisException(named + " is not a master yet"));
                    }
                } catch (JedisException e) {
                    if (isRefusal(e)) {
                        throw e;
                    }
                    none.addSuppressed(e);
                }
                sentinels.remove(sentinel);
                sentinels.add(sentinel);
            }
            throw none;
        }

        @Override
        public void forget(HostAndPort failed) {
            known = null;
        }

        @Override
        public Collection<HostAndPort> all() {
            return List.of(lookUp(0));
        }

        @Override
        public boolean changes() {
            return true;
        }
    }

    private static final class Cluster implements Servers.Layout {
        private final List<HostAndPort> seeds;
        private final Asker asker;
        private final ReentrantLock lookingUp = new ReentrantLock();

        /** Replaced as a whole; null before the first look. */
        private volatile @Nullable AtomicReferenceArray<@Nullable HostAndPort> slots;

        /** The last to be asked. */
        private volatile @Nullable HostAndPort suspect;

        /** All that were ever seen: the seeds may be gone by now. */
        private volatile Set<HostAndPort> seen = Set.of();

        Cluster(List<HostAndPort> seeds, Asker asker) {
            this.seeds = seeds;
            this.asker = asker;
        }

        @Override
        public @Nullable HostAndPort known(int slot) {
            AtomicReferenceArray<@Nullable HostAndPort> now = slots;
            return now == null ? null : now.get(slot);
        }

        @Override
        public HostAndPort lookUp(int slot) {
            lookingUp.lock();
            try {
                HostAndPort found = known(slot);
                if (found == null) {
                    AtomicReferenceArray<@Nullable HostAndPort> all = find();
                    slots = all;
                    found = all.get(slot);
                }
                if (found == null) {
                    throw new JedisConnectionException("no server of the cluster keeps slot " + slot);
                }
                return found;
            } finally {
                lookingUp.unlock();
            }
        }

        private AtomicReferenceArray<@Nullable HostAndPort> find() {
            Set<HostAndPort> ask = new LinkedHashSet<>(seen);
            ask.addAll(seeds);
            HostAndPort last = suspect;
            if (last != null && ask.remove(last)) {
                ask.add(last);
            }
            JedisConnectionException none = new JedisConnectionException("none of " + ask + " tells of its cluster");
            for (HostAndPort server : ask) {
                try {
                    return read(server, (List<?>) asker.ask(server, Protocol.Command.CLUSTER, "SLOTS"));
                } catch (JedisException e) {
                    if (isRefusal(e)) {
                        throw e;
                    }
                    none.addSuppressed(e);
                    suspect = server;
                }
            }
            throw none;
        }

        private AtomicReferenceArray<@Nullable HostAndPort> read(HostAndPort from, List<?> ranges) {
            AtomicReferenceArray<@Nullable HostAndPort> all = new AtomicReferenceArray<>(Keys.SLOTS);
            Set<HostAndPort> found = new LinkedHashSet<>();
            for (Object each : ranges) {
                List<?> range = (List<?>) each;
                List<?> master = (List<?>) range.get(2);
                Object host = master.get(0);
                // A server that does not know its own address leaves it out: it is the one that was asked.
                String name = host == null || text(host).isEmpty() ? from.getHost() : text(host);
                HostAndPort at = new HostAndPort(name, ((Long) master.get(1)).intValue());
                found.add(at);
                for (int i = ((Long) range.get(0)).intValue(); i <= ((Long) range.get(1)).intValue(); i++) {
                    all.set(i, at);
                }
            }
            if (found.isEmpty()) {
                throw new JedisConnectionException(from + " keeps no slots of a cluster");
            }
            seen = found;
            return all;
        }

        @Override
        public void moved(int slot, HostAndPort from, HostAndPort to) {
            AtomicReferenceArray<@Nullable HostAndPort> now = slots;
            if (now != null && !to.getHost().isEmpty()) {
                now.set(slot, to);
            } else {
                forget(from);
            }
        }

        /** The others' slots stay known: who uses them must not wait for one that fails. */
        @Override
        public void forget(HostAndPort failed) {
            AtomicReferenceArray<@Nullable HostAndPort> now = slots;
            suspect = failed;
            if (now != null) {
                for (int i = 0; i < Keys.SLOTS; i++) {
                    HostAndPort at = now.get(i);
                    if (failed.equals(at)) {
                        now.compareAndSet(i, at, null);
                    }
                }
            }
        }

        @Override
        public Collection<HostAndPort> all() {
            lookingUp.lock();
            try {
                slots = find();
                return seen;
            } finally {
                lookingUp.unlock();
            }
        }

        @Override
        public boolean changes() {
            return true;
        }
    }
}
