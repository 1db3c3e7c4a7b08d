package dev.mortise.lock.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The command, as people call it. */
final class MainTest {
    private Process start(Path folder, String... words) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                System.getProperty("java.home") + "/bin/java",
                "-Djava.io.tmpdir=" + folder,
                "-cp",
                System.getProperty("java.class.path"),
                Main.class.getName()));
        command.addAll(List.of(words));
        return new ProcessBuilder(command).redirectErrorStream(true).start();
    }

    /** It prints, writes the page, and leaves nothing else. */
    @Test
    void a_run(@TempDir Path folder) throws Exception {
        Path page = folder.resolve("page.html");
        Path work = Files.createDirectory(folder.resolve("work"));
        Process process = start(
                work,
                "--only",
                "redis",
                "--peers",
                "bare_pair,rlock",
                "--scenarios",
                "a",
                "--rounds",
                "1",
                "--seconds",
                "0.2",
                "--warm-up",
                "0.2",
                "--html",
                page.toString());
        String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(out).isZero();
        assertThat(out).contains("bare: two scripts", "Redisson RLock", "Goals");
        assertThat(Pages.parse(Files.readString(page))
                        .getElementsByTagName("svg")
                        .getLength())
                .isEqualTo(2);
        assertThat(left(work)).isEmpty();
    }

    /** Ctrl-C in the middle ends the servers and the processes, and removes their folders. */
    @Test
    void interrupted(@TempDir Path folder) throws Exception {
        Process process =
                start(folder, "--only", "redis", "--scenarios", "d", "--peers", "bare_list", "--seconds", "600");
        List<ProcessHandle> started;
        try (BufferedReader out =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            String line = out.readLine();
            while (line != null && !line.contains("round 1")) {
                line = out.readLine();
            }
            started = process.descendants().toList();
            assertThat(started).hasSize(5);
            new ProcessBuilder("kill", "-s", "INT", String.valueOf(process.pid()))
                    .inheritIO()
                    .start()
                    .waitFor();
            assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
        } finally {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
        }
        Awaitility.await()
                .atMost(30, TimeUnit.SECONDS)
                .until(() -> started.stream().noneMatch(ProcessHandle::isAlive));
        assertThat(left(folder)).isEmpty();
    }

    private static List<File> left(Path folder) throws Exception {
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(Path::toFile)
                    .filter(file -> !file.getName().startsWith("hsperfdata"))
                    .toList();
        }
    }

    /** A wrong word is told before anything is started. */
    @Test
    void wrong_words() {
        assertThat(Main.run("--only", "nothing")).isEqualTo(2);
        assertThat(Main.run("--scenarios", "x")).isEqualTo(2);
        assertThat(Main.run("--rounds", "0")).isEqualTo(2);
        assertThat(Main.run("--seconds", "-1")).isEqualTo(2);
    }
}
