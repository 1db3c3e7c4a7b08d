package dev.mortise.lock.redlock;

import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.Optional;

/** Locks in a majority of five Redis servers keep all rules of {@code docs/spec.md}. */
class RedlockTckTest extends LockTck {
    @Override
    protected Store store() {
        return new FiveServers();
    }

    private static final class FiveServers implements Store, Faults {
        private final Deployment deployment = Deployment.five();

        @Override
        public LockBackend connect() {
            return deployment.client();
        }

        @Override
        public void evict(String name) {
            for (RedisServer server : deployment.servers) {
                server.ask("DEL", Deployment.lockKey(name));
            }
        }

        @Override
        public Optional<Faults> faults() {
            return Optional.of(this);
        }

        @Override
        public Optional<String> uri() {
            return Optional.of(deployment.text());
        }

        @Override
        public void delayReplies(Duration by) {
            deployment.proxies.forEach(p -> p.delayReplies(by));
        }

        /** The next request that each of the servers gets is answered by a reset. */
        @Override
        public void loseReply() {
            deployment.proxies.forEach(p -> p.loseReplyTo(request -> true));
        }

        /**
         * At the doors of all five, for every name: scripts wait, the clocks go on, and connections still open. The kit
         * lets go before a client gives up a server, unless the machine is slow; what was sent by then still waits there.
         */
        @Override
        public Optional<AutoCloseable> holdUp(String name) {
            deployment.servers.forEach(s -> s.ask("CLIENT", "PAUSE", "60000", "WRITE"));
            return Optional.of(() -> deployment.servers.forEach(s -> s.ask("CLIENT", "UNPAUSE")));
        }

        @Override
        public void heal() {
            deployment.proxies.forEach(TcpProxy::heal);
        }

        @Override
        public void close() {
            deployment.close();
        }
    }
}
