package dev.mortise.lock.redis;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;

/** Locks in a Cluster keep all rules of {@code docs/spec.md}. */
class RedisClusterTckTest extends LockTck {
    @Override
    protected Store store() {
        return RedisCluster.forTheKit();
    }
}
