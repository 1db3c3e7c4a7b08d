package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Eight processes add one to a number in a plain file that nothing else protects: not one is lost. */
class CounterTest {
    private static final int PROCESSES = 8;
    private static final int RUNS = Integer.getInteger("mortise.counter.runs", 6);

    private final Processes processes = new Processes();

    @TempDir
    Path folder;

    @AfterEach
    void endAll() {
        processes.close();
    }

    @Test
    void notOneIsLost() throws Exception {
        Path counter = Files.writeString(folder.resolve("counter"), "0\n");
        List<Process> all = new ArrayList<>();
        for (int i = 0; i < PROCESSES; i++) {
            all.add(adder(counter));
        }
        for (Process one : all) {
            assertThat(one.waitFor(30L * RUNS, TimeUnit.SECONDS)).isTrue();
            assertThat(one.exitValue())
                    .as(Mortise.read(folder.resolve("noise")))
                    .isZero();
        }
        assertThat(counter).hasContent(Integer.toString(PROCESSES * RUNS));
        assertThat(processes.alive()).isEmpty();
        assertThat(Mortise.tmp(folder)).isEmptyDirectory();
    }

    private Process adder(Path counter) throws IOException {
        List<String> words = new ArrayList<>(
                List.of("sh", "-ec", "i=0; while [ $i -lt " + RUNS + " ]; do i=$((i+1)); \"$@\"; done", "x"));
        // The number is gone from the file for a moment, so that anybody beside us would see none.
        words.addAll(Mortise.words(
                "run",
                "counter",
                "--",
                "sh",
                "-ec",
                "read n <\"$0\"; : >\"$0\"; sleep 0.01; echo $((n+1)) >\"$0\"",
                counter.toString()));
        return Mortise.builder(processes, folder)
                .command(words)
                .redirectErrorStream(true)
                .redirectOutput(
                        ProcessBuilder.Redirect.appendTo(folder.resolve("noise").toFile()))
                .start();
    }
}
