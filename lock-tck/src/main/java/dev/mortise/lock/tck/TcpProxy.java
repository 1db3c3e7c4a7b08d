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
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * A network between a client and a server that fails as it is told: a TCP proxy in this JVM, on a free port of the
 * loopback. For authors of backends, who connect their client to {@link #port()}. For any thread.
 *
 * <p>What it is told applies to bytes that arrive from then on, and to those that it holds.
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
        }

        /** The end of what the client sends goes on like the rest of it, behind what is held. */
        void requests() {
            try {
                InputStream in = client.getInputStream();
                OutputStream out = server.getOutputStream();
                byte[] bytes = new byte[1 << 16];
                for (int n = in.read(bytes); n >= 0; n = in.read(bytes)) {
                    Predicate<String> fits = lose.get();
                    if (fits != null
                            && fits.test(new String(bytes, 0, n, StandardCharsets.ISO_8859_1))
                            && lose.compareAndSet(fits, null)) {
                        losing = true;
                    }
                    if (passes(true)) {
                        out.write(bytes, 0, n);
                    }
                }
                server.shutdownOutput();
            } catch (IOException | InterruptedException e) {
                reset();
            }
        }

        void replies() {
            try {
                InputStream in = server.getInputStream();
                OutputStream out = client.getOutputStream();
                byte[] bytes = new byte[1 << 16];
                for (int n = in.read(bytes); n >= 0 && !losing; n = in.read(bytes)) {
                    if (!delay.isZero()) {
                        Thread.sleep(delay.toMillis(), delay.toNanosPart() % 1_000_000);
                    }
                    if (passes(false)) {
                        out.write(bytes, 0, n);
                    }
                }
            } catch (IOException | InterruptedException e) {
                // One end is gone; so is the link.
            } finally {
                reset();
            }
        }

        private boolean passes(boolean up) throws InterruptedException {
            synchronized (changed) {
                while ((up ? requests : replies) == Mode.HOLD) {
                    changed.wait();
                }
                return (up ? requests : replies) == Mode.PASS;
            }
        }
    }
}
