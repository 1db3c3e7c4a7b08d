package dev.mortise.lock.etcd;

import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;

/** Locks in a cluster of three keep all rules of {@code docs/spec.md}, whichever member a client asks. */
class EtcdClusterTckTest extends LockTck {
    @Override
    protected Store store() {
        return new Store() {
            private final EtcdCluster cluster = new EtcdCluster(3);
            private final AtomicInteger clients = new AtomicInteger();

            /** Each client has another member as its first. */
            @Override
            public LockBackend connect() {
                int first = clients.getAndIncrement();
                StringBuilder hosts = new StringBuilder();
                for (int i = 0; i < cluster.size(); i++) {
                    hosts.append(i == 0 ? "" : ",")
                            .append("127.0.0.1:")
                            .append(cluster.member((first + i) % cluster.size()).port());
                }
                return EtcdStore.connect(hosts.toString(), EtcdStore.CALL_TIMEOUT, Map.of());
            }

            @Override
            public void evict(String name) {
                cluster.member(0).deleteAll(Keys.of(Keys.PREFIX, name).start());
            }

            @Override
            public Optional<String> uri() {
                return Optional.of("etcd://" + cluster.hosts());
            }

            @Override
            public void close() {
                cluster.close();
            }
        };
    }
}
