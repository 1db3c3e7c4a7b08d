package dev.mortise.lock.cli;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/**
 * All that a test starts, whoever its parent has become: every process inherits a variable with a mark of its own.
 * Closing kills what is left.
 */
final class Processes implements AutoCloseable {
    private static final String VARIABLE = "MORTISE_TEST_MARK";

    private final String mark = UUID.randomUUID().toString();

    /** Puts the mark on what is started from here. */
    ProcessBuilder mark(ProcessBuilder builder) {
        builder.environment().put(VARIABLE, mark);
        return builder;
    }

    /** One living process. */
    record Found(long pid, String line) {
        @Override
        public String toString() {
            return pid + " " + line.substring(0, Math.min(100, line.length())).strip();
        }
    }

    /** The living ones, those whose environment has this text, too. */
    List<Found> alive(String... texts) {
        List<Found> found = new ArrayList<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
            for (Path process : all) {
                try {
                    String environment =
                            "\0" + Files.readString(process.resolve("environ"), StandardCharsets.ISO_8859_1);
                    if (!environment.contains("\0" + VARIABLE + "=" + mark + "\0")) {
                        continue;
                    }
                    boolean all0 = true;
                    for (String text : texts) {
                        all0 &= environment.contains("\0" + text + "\0");
                    }
                    long pid = Long.parseLong(process.getFileName().toString());
                    Machine.Stat stat = Machine.stat(pid);
                    if (all0 && stat != null && stat.alive) {
                        String line = Files.readString(process.resolve("cmdline"), StandardCharsets.ISO_8859_1)
                                .replace('\0', ' ');
                        found.add(new Found(pid, line));
                    }
                } catch (IOException e) {
                    // It has ended.
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return found;
    }

    void awaitNone(Duration within, String... texts) {
        await().atMost(within)
                .pollDelay(Duration.ZERO)
                .pollInterval(Duration.ofMillis(20))
                .until(() -> alive(texts), List::isEmpty);
    }

    static void signal(String name, long pid) {
        try {
            Process kill = new ProcessBuilder("kill", "-s", name, Long.toString(pid))
                    .redirectErrorStream(true)
                    .start();
            kill.getInputStream().readAllBytes();
            kill.waitFor();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static char state(long pid) {
        try {
            String line = Files.readString(Path.of("/proc", Long.toString(pid), "stat"), StandardCharsets.ISO_8859_1);
            return line.charAt(line.lastIndexOf(')') + 2);
        } catch (IOException e) {
            return 'X';
        }
    }

    @Override
    public void close() {
        for (int i = 0; i < 100; i++) {
            List<Found> left = alive();
            if (left.isEmpty()) {
                return;
            }
            left.forEach(process -> ProcessHandle.of(process.pid()).ifPresent(ProcessHandle::destroyForcibly));
        }
    }
}
