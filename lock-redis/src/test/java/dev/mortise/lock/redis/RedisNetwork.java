package dev.mortise.lock.redis;

import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** A network before Redis servers that fails as it is told, and the faults of a store of such servers. */
abstract class RedisNetwork implements Faults, AutoCloseable {
    final RedisFaults servers;
    private final Map<RedisServer, TcpProxy> ways = new LinkedHashMap<>();

    /** With null where nothing befalls the servers. */
    RedisNetwork(RedisFaults servers) {
        this.servers = servers;
    }

    /** The way to this server from now on. */
    TcpProxy to(RedisServer server) {
        TcpProxy way = to(server.port());
        ways.put(server, way);
        return way;
    }

    static TcpProxy to(int port) {
        try {
            return new TcpProxy(port);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The way to a server that had to be told of it before it was started. */
    void add(RedisServer server, TcpProxy way) {
        ways.put(server, way);
    }

    /** By which clients, and other servers, reach this one. */
    String port(RedisServer server) {
        return String.valueOf(ways.get(server).port());
    }

    /** Those that take writes. */
    abstract List<RedisServer> masters();

    List<RedisServer> all() {
        return List.copyOf(ways.keySet());
    }

    @Override
    public void delayReplies(Duration by) {
        ways.values().forEach(way -> way.delayReplies(by));
    }

    @Override
    public void loseReply() {
        ways.values().forEach(way -> way.loseReplyTo(request -> request.contains("EVAL")));
    }

    /** Scripts are writes, and wait at the door; what the test itself asks does not. */
    @Override
    public Optional<AutoCloseable> holdUp(String name) {
        List<RedisServer> paused = masters();
        paused.forEach(each -> each.ask("CLIENT", "PAUSE", "60000", "WRITE"));
        return Optional.of(() -> paused.forEach(each -> each.ask("CLIENT", "UNPAUSE")));
    }

    @Override
    public void heal() {
        ways.values().forEach(TcpProxy::heal);
    }

    @Override
    public Set<Fault> possible() {
        return RedisFaults.with(TcpProxy.FAULTS);
    }

    @Override
    public AutoCloseable begin(Fault fault) throws Exception {
        return TcpProxy.FAULTS.contains(fault)
                ? TcpProxy.begin(fault, new ArrayList<>(ways.values()))
                : servers.begin(fault, all());
    }

    @Override
    public void close() {
        ways.values().forEach(TcpProxy::close);
        if (servers != null) {
            servers.close();
        }
    }
}
