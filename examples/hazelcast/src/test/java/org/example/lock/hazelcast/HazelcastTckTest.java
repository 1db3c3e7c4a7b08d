package org.example.lock.hazelcast;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;

/** The backend keeps what it declares. */
class HazelcastTckTest extends LockTck {
    @Override
    protected Store store() throws Exception {
        return new HazelcastStore();
    }
}
