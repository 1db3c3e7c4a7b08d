package dev.mortise.lock.zookeeper;

import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.util.Map;
import java.util.Optional;
import org.apache.zookeeper.ZooKeeper;

/** Locks in an ensemble of three, with clients at all of them, keep all rules of {@code docs/spec.md}. */
class ZooKeeperClusterTckTest extends LockTck {
    @Override
    protected Store store() throws Exception {
        ZooKeeperCluster three = new ZooKeeperCluster(3);
        ZooKeeper administrator = ZooKeeperStore.connectPlainly(three.connectString());
        return new Store() {
            @Override
            public LockBackend connect() {
                return ZooKeeperStore.connect(
                        three.connectString(), ZooKeeperStore.CALL_TIMEOUT, ZooKeeperStore.OPTIONS);
            }

            @Override
            public void evict(String name) {
                ZooKeeperStore.evict(administrator, name);
            }

            @Override
            public Optional<String> uri() {
                return Optional.of("zookeeper://" + three.connectString());
            }

            @Override
            public Map<String, String> options() {
                return ZooKeeperStore.OPTIONS;
            }

            @Override
            public void close() throws Exception {
                administrator.close();
                three.close();
            }
        };
    }
}
