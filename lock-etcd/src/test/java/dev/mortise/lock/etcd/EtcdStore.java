package dev.mortise.lock.etcd;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.Store;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/** One etcd, and a network before it that fails as it is told. */
final class EtcdStore implements Store {
    /** Longer than the latest end of the kit's leases: it holds requests up for that long. */
    static final Duration CALL_TIMEOUT = Duration.ofSeconds(10);

    final EtcdServer server;
    final TcpProxy network;

    EtcdStore(String... settings) {
        server = new EtcdServer(settings);
        try {
            network = new TcpProxy(server.port());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public EtcdBackend connect() {
        return connect(CALL_TIMEOUT, Map.of());
    }

    /** A client over the network that fails. */
    EtcdBackend connect(Duration callTimeout, Map<String, String> options) {
        return connect("127.0.0.1:" + network.port(), callTimeout, options);
    }

    static EtcdBackend connect(String hosts, Duration callTimeout, Map<String, String> options) {
        LockBackend backend = new EtcdProvider()
                .open(StoreUri.parse("etcd://" + hosts, options), BackendContext.of(System::nanoTime, callTimeout));
        return (EtcdBackend) backend;
    }

    /** For work that waits: since JDK 25 all futures share a pool, on a small machine with one thread. */
    static Thread inAThread(Runnable work) {
        Thread thread = new Thread(work, "test");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** The holder's key is the oldest: the others that there may be wait for it. */
    @Override
    public void evict(String name) {
        server.deleteAll(Keys.of(Keys.PREFIX, name).start());
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(new Faults() {
            @Override
            public void delayReplies(Duration by) {
                network.delayReplies(by);
            }

            /** Of what names an owner: entering, renewing, leaving. */
            @Override
            public void loseReply() {
                network.loseReplyTo(request -> request.contains("tck~"));
            }

            /** At the door, before the server has seen them. */
            @Override
            public Optional<AutoCloseable> holdUp(String name) {
                network.requests(TcpProxy.Mode.HOLD);
                return Optional.of(() -> network.requests(TcpProxy.Mode.PASS));
            }

            @Override
            public void heal() {
                network.delayReplies(Duration.ZERO);
                network.loseReplyTo(request -> false);
            }
        });
    }

    @Override
    public Optional<String> uri() {
        return Optional.of("etcd://127.0.0.1:" + server.port());
    }

    @Override
    public void close() {
        network.close();
        server.close();
    }
}
