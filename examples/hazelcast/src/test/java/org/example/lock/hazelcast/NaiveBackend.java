package org.example.lock.hazelcast;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.flakeidgen.FlakeIdGenerator;
import com.hazelcast.map.IMap;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * The lock that comes to mind first: Hazelcast's own lock of a map's key, with a lease, and a token from its generator of
 * identifiers. It works when it is tried out; {@link NaiveTest} has what is wrong with it.
 */
final class NaiveBackend implements LockBackend {
    static final String MAP = "naive.locks";

    private final HazelcastInstance hazelcast;
    private final IMap<String, String> locks;
    private final FlakeIdGenerator tokens;

    NaiveBackend(HazelcastInstance hazelcast) {
        this.hazelcast = hazelcast;
        this.locks = hazelcast.getMap(MAP);
        this.tokens = hazelcast.getFlakeIdGenerator("naive.tokens");
    }

    @Override
    public Guarantees guarantees() {
        return Guarantees.builder(Consistency.BEST_EFFORT)
                .exclusionSurvives(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS)
                .tokensSurvive(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS)
                .leases(Duration.ofMillis(50), Duration.ofDays(365), Duration.ofMillis(1))
                .freedWithin(lease -> lease.plusMillis(200))
                .build();
    }

    @Override
    public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
        if (lock(claim.name(), claim.lease())) {
            return Attempt.granted(claim.granted(claim.lease(), tokens.newId(), System.nanoTime()));
        }
        return Attempt.held(Duration.ofMillis(20));
    }

    private boolean lock(String name, Duration lease) throws InterruptedException {
        return locks.tryLock(name, 0, TimeUnit.MILLISECONDS, lease.toMillis(), TimeUnit.MILLISECONDS);
    }

    /** To lock once more is how the lease of a lock is lengthened. */
    @Override
    public Renewal renew(Collection<Grant> grants) {
        List<Grant> live = new ArrayList<>();
        List<Grant> ended = new ArrayList<>();
        for (Grant grant : grants) {
            try {
                if (lock(grant.name(), grant.lease())) {
                    live.add(grant.renewed(System.nanoTime()));
                } else {
                    ended.add(grant);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        return Renewal.of(live, ended);
    }

    /** Not {@code unlock}: that wants the thread that locked. */
    @Override
    public boolean release(Claim claim) {
        boolean locked = locks.isLocked(claim.name());
        locks.forceUnlock(claim.name());
        return locked;
    }

    @Override
    public void close() {
        hazelcast.shutdown();
    }
}
