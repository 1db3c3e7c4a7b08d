package dev.mortise.lock.tck;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * A network between a client and a server that fails as it is told: a TCP proxy in this JVM, on a free port of the
 * loopback. For authors of backends, who connect their client to {@link #port()}. For any thread.
 *
 * <p>What it is told applies to bytes that arrive from then on, and to those that it holds. The end of a connection comes
 * behind its bytes, and is held and lost as they are: a server does not notice that a client is gone beyond a black hole.
 */
public final class TcpProxy implements AutoCloseable {

    /** What becomes of the bytes that go one way. */
    public enum Mode {
        /** They go on. */
        PASS,
        /** They are kept, and go on when it passes again, even if their sender is gone by then. */
        HOLD,
        /** They vanish. The connection stays open: a black hole. */
        DROP
    }

    /** The faults that {@link #begin} can cause. */
    public static final Set<Fault> FAULTS = Collections.unmodifiableSet(
            EnumSet.of(Fault.CONNECTIONS_BROKEN, Fault.NETWORK_GONE, Fault.REPLIES_LOST, Fault.REQUESTS_LATE));

    private static final Duration LATE = Duration.ofMillis(500);

    private final ServerSocket door;
    private final InetSocketAddress server;
    private final Set<Link> links = ConcurrentHashMap.newKeySet();
    private final Object changed = new Object();
    private final AtomicReference<@Nullable Predicate<String>> lose = new AtomicReference<>();
    private volatile Mode requests = Mode.PASS;
    private volatile Mode replies = Mode.PASS;
    private volatile Duration delay = Duration.ZERO;
    private volatile boolean refuse;

    /** To the server at this port of the loopback, which need not run yet. */
    public TcpProxy(int serverPort) throws IOException {
        server = new InetSocketAddress(InetAddress.getLoopbackAddress(), serverPort);
        door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        daemon(this::accept);
    }

    /** Where the client connects to, on the loopback. */
    public int port() {
        return door.getLocalPort();
    }

    /** What becomes of what clients send from now on. */
    public void requests(Mode mode) {
        synchronized (changed) {
            requests = mode;
            changed.notifyAll();
        }
    }

    /** What becomes of what the server sends from now on. */
    public void replies(Mode mode) {
        synchronized (changed) {
            replies = mode;
            changed.notifyAll();
        }
    }

    /** Each piece that the server sends from now on arrives so much later. */
    public void delayReplies(Duration by) {
        delay = by;
    }

    /**
     * The first request from now on that fits reaches the server, and when the server answers, the connection is reset
     * in place of the answer.
     *
     * @param request tells by the bytes sent at a time (one or more requests, or a part of one), as ISO 8859-1
     */
    public void loseReplyTo(Predicate<String> request) {
        lose.set(request);
    }

    /** New connections are reset; those that there are stay. */
    public void refuse(boolean connections) {
        refuse = connections;
    }

    /** Resets all connections that there are. */
    public void cut() {
        links.forEach(Link::reset);
    }

    /**
     * Lets one of {@link #FAULTS} befall all clients of a store, as {@link Faults#begin} wants it; for a store whose clients
     * reach all its servers through these.
     *
     * <p>A connection that lost bytes is reset when the fault ends: what comes later must not be taken for what was lost.
     * One whose bytes are late is reset at its client's end after half a second, so that the client goes on by a new one, and
     * undoes what has not arrived yet.
     *
     * @return what ends it when it is closed, and then {@link #heal}s
     * @throws IllegalArgumentException for a fault that is not one of the network
     */
    public static AutoCloseable begin(Fault fault, Collection<TcpProxy> network) {
        if (!FAULTS.contains(fault)) {
            throw new IllegalArgumentException("fault: " + fault + " is none that a network can cause, as " + FAULTS);
        }
        List<TcpProxy> all = List.copyOf(network);
        all.forEach(each -> each.begin(fault));
        return () -> all.forEach(TcpProxy::end);
    }

    private void begin(Fault fault) {
        synchronized (changed) {
            links.forEach(each -> each.lossy = false);
            switch (fault) {
                case NETWORK_GONE -> {
                    requests(Mode.DROP);
                    replies(Mode.DROP);
                }
                case REPLIES_LOST -> replies(Mode.DROP);
                case REQUESTS_LATE -> links.forEach(each -> each.held = true);
                default -> {}
            }
        }
        if (fault == Fault.CONNECTIONS_BROKEN) {
            cut();
        }
    }

    private void end() {
        List<Link> broken = new ArrayList<>();
        synchronized (changed) {
            for (Link each : links) {
                each.held = false;
                if (each.lossy) {
                    each.ended = true;
                    broken.add(each);
                }
            }
            heal();
        }
        broken.forEach(Link::reset);
    }

    /** Passes everything again, what was held too; also forgets a reply still to be lost. */
    public void heal() {
        refuse = false;
        delay = Duration.ZERO;
        lose.set(null);
        requests(Mode.PASS);
        replies(Mode.PASS);
    }

    /** Resets all connections, and takes no more. */
    @Override
    public void close() {
        try {
            door.close();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
        heal();
        cut();
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work, "tcp-proxy");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!door.isClosed()) {
            Socket client = null;
            try {
                client = door.accept();
                if (refuse) {
                    reset(client);
                    continue;
                }
                Link link = new Link(client, new Socket(server.getAddress(), server.getPort()));
                links.add(link);
                if (door.isClosed()) {
                    link.reset();
                }
                daemon(link::requests);
                daemon(link::replies);
            } catch (IOException e) {
                // The server does not run, or this is closed: to the client that is a connection that breaks.
                if (client != null) {
                    reset(client);
                }
            }
        }
    }

    private static void reset(Socket socket) {
        try {
            socket.setSoLinger(true, 0);
            socket.close();
        } catch (IOException e) {
            // It is closed already.
        }
    }

    private final class Link {
        private final Socket client;
        private final Socket server;
        private volatile boolean losing;

        // Guarded by changed.
        private byte[] rest = {};
        private boolean abandoned;
        private boolean held;
        private boolean lossy;
        private boolean ended;

        Link(Socket client, Socket server) throws IOException {
            this.client = client;
            this.server = server;
            client.setTcpNoDelay(true);
            server.setTcpNoDelay(true);
        }

        void reset() {
            TcpProxy.reset(client);
            TcpProxy.reset(server);
            links.remove(this);
            synchronized (changed) {
                ended = true;
                changed.notifyAll();
            }
        }

        void requests() {
            try {
                OutputStream out = server.getOutputStream();
                byte[] bytes = new byte[1 << 16];
                for (int n = read(client, bytes); n >= 0; n = read(client, bytes)) {
                    Predicate<String> fits = lose.get();
                    if (fits != null
                            && fits.test(new String(bytes, 0, n, StandardCharsets.ISO_8859_1))
                            && lose.compareAndSet(fits, null)) {
                        losing = true;
                    }
                    if (passes(true)) {
                        out.write(bytes, 0, n);
                        out.write(rest);
                    }
                }
                awaitPassage(true);
                server.shutdownOutput();
            } catch (IOException | InterruptedException e) {
                reset();
            }
        }

        void replies() {
            try {
                OutputStream out = client.getOutputStream();
                byte[] bytes = new byte[1 << 16];
                for (int n = read(server, bytes); n >= 0 && !losing; n = read(server, bytes)) {
                    if (!delay.isZero()) {
                        Thread.sleep(delay.toMillis(), delay.toNanosPart() % 1_000_000);
                    }
                    if (passes(false)) {
                        answer(out, bytes, n);
                    }
                }
                if (!losing) {
                    awaitPassage(false);
                }
            } catch (IOException | InterruptedException e) {
                // One end is gone; so is the link.
            } finally {
                reset();
            }
        }

        private void answer(OutputStream out, byte[] bytes, int n) throws IOException {
            try {
                out.write(bytes, 0, n);
            } catch (IOException e) {
                synchronized (changed) {
                    if (!abandoned) {
                        throw e;
                    }
                }
            }
        }

        /** Less than zero at the end, also one by a reset: the other side is told in turn, behind what it was sent. */
        private int read(Socket from, byte[] bytes) {
            try {
                return from.getInputStream().read(bytes);
            } catch (IOException e) {
                return -1;
            }
        }

        private boolean passes(boolean up) throws InterruptedException {
            long patience = System.nanoTime() + LATE.toNanos();
            synchronized (changed) {
                while (!ended && (mode(up) == Mode.HOLD || (up && held))) {
                    if (!up || !held || abandoned) {
                        changed.wait();
                        continue;
                    }
                    long left = TimeUnit.NANOSECONDS.toMillis(patience - System.nanoTime());
                    if (left > 0) {
                        changed.wait(left);
                    } else {
                        abandon();
                    }
                }
                boolean passes = !ended && mode(up) == Mode.PASS;
                lossy |= !passes;
                return passes;
            }
        }

        /** The client must think that it is broken; the server gets what was sent until now, when it passes. */
        private void abandon() {
            abandoned = true;
            try {
                InputStream in = client.getInputStream();
                rest = in.readNBytes(in.available());
            } catch (IOException e) {
                // It has left by itself.
            }
            TcpProxy.reset(client);
        }

        /** Until the end of the connection may be told. */
        private void awaitPassage(boolean up) throws InterruptedException {
            synchronized (changed) {
                lossy |= mode(up) == Mode.DROP;
                while (!ended && (mode(up) != Mode.PASS || (up && held))) {
                    changed.wait();
                }
            }
        }

        private Mode mode(boolean up) {
            return up ? requests : replies;
        }
    }
}
