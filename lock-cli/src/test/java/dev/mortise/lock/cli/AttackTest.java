package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Mortise and its guardian are killed and stopped at random instants of their lives, for a while: no command outlives
 * its lock, never two run at a time, and nothing is left after the lease.
 */
class AttackTest {
    private static final int LEASE = 2;
    private static final int AT_A_TIME = 3;
    private static final Duration LENGTH = Duration.ofSeconds(Integer.getInteger("mortise.attack.seconds", 25));

    /**
     * The first number on every line is the command's token: never a smaller one than on the line before. The second is the
     * time on the machine's uptime clock, read shortly before the line was written.
     */
    private static final String COMMAND = "line() { read -r up rest </proc/uptime; echo $MORTISE_TOKEN $up >>\"$0\"; };"
            + " beat() { trap '' TERM; while :; do line; sleep 0.02; done; };"
            + " beat & line; echo in; sleep 0.5; sleep 0.$1; line";

    private final Processes processes = new Processes();
    private final Map<String, Integer> done = new TreeMap<>();
    private final List<String> story = new ArrayList<>();

    @TempDir
    Path folder;

    @AfterEach
    void endAll() {
        processes.close();
    }

    @Test
    void atRandomInstants() throws Exception {
        long seed = Long.getLong("mortise.attack.seed", System.nanoTime());
        long end = System.nanoTime() + LENGTH.toNanos();
        ExecutorService threads = Executors.newFixedThreadPool(AT_A_TIME);
        List<Future<Void>> all = new ArrayList<>();
        for (int i = 0; i < AT_A_TIME; i++) {
            Random random = new Random(seed + i);
            all.add(threads.submit((Callable<Void>) () -> {
                while (System.nanoTime() < end) {
                    attack(random);
                }
                return null;
            }));
        }
        threads.shutdown();
        for (Future<Void> one : all) {
            one.get();
        }

        processes.awaitNone(Duration.ofSeconds(LEASE + 20));
        assertThat(Mortise.tmp(folder)).isEmptyDirectory();
        long last = 0;
        int commands = 0;
        List<String> lines = Files.readAllLines(folder.resolve("log"));
        for (int i = 0; i < lines.size(); i++) {
            long token = Long.parseLong(lines.get(i).split(" ", 2)[0]);
            assertThat(token)
                    .as(
                            "seed %s: a command went on beside the next:%n%s%nand what was done:%n%s",
                            seed,
                            String.join("\n", lines.subList(Math.max(0, i - 20), Math.min(lines.size(), i + 20))),
                            String.join("\n", story))
                    .isGreaterThanOrEqualTo(last);
            commands += token > last ? 1 : 0;
            last = token;
        }
        System.out.println("seed " + seed + ": " + commands + " commands; " + done);
        assertThat(commands).isGreaterThan(1);
    }

    private void attack(Random random) throws Exception {
        Mortise mortise = Mortise.start(
                processes,
                folder,
                "run",
                "x",
                "--lease",
                LEASE + "s",
                "--",
                "sh",
                "-c",
                COMMAND,
                folder.resolve("log").toString(),
                Integer.toString(random.nextInt(10)));
        Optional<ProcessHandle> guardian = Optional.empty();
        String when;
        switch (random.nextInt(4)) {
            case 0 -> {
                when = "any time";
                Thread.sleep(random.nextInt(1500));
            }
            case 1 -> {
                // Connecting, acquiring.
                when = "guardian";
                guardian = awaitChild(mortise, 1);
                pause(random, 300);
            }
            case 2 -> {
                // Between the gate and the watch.
                when = "command";
                awaitChild(mortise, 2);
                pause(random, 30);
            }
            default -> {
                when = "running";
                awaitIn(mortise);
                pause(random, 900);
            }
        }
        if (guardian.isEmpty()) {
            guardian = child(mortise, "guardian");
        }
        String what;
        long from = Machine.uptime();
        switch (random.nextInt(6)) {
            case 0, 1, 2 -> {
                what = "kill";
                mortise.process.destroyForcibly();
            }
            case 3 -> {
                what = "stop, then kill";
                Processes.signal("STOP", mortise.pid());
                Thread.sleep(random.nextInt(LEASE * 1200));
                mortise.process.destroyForcibly();
            }
            case 4 -> {
                what = "stop and continue";
                Processes.signal("STOP", mortise.pid());
                Thread.sleep(random.nextInt(LEASE * 1200));
                Processes.signal("CONT", mortise.pid());
            }
            default -> {
                what = "kill the guardian";
                guardian.ifPresent(ProcessHandle::destroyForcibly);
            }
        }
        synchronized (done) {
            done.merge(when + ": " + what, 1, Integer::sum);
            story.add(from / 100.0 + " to " + Machine.uptime() / 100.0 + ": " + mortise.pid() + ", " + when + ": "
                    + what);
        }
        if (!mortise.process.waitFor(60, TimeUnit.SECONDS)) {
            throw new AssertionError("stuck after " + when + ": " + what + ": " + mortise.out() + mortise.err());
        }
    }

    private static void pause(Random random, int most) throws InterruptedException {
        TimeUnit.MICROSECONDS.sleep(random.nextInt(most * 1000));
    }

    private static Optional<ProcessHandle> child(Mortise mortise, String text) {
        return mortise.process
                .children()
                .filter(child -> Mortise.read(Path.of("/proc/" + child.pid() + "/cmdline"))
                        .contains(text))
                .findFirst();
    }

    private static Optional<ProcessHandle> awaitChild(Mortise mortise, int number) throws InterruptedException {
        while (mortise.process.isAlive()) {
            List<ProcessHandle> children = mortise.process.children().toList();
            if (children.size() >= number) {
                return Optional.of(children.get(0));
            }
            Thread.sleep(1);
        }
        return Optional.empty();
    }

    private static void awaitIn(Mortise mortise) throws InterruptedException {
        while (mortise.process.isAlive() && !mortise.out().contains("in")) {
            Thread.sleep(2);
        }
    }
}
