package dev.mortise.lock.etcd;

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
import org.jspecify.annotations.Nullable;

/** What can befall one etcd, or several that are one store, and the way to them. */
final class EtcdFaults implements Faults {
    /** Less than the kit's call timeout for faults, so that a client that hears of it can still undo what it asked. */
    private static final Duration BREAK = Duration.ofMillis(300);

    /** Longer than the kit's leases that are renewed through a fault. */
    private static final Duration STOPPED = Duration.ofSeconds(2);

    private final List<EtcdServer> servers;
    private final @Nullable EtcdCluster cluster;
    private final List<TcpProxy> networks;
    private final List<Late> doors;
    private final List<ClockShim.Clock> clocks;

    /**
     * Of these.
     *
     * @param cluster null for a server that is alone
     * @param networks between clients and servers, in the servers' order
     * @param doors before the networks, where clients connect to
     * @param clocks of the servers, in their order; empty if they cannot be stepped
     */
    EtcdFaults(
            List<EtcdServer> servers,
            @Nullable EtcdCluster cluster,
            List<TcpProxy> networks,
            List<Late> doors,
            List<ClockShim.Clock> clocks) {
        this.servers = List.copyOf(servers);
        this.cluster = cluster;
        this.networks = List.copyOf(networks);
        this.doors = List.copyOf(doors);
        this.clocks = List.copyOf(clocks);
    }

    @Override
    public void delayReplies(Duration by) {
        networks.forEach(each -> each.delayReplies(by));
    }

    /** Of what names an owner: entering, renewing, leaving. */
    @Override
    public void loseReply() {
        AtomicBoolean lost = new AtomicBoolean();
        networks.forEach(
                each -> each.loseReplyTo(request -> request.contains("tck~") && lost.compareAndSet(false, true)));
    }

    /** At the door, before the server has seen them. */
    @Override
    public Optional<AutoCloseable> holdUp(String name) {
        networks.forEach(each -> each.requests(TcpProxy.Mode.HOLD));
        return Optional.of(() -> networks.forEach(each -> each.requests(TcpProxy.Mode.PASS)));
    }

    @Override
    public void heal() {
        delayReplies(Duration.ZERO);
        networks.forEach(each -> each.loseReplyTo(request -> false));
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

    /** A leader that stood still revokes leases of the next one only if it goes on at the right moment. */
    @Override
    public Set<StoreEvent> seldom() {
        return Set.of(StoreEvent.FAILOVER);
    }

    @Override
    public AutoCloseable begin(Fault fault) throws Exception {
        return switch (fault) {
            case REQUESTS_LATE -> requestsAreLate();
            case SERVER_STOPPED -> {
                servers.forEach(EtcdServer::freeze);
                yield () -> {
                    servers.forEach(EtcdServer::resume);
                    servers.forEach(EtcdServer::awaitHealth);
                };
            }
            case SERVER_KILLED -> {
                servers.forEach(EtcdServer::kill);
                yield this::start;
            }
            case DATA_LOST -> {
                servers.forEach(EtcdServer::kill);
                servers.forEach(EtcdServer::loseData);
                yield this::start;
            }
            case DATA_OLD -> {
                Path old = servers.get(0).snapshot();
                // For what is granted after it.
                TimeUnit.MILLISECONDS.sleep(200);
                servers.forEach(EtcdServer::kill);
                servers.forEach(each -> each.restore(old));
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

    private EtcdCluster requireCluster() {
        if (cluster == null) {
            throw new UnsupportedOperationException("there is one server alone");
        }
        return cluster;
    }

    /**
     * All that a client asks goes over one connection, and what undoes it would never overtake it. So the connections break to
     * the clients after a moment, which go on over new ones.
     */
    private AutoCloseable requestsAreLate() {
        doors.forEach(Late::keepBack);
        Thread breaks = new Thread(
                () -> {
                    try {
                        TimeUnit.NANOSECONDS.sleep(BREAK.toNanos());
                    } catch (InterruptedException e) {
                        // It is over sooner.
                    }
                    doors.forEach(Late::breakToClients);
                },
                "etcd-faults");
        breaks.start();
        return () -> {
            breaks.interrupt();
            breaks.join();
            doors.forEach(Late::deliver);
        };
    }

    /** Of one member, and others go on. */
    private AutoCloseable begin(Fault fault, EtcdCluster all) throws InterruptedException {
        int leader = all.leader();
        boolean minority = fault.event() == StoreEvent.MINORITY_LOSS;
        int lost = minority ? (leader + 1) % all.size() : leader;
        EtcdServer one = all.member(lost);
        switch (fault) {
            case LEADER_CUT_OFF, MINORITY_CUT_OFF -> all.cutOff(lost);
            case LEADER_STOPPED -> one.freeze();
            default -> one.kill();
        }
        all.leaderBesides(lost).awaitHealth();
        if (fault == Fault.LEADER_STOPPED) {
            // For longer than leases that are renewed at the next leader, of which this one knows nothing.
            TimeUnit.NANOSECONDS.sleep(STOPPED.toNanos());
        }
        return () -> {
            switch (fault) {
                case LEADER_CUT_OFF, MINORITY_CUT_OFF -> all.mend(lost);
                case LEADER_STOPPED -> one.resume();
                default -> one.launch();
            }
            all.awaitHealth();
        };
    }

    private void start() {
        if (cluster == null) {
            servers.get(0).start();
        } else {
            cluster.startAll();
        }
    }
}
