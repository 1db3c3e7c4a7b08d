package dev.mortise.lock.jdbc;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A JVM of its own. Ended by its process, never by name. */
final class Child implements AutoCloseable {
    private final Process process;
    private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
    private final Thread reader;

    private Child(Process process) {
        this.process = process;
        reader = new Thread(() -> {
            try (BufferedReader in =
                    new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    lines.add(line);
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
        reader.setDaemon(true);
        reader.start();
    }

    /** Runs {@code main} with the class path of this JVM. Its standard error goes where its output goes. */
    static Child start(List<String> jvmOptions, Class<?> main, String... arguments) throws IOException {
        return start(Map.of(), jvmOptions, main, arguments);
    }

    /** With these variables in its environment. */
    static Child start(Map<String, String> more, List<String> jvmOptions, Class<?> main, String... arguments)
            throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(
                List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path")));
        if (Runtime.version().feature() >= 22) {
            // Else these print a warning where the driver loads its native library.
            command.add("--enable-native-access=ALL-UNNAMED");
        }
        // A connection pool of the tests brings its logging, which would say here that it goes nowhere.
        command.add("-Dslf4j.internal.verbosity=ERROR");
        command.addAll(jvmOptions);
        command.add(main.getName());
        command.addAll(Arrays.asList(arguments));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        Map<String, String> environment = builder.environment();
        environment.remove("JAVA_TOOL_OPTIONS");
        environment.putAll(more);
        return new Child(builder.start());
    }

    /** The next line, or null if none comes within this time or the child has ended. */
    String line(long millis) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        while (true) {
            String line = lines.poll(Math.min(20, millis), TimeUnit.MILLISECONDS);
            if (line != null || System.nanoTime() >= end || (!reader.isAlive() && lines.isEmpty())) {
                return line;
            }
        }
    }

    /** All lines until the child has ended. */
    List<String> rest() throws InterruptedException {
        if (!process.waitFor(60, TimeUnit.SECONDS)) {
            throw new AssertionError("the child does not end");
        }
        reader.join(10_000);
        List<String> all = new ArrayList<>();
        lines.drainTo(all);
        return all;
    }

    /** STOP or CONT. */
    void signal(String name) throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-s", name, String.valueOf(process.pid()))
                .start()
                .waitFor();
    }

    /** What it has said is still there to be read: Process.destroyForcibly would close the stream at this end. */
    void kill() throws InterruptedException {
        process.toHandle().destroyForcibly();
        process.waitFor();
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
