package dev.mortise.lock.redis;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;

/** Locks in one Redis keep all rules of {@code docs/spec.md}. */
class RedisTckTest extends LockTck {
    @Override
    protected Store store() {
        return RedisStore.forTheKit();
    }
}
