package dev.mortise.lock.redis;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
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

    private static String text(Object bytes) {
        return bytes instanceof byte[] b ? new String(b, StandardCharsets.UTF_8) : String.valueOf(bytes);
    }

    /** Why none of several servers could tell. */
    private static final class Reasons {
        private final List<String> told = new ArrayList<>();
        private @Nullable String advice;

        void add(HostAndPort server, String what, @Nullable String advice) {
            told.add(what.contains(server.toString()) ? what : server + " says " + what);
            // What was answered says more than that others did not.
            if (this.advice == null) {
                this.advice = advice;
            }
        }

        void add(HostAndPort server, JedisException failure) {
            if (failure instanceof JedisDataException answer) {
                Trouble trouble = Trouble.answered(answer);
                add(server, String.valueOf(trouble.getMessage()), trouble.advice());
                return;
            }
            Trouble trouble = Trouble.disconnected(failure, false, server.toString());
            boolean known = failure instanceof Dialer.Refused;
            add(server, String.valueOf(trouble.getMessage()), known ? trouble.advice() : null);
        }

        Dialer.Refused refused(String what, String otherwise) {
            return new Dialer.Refused(
                    what + " (" + String.join("; ", told) + ")", advice == null ? otherwise : advice, null);
        }
    }

    /**
     * One look at a time. Who waits for it meanwhile takes its result, a failure too, if it began after he came: when
     * servers hang, there would else be a line of callers that each hang as long again.
     */
    private static final class Looks {
        private final ReentrantLock looking = new ReentrantLock();
        private volatile long begun;
        private long failed;
        private @Nullable JedisException failure;

        interface Known {
            @Nullable
            HostAndPort now();
        }

        interface Look {
            HostAndPort now();
        }

        HostAndPort at(Known known, Look look) {
            long before = begun;
            looking.lock();
            try {
                HostAndPort found = known.now();
                if (found != null) {
                    return found;
                }
                JedisException last = failure;
                if (last != null && failed > before) {
                    throw last;
                }
                long number = begun + 1;
                begun = number;
                try {
                    return look.now();
                } catch (JedisException e) {
                    failure = e;
                    failed = number;
                    throw e;
                }
            } finally {
                looking.unlock();
            }
        }
    }

    private static final class Sentinel implements Servers.Layout {
        private final String master;
        private final Asker asksSentinels;
        private final Asker asksServers;
        private final Looks looks = new Looks();

        /** The one that told last comes first. Replaced as a whole, by who looks. */
        private volatile List<HostAndPort> sentinels;

        private volatile @Nullable HostAndPort known;

        Sentinel(List<HostAndPort> sentinels, String master, Asker asksSentinels, Asker asksServers) {
            this.sentinels = sentinels;
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
            return looks.at(() -> known, () -> {
                HostAndPort found = find();
                known = found;
                return found;
            });
        }

        private HostAndPort find() {
            Reasons reasons = new Reasons();
            Set<HostAndPort> not = new HashSet<>();
            for (HostAndPort sentinel : sentinels) {
                HostAndPort named = named(sentinel, reasons);
                // Several name the same one, which may hang.
                if (named != null && not.add(named) && isMaster(named, reasons)) {
                    List<HostAndPort> next = new ArrayList<>(sentinels);
                    next.remove(sentinel);
                    next.add(0, sentinel);
                    sentinels = next;
                    return named;
                }
            }
            throw reasons.refused(
                    "no sentinel leads to a master " + master, "check that the sentinels run and can be reached");
        }

        private @Nullable HostAndPort named(HostAndPort sentinel, Reasons reasons) {
            try {
                Object answer =
                        asksSentinels.ask(sentinel, Protocol.Command.SENTINEL, "get-master-addr-by-name", master);
                if (answer instanceof List<?> address && address.size() == 2) {
                    return new HostAndPort(text(address.get(0)), Integer.parseInt(text(address.get(1))));
                }
                reasons.add(
                        sentinel,
                        sentinel + " knows no master of this name",
                        "give the name that stands in sentinel.conf (SENTINEL MASTERS lists all)");
            } catch (JedisDataException e) {
                String message = String.valueOf(e.getMessage());
                String advice = switch (Trouble.code(e)) {
                    case "NOAUTH", "WRONGPASS" -> "give the options sentinel-user and sentinel-password";
                    case "NOPERM" -> "let the user at the sentinels run sentinel|get-master-addr-by-name";
                    default -> message.startsWith("ERR unknown command") ? "it is no sentinel: use redis://" : null;
                };
                reasons.add(sentinel, message, advice);
            } catch (JedisException e) {
                reasons.add(sentinel, e);
            }
            return null;
        }

        /** Right after a failover a sentinel may name the old one, or one that is not yet told. */
        private boolean isMaster(HostAndPort named, Reasons reasons) {
            try {
                Object role = asksServers.ask(named, Protocol.Command.ROLE);
                if (role instanceof List<?> told && text(told.get(0)).equals("master")) {
                    return true;
                }
                reasons.add(named, named + " is named, and is not a master yet", "wait until the failover is over");
            } catch (JedisDataException e) {
                reasons.add(named, e);
            } catch (JedisException e) {
                String what = String.valueOf(
                        Trouble.disconnected(e, false, named.toString()).getMessage());
                reasons.add(
                        named,
                        "the sentinels name " + named + ": " + what,
                        "wait until the failover is over, or let the sentinels announce an address that can be reached"
                                + " from here");
            }
            return false;
        }

        @Override
        public void forget(HostAndPort failed) {
            if (failed.equals(known)) {
                known = null;
            }
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
        private final Looks looks = new Looks();

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
            return looks.at(() -> known(slot), () -> {
                AtomicReferenceArray<@Nullable HostAndPort> all = find();
                slots = all;
                HostAndPort found = all.get(slot);
                if (found == null) {
                    throw new Dialer.Refused(
                            "no server of the cluster keeps slot " + slot,
                            "see CLUSTER INFO, and give the slot to a server",
                            null);
                }
                return found;
            });
        }

        private AtomicReferenceArray<@Nullable HostAndPort> find() {
            Set<HostAndPort> ask = new LinkedHashSet<>(seen);
            ask.addAll(seeds);
            HostAndPort last = suspect;
            if (last != null && ask.remove(last)) {
                ask.add(last);
            }
            Reasons reasons = new Reasons();
            for (HostAndPort server : ask) {
                try {
                    return read(server, (List<?>) asker.ask(server, Protocol.Command.CLUSTER, "SLOTS"));
                } catch (JedisDataException e) {
                    String message = String.valueOf(e.getMessage());
                    if (message.contains("cluster support disabled")) {
                        reasons.add(server, message, "it is no server of a Cluster: use redis://");
                    } else {
                        reasons.add(server, e);
                    }
                } catch (JedisException e) {
                    reasons.add(server, e);
                }
            }
            throw reasons.refused("no server tells of its cluster", "check that they run and can be reached");
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
                throw new Dialer.Refused(
                        from + " keeps no slots of a cluster",
                        "give addresses of servers that belong to the cluster, and let it have its slots",
                        null);
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
            slots = find();
            return seen;
        }

        @Override
        public boolean changes() {
            return true;
        }
    }
}
