package dev.mortise.lock.zookeeper;

import java.io.IOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;
import org.jspecify.annotations.Nullable;

/**
 * One session of ZooKeeper: the carrier of the claims of one length of lease. Its end is {@link Proof}'s to tell, never the
 * library's. Requests are sent at once and in order, and answered on the session's own thread, which must not wait. For any
 * thread.
 */
final class Session implements Watcher {
    private static final Logger LOG = System.getLogger("dev.mortise.lock.zookeeper");

    /**
     * What the server said.
     *
     * @param sent when it was asked, before the send
     * @param path of a node that was made
     */
    record Reply(
            int code,
            long sent,
            @Nullable String path,
            @Nullable Stat stat,
            List<String> children,
            String data) {
        boolean is(Code what) {
            return code == what.intValue();
        }

        boolean isFine() {
            return code == Code.OK.intValue();
        }

        /** Whether a server has answered at all. */
        boolean isAnswer() {
            return !is(Code.CONNECTIONLOSS)
                    && !is(Code.SESSIONEXPIRED)
                    && !is(Code.OPERATIONTIMEOUT)
                    && !is(Code.REQUESTTIMEOUT)
                    && !is(Code.SESSIONMOVED);
        }

        /** As long as the outcome of a request is of no matter, it may be sent again. */
        boolean isToBeSentAgain() {
            return is(Code.CONNECTIONLOSS) || is(Code.OPERATIONTIMEOUT) || is(Code.SESSIONMOVED);
        }
    }

    private static final byte[] NOTHING = {};

    final long lease;
    final Proof proof;
    private final Connector connector;
    private final Connector.Hosts hosts;
    private final LongSupplier ticker;
    private final ZooKeeper handle;
    private final long made;

    /** The library tells of a connection before it has given the handle to whoever makes it. */
    private final CountDownLatch built = new CountDownLatch(1);

    private final CompletableFuture<Boolean> open = new CompletableFuture<>();

    /** Claims that live here, or may. */
    final AtomicInteger users = new AtomicInteger();

    /** When the keeper last wrote for those who wait here. */
    volatile long lastBeat;

    private volatile CompletableFuture<Void> change = new CompletableFuture<>();
    private volatile boolean connected;
    private volatile boolean expired;
    private volatile boolean refused;
    private volatile boolean closed;
    private volatile long lastAnswer;
    private volatile long lastWrite;
    private volatile long lastKick;

    /** When its connection was lost, or when it was last asked about; only while it has none. */
    private volatile long lostAt;

    /**
     * Begins one; {@link #opened} tells when it is there.
     *
     * @param lease of the claims that it is for, in nanoseconds
     * @param timeoutMillis to ask for
     * @param parts a connection may take this part of the timeout
     * @param tau see {@link Proof}
     */
    Session(Connector connector, long lease, int timeoutMillis, int parts, long tau, LongSupplier ticker)
            throws IOException {
        this.connector = connector;
        this.lease = lease;
        this.ticker = ticker;
        made = ticker.getAsLong();
        lastAnswer = made;
        lastWrite = made;
        lastKick = made;
        lastBeat = made;
        lostAt = made;
        proof = new Proof(tau, Math.max(1, tau / 16));
        hosts = new Connector.Hosts(connector.addresses(), parts, ticker);
        handle = connector.connect(timeoutMillis, this, hosts);
        built.countDown();
    }

    @Override
    public void process(WatchedEvent event) {
        if (event.getType() != Event.EventType.None) {
            return;
        }
        try {
            built.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return;
        }
        switch (event.getState()) {
            case SyncConnected -> {
                if (!open.isDone()) {
                    proof.opened(hosts.firstBegun(), TimeUnit.MILLISECONDS.toNanos(handle.getSessionTimeout()));
                    open.complete(true);
                }
                connected = true;
            }
            case Expired, Closed -> {
                expired |= event.getState() == Event.KeeperState.Expired;
                connected = false;
                open.complete(false);
            }
            case AuthFailed -> {
                refused = true;
                connected = false;
                open.complete(false);
            }
            default -> {
                // Told again with each attempt to connect that fails.
                if (connected) {
                    lostAt = ticker.getAsLong();
                }
                connected = false;
            }
        }
        changed();
    }

    /**
     * Asks the servers whether they know it, if it has no connection for so long. Its own handle does not come to hear: one
     * that has seen more than they have is turned away by servers that have lost their data, again and again and without a
     * word. Does not wait.
     */
    void askAgain(long lostFor) {
        if (connected || isDead() || !proof.isOpened() || ticker.getAsLong() - lostAt < lostFor) {
            return;
        }
        // Where they know it this counts as a sign of life to them: not again before it can have ended.
        lostAt = ticker.getAsLong() + timeout();
        Thread asks = new Thread(() -> ask(lostFor), "mortise-zookeeper-ask");
        asks.setDaemon(true);
        asks.start();
    }

    private void ask(long nanos) {
        CompletableFuture<Event.KeeperState> said = new CompletableFuture<>();
        Connector.Again again;
        try {
            again = connector.again(handle, event -> {
                if (event.getState() == Event.KeeperState.SyncConnected
                        || event.getState() == Event.KeeperState.Expired) {
                    said.complete(event.getState());
                }
            });
        } catch (IOException e) {
            LOG.log(Level.DEBUG, "no second way to a session", e);
            return;
        }
        try {
            if (said.get(nanos, TimeUnit.NANOSECONDS) == Event.KeeperState.Expired) {
                expired = true;
                changed();
            }
        } catch (TimeoutException e) {
            // Nobody is there to be asked; again in a while.
            lostAt = ticker.getAsLong();
        } catch (InterruptedException | ExecutionException e) {
            LOG.log(Level.DEBUG, "asking for a session", e);
        } finally {
            again.leave();
        }
    }

    private void changed() {
        CompletableFuture<Void> was = change;
        change = new CompletableFuture<>();
        was.complete(null);
    }

    /** Whether it came to be; completes when that is known. */
    CompletableFuture<Boolean> opened() {
        return open;
    }

    /** The number of the session, which stands in its nodes. */
    long id() {
        return handle.getSessionId();
    }

    /** What the server gives, in nanoseconds; only when open. */
    long timeout() {
        return TimeUnit.MILLISECONDS.toNanos(handle.getSessionTimeout());
    }

    boolean isExpired() {
        return expired;
    }

    boolean isRefused() {
        return refused;
    }

    boolean isClosed() {
        return closed;
    }

    boolean isDead() {
        return expired || refused || closed;
    }

    long lastAnswer() {
        return lastAnswer;
    }

    long lastWrite() {
        return lastWrite;
    }

    long made() {
        return made;
    }

    /**
     * Waits until it may make sense to ask again: it is connected, or something has happened.
     *
     * @param nanos at most so long
     */
    void awaitConnected(long nanos) throws InterruptedException {
        CompletableFuture<Void> next = change;
        if (connected || isDead()) {
            // A request that failed a moment ago may have failed with a connection that is there no more.
            TimeUnit.NANOSECONDS.sleep(Math.min(nanos, 1_000_000));
            return;
        }
        try {
            next.get(Math.max(0, nanos), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            // Then its caller gives up.
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Gives up a connection over which nothing was heard since then, so that another server is tried. */
    void kick(long since) {
        long now = ticker.getAsLong();
        if (isDead() || lastAnswer - since > 0 || lastKick - since > 0) {
            return;
        }
        lastKick = now;
        try {
            handle.updateServerList(connector.hosts());
        } catch (IOException | RuntimeException e) {
            LOG.log(Level.DEBUG, "a connection that does not answer could not be given up", e);
        }
    }

    /** Ends the session, and with it every node that it made. Waits for the server at most so long. */
    boolean close(long nanos) {
        closed = true;
        changed();
        try {
            return handle.close((int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(nanos)));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    // ---------------------------------------------------------------------------------------------------- requests

    private final class Sent {
        final CompletableFuture<Reply> reply = new CompletableFuture<>();
        private final boolean write;
        final long at = ticker.getAsLong();

        Sent(boolean write) {
            this.write = write;
        }

        void answered(
                int code,
                @Nullable String path,
                @Nullable Stat stat,
                @Nullable List<String> children,
                byte @Nullable [] data) {
            Reply answer = new Reply(
                    code,
                    at,
                    path,
                    stat,
                    children == null ? List.of() : children,
                    data == null ? "" : new String(data, StandardCharsets.UTF_8));
            if (answer.is(Code.SESSIONEXPIRED) && !closed) {
                // Said by the server, or by the library after it was said by the server.
                expired = true;
                changed();
            }
            if (answer.isAnswer()) {
                long now = ticker.getAsLong();
                lastAnswer = now;
                boolean done = write && answer.isFine();
                if (done) {
                    lastWrite = now;
                }
                proof.answered(at, now, done);
            }
            reply.complete(answer);
        }
    }

    /** An ephemeral node with the next number. */
    CompletableFuture<Reply> create(String prefix, byte[] data, List<ACL> rights) {
        Sent sent = new Sent(true);
        handle.create(
                prefix,
                data,
                rights,
                CreateMode.EPHEMERAL_SEQUENTIAL,
                (code, path, context, name, stat) -> sent.answered(code, name, stat, null, null),
                null);
        return sent.reply;
    }

    /** The same, and the container for it, both or none. The answer has no {@link Stat}. */
    CompletableFuture<Reply> createBoth(String container, String prefix, byte[] data, List<ACL> rights) {
        Sent sent = new Sent(true);
        handle.multi(
                List.of(
                        Op.create(container, NOTHING, rights, CreateMode.CONTAINER),
                        Op.create(prefix, data, rights, CreateMode.EPHEMERAL_SEQUENTIAL)),
                (code, path, context, results) -> {
                    String made = null;
                    if (code == Code.OK.intValue()
                            && results != null
                            && results.get(1) instanceof OpResult.CreateResult result) {
                        made = result.getPath();
                    }
                    int why = code;
                    if (results != null && code != Code.OK.intValue()) {
                        // Of those that failed, the first with a reason of its own.
                        for (OpResult each : results) {
                            if (each instanceof OpResult.ErrorResult error
                                    && error.getErr() != Code.OK.intValue()
                                    && error.getErr() != Code.RUNTIMEINCONSISTENCY.intValue()) {
                                why = error.getErr();
                                break;
                            }
                        }
                    }
                    sent.answered(why, made, null, null, null);
                },
                null);
        return sent.reply;
    }

    /** A node that stays. */
    CompletableFuture<Reply> createRoot(String path, byte[] data, List<ACL> rights) {
        Sent sent = new Sent(true);
        handle.create(
                path,
                data,
                rights,
                CreateMode.PERSISTENT,
                (code, asked, context, name, stat) -> sent.answered(code, name, stat, null, null),
                null);
        return sent.reply;
    }

    CompletableFuture<Reply> children(String path) {
        Sent sent = new Sent(false);
        handle.getChildren(
                path,
                false,
                (int code, String asked, Object context, List<String> children) ->
                        sent.answered(code, null, null, children, null),
                null);
        return sent.reply;
    }

    CompletableFuture<Reply> exists(String path) {
        Sent sent = new Sent(false);
        handle.exists(path, false, (code, asked, context, stat) -> sent.answered(code, null, stat, null, null), null);
        return sent.reply;
    }

    /** Nobody waits for that node any more. */
    void forget(String path, Watcher watcher) {
        try {
            handle.removeWatches(path, watcher, WatcherType.Children, true, (code, asked, context) -> {}, null);
        } catch (RuntimeException e) {
            LOG.log(Level.DEBUG, "a watch that nobody needs stays until its node goes", e);
        }
    }

    /**
     * With a watcher that is told when the node goes, if it is there now. It looks at the children, of which there are none, and
     * not at the data, which each sign of life writes anew.
     */
    CompletableFuture<Reply> watch(String path, Watcher watcher) {
        Sent sent = new Sent(false);
        handle.getChildren(
                path,
                watcher,
                (int code, String asked, Object context, List<String> children, Stat stat) ->
                        sent.answered(code, null, stat, children, null),
                null);
        return sent.reply;
    }

    CompletableFuture<Reply> read(String path) {
        Sent sent = new Sent(false);
        handle.getData(
                path,
                false,
                (int code, String asked, Object context, byte[] data, Stat stat) ->
                        sent.answered(code, null, stat, null, data),
                null);
        return sent.reply;
    }

    CompletableFuture<Reply> write(String path, byte[] data) {
        Sent sent = new Sent(true);
        handle.setData(
                path, data, -1, (code, asked, context, stat) -> sent.answered(code, null, stat, null, null), null);
        return sent.reply;
    }

    CompletableFuture<Reply> delete(String path) {
        Sent sent = new Sent(true);
        handle.delete(path, -1, (code, asked, context) -> sent.answered(code, null, null, null, null), null);
        return sent.reply;
    }

    /** What is read behind it is no older than now. */
    CompletableFuture<Reply> sync(String path) {
        Sent sent = new Sent(false);
        handle.sync(path, (code, asked, context) -> sent.answered(code, null, null, null, null), null);
        return sent.reply;
    }
}
