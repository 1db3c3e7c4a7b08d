package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.args.Rawable;
import redis.clients.jedis.providers.ConnectionProvider;

/**
 * The kit finds a mistake that was put into this protocol, with its normal number of tries. How often, over ten seeds: {@code
 * -Dmortise.seeds=10}, which prints it.
 */
class SeededBugTest {
    private static final String OWNER = "string.match(held, '^1:%d+:%d+:(.+)$') == ARGV[1]";

    @Test
    void aReleaseWithoutItsOwner() throws Exception {
        assertFound(() -> new Careless(new RedisStore()), "1.1", "2.1", "2.5");
    }

    /** Its clients send a script for a release that does not ask whose claim it is. */
    private record Careless(RedisStore right) implements Store {
        @Override
        public LockBackend connect() {
            return connect(RedisStore.CALL_TIMEOUT);
        }

        @Override
        public LockBackend connect(Duration callTimeout) {
            return RedisLocks.over(
                    new ConnectionProvider() {
                        @Override
                        public Connection getConnection() {
                            return new CarelessConnection(right.network.port());
                        }

                        @Override
                        public Connection getConnection(CommandArguments any) {
                            return getConnection();
                        }

                        @Override
                        public void close() {}
                    },
                    Keys.PREFIX,
                    BackendContext.of(System::nanoTime, callTimeout));
        }

        @Override
        public void evict(String name) {
            right.evict(name);
        }

        @Override
        public void close() {
            right.close();
        }
    }

    private static final class CarelessConnection extends Connection {
        private static final CommandArguments RELEASE =
                Script.RELEASE.runByText(java.util.List.of(), java.util.List.of());

        CarelessConnection(int port) {
            super("127.0.0.1", port);
        }

        @Override
        public void sendCommand(CommandArguments request) {
            if (request.getCommand() != Protocol.Command.EVALSHA || !isRelease(request)) {
                super.sendCommand(request);
                return;
            }
            String text = new String(RELEASE.get(1).getRaw(), java.nio.charset.StandardCharsets.UTF_8);
            assertThat(text).contains(OWNER);
            CommandArguments wrong = new CommandArguments(Protocol.Command.EVAL).add(text.replace(OWNER, "true"));
            int i = 0;
            for (Rawable each : request) {
                if (i++ > 1) {
                    wrong.add(each);
                }
            }
            super.sendCommand(wrong);
        }

        private static boolean isRelease(CommandArguments request) {
            Rawable digest =
                    Script.RELEASE.run(java.util.List.of(), java.util.List.of()).get(1);
            return java.util.Arrays.equals(request.get(1).getRaw(), digest.getRaw());
        }
    }

    private static void assertFound(Mistaken store, String... rules) throws Exception {
        String before = System.getProperty("mortise.tck.seed");
        int seeds = Integer.getInteger("mortise.seeds", 1);
        int found = 0;
        try {
            for (int seed = 1; seed <= seeds; seed++) {
                System.setProperty("mortise.tck.seed", String.valueOf(seed));
                Map<String, String> broken = LockTck.broken(store.open(), rules);
                System.out.println("seed " + seed + ": broken " + broken.keySet());
                found += broken.isEmpty() ? 0 : 1;
            }
        } finally {
            if (before == null) {
                System.clearProperty("mortise.tck.seed");
            } else {
                System.setProperty("mortise.tck.seed", before);
            }
        }
        System.out.println("found with " + found + " of " + seeds + " seeds");
        assertThat(found).isEqualTo(seeds);
    }

    private interface Mistaken {
        Store open() throws Exception;
    }
}
