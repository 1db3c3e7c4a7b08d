package dev.mortise.lock.redis;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;

/** Locks at the master that Sentinel names keep all rules of {@code docs/spec.md}. */
class RedisSentinelTckTest extends LockTck {
    @Override
    protected Store store() {
        return RedisSentinels.forTheKit();
    }
}
