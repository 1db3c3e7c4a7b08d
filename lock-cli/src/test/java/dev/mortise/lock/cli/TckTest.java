package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.InMemoryBackend;
import dev.mortise.lock.redis.RedisServer;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreUri;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code mortise tck}, on stores that others use. */
class TckTest {
    private static final String SECRET = "sEsAmE-oPeN";

    private final Processes processes = new Processes();

    @TempDir
    private Path folder;

    @AfterEach
    void endAll() {
        processes.close();
    }

    private Mortise start(String... arguments) throws Exception {
        List<String> all = new ArrayList<>(List.of("tck", "--report", report().toString()));
        all.addAll(List.of(arguments));
        return Mortise.start(processes, folder, all.toArray(new String[0]));
    }

    private Path report() {
        return folder.resolve("report");
    }

    private static void awaitErr(Mortise run, String text) {
        await().atMost(Mortise.LONG).until(() -> {
            assertThat(run.process.isAlive() || run.err().contains(text))
                    .as("ended; said: " + run.out() + run.err())
                    .isTrue();
            return run.err().contains(text);
        });
    }

    /** All keys but those of the kit, with what is in them. */
    private static Map<String, Object> others(RedisServer server) {
        Map<String, Object> all = new TreeMap<>();
        for (String key : keys(server)) {
            if (!key.contains("tck-")) {
                all.put(key, List.of(server.ask("DUMP", key), server.ask("PEXPIRETIME", key)));
            }
        }
        return all;
    }

    private static Set<String> keys(RedisServer server) {
        Set<String> keys = new TreeSet<>();
        ((List<?>) server.ask("KEYS", "*")).forEach(key -> keys.add(key.toString()));
        return keys;
    }

    /** Fence counters, and marks of what was released, each of which goes by itself; no lock. */
    private static void assertNothingIsHeld(RedisServer server) {
        for (String key : keys(server)) {
            if (key.contains("tck-")) {
                assertThat(key).matches("mortise:\\{tck-.*}:(fence|released:.*)");
                assertThat((Long) server.ask("PTTL", key)).as(key).isPositive();
            }
        }
    }

    /** A Redis that others use, with a password: all rules hold, nobody's key is touched, and the password is nowhere. */
    @Test
    void redisInUse() throws Exception {
        try (RedisServer server = new RedisServer("--appendonly", "yes")) {
            server.ask("ACL", "SETUSER", "app", "on", ">" + SECRET, "~*", "&*", "+@all");
            server.ask("SET", "n744", "somebody's");
            server.ask("SET", " ", "somebody's", "EX", "5000");
            server.ask("SET", "mortise:{n744}:lock", "1:30000:12:somebody", "PX", "900000");
            server.ask("SET", "mortise:{tic}:fence", "12");
            Map<String, Object> before = others(server);
            assertThat(before).hasSize(4);

            Mortise run = start("redis://app:" + SECRET + "@127.0.0.1:" + server.port(), "--scenarios", "4");
            Set<String> commands = new TreeSet<>();
            long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(5);
            while (run.process.isAlive() && System.nanoTime() < end) {
                run.process.descendants().forEach(p -> {
                    try {
                        commands.add(Files.readString(Path.of("/proc/" + p.pid() + "/cmdline")));
                    } catch (IOException e) {
                        // It has ended.
                    }
                });
                TimeUnit.MILLISECONDS.sleep(100);
            }
            assertThat(run.exit()).as(run.err() + run.out()).isZero();
            assertThat(run.out())
                    .startsWith("redis://127.0.0.1:" + server.port() + ": ")
                    .contains("rules hold, 0 broken", "not tested: ", "report.html and report.json")
                    .doesNotContain(SECRET);
            assertThat(run.err()).contains("mortise: ", "rule 1.1 holds").doesNotContain(SECRET);
            assertThat(commands.toString()).contains("ClientProcess").doesNotContain(SECRET);
            assertThat(Files.readString(report().resolve("report.html")))
                    .contains("rules hold")
                    .doesNotContain(SECRET);
            assertThat(Files.readString(report().resolve("report.json")))
                    .contains("\"verdict\": \"passed\"")
                    .doesNotContain(SECRET);
            assertThat(others(server)).isEqualTo(before);
            assertNothingIsHeld(server);
            assertThat(Mortise.tmp(folder)).isEmptyDirectory();
        }
    }

    /** Ctrl-C ends the run; what it has locked by then is released. */
    @Test
    void interrupted() throws Exception {
        try (RedisServer server = new RedisServer("--appendonly", "yes")) {
            Mortise run = start("redis://127.0.0.1:" + server.port(), "--no-processes", "--prefix", "tck-mine-");
            awaitErr(run, "scenarios");
            await().atMost(Mortise.LONG)
                    .until(() -> keys(server).stream().anyMatch(key -> key.matches("mortise:\\{tck-mine-.*}:lock")));
            Processes.signal("INT", run.pid());
            assertThat(run.exit()).as(run.err()).isEqualTo(130);
            assertThat(run.err()).contains("ended by signal 2; what was locked is released");
            assertNothingIsHeld(server);
        }
    }

    /** Wrong: says of every release that it has ended something. */
    public static final class Boasting implements BackendProvider {
        private static final InMemoryBackend MEMORY = new InMemoryBackend();

        public Boasting() {}

        @Override
        public Map<String, Guarantees> schemes() {
            return Map.of("boasting", MEMORY.guarantees());
        }

        @Override
        public List<Option<?>> options() {
            return List.of();
        }

        @Override
        public LockBackend open(StoreUri uri, BackendContext context) {
            return new LockBackend() {
                @Override
                public Guarantees guarantees() {
                    return MEMORY.guarantees();
                }

                @Override
                public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
                    return MEMORY.acquire(claim, patience);
                }

                @Override
                public Renewal renew(Collection<Grant> grants) {
                    return MEMORY.renew(grants);
                }

                @Override
                public boolean release(Claim claim) {
                    boolean unused = MEMORY.release(claim);
                    return true;
                }

                @Override
                public Optional<Grant> adopt(Grant held, Claim heir) {
                    return MEMORY.adopt(held, heir);
                }

                @Override
                public void close() {}
            };
        }
    }

    /** A broken rule is told with all that there is to know, and is the exit code. */
    @Test
    void broken() throws Exception {
        Path services = Files.createDirectories(folder.resolve("more/META-INF/services"));
        Files.writeString(services.resolve(BackendProvider.class.getName()), Boasting.class.getName());
        ProcessBuilder builder = Mortise.builder(
                processes,
                folder,
                "tck",
                "boasting://here",
                "--report",
                report().toString(),
                "--no-processes",
                "--scenarios",
                "0",
                "--quiet");
        int classPath = builder.command().indexOf("-cp") + 1;
        builder.command()
                .set(
                        classPath,
                        folder.resolve("more")
                                + File.pathSeparator
                                + builder.command().get(classPath));
        Mortise run = Mortise.start(folder, builder);
        assertThat(run.exit()).as(run.err()).isEqualTo(1);
        assertThat(run.out()).contains("rule 2.5: release MUST be idempotent", "look at:");
        assertThat(run.err()).isEmpty();
        assertThat(Files.readString(report().resolve("report.json"))).contains("\"verdict\": \"failed\"");
    }

    /** What cannot be run says why in one line, and leaves no report. */
    @Test
    void refusals() throws Exception {
        assertRefused(64, "mortise tck URI");
        assertRefused(64, "no store for the scheme nosuch", "nosuch://here");
        assertRefused(
                64,
                "--scenarios must be a whole number from 0 to 1000000, not 'many'",
                "--scenarios",
                "many",
                "etcd://here");
        assertRefused(64, "prefix must be 1 to 24", "--prefix", "a b", "etcd://here");
        assertRefused(64, "unknown option colour", "-o", "colour=" + SECRET, "redis://127.0.0.1:1");
        assertRefused(69, "redis://127.0.0.1:1", "redis://127.0.0.1:1");
    }

    private void assertRefused(int code, String part, String... arguments) throws Exception {
        Mortise run = start(arguments);
        assertThat(run.exit()).as(run.err()).isEqualTo(code);
        assertThat(run.err()).contains(part).hasLineCount(1).doesNotContain(SECRET);
        assertThat(run.out()).isEmpty();
        assertThat(report()).doesNotExist();
    }
}
