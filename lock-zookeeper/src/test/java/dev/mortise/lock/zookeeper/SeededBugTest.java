package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.zookeeper.AsyncCallback;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.junit.jupiter.api.Test;

/**
 * A mistake that is put into the protocol, and what of the kit finds it. {@code -Dmortise.seeds=10} does it ten times, and tells
 * how often it was found.
 */
class SeededBugTest {
    private static final int SEEDS = Integer.getInteger("mortise.seeds", 1);

    /**
     * Signs of life that are reads, which prove nothing: a server that is cut off answers them for as long as it takes it to
     * notice. Clients are at servers that follow: at the leader the mistake does not show, and which one they come to is chance.
     */
    @Test
    void renewalsByReads() throws Exception {
        int found = 0;
        for (int seed = 1; seed <= SEEDS; seed++) {
            System.setProperty("mortise.tck.seed", String.valueOf(seed));
            try {
                Set<String> rules = LockTck.broken(new Mistaken(), "6.2").keySet();
                System.out.println("seed " + seed + ": broken " + rules);
                found += rules.isEmpty() ? 0 : 1;
            } finally {
                System.clearProperty("mortise.tck.seed");
            }
        }
        System.out.println("renewals by reads: found " + found + " times of " + SEEDS);
        assertThat(found).isEqualTo(SEEDS);
    }

    /** The right store but for the mistake, with the one fault that lets it show. */
    private static final class Mistaken implements Store {
        private final ZooKeeperStore right = ZooKeeperStore.three("syncLimit=50");
        private final String followers = right.followers();

        @Override
        public LockBackend connect() {
            return connect(ZooKeeperStore.CALL_TIMEOUT);
        }

        @Override
        public LockBackend connect(Duration callTimeout) {
            return ZooKeeperBackend.open(
                    "zookeeper://mistaken",
                    new Connector(() -> followers, List.of(), new ZKClientConfig()) {
                        @Override
                        ZooKeeper connect(int timeoutMillis, Watcher watcher, Hosts provider) throws IOException {
                            return new Reads(hosts(), timeoutMillis, watcher, provider);
                        }
                    },
                    "",
                    Duration.ofMillis(300),
                    BackendContext.of(System::nanoTime, callTimeout));
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
                    return Set.of(Fault.MINORITY_CUT_OFF);
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

    /** Where a node is to be written, it is read, and its caller does not know. */
    private static final class Reads extends ZooKeeper {
        Reads(String hosts, int timeoutMillis, Watcher watcher, Connector.Hosts provider) throws IOException {
            super(hosts, timeoutMillis, watcher, false, provider, new ZKClientConfig());
        }

        @Override
        public void setData(
                String path, byte[] data, int version, AsyncCallback.StatCallback callback, Object context) {
            exists(path, false, callback, context);
        }
    }
}
