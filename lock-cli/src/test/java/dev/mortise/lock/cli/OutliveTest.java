package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The command never outlives the lock. In each test the holder suffers something, while another mortise waits for the
 * same lock: the other is in within the lease and two seconds, with a larger token, and finds nobody of the first command
 * alive, grandchildren that ignore TERM included.
 */
class OutliveTest {
    private static final int LEASE = 4;

    /** Every process of the first command writes its token again and again, so that one that outlives it is seen. */
    private static final String STUBBORN =
            "beat() { trap '' TERM; while :; do echo $MORTISE_TOKEN >>\"$0\"; sleep 0.05; done; };"
                    + " beat & (beat & sleep 100) & echo in $MORTISE_TOKEN; wait; sleep 100";

    /** The second command looks first of all who is there. */
    private static final String NEXT =
            "grep -lzx MORTISE_TOKEN=$(head -n 1 \"$0\") /proc/[0-9]*/environ 2>/dev/null >\"$1\"; echo $MORTISE_TOKEN >>\"$0\"; read up rest"
                    + " </proc/uptime; echo at $up token $MORTISE_TOKEN; exec sleep 0.5";

    private final Processes processes = new Processes();

    @TempDir
    Path folder;

    @AfterEach
    void nothingIsLeft() throws Exception {
        try {
            processes.awaitNone(Duration.ofSeconds(LEASE + 30));
            assertThat(Mortise.tmp(folder)).isEmptyDirectory();
            long last = 0;
            for (String line : Files.readAllLines(log())) {
                long token = Long.parseLong(line);
                assertThat(token).as("a command has gone on beside the next").isGreaterThanOrEqualTo(last);
                last = token;
            }
        } finally {
            processes.close();
        }
    }

    private Path log() {
        return folder.resolve("log");
    }

    private Path seen() {
        return folder.resolve("seen");
    }

    private ProcessBuilder holder(String... options) {
        Stream<String> words = Stream.of(
                        Stream.of("run", "x", "--lease", LEASE + "s"),
                        Stream.of(options),
                        Stream.of("--", "sh", "-c", STUBBORN, log().toString()))
                .flatMap(some -> some);
        ProcessBuilder builder = Mortise.builder(processes, folder, words.toArray(String[]::new));
        builder.environment().put("FIRST", "yes");
        return builder;
    }

    private Mortise start(ProcessBuilder builder) throws IOException {
        Mortise holder = Mortise.start(folder, builder);
        holder.awaitOut("in ");
        return holder;
    }

    private Mortise next() throws IOException {
        return Mortise.start(
                processes,
                folder,
                "run",
                "x",
                "--lease",
                LEASE + "s",
                "--",
                "sh",
                "-c",
                NEXT,
                log().toString(),
                seen().toString());
    }

    /** @param since when the holder suffered, on the uptime clock */
    private void assertHandedOver(Mortise holder, Mortise next, long since) throws Exception {
        assertThat(next.exit()).as(next.err()).isZero();
        List<String> at = List.of(next.out().strip().split(" ", -1));
        long uptime = Long.parseLong(at.get(1).replace(".", ""));
        assertThat(uptime - since).isLessThanOrEqualTo((LEASE + 2) * 100L);
        assertThat(Long.parseLong(at.get(3))).isGreaterThan(token(holder.out()));
        assertThat(seen()).as("still alive when the next command began").isEmptyFile();
    }

    private static long token(String out) {
        Matcher in = Pattern.compile("in (\\d+)").matcher(out);
        assertThat(in.find()).as(out).isTrue();
        return Long.parseLong(in.group(1));
    }

    /** The waiting one is at the store when the first one suffers. */
    private Mortise waiting() throws Exception {
        Mortise next = next();
        await().atMost(Mortise.LONG)
                .until(() -> ProcessHandle.of(next.pid()).stream()
                        .flatMap(ProcessHandle::children)
                        .anyMatch(ProcessHandle::isAlive));
        return next;
    }

    @Test
    void killed() throws Exception {
        Mortise holder = start(holder());
        Mortise next = waiting();
        long since = Machine.uptime();
        Processes.signal("KILL", holder.pid());
        assertHandedOver(holder, next, since);
    }

    /** Stopped, and continued when the lock is somebody else's: it says that the lock was lost. */
    @Test
    void stopped() throws Exception {
        Mortise holder = start(holder());
        Mortise next = waiting();
        long since = Machine.uptime();
        Processes.signal("STOP", holder.pid());
        assertHandedOver(holder, next, since);
        Processes.signal("CONT", holder.pid());
        assertThat(holder.exit()).isEqualTo(75);
        assertThat(holder.err())
                .startsWith("mortise: the lock 'x' was lost while the command ran")
                .hasLineCount(1);
    }

    /** The whole machine seems to stand still for mortise and guardian; their watch alone goes on. */
    @Test
    void stoppedWithItsGuardian() throws Exception {
        Mortise holder = start(holder());
        Mortise next = waiting();
        long since = Machine.uptime();
        Processes.signal("STOP", guardian(holder).pid());
        Processes.signal("STOP", holder.pid());
        assertHandedOver(holder, next, since);
        Processes.signal("CONT", holder.pid());
        assertThat(holder.exit()).isEqualTo(75);
    }

    private static ProcessHandle guardian(Mortise holder) {
        return ProcessHandle.of(holder.pid())
                .orElseThrow()
                .children()
                .filter(child -> Mortise.read(Path.of("/proc/" + child.pid() + "/cmdline"))
                        .contains("guardian"))
                .findFirst()
                .orElseThrow();
    }

    /** Without a guardian there is no command: mortise kills it at once, and only then gives the lock back. */
    @Test
    void guardianKilled() throws Exception {
        Mortise holder = start(holder());
        Mortise next = waiting();
        long since = Machine.uptime();
        guardian(holder).destroyForcibly();
        assertHandedOver(holder, next, since);
        assertThat(holder.exit()).isEqualTo(70);
        assertThat(holder.err())
                .isEqualTo("mortise: the guardian of the command was killed, and the command was ended\n");
    }

    /** Both killed: a limit by the manual, and yet their watch ends the command. */
    @Test
    void killedWithItsGuardian() throws Exception {
        Mortise holder = start(holder());
        Mortise next = waiting();
        long since = Machine.uptime();
        ProcessHandle guardian = guardian(holder);
        Processes.signal("STOP", holder.pid());
        guardian.destroyForcibly();
        Processes.signal("KILL", holder.pid());
        assertHandedOver(holder, next, since);
    }

    /** No renewal comes through: the command is ended in time, and the exit code says why. */
    @Test
    void storeUnreachable() throws Exception {
        Mortise holder = start(holder());
        Path store = folder.resolve("state/mortise");
        Path away = folder.resolve("away");
        long since = Machine.uptime();
        Files.move(store, away);
        assertThat(holder.exit()).as(holder.err()).isEqualTo(75);
        long gone = Machine.uptime();
        processes.awaitNone(Duration.ofSeconds(LEASE), "FIRST=yes");
        assertThat(gone - since).isLessThan((LEASE + 2) * 100L);
        assertThat(holder.err()).startsWith("mortise: the lock 'x' was lost while the command ran");
        if (Files.exists(store)) {
            // Made again by who looked there.
            Files.move(store, folder.resolve("new"));
        }
        Files.move(away, store);
        Mortise next = next();
        assertThat(next.exit()).as(next.err()).isZero();
        assertThat(seen()).isEmptyFile();
        assertThat(Long.parseLong(next.out().strip().split(" ", -1)[3])).isGreaterThan(token(holder.out()));
    }

    /** A shell with job control on a terminal of its own, to type into. */
    private final class Terminal {
        private final Mortise script;
        private final OutputStream keys;

        Terminal() throws IOException {
            ProcessBuilder builder = Mortise.builder(processes, folder);
            // Not the test's own input: what is typed comes through a pipe.
            builder.command("sh", "-c", "exec script -qfc 'bash --norc --noprofile -i' /dev/null <\"$0\"", pipe());
            builder.environment().put("TERM", "dumb");
            script = Mortise.start(folder, builder);
            keys = Files.newOutputStream(Path.of(pipe()));
        }

        private String pipe() throws IOException {
            Path pipe = folder.resolve("keys");
            if (!Files.exists(pipe)) {
                try {
                    new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor();
                } catch (InterruptedException e) {
                    throw new IOException(e);
                }
            }
            return pipe.toString();
        }

        void type(String text) throws IOException {
            keys.write(text.getBytes(StandardCharsets.UTF_8));
            keys.flush();
        }

        void typeCommand(ProcessBuilder builder) throws IOException {
            StringBuilder line = new StringBuilder("FIRST=yes");
            for (String word : builder.command()) {
                line.append(" '").append(word.replace("'", "'\\''")).append('\'');
            }
            // Through a file: a terminal takes no long lines.
            Path file = Files.writeString(folder.resolve("line"), line + "\n");
            type(". " + file + "\n");
        }

        void end() throws Exception {
            type("\nexit\n");
            keys.close();
            script.exit();
        }
    }

    private long mortisePid() {
        return processes.alive("FIRST=yes").stream()
                .filter(process -> process.line().contains("dev.mortise.lock.cli.Main"))
                .findFirst()
                .orElseThrow()
                .pid();
    }

    /** Ctrl-Z stops mortise alone; its command is ended in time, and `fg` says that the lock was lost. */
    @Test
    void controlZ() throws Exception {
        Terminal terminal = new Terminal();
        terminal.typeCommand(holder());
        terminal.script.awaitOut("in ");
        long mortise = mortisePid();
        Mortise next = waiting();
        long since = Machine.uptime();
        terminal.type("\u001a");
        await().atMost(Mortise.LONG).until(() -> Processes.state(mortise) == 'T');
        assertHandedOver(terminal.script, next, since);
        terminal.type("fg\necho code=$?.\n");
        terminal.script.awaitOut("code=75.");
        terminal.end();
    }

    /** Ctrl-C reaches the command once, as INT; it may take its time, and a second one works, too. */
    @Test
    void controlC() throws Exception {
        Terminal terminal = new Terminal();
        terminal.typeCommand(
                Mortise.builder(
                        processes,
                        folder,
                        "run",
                        "x",
                        "--",
                        "sh",
                        "-c",
                        "n=0; trap 'n=$((n+1)); echo got-$n; [ $n -lt 2 ] || exit 9' INT; echo in 1; while :; do sleep 0.05; done"));
        Files.createFile(log());
        terminal.script.awaitOut("in 1");
        terminal.type("\u0003");
        terminal.script.awaitOut("got-1");
        terminal.type("\u0003");
        terminal.script.awaitOut("got-2");
        terminal.type("echo code=$?.\n");
        terminal.script.awaitOut("code=9.");
        terminal.end();
    }

    /** In the foreground Ctrl-C reaches the command directly, and once. */
    @Test
    void controlCInTheForeground() throws Exception {
        Terminal terminal = new Terminal();
        terminal.typeCommand(Mortise.builder(
                processes,
                folder,
                "run",
                "x",
                "--foreground",
                "--",
                "sh",
                "-c",
                "n=0; trap 'n=$((n+1)); echo got-$n' INT; trap 'exit $((n+10))' TERM; echo in 1; while :; do sleep 0.05;"
                        + " done"));
        Files.createFile(log());
        terminal.script.awaitOut("in 1");
        terminal.type("\u0003");
        terminal.script.awaitOut("got-1");
        Processes.signal("TERM", mortisePid());
        terminal.type("echo code=$?.\n");
        terminal.script.awaitOut("code=11.");
        terminal.end();
    }

    /** In the foreground Ctrl-Z stops the command, too; it is ended in time all the same. */
    @Test
    void controlZInTheForeground() throws Exception {
        Terminal terminal = new Terminal();
        terminal.typeCommand(Mortise.builder(
                processes,
                folder,
                "run",
                "x",
                "--foreground",
                "--lease",
                LEASE + "s",
                "--",
                "sh",
                "-c",
                "trap '' TERM; echo $MORTISE_TOKEN >>\"$0\"; echo in $MORTISE_TOKEN; while :; do read -r line </proc/uptime; done",
                log().toString()));
        terminal.script.awaitOut("in ");
        long mortise = mortisePid();
        Mortise next = waiting();
        long since = Machine.uptime();
        terminal.type("\u001a");
        await().atMost(Mortise.LONG).until(() -> Processes.state(mortise) == 'T');
        assertThat(next.exit()).isZero();
        assertThat(Long.parseLong(next.out().split(" ", -1)[1].replace(".", "")) - since)
                .isLessThanOrEqualTo((LEASE + 2) * 100L);
        terminal.type("fg\necho code=$?.\n");
        terminal.script.awaitOut("code=75.");
        terminal.end();
    }
}
