package dev.mortise.lock.cli;

import static org.awaitility.Awaitility.await;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** {@code mortise} as users start it: a program of its own, on the class path of the tests. */
final class Mortise {
    /** For what takes as long as it takes on a busy machine. */
    static final Duration LONG = Duration.ofSeconds(60);

    private static final Path NATIVE = nativeFolder();

    private static final AtomicInteger NUMBER = new AtomicInteger();

    final Process process;
    private final Path out;
    private final Path err;

    private Mortise(Path folder, ProcessBuilder builder) throws IOException {
        int number = NUMBER.incrementAndGet();
        out = folder.resolve("out-" + number);
        err = folder.resolve("err-" + number);
        process = builder.redirectInput(ProcessBuilder.Redirect.from(new File("/dev/null")))
                .redirectOutput(out.toFile())
                .redirectError(err.toFile())
                .start();
    }

    private static Path nativeFolder() {
        try {
            Path folder = Files.createTempDirectory("mortise-native");
            Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(folder)));
            return folder;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void delete(Path folder) {
        File[] files = folder.toFile().listFiles();
        for (File file : files == null ? new File[0] : files) {
            file.delete();
        }
        folder.toFile().delete();
    }

    /** The words that start it. */
    static List<String> words(String... arguments) {
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-Xshare:auto",
                "-Xmx64m",
                // As the manifest of the jar says: from JDK 24 on, the driver would otherwise be told of on standard
                // error.
                "--enable-native-access=ALL-UNNAMED",
                // Where the driver unpacks its library, which a killed JVM leaves behind.
                "-Dorg.sqlite.tmpdir=" + NATIVE,
                "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                "dev.mortise.lock.cli.Main"));
        words.addAll(List.of(arguments));
        return words;
    }

    /** Ready to be started with locks in this folder. */
    static ProcessBuilder builder(Processes processes, Path folder, String... arguments) {
        ProcessBuilder builder = processes.mark(new ProcessBuilder(words(arguments)));
        builder.environment()
                .keySet()
                .removeIf(name -> name.startsWith("MORTISE_") && !name.startsWith("MORTISE_TEST"));
        builder.environment().put("XDG_STATE_HOME", folder.resolve("state").toString());
        builder.environment().put("TMPDIR", tmp(folder).toString());
        return builder;
    }

    /** The folder for temporary files of all that is started; it must be empty at the end. */
    static Path tmp(Path folder) {
        try {
            return Files.createDirectories(folder.resolve("tmp"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static Mortise start(Processes processes, Path folder, String... arguments) throws IOException {
        return start(folder, builder(processes, folder, arguments));
    }

    static Mortise start(Path folder, ProcessBuilder builder) throws IOException {
        return new Mortise(folder, builder);
    }

    long pid() {
        return process.pid();
    }

    int exit() throws InterruptedException {
        if (!process.waitFor(LONG.toSeconds(), TimeUnit.SECONDS)) {
            throw new AssertionError("still running; said: " + out() + err() + stacks());
        }
        return process.exitValue();
    }

    private String stacks() {
        try {
            Process jstack = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "jstack")
                                    .toString(),
                            Long.toString(pid()))
                    .redirectErrorStream(true)
                    .start();
            return new String(jstack.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            return e.toString();
        }
    }

    String out() {
        return read(out);
    }

    byte[] outBytes() throws IOException {
        return Files.readAllBytes(out);
    }

    String err() {
        return read(err);
    }

    static String read(Path file) {
        try {
            return Files.exists(file) ? Files.readString(file) : "";
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    void awaitOut(String text) {
        await().atMost(LONG).pollInterval(Duration.ofMillis(10)).until(() -> {
            if (!process.isAlive() && !out().contains(text)) {
                throw new AssertionError("ended with " + process.exitValue() + "; said: " + out() + err());
            }
            return out().contains(text);
        });
    }
}
