package dev.mortise.lock.zookeeper;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;

/** Locks in an ensemble of three, with clients at all of them, keep all rules of {@code docs/spec.md}. */
class ZooKeeperClusterTckTest extends LockTck {
    @Override
    protected Store store() {
        return ZooKeeperStore.three();
    }
}
