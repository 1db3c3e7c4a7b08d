package dev.mortise.lock.etcd;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The ways of one client to its servers, each of which can be cut for this client alone. For any thread. */
final class Ways implements AutoCloseable {
    private final List<TcpProxy> ways = new ArrayList<>();
    private final List<LockBackend> clients = new ArrayList<>();

    Ways(List<EtcdServer> servers) {
        try {
            for (EtcdServer server : servers) {
                ways.add(new TcpProxy(server.port()));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    TcpProxy to(int server) {
        return ways.get(server);
    }

    String uri() {
        return ways.stream().map(way -> "127.0.0.1:" + way.port()).collect(Collectors.joining(",", "etcd://", ""));
    }

    /** A client as another process would have; closed with this. */
    LockBackend connect(Duration callTimeout) {
        LockBackend client = connect(uri(), callTimeout, Map.of());
        clients.add(client);
        return client;
    }

    /** On a machine that is busy, and a JVM that is cold, a first answer may take more than a call timeout: asked again. */
    static LockBackend connect(String uri, Duration callTimeout, Map<String, String> options) {
        for (int tries = 1; ; tries++) {
            try {
                return new EtcdProvider()
                        .open(StoreUri.parse(uri, options), BackendContext.of(System::nanoTime, callTimeout));
            } catch (LockStoreException e) {
                if (tries == 10 || !e.getMessage().contains("no answer in time")) {
                    throw e;
                }
            }
        }
    }

    /** What goes either way vanishes, and connections stay. */
    void blackHole(int server) {
        to(server).requests(TcpProxy.Mode.DROP);
        to(server).replies(TcpProxy.Mode.DROP);
    }

    /** As if nobody was there. */
    void refuse(int server) {
        to(server).refuse(true);
        to(server).cut();
    }

    /** What has vanished would be missing in the connections that there are: they break. */
    void mend(int server) {
        to(server).cut();
        to(server).heal();
    }

    void mend() {
        for (int i = 0; i < ways.size(); i++) {
            mend(i);
        }
    }

    @Override
    public void close() {
        clients.forEach(LockBackend::close);
        ways.forEach(TcpProxy::close);
    }
}
