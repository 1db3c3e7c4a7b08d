package dev.mortise.lock.etcd;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;

/** Locks in one etcd keep all rules of {@code docs/spec.md}. */
class EtcdTckTest extends LockTck {
    @Override
    protected Store store() {
        return EtcdStore.one();
    }
}
