package dev.mortise.lock.etcd;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;

/** Locks in a cluster of three keep all rules of {@code docs/spec.md}, whichever member a client asks. */
class EtcdClusterTckTest extends LockTck {
    @Override
    protected Store store() {
        return EtcdStore.three();
    }
}
