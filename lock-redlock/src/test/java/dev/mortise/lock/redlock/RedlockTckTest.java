package dev.mortise.lock.redlock;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;

/** Locks in a majority of five Redis servers keep all rules of {@code docs/spec.md}. */
class RedlockTckTest extends LockTck {
    @Override
    protected Store store() {
        return new FiveServers();
    }
}
