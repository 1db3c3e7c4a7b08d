package dev.mortise.lock.zookeeper;

import dev.mortise.lock.ClockShim;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.TcpProxy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** What can befall one ZooKeeper, or several that are one store, and the way to them. */
final class ZooKeeperFaults implements Faults {
    /** Longer than it takes the leader to end the session of a lease that the kit renews through a fault. */
    private static final Duration NOTICED = Duration.ofSeconds(3);

    private static final Pattern SESSION = Pattern.compile("\\bto=(\\d+)");

    private final List<ZooKeeperServer> servers;
    private final @Nullable ZooKeeperCluster cluster;
    private final List<TcpProxy> networks;
    private final List<ClockShim.Clock> clocks;

    /**
     * Of these.
     *
     * @param cluster null for a server that is alone
     * @param networks between clients and servers, in the servers' order
     * @param clocks of the servers, in their order; empty if they cannot be stepped
     */
    ZooKeeperFaults(
            List<ZooKeeperServer> servers,
            @Nullable ZooKeeperCluster cluster,
            List<TcpProxy> networks,
            List<ClockShim.Clock> clocks) {
        this.servers = List.copyOf(servers);
        this.cluster = cluster;
        this.networks = List.copyOf(networks);
        this.clocks = List.copyOf(clocks);
    }

    @Override
    public void delayReplies(Duration by) {
        networks.forEach(each -> each.delayReplies(by));
    }

    /** Requests of the library name the container or the node; its signs of life do not. */
    @Override
    public void loseReply() {
        AtomicBoolean lost = new AtomicBoolean();
        networks.forEach(
                each -> each.loseReplyTo(request -> request.contains(Paths.ROOT) && lost.compareAndSet(false, true)));
    }

    /** At the door, as no server lets itself be stopped without its clock. */
    @Override
    public Optional<AutoCloseable> holdUp(String name) {
        networks.forEach(each -> each.requests(TcpProxy.Mode.HOLD));
        return Optional.of(() -> networks.forEach(each -> each.requests(TcpProxy.Mode.PASS)));
    }

    @Override
    public void heal() {
        networks.forEach(TcpProxy::heal);
    }

    @Override
    public Set<Fault> possible() {
        Set<Fault> all = EnumSet.copyOf(TcpProxy.FAULTS);
        all.addAll(Set.of(Fault.SERVER_STOPPED, Fault.SERVER_KILLED, Fault.DATA_LOST, Fault.DATA_OLD));
        if (!clocks.isEmpty()) {
            all.addAll(Set.of(Fault.CLOCK_FORWARD, Fault.CLOCK_BACK));
        }
        if (cluster != null) {
            all.addAll(Set.of(Fault.LEADER_KILLED, Fault.LEADER_CUT_OFF, Fault.LEADER_STOPPED));
            all.addAll(Set.of(Fault.MINORITY_KILLED, Fault.MINORITY_CUT_OFF));
        }
        return all;
    }

    @Override
    public Map<StoreEvent, String> impossible() {
        Map<StoreEvent, String> all = new HashMap<>();
        if (cluster == null) {
            all.put(StoreEvent.FAILOVER, "a server that is alone has none that takes over");
            all.put(StoreEvent.MINORITY_LOSS, "a server that is alone has no minority to lose");
        }
        if (clocks.isEmpty()) {
            all.put(StoreEvent.STORE_CLOCK_STEP, "there is no C compiler (cc) for what steps the clock of a process");
        }
        return all;
    }

    @Override
    public AutoCloseable begin(Fault fault) throws Exception {
        return switch (fault) {
            case SERVER_STOPPED -> {
                servers.forEach(each -> each.signal("STOP"));
                yield () -> {
                    servers.forEach(each -> each.signal("CONT"));
                    awaitService();
                };
            }
            case SERVER_KILLED -> {
                servers.forEach(ZooKeeperServer::kill);
                yield this::start;
            }
            case DATA_LOST -> {
                servers.forEach(ZooKeeperServer::kill);
                servers.forEach(ZooKeeperServer::loseData);
                yield this::start;
            }
            case DATA_OLD -> {
                // What a server writes is not half written while it stands still.
                servers.forEach(each -> each.signal("STOP"));
                List<Path> old = servers.stream().map(ZooKeeperServer::copy).toList();
                servers.forEach(each -> each.signal("CONT"));
                // For what is granted after it.
                TimeUnit.MILLISECONDS.sleep(300);
                servers.forEach(ZooKeeperServer::kill);
                for (int i = 0; i < servers.size(); i++) {
                    servers.get(i).restore(old.get(i));
                }
                yield this::start;
            }
            case CLOCK_FORWARD, CLOCK_BACK -> {
                int one = cluster == null ? 0 : cluster.leader();
                Duration hour = Duration.ofHours(1);
                clocks.get(one).set(fault == Fault.CLOCK_FORWARD ? hour : hour.negated());
                yield () -> clocks.get(one).set(Duration.ZERO);
            }
            case LEADER_KILLED, LEADER_CUT_OFF, LEADER_STOPPED, MINORITY_KILLED, MINORITY_CUT_OFF ->
                begin(fault, requireCluster());
            default -> TcpProxy.begin(fault, networks);
        };
    }

    private ZooKeeperCluster requireCluster() {
        if (cluster == null) {
            throw new UnsupportedOperationException("there is one server alone");
        }
        return cluster;
    }

    /** Of one member, and others go on. */
    private AutoCloseable begin(Fault fault, ZooKeeperCluster all) throws InterruptedException {
        int leader = all.leader();
        boolean minority = fault.event() == StoreEvent.MINORITY_LOSS;
        int lost = minority ? follower(all, leader) : leader;
        ZooKeeperServer one = all.server(lost);
        switch (fault) {
            case LEADER_CUT_OFF, MINORITY_CUT_OFF -> all.cutFromPeers(lost);
            case LEADER_STOPPED -> one.signal("STOP");
            default -> one.kill();
        }
        int unused = all.leaderBesides(lost);
        if (fault == Fault.MINORITY_CUT_OFF) {
            // The leader ends the sessions of its clients, while it still serves them.
            TimeUnit.NANOSECONDS.sleep(NOTICED.toNanos());
        }
        return () -> {
            switch (fault) {
                case LEADER_CUT_OFF, MINORITY_CUT_OFF -> all.healPeers();
                case LEADER_STOPPED -> one.signal("CONT");
                default -> one.start();
            }
            awaitService();
        };
    }

    /** The one whose clients have the longest sessions that end soon: with which most is at stake. */
    private static int follower(ZooKeeperCluster all, int leader) {
        int one = (leader + 1) % all.size();
        int other = (leader + 2) % all.size();
        return longest(all.server(one)) >= longest(all.server(other)) ? one : other;
    }

    /** Of the sessions that a server serves, and whose clients have leases of seconds. */
    private static long longest(ZooKeeperServer server) {
        return SESSION.matcher(server.ask("cons"))
                .results()
                .mapToLong(found -> Long.parseLong(found.group(1)))
                .filter(millis -> millis < NOTICED.toMillis())
                .max()
                .orElse(0);
    }

    /** All of them serve, with a leader. */
    private void awaitService() {
        ZooKeeperCluster all = cluster;
        if (all != null) {
            int unused = all.leader();
            for (int i = 0; i < all.size(); i++) {
                all.awaitMember(i);
            }
        }
    }

    private void start() {
        if (cluster == null) {
            servers.get(0).start();
        } else {
            cluster.startAll();
            awaitService();
        }
    }
}
