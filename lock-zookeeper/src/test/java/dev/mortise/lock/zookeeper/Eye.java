package dev.mortise.lock.zookeeper;

import dev.mortise.lock.spi.Claim;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** How a test looks at a server, and meddles with what is in it: with nothing of the library under test. */
final class Eye {
    private static final int SESSION_MILLIS = 30_000;

    private Eye() {}

    /** A client that is connected. */
    static ZooKeeper open(String hosts) throws IOException, InterruptedException {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper eye = new ZooKeeper(hosts, SESSION_MILLIS, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(60, TimeUnit.SECONDS)) {
            eye.close();
            throw new AssertionError("no connection to " + hosts);
        }
        return eye;
    }

    /** Every node but ZooKeeper's own. */
    static List<String> all(ZooKeeper eye) throws KeeperException, InterruptedException {
        List<String> found = new ArrayList<>();
        Deque<String> todo = new ArrayDeque<>(List.of("/"));
        while (!todo.isEmpty()) {
            String path = todo.pop();
            List<String> children;
            try {
                children = eye.getChildren(path, false);
            } catch (KeeperException.NoNodeException e) {
                continue; // It has ended meanwhile.
            }
            for (String child : children) {
                String each = path.equals("/") ? "/" + child : path + "/" + child;
                if (!each.equals("/zookeeper")) {
                    found.add(each);
                    todo.push(each);
                }
            }
        }
        return found;
    }

    /** The nodes of this owner. */
    static List<String> of(ZooKeeper eye, Claim claim) throws KeeperException, InterruptedException {
        return find(eye, Pattern.quote(claim.owner()) + "(?!\\d)");
    }

    /** The nodes of all owners that the tests make. */
    static List<String> ofAll(ZooKeeper eye) throws KeeperException, InterruptedException {
        return find(eye, "test~");
    }

    private static List<String> find(ZooKeeper eye, String pattern) throws KeeperException, InterruptedException {
        Pattern own = Pattern.compile(pattern);
        return all(eye).stream()
                .filter(path ->
                        own.matcher(path.substring(path.lastIndexOf('/'))).find())
                .toList();
    }

    /** The session that made that node; 0 if it is none of a session. */
    static long session(ZooKeeper eye, String path) throws KeeperException, InterruptedException {
        Stat stat = eye.exists(path, false);
        if (stat == null) {
            throw new AssertionError("there is no " + path);
        }
        return stat.getEphemeralOwner();
    }

    /**
     * Ends another's session, as its expiry does: ZooKeeper's servers make a session's password of nothing but its number
     * ({@code ZooKeeperServer.generatePasswd}).
     */
    static void expire(String hosts, long session) throws IOException, InterruptedException {
        take(hosts, session).close();
    }

    /** Takes another's session over: its own connection is closed by the server. */
    static ZooKeeper take(String hosts, long session) throws IOException, InterruptedException {
        byte[] password = new byte[16];
        new Random(session ^ 0xB3415C00L).nextBytes(password);
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper thief = new ZooKeeper(
                hosts,
                SESSION_MILLIS,
                event -> {
                    if (event.getState() == KeeperState.SyncConnected || event.getState() == KeeperState.Expired) {
                        connected.countDown();
                    }
                },
                session,
                password);
        if (!connected.await(60, TimeUnit.SECONDS)) {
            throw new AssertionError("no connection to " + hosts);
        }
        return thief;
    }
}
