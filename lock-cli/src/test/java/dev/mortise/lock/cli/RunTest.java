package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What `mortise run` gives its command, and what it makes of the command's end. */
class RunTest {
    private final Processes processes = new Processes();

    @TempDir
    Path folder;

    @AfterEach
    void nothingIsLeft() {
        try {
            processes.awaitNone(Mortise.LONG);
            assertThat(Mortise.tmp(folder)).isEmptyDirectory();
        } finally {
            processes.close();
        }
    }

    private Mortise mortise(String... arguments) throws IOException {
        return Mortise.start(processes, folder, arguments);
    }

    private void assertFree(String name) throws Exception {
        Mortise status = mortise("status", name);
        assertThat(status.exit()).isZero();
        assertThat(status.out()).contains("is free");
    }

    /** The command knows its lock, its token and its store; the next token is larger. */
    @Test
    void whatTheCommandGets() throws Exception {
        String[] run = {"run", "demo", "--", "sh", "-c", "echo $MORTISE_TOKEN $MORTISE_LOCK $MORTISE_STORE"};
        Mortise first = mortise(run);
        assertThat(first.exit()).isZero();
        assertThat(first.err()).isEmpty();
        Mortise second = mortise(run);
        assertThat(second.exit()).isZero();
        String[] one = first.out().strip().split(" ", -1);
        String[] two = second.out().strip().split(" ", -1);
        assertThat(Long.parseLong(two[0])).isGreaterThan(Long.parseLong(one[0]));
        assertThat(one[1]).isEqualTo("demo");
        Path store = folder.resolve("state/mortise/locks.db");
        assertThat(one[2]).isEqualTo("jdbc:sqlite:" + store);
        assertThat(Files.getPosixFilePermissions(store.getParent()))
                .isEqualTo(PosixFilePermissions.fromString("rwx------"));
        assertFree("demo");
    }

    /** Arguments and names arrive byte by byte, in the locale of a cron job, too. */
    @ParameterizedTest
    @CsvSource({"C", "C.UTF-8"})
    void bytes(String locale) throws Exception {
        // Not through Java, which can not say all of them.
        List<String> words = new ArrayList<>(List.of(
                "sh",
                "-c",
                "exec \"$@\" run \"$(printf 'gr\\303\\266\\\\')\" -- sh -c 'printf \"%s|\" \"$MORTISE_LOCK\""
                        + " \"$@\"' x \"$(printf 'a\\377\\303\\274\\\\012')\" '' 'two\nlines\n' '*' '\\0303'",
                "x"));
        words.addAll(Mortise.words());
        ProcessBuilder builder = Mortise.builder(processes, folder);
        builder.command(words).environment().put("LC_ALL", locale);
        Mortise run = Mortise.start(folder, builder);
        assertThat(run.exit()).as(run.err()).isZero();
        assertThat(new String(run.outBytes(), StandardCharsets.ISO_8859_1))
                .isEqualTo("gr\u00c3\u00b6\\|a\u00ff\u00c3\u00bc\\012||two\nlines\n|*|\\0303|");
        // The same name everywhere.
        ProcessBuilder other = Mortise.builder(processes, folder, "status", "gr\u00f6\\");
        other.environment().put("LC_ALL", "C.UTF-8");
        Mortise status = Mortise.start(folder, other);
        assertThat(status.exit()).isZero();
        assertThat(status.out()).startsWith("'gr\u00f6\\' is free");
    }

    /** The exit code is the command's own. */
    @ParameterizedTest
    @CsvSource({"exit 0, 0", "exit 3, 3", "exit 255, 255", "kill -s KILL $$, 137", "kill -s USR1 $$, 138"})
    void exitCodes(String script, int code) throws Exception {
        Mortise run = mortise("run", "x", "--", "sh", "-c", script);
        assertThat(run.exit()).isEqualTo(code);
        assertThat(run.err()).isEmpty();
        assertFree("x");
    }

    @Test
    void notFound() throws Exception {
        Mortise run = mortise("run", "x", "--", "no-such-command");
        assertThat(run.exit()).isEqualTo(127);
        assertThat(run.err())
                .isEqualTo(
                        "mortise: the command 'no-such-command' was not found in any folder of PATH; check its name\n");
        Mortise path = mortise("run", "x", "--", "/no/such\u001b[1m/command");
        assertThat(path.exit()).isEqualTo(127);
        assertThat(path.err()).isEqualTo("mortise: the command '/no/such\\u001b[1m/command' does not exist\n");
        assertFree("x");
    }

    @Test
    void notExecutable() throws Exception {
        Path file = Files.createFile(folder.resolve("plain"));
        Mortise run = mortise("run", "x", "--", file.toString());
        assertThat(run.exit()).isEqualTo(126);
        assertThat(run.err()).contains("cannot be executed");
        Mortise directory = mortise("run", "x", "--", folder.toString());
        assertThat(directory.exit()).isEqualTo(126);
        assertThat(directory.err()).contains("it is a folder");
        assertFree("x");
    }

    /** Who does not get the lock in time leaves nothing behind, and says so as flock does. */
    @Test
    void conflict() throws Exception {
        Mortise holder = mortise("run", "x", "--", "sh", "-c", "echo in; sleep 100");
        holder.awaitOut("in");
        Mortise once = mortise("run", "x", "--wait", "0", "--", "echo", "never");
        Mortise patient = mortise("run", "x", "--wait", "300ms", "-E", "9", "--", "echo", "never");
        assertThat(once.exit()).isEqualTo(1);
        assertThat(once.out()).isEmpty();
        assertThat(once.err()).isEqualTo("mortise: 'x' is held by somebody else\n");
        assertThat(patient.exit()).isEqualTo(9);
        assertThat(patient.out()).isEmpty();
        Mortise status = mortise("status", "x");
        assertThat(status.exit()).isZero();
        assertThat(status.out()).contains("'x' is held by ").contains("token");
        Processes.signal("TERM", holder.pid());
        assertThat(holder.exit()).isEqualTo(143);
        assertFree("x");
    }

    /** INT, TERM and HUP reach the command as what they are, and the exit code is what the command makes of it. */
    @ParameterizedTest
    @CsvSource({"INT, 41", "TERM, 42", "HUP, 43"})
    void signals(String signal, int code) throws Exception {
        Mortise run = mortise(
                "run",
                "x",
                "--",
                "sh",
                "-c",
                "trap 'exit 41' INT; trap 'exit 42' TERM; trap 'exit 43' HUP; echo in; while :; do sleep 0.05; done");
        run.awaitOut("in");
        Processes.signal(signal, run.pid());
        assertThat(run.exit()).isEqualTo(code);
        assertThat(run.err()).doesNotContain("mortise");
        assertFree("x");
    }

    /** A command that goes on after a signal is waited for, and hears the second one, too. */
    @Test
    void twoSignals() throws Exception {
        Mortise run = mortise(
                "run",
                "x",
                "--",
                "sh",
                "-c",
                "n=0; trap 'n=$((n+1)); echo got$n; [ $n -lt 2 ] || exit 7' INT; echo in; while :; do sleep 0.05; done");
        run.awaitOut("in");
        Processes.signal("INT", run.pid());
        run.awaitOut("got1");
        Processes.signal("INT", run.pid());
        assertThat(run.exit()).isEqualTo(7);
        assertFree("x");
    }

    /** A signal while it waits ends the wait, and leaves nothing acquired. */
    @ParameterizedTest
    @CsvSource({"INT, 130", "TERM, 143", "HUP, 129"})
    void signalWhileWaiting(String signal, int code) throws Exception {
        Mortise holder = mortise("run", "x", "--", "sh", "-c", "echo in; sleep 100");
        holder.awaitOut("in");
        Mortise waiter = mortise("run", "x", "--", "echo", "never");
        await().atMost(Mortise.LONG)
                .until(() -> processes.alive().stream()
                                .filter(process -> process.line().contains("mortise-guardian guardian"))
                                .count()
                        == 2);
        Processes.signal(signal, waiter.pid());
        assertThat(waiter.exit()).isEqualTo(code);
        assertThat(waiter.out()).isEmpty();
        assertThat(waiter.err())
                .isEqualTo("mortise: ended by signal " + (code - 128) + " before the command was started\n");
        Processes.signal("TERM", holder.pid());
        assertThat(holder.exit()).isEqualTo(143);
        assertFree("x");
    }

    /** A signal that was ignored from the start stays so, for the command, too. */
    @Test
    void ignoredSignalsStayIgnored() throws Exception {
        List<String> words = new ArrayList<>(List.of("nohup"));
        words.addAll(Mortise.words("run", "x", "--", "sh", "-c", "echo in; kill -s HUP $$; sleep 1; echo out; exit 5"));
        Mortise run = Mortise.start(folder, Mortise.builder(processes, folder).command(words));
        run.awaitOut("in");
        Processes.signal("HUP", run.pid());
        assertThat(run.exit()).isEqualTo(5);
        assertThat(run.out()).contains("out");
    }

    /** What the command leaves running is ended before the lock is given back, if it does not listen, too. */
    @Test
    void leftovers() throws Exception {
        Mortise run = mortise(
                "run",
                "x",
                "--lease",
                "3s",
                "--",
                "sh",
                "-c",
                "(trap '' TERM; echo $$; while :; do sleep 0.05; done) & exec bash -c 'set -m; (trap \"\" TERM; sleep 100) & exit"
                        + " 6'");
        assertThat(run.exit()).isEqualTo(6);
        assertThat(processes.alive()).isEmpty();
        assertFree("x");
    }

    /** In the foreground the command stays in our session and group, and its code is passed on as well. */
    @Test
    void foreground() throws Exception {
        Mortise run = mortise(
                "run",
                "x",
                "--foreground",
                "--",
                "sh",
                "-c",
                "set -- $(cut -d' ' -f5,6 /proc/$$/stat /proc/$PPID/stat); echo $*; exit 4");
        assertThat(run.exit()).isEqualTo(4);
        String[] numbers = run.out().strip().split(" ", -1);
        assertThat(numbers[0]).isEqualTo(numbers[2]);
        assertThat(numbers[1]).isEqualTo(numbers[3]);
        assertFree("x");
    }

    /** TERM is passed on in the foreground, and ends nothing but the command. */
    @Test
    void foregroundTerm() throws Exception {
        Mortise run = mortise(
                "run",
                "x",
                "--foreground",
                "--",
                "sh",
                "-c",
                "trap 'exit 8' TERM; echo in; while :; do sleep 0.05; done");
        run.awaitOut("in");
        Processes.signal("TERM", run.pid());
        assertThat(run.exit()).isEqualTo(8);
        assertFree("x");
    }

    /** One name, many commands: never two at a time, and each with a larger token than the one before. */
    @Test
    void oneAfterTheOther() throws Exception {
        Path log = folder.resolve("log");
        List<Mortise> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            all.add(mortise(
                    "run",
                    "x",
                    "--",
                    "sh",
                    "-c",
                    "echo begin $MORTISE_TOKEN >>$1; sleep 0.1; echo end $MORTISE_TOKEN >>$1",
                    "x",
                    log.toString()));
        }
        for (Mortise one : all) {
            assertThat(one.exit()).as(one.err()).isZero();
        }
        long last = 0;
        List<String> lines = Files.readAllLines(log);
        assertThat(lines).hasSize(8);
        for (int i = 0; i < 8; i += 2) {
            long token = Long.parseLong(lines.get(i).substring("begin ".length()));
            assertThat(lines.get(i + 1)).isEqualTo("end " + token);
            assertThat(token).isGreaterThan(last);
            last = token;
        }
    }

    /** Commands inherit what is not ours: standard input, and their environment. */
    @Test
    void inherits() throws Exception {
        Path input = Files.writeString(folder.resolve("input"), "hello\n");
        ProcessBuilder builder = Mortise.builder(
                processes, folder, "run", "x", "--", "sh", "-c", "read a; echo $a $EXTRA; ls" + " /proc/$$/fd | wc -l");
        builder.environment().put("EXTRA", "more");
        List<String> words = new ArrayList<>(List.of("sh", "-c", "exec \"$@\" <" + input, "x"));
        words.addAll(builder.command());
        Mortise run = Mortise.start(folder, builder.command(words));
        assertThat(run.exit()).isZero();
        assertThat(run.out()).startsWith("hello more\n");
    }
}
