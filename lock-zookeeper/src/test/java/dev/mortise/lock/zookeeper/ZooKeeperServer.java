package dev.mortise.lock.zookeeper;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A ZooKeeper server of the tests' own: a JVM with the jars of the tests' class path, on free ports of the loopback, with its
 * data in a temporary folder. It ends with this JVM at the latest. For any thread, but for starting and ending it.
 */
public final class ZooKeeperServer implements AutoCloseable {
    /** Of this length in milliseconds, unless its settings say otherwise: sessions of 200 ms to 60 s. */
    public static final int TICK = 100;

    private final Path folder;
    private final List<String> settings;
    private final Map<String, String> environment;
    private final Thread atExit = new Thread(this::kill);
    private final boolean alone;
    private int port;
    private Process process;

    /**
     * Starts one that is alone.
     *
     * @param settings lines of its configuration over the defaults, {@code tickTime=200}, and system properties, {@code
     *     -Dznode.container.checkIntervalMs=100}
     */
    public ZooKeeperServer(String... settings) {
        this(Map.of(), settings);
    }

    /** The same, with this in its environment. */
    ZooKeeperServer(Map<String, String> environment, String... settings) {
        this(true, freePort(), List.of(settings), environment);
        start();
    }

    /** A member of a cluster, not started. */
    static ZooKeeperServer member(int number, int port, List<String> settings, Map<String, String> environment) {
        ZooKeeperServer member = new ZooKeeperServer(false, port, settings, environment);
        try {
            Files.createDirectories(member.data());
            Files.writeString(member.data().resolve("myid"), String.valueOf(number));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return member;
    }

    private ZooKeeperServer(boolean alone, int port, List<String> settings, Map<String, String> environment) {
        this.alone = alone;
        this.environment = Map.copyOf(environment);
        this.port = port;
        this.settings = List.copyOf(settings);
        try {
            folder = Files.createTempDirectory("mzk");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Runtime.getRuntime().addShutdownHook(atExit);
    }

    /**
     * Starts it, again with the data that is left and on the port that it had. One that is alone answers when this returns;
     * a member of a cluster may not have joined yet.
     */
    public void start() {
        try {
            for (int i = 0; i < 10; i++) {
                process = launch();
                if (!alone || answers()) {
                    return;
                }
                // The port was taken meanwhile.
                process.waitFor();
                port = freePort();
            }
            throw new AssertionError("does not start: " + log());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private Process launch() throws IOException {
        Map<String, String> lines = new LinkedHashMap<>();
        lines.put("tickTime", String.valueOf(TICK));
        // A member that has won an election alone waits so long for the others before it looks again.
        lines.put("initLimit", "25");
        lines.put("syncLimit", "20");
        lines.put("maxSessionTimeout", "60000");
        lines.put("maxClientCnxns", "0");
        lines.put("dataDir", data().toString());
        lines.put("admin.enableServer", "false");
        lines.put("4lw.commands.whitelist", "*");
        lines.put("clientPort", String.valueOf(port));
        lines.put("clientPortAddress", "127.0.0.1");
        List<String> properties = new ArrayList<>();
        for (String each : settings) {
            if (each.startsWith("-D")) {
                properties.add(each);
            } else {
                int equals = each.indexOf('=');
                String value = each.substring(equals + 1);
                if (value.isEmpty()) {
                    lines.remove(each.substring(0, equals));
                } else {
                    lines.put(each.substring(0, equals), value);
                }
            }
        }
        Path file = folder.resolve("zoo.cfg");
        Files.write(
                file,
                lines.entrySet().stream()
                        .map(line -> line.getKey() + "=" + line.getValue())
                        .collect(Collectors.toList()));
        List<String> command = new ArrayList<>(
                List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"));
        command.addAll(List.of("-Xshare:auto", "-Xms24m", "-Xmx192m"));
        command.add("-Dorg.slf4j.simpleLogger.defaultLogLevel=info");
        command.add("-Dorg.slf4j.simpleLogger.showDateTime=true");
        command.add("-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS");
        // Not 64 MB for each piece of the log.
        command.add("-Dzookeeper.preAllocSize=128");
        // Members that have lost one another ask again after at most this, not after a minute.
        command.add("-Dzookeeper.fastleader.maxNotificationInterval=400");
        command.add("-Dzookeeper.leaderConnectDelayDuringRetryMs=50");
        command.addAll(properties);
        // Absolute, because it runs in a folder of its own.
        command.addAll(List.of(
                "-cp",
                Stream.of(System.getProperty("java.class.path").split(File.pathSeparator, -1))
                        .map(each -> Path.of(each).toAbsolutePath().toString())
                        .collect(Collectors.joining(File.pathSeparator))));
        command.add("org.apache.zookeeper.server.quorum.QuorumPeerMain");
        command.add(file.toString());
        ProcessBuilder builder = new ProcessBuilder(command)
                .directory(folder.toFile())
                .redirectErrorStream(true)
                .redirectOutput(
                        ProcessBuilder.Redirect.appendTo(folder.resolve("log").toFile()));
        builder.environment().remove("JAVA_TOOL_OPTIONS");
        builder.environment().putAll(environment);
        return builder.start();
    }

    private boolean answers() throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (process.isAlive()) {
            if (!role().isEmpty()) {
                return true;
            }
            if (System.nanoTime() > end) {
                throw new AssertionError("not ready after a minute: " + log());
            }
            TimeUnit.MILLISECONDS.sleep(5);
        }
        return false;
    }

    /** A port of the loopback that is free, and not one of those that the system gives to outgoing connections. */
    static int freePort() {
        for (int i = 0; i < 1000; i++) {
            int port = ThreadLocalRandom.current().nextInt(12_000, 32_000);
            try (ServerSocket free = new ServerSocket()) {
                free.setReuseAddress(false);
                free.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1);
                return port;
            } catch (IOException e) {
                // Taken.
            }
        }
        throw new AssertionError("no free port");
    }

    public int port() {
        return port;
    }

    /** Where clients connect to. */
    public String connectString() {
        return "127.0.0.1:" + port;
    }

    public long pid() {
        return process.pid();
    }

    private Path data() {
        return folder.resolve("data");
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

    /** {@code standalone}, {@code leader}, {@code follower}; empty if it serves nobody now. */
    public String role() {
        try {
            return ask("srvr")
                    .lines()
                    .filter(line -> line.startsWith("Mode: "))
                    .map(line -> line.substring("Mode: ".length()))
                    .findFirst()
                    .orElse("");
        } catch (UncheckedIOException e) {
            return "";
        }
    }

    /**
     * The answer to one of the words of four letters.
     *
     * @throws UncheckedIOException if it does not run, or does not answer within a second
     */
    public String ask(String word) {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1000);
            socket.setSoTimeout(1000);
            socket.getOutputStream().write(word.getBytes(StandardCharsets.US_ASCII));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(word, e);
        }
    }

    /** What {@code mntr} tells, without the {@code zk_} before each name. */
    public Map<String, String> metrics() {
        Map<String, String> all = new LinkedHashMap<>();
        ask("mntr").lines().forEach(line -> {
            int tab = line.indexOf('\t');
            if (tab > 0) {
                all.put(line.substring("zk_".length(), tab), line.substring(tab + 1));
            }
        });
        return all;
    }

    /** Such as 3.9.5. */
    public String version() {
        return metrics().getOrDefault("version", "").replaceAll("-.*", "");
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
        if (process != null) {
            process.destroyForcibly();
            awaitEnd();
        }
    }

    /** By SIGTERM, as an operator does it. */
    public void stop() {
        process.destroy();
        awaitEnd();
    }

    private void awaitEnd() {
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** A copy of its data, for {@link #restore}; as it is on the disk if it is stopped by a signal meanwhile. */
    Path copy() {
        Path copy = folder.resolve("copy" + System.nanoTime());
        copy(log(data()), copy);
        return copy;
    }

    /** While it does not run: its data is what was copied. */
    void restore(Path copy) {
        loseData();
        copy(copy, log(data()));
    }

    /** While it does not run: all of its data is gone. */
    void loseData() {
        delete(log(data()));
    }

    /** Transactions, snapshots and epochs; not the number of a member. */
    private static Path log(Path data) {
        return data.resolve("version-2");
    }

    private static void copy(Path from, Path to) {
        try (Stream<Path> files = Files.list(from)) {
            Files.createDirectories(to);
            for (Path each : files.collect(Collectors.toList())) {
                Files.copy(each, to.resolve(each.getFileName()));
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
