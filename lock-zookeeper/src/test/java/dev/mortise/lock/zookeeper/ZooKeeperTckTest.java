package dev.mortise.lock.zookeeper;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;

/** Locks in one ZooKeeper keep all rules of {@code docs/spec.md}. */
class ZooKeeperTckTest extends LockTck {
    @Override
    protected Store store() {
        return ZooKeeperStore.one();
    }
}
