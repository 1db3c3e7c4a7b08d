package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What no guardian reaches, the resource turns away: a process that has left its session, was stopped, and goes on when
 * the lock is somebody else's, can neither write nor read with its old token.
 */
class LateWriteTest {
    private final Processes processes = new Processes();

    @TempDir
    Path folder;

    @AfterEach
    void endAll() {
        processes.close();
    }

    private Mortise writer(Path go, boolean leaves) throws Exception {
        List<String> command = new ArrayList<>(List.of("run", "x", "--lease", "2s", "--"));
        if (leaves) {
            command.addAll(List.of("sh", "-c", "setsid \"$@\" & sleep 100", "x"));
        }
        List<String> java = Mortise.words();
        java.set(java.size() - 1, LateWriter.class.getName());
        command.addAll(java);
        command.addAll(List.of("jdbc:sqlite:" + folder.resolve("ledger.db"), go.toString()));
        return Mortise.start(processes, folder, command.toArray(String[]::new));
    }

    @Test
    void oldTokenIsRefused() throws Exception {
        Path late = folder.resolve("late");
        Mortise old = writer(late, true);
        old.awaitOut("ready ");
        long escaped = processes.alive().stream()
                .filter(process ->
                        process.line().contains("LateWriter") && !process.line().contains(" -- "))
                .filter(process -> !process.line().startsWith("sh "))
                .findFirst()
                .orElseThrow()
                .pid();
        Processes.signal("STOP", escaped);
        old.process.destroyForcibly();

        Path now = Files.createFile(folder.resolve("now"));
        Mortise next = writer(now, false);
        assertThat(next.exit()).as(next.err()).isZero();
        assertThat(next.out()).contains("write accepted", "read accepted");

        Files.createFile(late);
        Processes.signal("CONT", escaped);
        processes.awaitNone(Duration.ofSeconds(60));
        assertThat(old.out()).contains("write refused", "read refused");
    }
}
