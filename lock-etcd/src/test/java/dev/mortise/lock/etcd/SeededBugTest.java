package dev.mortise.lock.etcd;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/**
 * A mistake that is put into the protocol, and what of the kit finds it. {@code -Dmortise.seeds=10} does it ten times, and tells
 * how often it was found.
 */
class SeededBugTest {
    private static final int SEEDS = Integer.getInteger("mortise.seeds", 1);

    /**
     * A lease goes back to the pool although an acquire that puts a key on it may still be on its way. When that arrives, the
     * key is on a lease that is kept alive, for nobody.
     */
    @Test
    void aLeaseInDoubtIsUsedAgain() throws Exception {
        int found = 0;
        for (int seed = 1; seed <= SEEDS; seed++) {
            System.setProperty("mortise.tck.seed", String.valueOf(seed));
            try {
                Set<String> rules =
                        LockTck.broken(new Mistaken(), "6.2", "6.4", "7.10").keySet();
                System.out.println("seed " + seed + ": broken " + rules);
                found += rules.isEmpty() ? 0 : 1;
            } finally {
                System.clearProperty("mortise.tck.seed");
            }
        }
        System.out.println("a lease in doubt is used again: found " + found + " times of " + SEEDS);
        assertThat(found).isEqualTo(SEEDS);
    }

    /** The right store but for the mistake, with the one fault that lets it show. */
    private static final class Mistaken implements Store {
        private final EtcdStore right = new EtcdStore(EtcdServer.DEFAULT_ELECTIONS.toArray(new String[0]));

        @Override
        public LockBackend connect() {
            return connect(EtcdStore.CALL_TIMEOUT);
        }

        @Override
        public LockBackend connect(Duration callTimeout) {
            BackendContext context = BackendContext.of(System::nanoTime, callTimeout);
            Wire wire = new GrpcWire("etcd://mistaken", right.addresses(), null, null, null, false, callTimeout);
            LeasePool pool = new LeasePool(wire, context::nanoTime) {
                @Override
                boolean takesBack(Lease lease, boolean sure) {
                    return super.takesBack(lease, true);
                }
            };
            return new EtcdBackend(wire, Keys.PREFIX, context, pool).opened();
        }

        @Override
        public void evict(String name) {
            right.evict(name);
        }

        @Override
        public Optional<Faults> faults() {
            Faults all = right.faults().orElseThrow();
            return Optional.of(new Faults() {
                @Override
                public void delayReplies(Duration by) {
                    all.delayReplies(by);
                }

                @Override
                public void loseReply() {
                    all.loseReply();
                }

                @Override
                public void heal() {
                    all.heal();
                }

                @Override
                public Set<Fault> possible() {
                    return Set.of(Fault.REQUESTS_LATE);
                }

                @Override
                public AutoCloseable begin(Fault fault) throws Exception {
                    return all.begin(fault);
                }
            });
        }

        @Override
        public void close() {
            right.close();
        }
    }
}
