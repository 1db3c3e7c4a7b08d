package dev.mortise.lock.bench;

import dev.mortise.lock.bench.Session.Door;
import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;

/** The least that does the work, without anything that makes it safe: what a library can at best come close to. */
final class Floors {
    private static final String LEASE_MILLIS = "30000";

    private static final String ACQUIRE =
            "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end";
    private static final String RELEASE =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

    private Floors() {}

    static Session pair(List<Integer> ports) {
        return name -> new Door() {
            private final Jedis jedis = connect(ports.get(0));
            private final String acquire = jedis.scriptLoad(ACQUIRE);
            private final String release = jedis.scriptLoad(RELEASE);
            private final String owner = UUID.randomUUID().toString();
            private final List<String> keys = List.of("lock:" + name, "token:" + name);
            private final List<String> acquireWords = List.of(owner, LEASE_MILLIS);
            private final List<String> releaseWords = List.of(owner);

            @Override
            public void acquire() throws InterruptedException {
                while (jedis.evalsha(acquire, keys, acquireWords) == null) {
                    TimeUnit.MILLISECONDS.sleep(1);
                }
            }

            @Override
            public void release() {
                requireReleased(jedis.evalsha(release, keys, releaseWords).equals(1L));
            }

            @Override
            public void close() {
                jedis.close();
            }
        };
    }

    static Session list(List<Integer> ports) {
        return name -> new Door() {
            private final Jedis jedis = connect(ports.get(0));

            {
                if (jedis.set("seed:" + name, "", new SetParams().nx()) != null) {
                    jedis.lpush(name, "");
                }
            }

            @Override
            public void acquire() {
                if (jedis.blpop(100, name) == null) {
                    throw new IllegalStateException("nobody gave it back");
                }
            }

            @Override
            public void release() {
                jedis.lpush(name, "");
            }

            @Override
            public void close() {
                jedis.close();
            }
        };
    }

    private static Jedis connect(int port) {
        Jedis jedis = new Jedis("127.0.0.1", port, 120_000);
        jedis.connect();
        return jedis;
    }

    static Session scatter(List<Integer> ports) {
        return name -> new Door() {
            private final List<Node> nodes = connectAll(ports);
            private final String owner = UUID.randomUUID().toString();
            private final byte[] acquire = request("SET", name, owner, "NX", "PX", LEASE_MILLIS);
            private final byte[] release = request("EVALSHA", nodes.get(0).load(nodes, RELEASE), "1", name, owner);

            @Override
            public void acquire() throws IOException, InterruptedException {
                while (2 * ask(acquire, "+OK") <= nodes.size()) {
                    ask(release, ":1");
                    TimeUnit.MICROSECONDS.sleep(ThreadLocalRandom.current().nextInt(1000, 5000));
                }
            }

            @Override
            public void release() throws IOException {
                requireReleased(2 * ask(release, ":1") > nodes.size());
            }

            private int ask(byte[] request, String yes) throws IOException {
                for (Node node : nodes) {
                    node.socket.getOutputStream().write(request);
                }
                int count = 0;
                for (Node node : nodes) {
                    count += node.answer().equals(yes) ? 1 : 0;
                }
                return count;
            }

            @Override
            public void close() throws IOException {
                for (Node node : nodes) {
                    node.socket.close();
                }
            }
        };
    }

    /** A node of one session, with the number of the transaction that made it, which is what a token is made of. */
    static Session node(int port) throws IOException, InterruptedException {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper("127.0.0.1:" + port, Integer.parseInt(LEASE_MILLIS), event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(60, TimeUnit.SECONDS)) {
            throw new IOException("no connection to 127.0.0.1:" + port);
        }
        return name -> new Door() {
            private final String path = "/bare-" + name;
            private final Stat stat = new Stat();

            @Override
            public void acquire() throws KeeperException, InterruptedException {
                String made = client.create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, stat);
                if (!made.equals(path) || stat.getCzxid() <= 0) {
                    throw new IllegalStateException("made " + made + " with " + stat.getCzxid());
                }
            }

            @Override
            public void release() throws KeeperException, InterruptedException {
                client.delete(path, -1);
            }
        };
    }

    private static void requireReleased(boolean released) {
        if (!released) {
            throw new IllegalStateException("it was not held any more: the lease ended in the middle of the run");
        }
    }

    private static List<Node> connectAll(List<Integer> ports) throws IOException {
        List<Node> nodes = new ArrayList<>();
        for (int port : ports) {
            nodes.add(new Node(new Socket(InetAddress.getLoopbackAddress(), port)));
        }
        return nodes;
    }

    private static byte[] request(String... words) {
        StringBuilder request = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words) {
            request.append('$')
                    .append(word.length())
                    .append("\r\n")
                    .append(word)
                    .append("\r\n");
        }
        return request.toString().getBytes(StandardCharsets.US_ASCII);
    }

    private static final class Node {
        final Socket socket;
        private final InputStream in;

        Node(Socket socket) throws IOException {
            this.socket = socket;
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream());
        }

        /** To all; returns how it is called from then on. */
        String load(List<Node> nodes, String script) throws IOException {
            String name = "";
            for (Node node : nodes) {
                node.socket.getOutputStream().write(request("SCRIPT", "LOAD", script));
                node.answer();
                name = node.line();
            }
            return name;
        }

        /** One that has one line, or of one with more its first. */
        String answer() throws IOException {
            String line = line();
            if (line.startsWith("-")) {
                throw new IOException("the server says " + line);
            }
            return line;
        }

        private String line() throws IOException {
            StringBuilder line = new StringBuilder();
            for (int c = in.read(); c != '\n'; c = in.read()) {
                if (c < 0) {
                    throw new EOFException();
                }
                line.append((char) c);
            }
            return line.substring(0, line.length() - 1);
        }
    }
}
