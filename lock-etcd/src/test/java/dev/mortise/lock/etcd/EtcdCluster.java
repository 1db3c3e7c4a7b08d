package dev.mortise.lock.etcd;

import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Several {@link EtcdServer}s that are one store, with a network between each two that can be cut. Killed, frozen and started
 * again one by one. For any thread, but for starting and ending members.
 */
public final class EtcdCluster implements AutoCloseable {
    private final List<EtcdServer> members = new ArrayList<>();
    private final List<Gate> gates = new ArrayList<>();

    /** By who connects, then to whom. */
    private final TcpProxy[][] network;

    /**
     * Starts one.
     *
     * @param size how many members
     * @param settings as for {@link EtcdServer}, the same for all
     */
    public EtcdCluster(int size, String... settings) {
        this(Collections.nCopies(size, Map.of()), settings);
    }

    /**
     * The same.
     *
     * @param environments of the members, one each
     */
    EtcdCluster(List<Map<String, String>> environments, String... settings) {
        int size = environments.size();
        network = new TcpProxy[size][size];
        try {
            int[] ports = new int[size];
            for (int to = 0; to < size; to++) {
                ports[to] = EtcdServer.freePort();
                for (int from = 0; from < size; from++) {
                    if (from != to) {
                        network[from][to] = new TcpProxy(ports[to]);
                    }
                }
                gates.add(new Gate(to));
            }
            String all = IntStream.range(0, size)
                    .mapToObj(i -> "m" + i + "=http://127.0.0.1:" + gates.get(i).port())
                    .collect(Collectors.joining(","));
            for (int i = 0; i < size; i++) {
                EtcdServer member = new EtcdServer("m" + i, List.of(settings), environments.get(i));
                member.join(all, ports[i], gates.get(i).port());
                members.add(member);
            }
            startAll();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** All that do not run, side by side, because each answers only when most are there. Returns when all do. */
    void startAll() {
        List<Thread> starts = members.stream()
                .filter(member -> !member.isAlive())
                .map(member -> new Thread(member::launch, "start"))
                .toList();
        starts.forEach(Thread::start);
        try {
            for (Thread start : starts) {
                start.join();
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        members.forEach(EtcdServer::awaitHealth);
    }

    public int size() {
        return members.size();
    }

    public EtcdServer member(int i) {
        return members.get(i);
    }

    public List<EtcdServer> members() {
        return List.copyOf(members);
    }

    /** As a URI has them: {@code 127.0.0.1:1,127.0.0.1:2}. */
    public String hosts() {
        return members.stream().map(member -> "127.0.0.1:" + member.port()).collect(Collectors.joining(","));
    }

    /** Which member leads, of those that have a majority behind them; waits for one. */
    public int leader() {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (System.nanoTime() < end) {
            for (int i = 0; i < members.size(); i++) {
                try {
                    if (members.get(i).isLeader() && members.get(i).isHealthy()) {
                        return i;
                    }
                } catch (UncheckedIOException e) {
                    // It is down, or hangs.
                }
            }
            pause();
        }
        throw new AssertionError("no leader for a minute");
    }

    /** The leader, which is not this one: that may not answer even to be asked. Waits for one. */
    EtcdServer leaderBesides(int lost) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (System.nanoTime() < end) {
            for (int i = 0; i < members.size(); i++) {
                if (i != lost && members.get(i).isAlive() && members.get(i).isLeader()) {
                    return members.get(i);
                }
            }
            pause();
        }
        throw new AssertionError("no other leader for a minute");
    }

    /** Waits until all members that run answer, with a majority behind them. */
    public void awaitHealth() {
        members.stream().filter(EtcdServer::isAlive).forEach(EtcdServer::awaitHealth);
    }

    /** Nothing more comes from it to the other members, or from them to it; clients still reach it. */
    public void cutOff(int member) {
        for (int other = 0; other < members.size(); other++) {
            if (other != member) {
                cut(network[member][other]);
                cut(network[other][member]);
            }
        }
    }

    private static void cut(TcpProxy between) {
        between.refuse(true);
        between.requests(TcpProxy.Mode.DROP);
        between.replies(TcpProxy.Mode.DROP);
    }

    /** Ends what {@link #cutOff} did to it. */
    public void mend(int member) {
        for (int other = 0; other < members.size(); other++) {
            if (other != member) {
                mend(network[member][other]);
                mend(network[other][member]);
            }
        }
    }

    private static void mend(TcpProxy between) {
        // What has vanished would be missing in these.
        between.cut();
        between.heal();
    }

    private static void pause() {
        try {
            TimeUnit.MILLISECONDS.sleep(5);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public void close() {
        members.forEach(EtcdServer::kill);
        gates.forEach(Gate::close);
        for (TcpProxy[] some : network) {
            for (TcpProxy each : some) {
                if (each != null) {
                    each.close();
                }
            }
        }
        members.forEach(EtcdServer::close);
    }

    /**
     * Where the other members reach one. A member has one address for all of them, so who connects is found out by the process
     * that has the other end; and then goes on through the network of these two.
     */
    private final class Gate {
        private final int to;
        private final ServerSocket door;

        Gate(int to) throws IOException {
            this.to = to;
            door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
            daemon(this::accept);
        }

        int port() {
            return door.getLocalPort();
        }

        private void accept() {
            while (!door.isClosed()) {
                try {
                    Socket client = door.accept();
                    daemon(() -> connect(client));
                } catch (IOException e) {
                    // This is closed.
                }
            }
        }

        private void connect(Socket client) {
            try (client) {
                int from = member(client.getPort(), port());
                if (from < 0 || from == to) {
                    return;
                }
                try (Socket on = new Socket(InetAddress.getLoopbackAddress(), network[from][to].port())) {
                    client.setTcpNoDelay(true);
                    on.setTcpNoDelay(true);
                    daemon(() -> copy(on, client));
                    copy(client, on);
                }
            } catch (IOException e) {
                // To its client it is a connection that breaks.
            }
        }

        void close() {
            try {
                door.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work, "etcd-peers");
        thread.setDaemon(true);
        thread.start();
    }

    /** When one side ends, both do. */
    private static void copy(Socket from, Socket to) {
        try (from;
                to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            byte[] bytes = new byte[1 << 16];
            for (int n = in.read(bytes); n >= 0; n = in.read(bytes)) {
                out.write(bytes, 0, n);
            }
        } catch (IOException e) {
            // Both are closed.
        }
    }

    /** Which member's process has the connection between these two ports of the loopback; -1 for none. */
    private int member(int local, int remote) throws IOException {
        String ends = String.format(" 0100007F:%04X 0100007F:%04X ", local, remote);
        String inode = "";
        for (String line : Files.readAllLines(Path.of("/proc/net/tcp"))) {
            if (line.contains(ends)) {
                inode = line.trim().split(" +", -1)[9];
            }
        }
        Path socket = Path.of("socket:[" + inode + "]");
        for (int i = 0; i < members.size(); i++) {
            if (!inode.isEmpty()
                    && members.get(i).isAlive()
                    && has(members.get(i).pid(), socket)) {
                return i;
            }
        }
        return -1;
    }

    private static boolean has(long pid, Path socket) throws IOException {
        try (Stream<Path> open = Files.list(Path.of("/proc", String.valueOf(pid), "fd"))) {
            for (Path each : open.toList()) {
                try {
                    if (Files.readSymbolicLink(each).equals(socket)) {
                        return true;
                    }
                } catch (NoSuchFileException e) {
                    // Closed since.
                }
            }
            return false;
        } catch (NoSuchFileException e) {
            return false;
        }
    }
}
