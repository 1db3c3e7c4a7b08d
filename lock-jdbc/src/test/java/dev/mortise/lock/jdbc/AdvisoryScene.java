package dev.mortise.lock.jdbc;

import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;

/**
 * A server that a test breaks: clients with a network of their own each, what they were granted, and what an administrator
 * sees of their advisory locks, over a connection that is none of theirs.
 */
abstract class AdvisoryScene implements AutoCloseable {
    static final Duration CALL_TIMEOUT = Duration.ofSeconds(2);

    final Holds holds = new Holds();
    private final List<TcpProxy> ways = new ArrayList<>();

    abstract TestStore store();

    abstract int port();

    /** Of a client that its sessions are known by. */
    abstract String url(int port, String client);

    /** Those of that client. */
    abstract Map<String, String> options(String client);

    /** The server's sessions that have an advisory lock, or wait for one, for this client. */
    abstract List<Integer> sessions(String client, boolean granted);

    /** Ends the sessions of this client that have an advisory lock, as an administrator would. */
    abstract void terminate(String client);

    /** Kills a process of the server that works for this client, or the server; it works again when this returns. */
    abstract void killProcess(String client);

    /** In good order. */
    abstract void restart();

    /** Kills it, and starts it again. */
    abstract void crash();

    /** A network to the server. */
    TcpProxy way() {
        try {
            TcpProxy way = new TcpProxy(port());
            ways.add(way);
            return way;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    LockBackend open(int port, String client, Duration callTimeout, String... more) {
        Map<String, String> options = new TreeMap<>(options(client));
        for (int i = 0; i < more.length; i += 2) {
            options.put(more[i], more[i + 1]);
        }
        return open(url(port, client), options, callTimeout);
    }

    final LockBackend open(String url, Map<String, String> options, Duration callTimeout) {
        return store().opened(store().provider().open(StoreUri.parse(url, options), TestStore.context(callTimeout)));
    }

    LockBackend client(String client) {
        return surely(() -> open(port(), client, CALL_TIMEOUT));
    }

    LockBackend client(TcpProxy way, String client) {
        return surely(() -> open(way.port(), client, CALL_TIMEOUT));
    }

    /** Opened again if a busy machine has not come round to it in the time of a call. */
    static LockBackend surely(Callable<LockBackend> open) {
        return await().atMost(Duration.ofSeconds(60))
                .ignoreExceptionsInstanceOf(LockStoreException.class)
                .until(open, client -> true);
    }

    /** Exclusion and tokens, by what was written down. */
    void sound() {
        holds.judge(false);
    }

    @Override
    public void close() throws Exception {
        ways.forEach(TcpProxy::heal);
        try {
            store().close();
        } finally {
            ways.forEach(TcpProxy::close);
        }
    }
}
