package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** The guardian's protocol, line by line, without a JVM beside it; in the two shells that are `sh` nearly everywhere. */
@ParameterizedClass
@ValueSource(strings = {"dash", "bash"})
class GuardianScriptTest {
    /** Hundredths of a second. */
    private static final long GRACE = 60;

    /**
     * What a machine may be late by that has ten times more to do than it can. The grace here is a third of the shortest
     * that users have; that real leases are kept is shown by {@link OutliveTest} and {@link AttackTest}.
     */
    private static final long NOISE = 50;

    private static final Duration SOON = Duration.ofSeconds(10);

    private final Processes processes = new Processes();
    private final BlockingQueue<String> said = new LinkedBlockingQueue<>();

    @Parameter
    String shell;

    @TempDir
    Path folder;

    private Path temporary;
    private Process guardian;
    private OutputStream in;
    private Process command;
    private String script = Script.read("guardian.sh");
    /** As another user, say. */
    private List<String> prefix = List.of();

    @BeforeEach
    void start() throws Exception {
        String path = program(shell);
        assertThat(path).as("run: apt-get install " + shell).isNotNull();
        Files.copy(
                Path.of(path),
                Files.createDirectory(folder.resolve("bin")).resolve("sh"),
                StandardCopyOption.COPY_ATTRIBUTES);
        temporary = Files.createDirectory(folder.resolve("tmp"));
        start(guardian(temporary));
    }

    private void start(Process started) throws Exception {
        guardian = started;
        in = guardian.getOutputStream();
        Thread reader = new Thread(() -> {
            try (BufferedReader lines =
                    new BufferedReader(new InputStreamReader(started.getInputStream(), StandardCharsets.US_ASCII))) {
                lines.lines().forEach(said::add);
            } catch (IOException | java.io.UncheckedIOException e) {
                // Closed.
            }
        });
        reader.setDaemon(true);
        reader.start();
        assertThat(said.poll(10, TimeUnit.SECONDS)).isEqualTo("ready");
    }

    @AfterEach
    void endAll() {
        processes.close();
    }

    private static String program(String name) {
        for (String folder : List.of("/bin", "/usr/bin")) {
            if (Files.isExecutable(Path.of(folder, name))) {
                return folder + "/" + name;
            }
        }
        return null;
    }

    private void put(ProcessBuilder builder) {
        List<String> words = new ArrayList<>(prefix);
        words.addAll(builder.command());
        builder.command(words);
        builder.environment().merge("PATH", folder.resolve("bin").toString(), (before, bin) -> bin + ":" + before);
    }

    private Process guardian(Path temporary) throws IOException {
        ProcessBuilder builder = processes.mark(new ProcessBuilder(
                        "setsid",
                        "sh",
                        "-c",
                        "eval \"$MORTISE_GUARDIAN\"",
                        "mortise-guardian",
                        "guardian",
                        Long.toString(GRACE))
                .redirectErrorStream(true));
        builder.environment().put("MORTISE_GUARDIAN", script);
        builder.environment().put("TMPDIR", temporary.toString());
        put(builder);
        return builder.start();
    }

    private void say(String line) throws IOException {
        in.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
        in.flush();
    }

    private String answer() throws InterruptedException {
        return said.poll(10, TimeUnit.SECONDS);
    }

    /** A command of sh at the gate, that adds lines to {@code out}. */
    private void command(boolean alone, String script) throws IOException {
        List<String> words = new ArrayList<>();
        if (!alone) {
            words.add("setsid");
        }
        words.addAll(List.of(
                "sh",
                "-c",
                Script.read("command.sh"),
                "mortise",
                "/proc/" + guardian.pid() + "/fd/3",
                "plain",
                "sh",
                "-c",
                script,
                "command",
                out().toString()));
        ProcessBuilder builder = processes.mark(new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("noise").toFile()));
        builder.environment().put("ROLE", "command");
        put(builder);
        command = builder.start();
    }

    private Path out() {
        return folder.resolve("out");
    }

    private String written() throws IOException {
        return Files.exists(out()) ? Files.readString(out()) : "";
    }

    private void awaitWritten(String text) {
        await().atMost(SOON)
                .pollInterval(Duration.ofMillis(5))
                .until(() -> written().contains(text));
    }

    private void group(String reach) throws IOException {
        say("group " + command.pid() + " " + Machine.stat(command.pid()).born + " " + reach);
    }

    /** Lets a command run under a lease that ends then. */
    private long run(long hundredths, String script) throws IOException {
        command(false, script);
        long end = Machine.uptime() + hundredths;
        say("end " + end);
        group("all");
        awaitWritten("running");
        return end;
    }

    /** @return when the last process of the command was gone */
    private long awaitCommandGone() throws IOException {
        processes.awaitNone(SOON, "ROLE=command");
        return Machine.uptime();
    }

    private static final String STUBBORN =
            "trap '' TERM; (trap '' TERM HUP; echo running >>$1; sleep 100; sleep 100) & "
                    + "sleep 100; sleep 100; wait";

    /** The command does not run before the guardian keeps watch. */
    @Test
    void nothingRunsBeforeTheGateIsOpened() throws Exception {
        command(false, "echo running >>$1; sleep 100");
        // At the gate: it has read what it is, and waits.
        await().atMost(SOON).until(() -> Files.exists(Path.of("/proc/" + command.pid() + "/fd/4")));
        assertThat(written()).isEmpty();
        say("end " + (Machine.uptime() + 1000));
        assertThat(written()).isEmpty();
        group("all");
        awaitWritten("running");
        assertThat(Path.of("/proc/" + command.pid() + "/fd/4")).doesNotExist();
        assertThat(Path.of("/proc/" + command.pid() + "/fd/3")).doesNotExist();
    }

    /** If mortise is gone before the guardian knows the command, it never runs, and nothing is left. */
    @Test
    void endOfFileBeforeTheCommandIsKnown() throws Exception {
        command(false, "echo running >>$1; sleep 100");
        say("end " + (Machine.uptime() + 1000));
        in.close();
        assertThat(command.waitFor(10, TimeUnit.SECONDS)).isTrue();
        assertThat(guardian.waitFor(10, TimeUnit.SECONDS)).isTrue();
        assertThat(command.exitValue()).isNotZero();
        assertThat(written()).isEmpty();
        processes.awaitNone(SOON);
        assertThat(folder.resolve("noise")).isEmptyFile();
    }

    /** If the guardian is killed, what waits at the gate never runs; what comes to the gate later does not wait. */
    @Test
    void aKilledGuardianOpensNoGate() throws Exception {
        command(false, "echo running >>$1; sleep 100");
        Process first = command;
        await().atMost(SOON).until(() -> Files.exists(Path.of("/proc/" + first.pid() + "/fd/4")));
        guardian.destroyForcibly();
        assertThat(first.waitFor(10, TimeUnit.SECONDS)).isTrue();
        command(false, "echo running >>$1; sleep 100");
        assertThat(command.waitFor(10, TimeUnit.SECONDS)).isTrue();
        assertThat(written()).isEmpty();
        processes.awaitNone(SOON);
    }

    /** TERM comes at end - grace, KILL at end - grace/3, for grandchildren that ignore TERM, too. */
    @Test
    void allIsGoneBeforeTheEnd() throws Exception {
        long end = run(200, STUBBORN);
        assertThat(answer()).isEqualTo("ended");
        assertThat(Machine.uptime()).isGreaterThanOrEqualTo(end - GRACE);
        long gone = awaitCommandGone();
        assertThat(gone).isBetween(end - GRACE / 3, end + NOISE);
        assertThat(command.waitFor()).isEqualTo(128 + 9);
    }

    /** A command that hears TERM has the time from then to KILL for its own end. */
    @Test
    void termComesFirst() throws Exception {
        long end = run(200, "trap 'echo term >>$1; exit 3' TERM; echo running >>$1; while :; do sleep 0.01; done");
        assertThat(command.waitFor()).isEqualTo(3);
        assertThat(Machine.uptime()).isBetween(end - GRACE, end - GRACE / 3 + NOISE);
        assertThat(written()).contains("term");
    }

    /** A stopped command hears TERM as well. */
    @Test
    void stoppedCommandHearsTerm() throws Exception {
        run(
                200,
                "trap 'echo term >>$1; exit 3' TERM; echo running >>$1; kill -s STOP $$; while :; do sleep 0.01; done");
        assertThat(command.waitFor()).isEqualTo(3);
    }

    /** Each confirmed renewal moves the end; the last one counts. */
    @Test
    void renewalsMoveTheEnd() throws Exception {
        long first = run(150, STUBBORN);
        long end = first;
        for (int i = 0; i < 4; i++) {
            end += 50;
            say("end " + end);
        }
        assertThat(answer()).isEqualTo("ended");
        assertThat(Machine.uptime()).isGreaterThanOrEqualTo(end - GRACE);
        assertThat(awaitCommandGone()).isBetween(end - GRACE / 3, end + NOISE);
    }

    /** What is written while the guardian is stopped does not grow younger in the pipe. */
    @Test
    void endsAreAbsolute() throws Exception {
        Processes.signal("STOP", guardian.pid());
        command(false, STUBBORN);
        say("end " + (Machine.uptime() + GRACE + 50));
        group("all");
        long late = Machine.uptime() + 60;
        await().atMost(SOON).until(() -> Machine.uptime() > late);
        Processes.signal("CONT", guardian.pid());
        assertThat(answer()).isEqualTo("ended");
        awaitCommandGone();
        assertThat(written()).isEmpty();
    }

    /** A stopped guardian ends the command in time: it cannot hear of renewals, and does not go on without them. */
    @Test
    void aStoppedGuardianEndsTheCommand() throws Exception {
        long end = run(200, STUBBORN);
        Processes.signal("STOP", guardian.pid());
        say("end " + (end + 1000));
        assertThat(awaitCommandGone()).isLessThan(end + NOISE);
    }

    /** So does a killed one, by the last end that it knew. */
    @Test
    void theWatchOutlivesItsGuardian() throws Exception {
        long end = run(200, STUBBORN);
        guardian.destroyForcibly();
        assertThat(awaitCommandGone()).isBetween(end - GRACE / 3, end + NOISE);
        processes.awaitNone(SOON);
    }

    private Processes.Found watch() {
        return processes.alive().stream()
                .filter(process -> process.line().contains("mortise-guardian watch"))
                .findFirst()
                .orElseThrow();
    }

    /** Without its watch the guardian gives up at the next renewal, and the command with it. */
    @Test
    void aKilledWatchIsNoticed() throws Exception {
        long end = run(300, STUBBORN);
        long watch = watch().pid();
        Processes.signal("KILL", watch);
        await().atMost(SOON).until(() -> "ZX".indexOf(Processes.state(watch)) >= 0);
        say("end " + (end + 1000));
        assertThat(guardian.waitFor(10, TimeUnit.SECONDS)).isTrue();
        assertThat(guardian.exitValue()).isNotZero();
        assertThat(awaitCommandGone()).isLessThan(end - GRACE);
    }

    /** The clock decides, not the sleep. */
    @Test
    void aKilledSleepIsSleptAgain() throws Exception {
        long end = run(250, STUBBORN);
        for (int i = 0; i < 5; i++) {
            processes.alive().stream()
                    .filter(process -> process.line().matches("sleep [01]\\..*"))
                    .forEach(process -> Processes.signal("KILL", process.pid()));
        }
        assertThat(answer()).isEqualTo("ended");
        assertThat(Machine.uptime()).isGreaterThanOrEqualTo(end - GRACE);
        awaitCommandGone();
    }

    /** When mortise is gone, TERM comes at once and KILL after the grace, long before the end. */
    @Test
    void endOfFileEndsTheCommand() throws Exception {
        long end = run(2000, STUBBORN);
        long closed = Machine.uptime();
        in.close();
        assertThat(awaitCommandGone()).isBetween(closed + GRACE, Math.min(closed + GRACE + 500, end - GRACE));
        assertThat(guardian.waitFor(10, TimeUnit.SECONDS)).isTrue();
        processes.awaitNone(SOON);
    }

    /** It does not wait for KILL when all have heard TERM. */
    @Test
    void endOfFileIsQuickForCommandsThatHearTerm() throws Exception {
        long end = run(2000, "trap 'echo term >>$1; exit 3' TERM; echo running >>$1; while :; do sleep 0.01; done");
        in.close();
        assertThat(command.waitFor()).isEqualTo(3);
        assertThat(guardian.waitFor(10, TimeUnit.SECONDS)).isTrue();
        assertThat(Machine.uptime()).isLessThan(end + NOISE);
        processes.awaitNone(SOON);
    }

    /** When mortise is gone and the end is nearer than the grace, KILL does not wait for the grace. */
    @Test
    void endOfFileShortBeforeTheEnd() throws Exception {
        long end = run(150, STUBBORN);
        await().atMost(SOON).pollInterval(Duration.ofMillis(5)).until(() -> Machine.uptime() >= end - GRACE - 10);
        in.close();
        assertThat(awaitCommandGone()).isLessThanOrEqualTo(end + NOISE);
    }

    /** To look for the command's processes takes a program or two, and each takes long where there is much to do. */
    private void slowLooks() throws IOException {
        Path cat = Files.writeString(
                folder.resolve("bin").resolve("cat"), "#!/bin/sh\n/bin/sleep 4\nexec /bin/cat \"$@\"\n");
        Files.setPosixFilePermissions(cat, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    @Test
    void slowLooksDoNotDelayTheKill() throws Exception {
        slowLooks();
        long end = run(200, STUBBORN);
        assertThat(awaitCommandGone()).isLessThan(end + NOISE);
    }

    @Test
    void slowLooksDoNotDelayTheKillAfterEndOfFile() throws Exception {
        slowLooks();
        long end = run(200, STUBBORN);
        in.close();
        assertThat(awaitCommandGone()).isLessThan(end + NOISE);
    }

    /** What a shell with job control has put into groups of its own belongs to the command, too. */
    @Test
    void otherGroupsOfTheSession() throws Exception {
        long end = run(
                200,
                "exec bash -c 'set -m; (trap \"\" TERM; sleep 100; sleep 100) & trap \"\" TERM; echo running >>$1;"
                        + " sleep 100; sleep 100' bash $1");
        say("sweep 0");
        String left = answer();
        assertThat(left).startsWith("left ");
        assertThat(left.split(" ", -1)).hasSizeGreaterThanOrEqualTo(4);
        assertThat(answer()).isEqualTo("ended");
        assertThat(awaitCommandGone()).isLessThanOrEqualTo(end + NOISE);
    }

    /** `sweep` names those that are left, and with a signal ends them; others stay untouched. */
    @Test
    void sweep() throws Exception {
        run(2000, "sleep 100 & sleep 101 & echo running >>$1");
        command.waitFor();
        Process stranger =
                processes.mark(new ProcessBuilder("setsid", "sleep", "100")).start();
        say("sweep 0");
        assertThat(answer().split(" ", -1)).hasSize(3);
        say("sweep TERM");
        assertThat(answer()).startsWith("left");
        await().atMost(SOON).until(() -> {
            say("sweep 0");
            return answer().equals("left");
        });
        assertThat(stranger.isAlive()).isTrue();
        assertThat(said).isEmpty();
    }

    /** `done` ends guardian and watch, and nothing else. */
    @Test
    void done() throws Exception {
        run(2000, "echo running >>$1; sleep 100");
        say("done");
        assertThat(guardian.waitFor(10, TimeUnit.SECONDS)).isTrue();
        assertThat(guardian.exitValue()).isZero();
        await().atMost(SOON)
                .until(() -> processes.alive().stream()
                        .noneMatch(process -> process.line().contains("guardian")));
        assertThat(processes.alive()).hasSizeBetween(1, 2).isEqualTo(processes.alive("ROLE=command"));
        assertThat(said).isEmpty();
    }

    /** `done` before there was a command. */
    @Test
    void doneWithoutCommand() throws Exception {
        say("done");
        assertThat(guardian.waitFor(10, TimeUnit.SECONDS)).isTrue();
        processes.awaitNone(SOON);
    }

    /** Signals reach the command's group as what they are. */
    @Test
    void signals() throws Exception {
        run(
                2000,
                "trap 'echo int >>$1' INT; trap 'echo hup >>$1' HUP; (trap 'echo child >>$1; exit' INT; echo running >>$1;"
                        + " while :; do sleep 0.01; done); while :; do sleep 0.01; done");
        say("signal INT");
        awaitWritten("int");
        awaitWritten("child");
        say("signal HUP");
        awaitWritten("hup");
    }

    /** A process that has got the command's number later is not touched. */
    @Test
    void strangersAreNotTouched() throws Exception {
        Process stranger =
                processes.mark(new ProcessBuilder("setsid", "sleep", "100")).start();
        await().atMost(SOON).until(() -> Machine.stat(stranger.pid()).session == stranger.pid());
        say("end " + (Machine.uptime() + GRACE + 50));
        say("group " + stranger.pid() + " " + (Machine.stat(stranger.pid()).born - 1) + " all");
        say("sweep KILL");
        assertThat(answer()).isEqualTo("left");
        say("signal KILL");
        assertThat(answer()).isEqualTo("ended");
        in.close();
        assertThat(guardian.waitFor(10, TimeUnit.SECONDS)).isTrue();
        assertThat(stranger.isAlive()).isTrue();
    }

    /** The command has taken all the processes that its user may have: it is ended in time, by those that are there. */
    @Test
    void noProcessToBeHad() throws Exception {
        Path setpriv = Path.of("/usr/bin/setpriv");
        assumeTrue("root".equals(System.getProperty("user.name")) && Files.isExecutable(setpriv), "needs another user");
        // One that nobody has, and no other test: zombies count, too.
        int user = 60000 + ThreadLocalRandom.current().nextInt(5000);
        List<String> other = List.of(
                setpriv.toString(),
                "--reuid=" + user,
                "--regid=" + user,
                "--clear-groups",
                "bash",
                "-c",
                "ulimit -u 40; exec \"$@\"",
                "x");
        in.close();
        said.clear();
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
        Files.setPosixFilePermissions(temporary, PosixFilePermissions.fromString("rwxrwxrwx"));
        prefix = other;
        start(guardian(temporary));
        command(false, "trap '' TERM; echo running >>$1; sleep 1; while :; do (trap '' TERM; exec sleep 50) & done");
        long end = Machine.uptime() + 600;
        say("end " + end);
        group("all");
        awaitWritten("running");
        await().atMost(SOON).until(() -> processes.alive("ROLE=command").size() > 25);
        assertThat(awaitCommandGone()).isLessThanOrEqualTo(end + NOISE);
    }

    /** `alone`: the process itself is ended, in whatever group it is. */
    @Test
    void alone() throws Exception {
        command(true, "trap '' TERM; echo running >>$1; sleep 100; sleep 100");
        long end = Machine.uptime() + 200;
        say("end " + end);
        group("alone");
        awaitWritten("running");
        say("sweep 0");
        assertThat(answer()).isEqualTo("left " + command.pid());
        assertThat(answer()).isEqualTo("ended");
        assertThat(command.waitFor()).isEqualTo(128 + 9);
        assertThat(Machine.uptime()).isBetween(end - GRACE / 3, end + NOISE);
    }

    /** Signals that are meant for mortise or the command do not end their guardian. */
    @Test
    void guardianIgnoresSignals() throws Exception {
        run(2000, "echo running >>$1; sleep 100");
        for (String signal : List.of("INT", "TERM", "HUP", "QUIT", "TSTP", "PIPE")) {
            Processes.signal(signal, guardian.pid());
            Processes.signal(signal, watch().pid());
        }
        say("sweep 0");
        assertThat(answer()).startsWith("left ");
        assertThat(watch()).isNotNull();
    }

    /** Without a folder for temporary files. */
    @Test
    void noFileIsMade() throws Exception {
        assertThat(temporary).isEmptyDirectory();
        Files.delete(temporary);
        start(guardian(temporary));
        run(2000, "echo running >>$1; sleep 100");
    }

    private void oldShell() {
        script = script.replace("[ -p /proc/$$/fd/3 ] &&", "false &&");
        assertThat(script).contains("false &&");
    }

    /** In a shell whose here-documents are files, there are files for a moment, and none from `ready` on. */
    @Test
    void pipesWithNames() throws Exception {
        oldShell();
        start(guardian(temporary));
        assertThat(temporary).isEmptyDirectory();
        long end = run(200, STUBBORN);
        end += 50;
        say("end " + end);
        assertThat(answer()).isEqualTo("ended");
        assertThat(awaitCommandGone()).isBetween(end - GRACE / 3, end + NOISE);
        assertThat(temporary).isEmptyDirectory();
    }

    /** There, a guardian that is killed lets nobody wait at a gate that it has left behind. */
    @Test
    void pipesWithNamesAndAKilledGuardian() throws Exception {
        oldShell();
        start(guardian(temporary));
        command(false, "echo running >>$1; sleep 100");
        guardian.destroyForcibly();
        assertThat(command.waitFor(10, TimeUnit.SECONDS)).isTrue();
        assertThat(written()).isEmpty();
    }

    /** And without a folder for temporary files it says so, and ends. */
    @Test
    void noTemporaryFolder() throws Exception {
        oldShell();
        Process other = guardian(folder.resolve("none"));
        String text = new String(other.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(text).contains("none").doesNotContain("ready");
        assertThat(other.waitFor()).isNotZero();
    }

    /** A line that was cut off by the death of mortise is none. */
    @Test
    void halfALine() throws Exception {
        long end = run(200, STUBBORN);
        in.write(("end " + (end + 2000)).getBytes(StandardCharsets.US_ASCII));
        in.close();
        assertThat(awaitCommandGone()).isLessThan(end + NOISE);
    }

    /** All that the command reads and has in its environment is its own. */
    @Test
    void commandSeesNothingOfThis() throws Exception {
        run(2000, "env >>$1; ls -l /proc/$$/fd >>$1; echo running >>$1; sleep 100");
        assertThat(written())
                .doesNotContain("mortise_")
                .doesNotContain("MORTISE_GUARDIAN")
                .doesNotContain(" 3 -> ");
    }
}
