package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The command never outlives the lock, on the default store: also with a guardian in trouble, and from a terminal. */
class OutliveTest extends Outliving {
    @Override
    List<String> store() {
        return List.of();
    }

    @Override
    void loseStore() throws IOException {
        Files.move(folder.resolve("state/mortise"), folder.resolve("away"));
    }

    @Override
    void bringStoreBack() throws IOException {
        Path store = folder.resolve("state/mortise");
        if (Files.exists(store)) {
            // Made again by who looked there.
            Files.move(store, folder.resolve("new"));
        }
        Files.move(folder.resolve("away"), store);
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
