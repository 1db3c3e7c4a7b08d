package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** Processes of their own, killed without a word. Each protocol once; the kits have processes for all databases. */
@ParameterizedClass
@EnumSource(
        value = TestStore.Kind.class,
        names = {"SQLITE", "POSTGRESQL", "POSTGRESQL_ADVISORY", "MARIADB_ADVISORY"})
class ProcessTest {
    @Parameter
    TestStore.Kind kind;

    private static final int NAMES = 3;
    private static final int KILLS = TestStore.times(6, 18);

    private final History history = new History();
    private final Map<String, History.Hold> holds = new HashMap<>();
    private final int[] lines = new int[3];
    private int grants;

    /**
     * Three processes in three time zones contend for three names, are stopped for longer than their leases and go on, are
     * killed at any moment, also inside a commit, and replaced: no two leases overlap, tokens grow, and the locks of the killed come free by themselves (RT-02, RT-07, RT-11).
     */
    @Test
    void killedAtAnyMoment(@TempDir Path folder) throws Exception {
        Random random = new Random(7);
        List<String> zones = List.of("Europe/Madrid", "UTC", "Pacific/Chatham");
        try (TestStore store = kind.open(folder)) {
            LockBackend client = store.client(Duration.ofSeconds(20));
            Child[] children = new Child[lines.length];
            try {
                for (int i = 0; i < children.length; i++) {
                    children[i] = start(store, zones.get(i), "c" + i);
                }
                for (int kill = 0; kill < KILLS || grants <= 10 * KILLS; kill++) {
                    int victim = kill % children.length;
                    int told = random.nextInt(25) + 2;
                    await().pollInterval(Duration.ZERO)
                            .atMost(Duration.ofSeconds(60))
                            .until(() -> {
                                listen(children);
                                return lines[victim] >= told;
                            });
                    if (kill % 4 == 0) {
                        // Stopped for longer than its lease, perhaps inside a commit; then it goes on.
                        Child stopped = children[(victim + 1) % children.length];
                        stopped.signal("STOP");
                        long until = System.nanoTime() + 400_000_000;
                        await().pollInterval(Duration.ZERO).until(() -> {
                            listen(children);
                            return System.nanoTime() > until;
                        });
                        stopped.signal("CONT");
                    }
                    children[victim].kill();
                    drain(children[victim]);
                    lines[victim] = 0;
                    // A name is to be had, while the other processes go on.
                    Claim claim = claim("n" + kill % NAMES, Duration.ofMillis(150));
                    await().pollInterval(Duration.ofMillis(1))
                            .atMost(Duration.ofSeconds(20))
                            .until(() -> take(client, claim));
                    listen(children);
                    children[victim] = start(store, zones.get(victim), "c" + victim + "-" + kill);
                }
            } finally {
                for (Child child : children) {
                    if (child != null) {
                        child.kill();
                        drain(child);
                    }
                }
            }
            // With all of them dead: within the longest lease that they asked for.
            long start = System.nanoTime();
            for (int name = 0; name < NAMES; name++) {
                Claim claim = claim("n" + name);
                await().pollInterval(Duration.ofMillis(1))
                        .until(() -> acquire(client, claim).isPresent());
            }
            assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(2));
            if (kind == TestStore.Kind.SQLITE) {
                assertThat(store.number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"))
                        .isZero();
            }
        }
        history.check();
    }

    private boolean take(LockBackend client, Claim claim) {
        Grant grant = acquire(client, claim).orElse(null);
        if (grant == null) {
            return false;
        }
        History.Hold hold = history.begins(grant);
        hold.endsBefore(System.nanoTime());
        client.release(claim);
        return true;
    }

    private static Child start(TestStore store, String zone, String word) throws IOException {
        List<String> arguments = new ArrayList<>(List.of(word, String.valueOf(NAMES)));
        arguments.addAll(store.arguments());
        return Child.start(List.of("-Duser.timezone=" + zone), Contender.class, arguments.toArray(String[]::new));
    }

    private void listen(Child[] children) throws InterruptedException {
        for (int i = 0; i < children.length; i++) {
            String line = children[i].line(1);
            if (line != null) {
                note(line);
                lines[i]++;
            }
        }
    }

    private void drain(Child child) throws InterruptedException {
        child.rest().forEach(this::note);
    }

    private void note(String line) {
        String[] words = line.split(" ", -1);
        switch (words[0]) {
            case "READY" -> {}
            case "GRANT" -> {
                grants++;
                holds.put(
                        words[1] + words[2],
                        history.begins(
                                words[1],
                                Long.parseLong(words[2]),
                                Long.parseLong(words[3]),
                                Long.parseLong(words[4])));
            }
            case "RENEW" -> holds.get(words[1] + words[2]).renewed(Long.parseLong(words[3]));
            case "RELEASE" -> holds.get(words[1] + words[2]).endsBefore(Long.parseLong(words[3]));
            default -> {
                // The last line of one who was killed may be cut.
                assertThat("GRANT RENEW RELEASE READY").as(line).contains(words[0]);
            }
        }
    }
}
