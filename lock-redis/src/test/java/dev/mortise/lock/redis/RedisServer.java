package dev.mortise.lock.redis;

import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A Redis server of the tests' own: on a free port of the loopback, with its data in a temporary folder, without
 * persistence unless its settings say otherwise. It ends with this JVM at the latest. For any thread, but for starting
 * and ending it.
 */
public final class RedisServer implements AutoCloseable {
    /** Its log, and what it knows of a Cluster: no data. */
    private static final Set<String> KEPT = Set.of("log", "nodes.conf");

    private final Path folder;
    private final List<String> settings;
    private final Map<String, String> environment = new LinkedHashMap<>();
    private final Thread atExit = new Thread(this::kill);

    /** For a sentinel, which does not start without a file that it may write. */
    private final List<String> file;

    private int port;
    private Process process;

    /** How a test talks to the server: with nothing of the library under test. */
    private String password;

    /**
     * Starts one.
     *
     * @param settings words of its command line over the defaults, {@code --appendonly yes}, each word by itself
     */
    public RedisServer(String... settings) {
        this(Map.of(), settings);
    }

    /** With variables in its environment. */
    public RedisServer(Map<String, String> environment, String... settings) {
        this(environment, List.of(), settings);
    }

    /**
     * A sentinel.
     *
     * @param file the lines of its file, {@code sentinel monitor ...}
     * @param settings as for a server
     */
    static RedisServer sentinel(List<String> file, String... settings) {
        return new RedisServer(Map.of(), file, settings);
    }

    private RedisServer(Map<String, String> environment, List<String> file, String... settings) {
        this.file = List.copyOf(file);
        this.settings = List.of(settings);
        this.environment.putAll(environment);
        int pass = this.settings.indexOf("--requirepass");
        password = pass < 0 ? null : this.settings.get(pass + 1);
        int fixed = this.settings.indexOf("--port");
        port = fixed < 0 ? 0 : Integer.parseInt(this.settings.get(fixed + 1));
        try {
            folder = Files.createTempDirectory("mre");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Runtime.getRuntime().addShutdownHook(atExit);
        start();
    }

    /** Starts it again, on the port that it had and with the data that is left. Returns when it answers. */
    public void start() {
        try {
            for (int i = 0; i < 10; i++) {
                if (port == 0) {
                    port = freePort();
                }
                List<String> command = new ArrayList<>(List.of("redis-server"));
                if (!file.isEmpty()) {
                    Path config = folder.resolve("sentinel.conf");
                    if (!Files.exists(config)) {
                        Files.write(config, file);
                    }
                    Collections.addAll(command, config.toString(), "--sentinel");
                }
                Collections.addAll(command, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no");
                Collections.addAll(command, "--dir", folder.toString(), "--port", String.valueOf(port));
                command.addAll(settings);
                ProcessBuilder builder = new ProcessBuilder(command)
                        .directory(folder.toFile())
                        .redirectErrorStream(true)
                        .redirectOutput(ProcessBuilder.Redirect.appendTo(
                                folder.resolve("log").toFile()));
                builder.environment().putAll(environment);
                try {
                    process = builder.start();
                } catch (IOException e) {
                    throw new AssertionError(
                            "the Redis server is not installed. Run ./verify, or this line:"
                                    + " sudo apt-get install -y --no-install-recommends redis-server",
                            e);
                }
                if (answers()) {
                    return;
                }
                // The port was taken meanwhile.
                process.waitFor();
                if (i > 5 && !settings.contains("--port")) {
                    port = 0;
                }
            }
            throw new AssertionError("does not start: " + log());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** A port of the loopback that was free a moment ago. */
    static int freePort() {
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return free.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private boolean answers() throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (process.isAlive()) {
            try {
                if (info("server").get("process_id").equals(String.valueOf(process.pid()))
                        && info("persistence").getOrDefault("loading", "0").equals("0")) {
                    return true;
                }
            } catch (AssertionError | UncheckedIOException e) {
                // Not yet.
            }
            if (System.nanoTime() > end) {
                throw new AssertionError("not ready after a minute: " + log());
            }
            TimeUnit.MILLISECONDS.sleep(5);
        }
        return false;
    }

    public int port() {
        return port;
    }

    public long pid() {
        return process.pid();
    }

    /** Where its data and its log are. */
    public Path folder() {
        return folder;
    }

    /** What it wrote to its log. */
    public String log() {
        try {
            return Files.readString(folder.resolve("log"));
        } catch (IOException e) {
            return e.toString();
        }
    }

    /**
     * One command on a connection of its own.
     *
     * @return text, a Long, null, or a list of these
     * @throws AssertionError if the server answers with an error
     */
    public Object ask(String... words) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(60_000);
            InputStream in = new BufferedInputStream(socket.getInputStream());
            if (password != null) {
                send(socket, "AUTH", password);
                read(in);
            }
            send(socket, words);
            return read(in);
        } catch (IOException e) {
            throw new UncheckedIOException(String.join(" ", words), e);
        }
    }

    private static void send(Socket socket, String... words) throws IOException {
        StringBuilder request = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words) {
            request.append('$').append(word.getBytes(StandardCharsets.UTF_8).length);
            request.append("\r\n").append(word).append("\r\n");
        }
        socket.getOutputStream().write(request.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static Object read(InputStream in) throws IOException {
        String line = line(in);
        String rest = line.substring(1);
        return switch (line.charAt(0)) {
            case '+' -> rest;
            case ':' -> Long.valueOf(rest);
            case '$' -> rest.equals("-1") ? null : text(in, Integer.parseInt(rest));
            case '*' -> rest.equals("-1") ? null : list(in, Integer.parseInt(rest));
            default -> throw new AssertionError(line);
        };
    }

    private static String text(InputStream in, int length) throws IOException {
        byte[] bytes = in.readNBytes(length);
        line(in);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static List<Object> list(InputStream in, int size) throws IOException {
        List<Object> all = new ArrayList<>();
        for (int i = 0; i < size; i++) {
            all.add(read(in));
        }
        return all;
    }

    private static String line(InputStream in) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = in.read(); c != '\n'; c = in.read()) {
            if (c < 0) {
                throw new EOFException();
            }
            line.append((char) c);
        }
        return line.substring(0, line.length() - 1);
    }

    /** A section of INFO. */
    public Map<String, String> info(String section) {
        Map<String, String> info = new LinkedHashMap<>();
        for (String line : ((String) ask("INFO", section)).split("\r\n", -1)) {
            int colon = line.indexOf(':');
            if (colon > 0) {
                info.put(line.substring(0, colon), line.substring(colon + 1));
            }
        }
        return info;
    }

    /** How often each command was called since {@code CONFIG RESETSTAT}, those inside scripts too. */
    public Map<String, Long> calls() {
        Map<String, Long> calls = new LinkedHashMap<>();
        info("commandstats")
                .forEach((name, value) -> calls.put(
                        name.substring("cmdstat_".length()),
                        Long.valueOf(value.substring("calls=".length(), value.indexOf(',')))));
        return calls;
    }

    boolean isMaster() {
        return ((List<?>) ask("ROLE")).get(0).equals("master");
    }

    /** STOP or CONT. */
    public void signal(String name) {
        try {
            int code = new ProcessBuilder("kill", "-s", name, String.valueOf(process.pid()))
                    .inheritIO()
                    .start()
                    .waitFor();
            if (code != 0) {
                throw new AssertionError("kill -s " + name + ": " + code);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** By SIGKILL: memory is lost, files stay. */
    public void kill() {
        process.destroyForcibly();
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Removes the data of a server that does not run: it starts again as a new one, in a Cluster at its old place. */
    public void wipe() {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path each : files.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
                if (!each.equals(folder) && !KEPT.contains(each.getFileName().toString())) {
                    Files.delete(each);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A copy of its data as they are now, also of a server that writes no snapshots by itself. */
    Path copy() {
        ask("SAVE");
        Path copy = folder.resolveSibling(folder.getFileName() + "-copy");
        copy(folder, copy);
        return copy;
    }

    /** Gives a server that does not run the data of a {@link #copy}, once. */
    void restore(Path copy) {
        wipe();
        copy(copy, folder);
        delete(copy);
    }

    private static void copy(Path from, Path to) {
        try (Stream<Path> files = Files.walk(from)) {
            for (Path each : files.sorted().collect(Collectors.toList())) {
                Path there = to.resolve(from.relativize(each));
                if (Files.isDirectory(each)) {
                    Files.createDirectories(there);
                } else if (!KEPT.contains(each.getFileName().toString())) {
                    Files.copy(each, there);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void delete(Path folder) {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path each : files.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
                Files.delete(each);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        kill();
        delete(folder);
        try {
            Runtime.getRuntime().removeShutdownHook(atExit);
        } catch (IllegalStateException e) {
            // This JVM ends.
        }
    }
}
