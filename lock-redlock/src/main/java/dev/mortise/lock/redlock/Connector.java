package dev.mortise.lock.redlock;

import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioDatagramChannel;
import io.netty.resolver.dns.DnsAddressResolverGroup;
import io.netty.resolver.dns.DnsServerAddressStreamProviders;
import io.netty.util.HashedWheelTimer;
import io.netty.util.Timer;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.redisson.client.RedisClientConfig;
import org.redisson.misc.RedisURI;

/** What all connections of one client share: one thread that reads and writes, and one timer. */
final class Connector implements AutoCloseable {
    /** How exact limits are. Each tick wakes the timer's thread. */
    private static final long TICK_MILLIS = 10;

    private final HashedWheelTimer timer = new HashedWheelTimer(
            new DefaultThreadFactory("mortise-redlock-timer", true), TICK_MILLIS, TimeUnit.MILLISECONDS);
    private final MultiThreadIoEventLoopGroup group = new MultiThreadIoEventLoopGroup(
            1, new DefaultThreadFactory("mortise-redlock", true), NioIoHandler.newFactory());
    private final DnsAddressResolverGroup resolver =
            new DnsAddressResolverGroup(NioDatagramChannel.class, DnsServerAddressStreamProviders.platformDefault());

    Timer timer() {
        return timer;
    }

    /** Alarms for the protocol. They run on the timer's thread: they must be short, and are. */
    Protocol.Alarm alarm() {
        return (nanos, work) -> {
            try {
                io.netty.util.Timeout timeout = timer.newTimeout(t -> work.run(), nanos, TimeUnit.NANOSECONDS);
                return timeout::cancel;
            } catch (IllegalStateException e) {
                return () -> {}; // Closed: nobody waits any more.
            }
        };
    }

    /** A connection to this server. Nothing in it resends, pings, or keeps threads of its own. */
    Link link(
            String host,
            int port,
            boolean tls,
            @Nullable String user,
            @Nullable String password,
            int database,
            long timeoutNanos) {
        String shown = (host.indexOf(':') >= 0 ? "[" + host + "]" : host) + ":" + port;
        int millis = (int) Math.max(1, timeoutNanos / 1_000_000);
        RedisClientConfig config = new RedisClientConfig();
        config.setAddress(new RedisURI(tls ? "rediss" : "redis", host, port));
        config.setTimer(timer)
                .setGroup(group)
                .setExecutor(group)
                .setResolverGroup(resolver)
                .setConnectTimeout(Math.max(millis, 5000)) // The link has limits of its own.
                .setCommandTimeout(Math.max(millis, 5000))
                .setPingConnectionInterval(0)
                .setKeepAlive(true)
                .setTcpNoDelay(true)
                .setDatabase(database);
        if (user != null) {
            config.setUsername(user);
        }
        if (password != null) {
            config.setPassword(password);
        }
        return new Link(shown, config, timer, timeoutNanos);
    }

    @Override
    public void close() {
        timer.stop();
        resolver.close();
        var unused = group.shutdownGracefully(0, 2, TimeUnit.SECONDS).awaitUninterruptibly(2, TimeUnit.SECONDS);
    }
}
