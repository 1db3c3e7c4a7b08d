package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
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
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Each mistake gets one line that says what to do, its exit code, and shows no secret; the command does not run. */
class BadInputTest {
    /** All printable characters of ASCII, in no order that a message could have by chance. */
    private static final String SECRET =
            "p~}|{zyxwvutsrqponmlkjihgfedcba`_^]\\[ZYXWVUTSRQPONMLKJIHGFEDCBA@?>=<;:9876543210/.-,+*)('&%$#\"! q";

    private final Processes processes = new Processes();

    @TempDir
    Path folder;

    @AfterEach
    void nothingIsLeft() {
        try {
            processes.awaitNone(Mortise.LONG);
        } finally {
            processes.close();
        }
    }

    record Case(int code, String part, List<String> arguments) {
        Case(int code, String part, String... arguments) {
            this(code, part, List.of(arguments));
        }

        @Override
        public String toString() {
            String words = String.join(" ", arguments);
            return Text.visible(words.substring(0, Math.min(60, words.length())));
        }
    }

    static List<Case> cases() {
        String[] touch = {"--", "touch", "ran"};
        List<Case> cases = new ArrayList<>();
        cases.add(new Case(64, "say what to do"));
        cases.add(new Case(64, "there is no such command", "jump"));
        cases.add(new Case(64, "unknown option '--fast'", "--fast"));
        cases.add(new Case(64, "no lock is named", "run"));
        cases.add(new Case(64, "no lock is named", run(new String[] {}, touch)));
        cases.add(new Case(64, "no command is given", "run", "x"));
        cases.add(new Case(64, "no command is given", "run", "x", "--"));
        cases.add(new Case(64, "behind two dashes", "run", "x", "touch", "ran"));
        cases.add(new Case(64, "unknown option '--secret'", run(new String[] {"x", "--secret=" + SECRET}, touch)));
        cases.add(new Case(64, "one argument too many", run(new String[] {"x", SECRET}, touch)));
        cases.add(new Case(64, "--wait needs a value", run(new String[] {"x", "--wait"}, touch)));
        cases.add(new Case(64, "is given twice", run(new String[] {"x", "--wait", "1s", "--wait", "2s"}, touch)));
        for (String wait :
                List.of("-1s", "1", "1.5s", "s", "1 s", "", "\u0661s", "99999999999999999999s", "1S", "1y")) {
            cases.add(new Case(64, "wait", run(new String[] {"x", "--wait=" + wait}, touch)));
        }
        for (String lease : List.of("0", "0s", "-5s", "1999ms", "1s")) {
            cases.add(new Case(64, "lease", run(new String[] {"x", "--lease=" + lease}, touch)));
        }
        cases.add(new Case(64, "--conflict-exit-code must be", run(new String[] {"x", "-E", "256"}, touch)));
        cases.add(new Case(64, "--conflict-exit-code must be", run(new String[] {"x", "-E=-1"}, touch)));
        cases.add(new Case(64, "--conflict-exit-code must be", run(new String[] {"x", "-E", "two"}, touch)));
        cases.add(new Case(64, "NAME=VALUE", run(new String[] {"x", "-o", SECRET.replace("=", "")}, touch)));
        cases.add(new Case(64, "is given twice", run(new String[] {"x", "-o", "a=" + SECRET, "-o", "a=b"}, touch)));
        cases.add(new Case(64, "uri cannot be read", run(new String[] {"x", "--store", SECRET}, touch)));
        cases.add(new Case(
                64, "uri cannot be read", run(new String[] {"x", "--store", "redis://u:" + SECRET + "@h"}, touch)));
        cases.add(new Case(64, "name one lock", "status"));
        cases.add(new Case(64, "one argument too many", "status", "x", "y"));
        cases.add(new Case(64, "name one lock", "status", "x", "--", "y"));
        cases.add(new Case(64, "one argument too many", "stores", "x"));
        return cases;
    }

    private static String[] run(String[] head, String[] tail) {
        List<String> words = new ArrayList<>(List.of("run"));
        words.addAll(List.of(head));
        words.addAll(List.of(tail));
        return words.toArray(String[]::new);
    }

    /** In this very JVM: none of these gets far enough for a signal handler or a process. */
    @ParameterizedTest
    @MethodSource("cases")
    void arguments(Case one) {
        PrintStream before = System.err;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        int code;
        try {
            System.setErr(new PrintStream(bytes, true, StandardCharsets.UTF_8));
            code = Main.run(Arguments.of(one.arguments().toArray(String[]::new)));
        } finally {
            System.setErr(before);
        }
        assertRefused(one.code(), code, bytes.toString(StandardCharsets.UTF_8), one.part());
    }

    private static void assertRefused(int expected, int code, String err, String part) {
        assertThat(err).startsWith("mortise: ").contains(part).hasLineCount(1).endsWith("\n");
        assertThat(err).doesNotContain("Exception").doesNotContain("\tat ");
        // Any eight characters of it are too many.
        for (int i = 0; i + 8 <= SECRET.length(); i++) {
            assertThat(err).doesNotContain(SECRET.substring(i, i + 8));
        }
        assertThat(code).isEqualTo(expected);
    }

    private void assertRefused(int code, String part, ProcessBuilder builder) throws Exception {
        Path ran = folder.resolve("ran");
        Mortise run = Mortise.start(folder, builder);
        int exit = run.exit();
        assertRefused(code, exit, run.err(), part);
        assertThat(ran).doesNotExist();
        assertThat(run.out()).isEmpty();
    }

    private ProcessBuilder run(String... options) {
        return Mortise.builder(processes, folder, run(options, new String[] {
            "--", "touch", folder.resolve("ran").toString()
        }));
    }

    @Test
    void names() throws Exception {
        assertRefused(64, "name must not be empty", run(""));
        assertRefused(64, "more than 512", run("n".repeat(513)));
        assertRefused(64, "more than 512", run("\u00fc".repeat(257)));
    }

    /** A name that is not UTF-8, which Java cannot even say. */
    @Test
    void nameOfOtherBytes() throws Exception {
        ProcessBuilder builder = run();
        List<String> words = new ArrayList<>(
                List.of("sh", "-c", "exec \"$@\" run \"$(printf 'a\\377')\" -- touch " + folder.resolve("ran"), "x"));
        words.addAll(Mortise.words());
        assertRefused(64, "argument 2 is not UTF-8", builder.command(words));
    }

    /** Odd names are names, and are printed so that they do no harm. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "a b",
                "{a}/../%s\\",
                "\u202egnp",
                "\ud83d\udd12",
                "\u001b[31m",
                "-x",
                "@file",
                "--",
                "$(touch ran)",
                "\n"
            })
    void oddNames(String name) throws Exception {
        ProcessBuilder builder = Mortise.builder(
                processes, folder, "run", "--", name, "--", "sh", "-c", "printf '<%s>' \"$MORTISE_LOCK\"; \"$@\"", "x");
        List<String> inner = Mortise.words("run", "--wait", "0", "--", name, "--", "true");
        List<String> words = new ArrayList<>(builder.command());
        words.addAll(inner);
        builder.environment().put("LC_ALL", "C.UTF-8");
        Mortise run = Mortise.start(folder, builder.command(words));
        assertThat(run.exit()).isEqualTo(1);
        assertThat(run.out()).isEqualTo("<" + name + ">");
        assertThat(run.err())
                .hasLineCount(1)
                .contains("is held by somebody else")
                .doesNotContain("\u001b", "\u202e");
    }

    /** 512 bytes are a name. */
    @Test
    void longestName() throws Exception {
        ProcessBuilder builder = Mortise.builder(processes, folder, "run", "\u00fc".repeat(256), "--", "true");
        Mortise run = Mortise.start(folder, builder);
        assertThat(run.exit()).as(run.err()).isZero();
    }

    @Test
    void stores() throws Exception {
        assertRefused(
                64,
                "no store for the scheme nosuch; found: etcd, etcds, jdbc:h2, jdbc:mariadb, jdbc:postgresql, jdbc:sqlite",
                run("x", "--store", "nosuch://host"));
        assertRefused(64, "strategy", run("x", "--store", "jdbc:postgresql://no.such.host/db", "-o", "strategy=queue"));
        assertRefused(64, "unknown option colour", run("x", "-o", "colour=" + SECRET));
        assertRefused(64, "longer than", run("x", "--lease", "999999999d"));
        ProcessBuilder password = run("x", "--store", "jdbc:sqlite:" + folder + "/a.db");
        password.environment().put("MORTISE_PASSWORD", SECRET);
        Mortise ignored = Mortise.start(folder, password);
        assertThat(ignored.exit()).as(ignored.err()).isZero();
        assertThat(ignored.err()).isEmpty();
        Files.delete(folder.resolve("ran"));
        assertRefused(64, "user and password mean nothing", run("x", "-o", "password=" + SECRET));
        ProcessBuilder uri = run("x");
        uri.environment().put("MORTISE_STORE", "nosuch://u:" + SECRET + "@host");
        assertRefused(64, "uri cannot be read", uri);
    }

    @Test
    void files() throws Exception {
        Path plain = Files.writeString(folder.resolve("plain"), "This is no database. ".repeat(100));
        assertRefused(69, "plain", run("x", "--store", "jdbc:sqlite:" + plain));
        assertRefused(69, "no/such", run("x", "--store", "jdbc:sqlite:" + folder + "/no/such/a.db"));
        assertRefused(69, folder.toString(), run("x", "--store", "jdbc:sqlite:" + folder));

        ProcessBuilder state = run("x");
        state.environment().put("XDG_STATE_HOME", plain.toString());
        assertRefused(69, "cannot be made", state);
        ProcessBuilder question = run("x");
        question.environment().put("XDG_STATE_HOME", folder + "/what?");
        assertRefused(64, "has a ?", question);
        ProcessBuilder homeless = run("x");
        homeless.environment().remove("XDG_STATE_HOME");
        homeless.environment().remove("HOME");
        assertRefused(64, "HOME is not set", homeless);
        ProcessBuilder relative = run("x");
        relative.environment().put("XDG_STATE_HOME", "state");
        relative.environment().put("HOME", plain.toString());
        assertRefused(69, "plain/.local/state/mortise", relative);
    }

    @Test
    void readOnlyFolder() throws Exception {
        Path closed = Files.createDirectory(folder.resolve("closed"));
        Files.setPosixFilePermissions(closed, PosixFilePermissions.fromString("r-xr-xr-x"));
        if (Files.isWritable(closed)) {
            // To root no folder of a disk is; but nobody makes files there.
            closed = Path.of("/proc");
        }
        ProcessBuilder builder = run("x");
        builder.environment().put("XDG_STATE_HOME", closed.toString());
        assertRefused(69, "cannot be made", builder);
        assertRefused(69, "its folder", run("x", "--store", "jdbc:sqlite:" + closed + "/a.db"));
    }

    /** A folder of another file system that is full. */
    @Test
    void fullFolder() throws Exception {
        Path full = Files.createDirectory(folder.resolve("full"));
        Process mount = new ProcessBuilder("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", full.toString())
                .redirectErrorStream(true)
                .start();
        mount.getInputStream().readAllBytes();
        assumeTrue(mount.waitFor() == 0, "only root can mount");
        try {
            fill(full);
            assertRefused(69, "full", run("x", "--store", "jdbc:sqlite:" + full + "/a.db"));
        } finally {
            new ProcessBuilder("umount", "-l", full.toString()).start().waitFor();
        }
    }

    private static void fill(Path folder) {
        try {
            Files.write(folder.resolve("filler"), new byte[1 << 16]);
        } catch (IOException e) {
            // Full.
        }
    }

    /** With MORTISE_DEBUG the stack is shown, and still no secret. */
    @Test
    void debug() throws Exception {
        ProcessBuilder builder = run("x", "-o", "colour=" + SECRET);
        builder.environment().put("MORTISE_DEBUG", "1");
        Mortise run = Mortise.start(folder, builder);
        assertThat(run.exit()).isEqualTo(64);
        assertThat(run.err()).contains("\tat ").doesNotContain(SECRET);
    }
}
