package dev.mortise.lock.tck;

import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Real clients in processes of their own, one of which is stopped for longer than a lease, and one killed while it holds.
 * Their histories are merged by the machine's monotonic clock, which all of its processes share.
 */
final class Processes {
    private static final int TAKERS = 3;

    private final String uri;
    private final Map<String, String> options;
    private final Duration lease;
    private final Path folder;
    private final List<Process> processes = new ArrayList<>();

    private Processes(String uri, Map<String, String> options, Duration lease, Path folder) {
        this.uri = uri;
        this.options = options;
        this.lease = lease;
        this.folder = folder;
    }

    /** What they did; null if their clocks cannot be compared here. */
    static @Nullable History play(String uri, Map<String, String> options, Duration lease)
            throws IOException, InterruptedException {
        Path folder = Files.createTempDirectory("lock-tck");
        Processes run = new Processes(uri, options, lease, folder);
        try {
            return run.play();
        } finally {
            for (Process process : run.processes) {
                process.destroyForcibly();
                process.waitFor();
            }
            try (Stream<Path> files = Files.walk(folder)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    private @Nullable History play() throws IOException, InterruptedException {
        String name = "tck-" + folder.getFileName() + "-a";
        for (int i = 0; i < TAKERS; i++) {
            long before = System.nanoTime();
            Process process = start(name, i);
            processes.add(process);
            BufferedReader out =
                    new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            String line = out.readLine();
            if (line == null) {
                throw new IOException("a client process ended at once; see its error above");
            }
            long itsClock = Long.parseLong(line);
            if (itsClock < before || itsClock > System.nanoTime()) {
                return null;
            }
        }
        long part = lease.toMillis() / 4;
        TimeUnit.MILLISECONDS.sleep(4 * part);
        signal(0, "STOP");
        TimeUnit.MILLISECONDS.sleep(7 * part);
        signal(0, "CONT");
        TimeUnit.MILLISECONDS.sleep(2 * part);
        long killed = System.nanoTime();
        processes.get(1).destroyForcibly();
        processes.get(1).waitFor();
        long dead = System.nanoTime();
        TimeUnit.MILLISECONDS.sleep(7 * part);
        History history = new History();
        for (int i = 0; i < TAKERS; i++) {
            processes.get(i).getOutputStream().close();
        }
        for (int i = 0; i < TAKERS; i++) {
            if (!processes.get(i).waitFor(60, TimeUnit.SECONDS)) {
                throw new IOException("a client process does not end");
            }
            boolean wasKilled = i == 1;
            long now = System.nanoTime();
            read(history, i, name, wasKilled ? killed : now, wasKilled ? dead : now);
        }
        return history;
    }

    private Process start(String name, int number) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC"));
        if (Runtime.version().feature() >= 22) {
            // A driver that loads a native library would be warned of.
            command.add("--enable-native-access=ALL-UNNAMED");
        }
        command.addAll(List.of(
                "-cp",
                System.getProperty("java.class.path"),
                Taker.class.getName(),
                uri,
                name,
                String.valueOf(lease.toMillis()),
                folder.resolve("taker-" + number).toString(),
                String.valueOf(number)));
        options.forEach((option, value) -> command.add(option + "=" + value));
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.environment().remove("JAVA_TOOL_OPTIONS");
        return builder.start();
    }

    private void signal(int number, String signal) throws IOException, InterruptedException {
        new ProcessBuilder(
                        "kill",
                        "-s",
                        signal,
                        String.valueOf(processes.get(number).pid()))
                .start()
                .waitFor();
    }

    /**
     * One process's file as events.
     *
     * @param killed from then on it counted on nothing
     * @param dead from then on nothing that it had sent was still on its way to be sent
     */
    private void read(History history, int client, String name, long killed, long dead) throws IOException {
        Map<Integer, Long> asked = new HashMap<>();
        Map<Integer, Long> releasing = new HashMap<>();
        Map<Integer, Boolean> held = new HashMap<>();
        long length = lease.toNanos();
        for (String line : Files.readAllLines(folder.resolve("taker-" + client))) {
            String[] words = line.split(" ", -1);
            if (words.length < 5 || words[4].isEmpty()) {
                continue; // The last line of one that was killed.
            }
            int number = Integer.parseInt(words[1]);
            int attempt = number * TAKERS + client;
            long at = Long.parseLong(words[2]);
            long token = Long.parseLong(words[3]);
            // As if it were from the send: the deadline is what counts.
            long since = Long.parseLong(words[4]) - length + Event.margin(length);
            switch (words[0]) {
                case "acquire" -> asked.put(attempt, at);
                case "refused" ->
                    add(history, client, attempt, name, Op.ACQUIRE, Outcome.REFUSED, asked.remove(attempt), at);
                case "unknown" ->
                    add(history, client, attempt, name, Op.ACQUIRE, Outcome.UNKNOWN, asked.remove(attempt), at);
                case "held" -> {
                    Op op = held.put(attempt, true) == null ? Op.ACQUIRE : Op.RENEW;
                    Long from = op == Op.ACQUIRE ? asked.remove(attempt) : Long.valueOf(at);
                    history.add(Event.of(client, attempt, name, op, Outcome.DONE, from == null ? at : from, at)
                            .granted(token, since, length));
                }
                case "lost" -> {
                    held.remove(attempt);
                    history.add(Event.of(client, attempt, name, Op.LOST, Outcome.DONE, at, at));
                }
                case "release" -> releasing.put(attempt, at);
                default -> {
                    Outcome outcome = words[0].equals("released")
                            ? Outcome.DONE
                            : words[0].equals("gone") ? Outcome.REFUSED : Outcome.UNKNOWN;
                    held.remove(attempt);
                    add(history, client, attempt, name, Op.RELEASE, outcome, releasing.remove(attempt), at);
                }
            }
        }
        // What had no answer, and what was held, when it ended.
        asked.forEach((attempt, at) -> add(history, client, attempt, name, Op.ACQUIRE, Outcome.UNKNOWN, at, dead));
        releasing.forEach((attempt, at) -> add(history, client, attempt, name, Op.RELEASE, Outcome.UNKNOWN, at, dead));
        held.forEach((attempt, yes) -> {
            if (!releasing.containsKey(attempt)) {
                history.add(Event.of(client, attempt, name, Op.LOST, Outcome.DONE, killed, killed));
            }
        });
    }

    private void add(
            History history,
            int client,
            int attempt,
            String name,
            Op op,
            Outcome outcome,
            @Nullable Long invoked,
            long returned) {
        history.add(Event.of(client, attempt, name, op, outcome, invoked == null ? returned : invoked, returned)
                .granted(0, 0, lease.toNanos())
                // What a refusal says of the rest is not written down.
                .value(-1));
    }
}
