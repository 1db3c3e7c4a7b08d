package dev.mortise.lock.zookeeper;

import static org.awaitility.Awaitility.await;

import dev.mortise.lock.tck.TcpProxy;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * An ensemble of servers that talk to each other through networks that fail as they are told: one for each pair and direction,
 * for the elections as for everything else. For any thread, but for starting and ending it.
 *
 * <p>Members are numbered from 0. Two things would let them pass the networks by: a member tells the other its own address for
 * elections, to be called back there, which {@link Nameless} takes out; and a leader tells its own list of members, which they
 * ignore as long as {@code reconfigEnabled} is not set.
 */
public final class ZooKeeperCluster implements AutoCloseable {
    private static final Duration LONGEST = Duration.ofSeconds(60);

    private final List<ZooKeeperServer> servers = new ArrayList<>();

    /** From one member to another, two each. */
    private final List<List<List<TcpProxy>>> ways = new ArrayList<>();

    private final List<Nameless> doors = new ArrayList<>();

    /**
     * Starts one, and returns when it has a leader and all have joined.
     *
     * @param members 3 or 5
     * @param settings as for {@link ZooKeeperServer}, of all
     */
    public ZooKeeperCluster(int members, String... settings) {
        this(Collections.nCopies(members, Map.of()), settings);
    }

    /**
     * The same.
     *
     * @param environments of the members, one each
     */
    ZooKeeperCluster(List<Map<String, String>> environments, String... settings) {
        int members = environments.size();
        List<Integer> quorum = ports(members);
        List<Integer> election = ports(members);
        boolean fine = false;
        try {
            for (int i = 0; i < members; i++) {
                doors.add(new Nameless(election.get(i)));
            }
            for (int i = 0; i < members; i++) {
                List<String> lines = new ArrayList<>(List.of(settings));
                List<List<TcpProxy>> from = new ArrayList<>();
                for (int j = 0; j < members; j++) {
                    List<TcpProxy> to = new ArrayList<>();
                    int quorumPort = quorum.get(j);
                    int electionPort = election.get(j);
                    if (i != j) {
                        to.add(new TcpProxy(quorumPort));
                        to.add(new TcpProxy(doors.get(j).port()));
                        quorumPort = to.get(0).port();
                        electionPort = to.get(1).port();
                    }
                    from.add(to);
                    lines.add("server." + (j + 1) + "=127.0.0.1:" + quorumPort + ":" + electionPort);
                }
                ways.add(from);
                servers.add(ZooKeeperServer.member(i + 1, ZooKeeperServer.freePort(), lines, environments.get(i)));
            }
            startAll();
            fine = true;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            if (!fine) {
                close();
            }
        }
    }

    /** All of them, none of which runs. */
    void startAll() {
        servers.forEach(ZooKeeperServer::start);
        IntStream.range(0, servers.size()).forEach(this::awaitMember);
    }

    private static List<Integer> ports(int many) {
        return IntStream.range(0, many)
                .mapToObj(i -> ZooKeeperServer.freePort())
                .collect(Collectors.toCollection(ArrayList::new));
    }

    public List<ZooKeeperServer> servers() {
        return List.copyOf(servers);
    }

    public ZooKeeperServer server(int number) {
        return servers.get(number);
    }

    public int size() {
        return servers.size();
    }

    /** Of the members, in their order, for clients. */
    public List<Integer> ports() {
        return servers.stream().map(ZooKeeperServer::port).collect(Collectors.toList());
    }

    public String connectString() {
        return servers.stream().map(ZooKeeperServer::connectString).collect(Collectors.joining(","));
    }

    /**
     * The number of the leader; waits until there is one that has been followed lately. One that is cut off, or frozen, is none
     * as soon as it, or this, has noticed.
     */
    public int leader() {
        return leaderBesides(-1);
    }

    /** The same, if one is known not to lead any more; it is not asked. */
    int leaderBesides(int lost) {
        int[] leader = {-1};
        await().atMost(LONGEST).pollInterval(Duration.ofMillis(20)).until(() -> {
            for (int i = 0; i < servers.size(); i++) {
                if (i != lost && leads(i)) {
                    leader[0] = i;
                    return true;
                }
            }
            return false;
        });
        return leader[0];
    }

    /** An old leader that was frozen says that it leads, for a moment, and nobody follows it. */
    private boolean leads(int number) {
        try {
            return servers.get(number).role().equals("leader")
                    && Double.parseDouble(servers.get(number).metrics().getOrDefault("synced_followers", "0"))
                            >= (servers.size() - 1) / 2.0;
        } catch (UncheckedIOException | NumberFormatException e) {
            return false;
        }
    }

    /** Until this member serves clients, as a leader or a follower. */
    public void awaitMember(int number) {
        try {
            await().atMost(LONGEST)
                    .pollInterval(Duration.ofMillis(20))
                    .until(() -> !servers.get(number).role().isEmpty());
        } catch (RuntimeException e) {
            throw new AssertionError(
                    "member " + number + " does not serve: "
                            + servers.get(number).log(),
                    e);
        }
    }

    /** From now on nothing comes from this member to its peers, or the other way; its clients reach it. Nobody is told. */
    public void cutFromPeers(int number) {
        each(number, way -> {
            way.requests(TcpProxy.Mode.DROP);
            way.replies(TcpProxy.Mode.DROP);
        });
    }

    /** As a firewall that answers would cut it: connections break, and no new ones are taken. */
    public void disconnectFromPeers(int number) {
        each(number, way -> {
            way.refuse(true);
            way.cut();
        });
    }

    private void each(int number, Consumer<TcpProxy> does) {
        for (int other = 0; other < servers.size(); other++) {
            ways.get(number).get(other).forEach(does);
            ways.get(other).get(number).forEach(does);
        }
    }

    /**
     * All members reach each other again. What was lost on the way stays lost, and so connections that have lost something are
     * broken now: TCP would have sent it again, or broken as well.
     */
    public void healPeers() {
        ways.forEach(from -> from.forEach(to -> to.forEach(way -> {
            way.refuse(true);
            way.cut();
            way.heal();
        })));
    }

    @Override
    public void close() {
        servers.forEach(ZooKeeperServer::kill);
        ways.forEach(from -> from.forEach(to -> to.forEach(TcpProxy::close)));
        doors.forEach(Nameless::close);
        List<ZooKeeperServer> all = new ArrayList<>(servers);
        Collections.reverse(all);
        all.forEach(ZooKeeperServer::close);
    }

    /**
     * The door to a member's port for elections. A caller begins with its number and the address where it wants to be called
     * back, past the networks; this lets through the number alone, as members of old versions sent it, and it is called back
     * at the address that stands in the list.
     */
    private static final class Nameless implements AutoCloseable {
        private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final int to;

        Nameless(int to) throws IOException {
            this.to = to;
            daemon(this::accept);
        }

        int port() {
            return door.getLocalPort();
        }

        private static void daemon(Runnable work) {
            Thread thread = new Thread(work, "zookeeper-election");
            thread.setDaemon(true);
            thread.start();
        }

        private void accept() {
            while (!door.isClosed()) {
                try {
                    Socket caller = door.accept();
                    daemon(() -> connect(caller));
                } catch (IOException e) {
                    // Closed, or the caller is gone.
                }
            }
        }

        private void connect(Socket caller) {
            try (caller;
                    Socket member = new Socket(InetAddress.getLoopbackAddress(), to)) {
                member.setTcpNoDelay(true);
                caller.setTcpNoDelay(true);
                DataInputStream in = new DataInputStream(caller.getInputStream());
                long number = in.readLong();
                if (number < 0) {
                    number = in.readLong();
                    in.skipNBytes(in.readInt());
                }
                new DataOutputStream(member.getOutputStream()).writeLong(number);
                daemon(() -> pass(member, caller));
                pass(caller, member);
            } catch (IOException e) {
                // To both that is a connection that breaks.
            }
        }

        private static void pass(Socket from, Socket to) {
            try (from;
                    to) {
                InputStream in = from.getInputStream();
                OutputStream out = to.getOutputStream();
                in.transferTo(out);
            } catch (IOException e) {
                // As above.
            }
        }

        @Override
        public void close() {
            try {
                door.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
