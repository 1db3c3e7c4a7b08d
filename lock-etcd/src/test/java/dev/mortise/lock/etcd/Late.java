package dev.mortise.lock.etcd;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A network that keeps what its connections are sent, breaks to the clients, and delivers it all the same: long after its
 * sender has given it up, and alone. All requests of a client of etcd go over one connection, where nothing overtakes. For
 * any thread.
 */
final class Late implements AutoCloseable {
    private final ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final int to;
    private final Set<Way> ways = ConcurrentHashMap.newKeySet();

    /** To the server at this port of the loopback. */
    Late(int to) throws IOException {
        this.to = to;
        daemon(this::accept);
    }

    int port() {
        return door.getLocalPort();
    }

    /** From now on what is sent over the connections that there are; later ones are sound. */
    void keepBack() {
        ways.forEach(Way::keepBack);
    }

    /** Those connections. */
    void breakToClients() {
        ways.forEach(Way::breakToClient);
    }

    /** What was kept. */
    void deliver() {
        ways.forEach(Way::deliver);
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work, "late");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!door.isClosed()) {
            try {
                Way way = new Way(door.accept());
                ways.add(way);
                daemon(way::requests);
                daemon(way::replies);
            } catch (IOException e) {
                // It is closed, or the server is.
            }
        }
    }

    private final class Way {
        private final Socket client;
        private final Socket server;
        private final ByteArrayOutputStream kept = new ByteArrayOutputStream();

        /** From the first to the last it is this way's end that is kept back too. */
        private boolean keeps;

        private boolean wasKept;

        Way(Socket client) throws IOException {
            this.client = client;
            try {
                server = new Socket(InetAddress.getLoopbackAddress(), to);
            } catch (IOException e) {
                client.close();
                throw e;
            }
            client.setTcpNoDelay(true);
            server.setTcpNoDelay(true);
        }

        private synchronized void keepBack() {
            keeps = true;
            wasKept = true;
        }

        private void breakToClient() {
            if (isKept()) {
                close(client);
            }
        }

        private synchronized boolean isKept() {
            return wasKept;
        }

        private synchronized void deliver() {
            if (keeps) {
                keeps = false;
                try {
                    kept.writeTo(server.getOutputStream());
                } catch (IOException e) {
                    // The server is gone, or has given it up.
                }
                kept.reset();
            }
        }

        private synchronized void pass(byte[] bytes, int length) throws IOException {
            if (keeps) {
                kept.write(bytes, 0, length);
            } else {
                server.getOutputStream().write(bytes, 0, length);
            }
        }

        void requests() {
            byte[] bytes = new byte[1 << 16];
            try {
                for (int n = client.getInputStream().read(bytes);
                        n >= 0;
                        n = client.getInputStream().read(bytes)) {
                    pass(bytes, n);
                }
            } catch (IOException e) {
                // Broken to the client, or to the server.
            }
            // What was kept back is worth nothing if the server hears that its sender is gone.
            if (!isKept()) {
                close(server);
            }
        }

        void replies() {
            byte[] bytes = new byte[1 << 16];
            try {
                for (int n = server.getInputStream().read(bytes);
                        n >= 0;
                        n = server.getInputStream().read(bytes)) {
                    try {
                        client.getOutputStream().write(bytes, 0, n);
                    } catch (IOException e) {
                        // Nobody reads it any more; the server is to go on.
                    }
                }
            } catch (IOException e) {
                // The server is gone.
            }
            close();
        }

        private void close() {
            close(client);
            close(server);
            ways.remove(this);
        }

        private static void close(Socket socket) {
            try {
                socket.close();
            } catch (IOException e) {
                // It is as good as closed.
            }
        }
    }

    @Override
    public void close() {
        try {
            door.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        ways.forEach(Way::close);
    }
}
