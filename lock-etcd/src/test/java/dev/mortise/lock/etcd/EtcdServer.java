package dev.mortise.lock.etcd;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * An etcd server of the tests' own: on free ports of the loopback, with its data in a temporary folder. Alone it is a whole
 * store; {@link EtcdCluster} puts several together. Its elections are quick, so that its shortest lease is one second, unless
 * its settings say otherwise. It ends with this JVM at the latest. For any thread, but for starting and ending it.
 */
public final class EtcdServer implements AutoCloseable {
    /** Elections as quick as a busy machine allows; the shortest lease is one and a half of the timeout, in whole seconds. */
    static final List<String> QUICK = List.of("--heartbeat-interval", "50", "--election-timeout", "650");

    /** As etcd's own defaults are. */
    public static final List<String> DEFAULT_ELECTIONS =
            List.of("--heartbeat-interval", "100", "--election-timeout", "1000");

    private final Path folder;
    private final String name;
    private final List<String> settings;
    private final Map<String, String> environment;
    private final Thread atExit = new Thread(this::kill);

    /** For a member of a cluster: set by that. */
    private String peers = "";

    private int peerPort;
    private int advertisedPeerPort;

    private int port;
    private int metricsPort;
    private boolean secure;
    private Process process;

    /**
     * Starts one, alone.
     *
     * @param settings words of its command line over the defaults, {@code --cert-file FILE}, each word by itself; with
     *     {@code --cert-file} it speaks TLS to its clients
     */
    public EtcdServer(String... settings) {
        this("one", List.of(settings), Map.of());
        start();
    }

    /** Does not start it. */
    EtcdServer(String name, List<String> settings, Map<String, String> environment) {
        this.name = name;
        this.settings = List.copyOf(settings);
        this.environment = Map.copyOf(environment);
        secure = settings.contains("--cert-file");
        try {
            folder = Files.createTempDirectory("met");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Runtime.getRuntime().addShutdownHook(atExit);
    }

    /** Before it starts: all members as {@code a=http://…,b=http://…}, and where the others reach this one. */
    void join(String all, int ownPeerPort, int advertised) {
        peers = all;
        peerPort = ownPeerPort;
        advertisedPeerPort = advertised;
    }

    /** Starts it again, on the ports that it had and with the data that is left. Returns when it answers. */
    public void start() {
        launch();
        awaitHealth();
    }

    /** The same, and does not wait: a member answers when most of the others are there. */
    void launch() {
        for (int i = 0; i < 10; i++) {
            if (port == 0) {
                port = freePort();
                metricsPort = freePort();
            }
            boolean alone = peers.isEmpty();
            if (alone) {
                peerPort = freePort();
            }
            String client = (secure ? "https" : "http") + "://127.0.0.1:" + port;
            List<String> command = new ArrayList<>(List.of("etcd", "--name", name));
            Collections.addAll(command, "--data-dir", folder.resolve("data").toString());
            Collections.addAll(command, "--listen-client-urls", client, "--advertise-client-urls", client);
            Collections.addAll(command, "--listen-metrics-urls", "http://127.0.0.1:" + metricsPort);
            String own = "http://127.0.0.1:" + peerPort;
            String advertised = alone ? own : "http://127.0.0.1:" + advertisedPeerPort;
            Collections.addAll(command, "--listen-peer-urls", own, "--initial-advertise-peer-urls", advertised);
            Collections.addAll(command, "--initial-cluster", alone ? name + "=" + own : peers);
            if (!settings.contains("--election-timeout")) {
                command.addAll(QUICK);
            }
            command.addAll(settings);
            ProcessBuilder builder = new ProcessBuilder(command)
                    .directory(folder.toFile())
                    .redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.appendTo(
                            folder.resolve("log").toFile()));
            builder.environment().keySet().removeIf(key -> key.startsWith("ETCD"));
            builder.environment().putAll(environment);
            try {
                process = builder.start();
            } catch (IOException e) {
                throw new AssertionError(
                        "the etcd server is not installed. Run ./verify, or this line:"
                                + " sudo apt-get install -y --no-install-recommends etcd-server etcd-client",
                        e);
            }
            if (listens()) {
                return;
            }
            // A port was taken meanwhile.
            if (i > 5) {
                port = 0;
            }
        }
        throw new AssertionError("does not start: " + log());
    }

    /** Whether it serves its metrics; false if it has ended. */
    private boolean listens() {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (process.isAlive()) {
            try {
                // A stranger on this port has another process id.
                if (process.isAlive() && metrics().contains("etcd_server_is_leader")) {
                    return process.isAlive();
                }
            } catch (UncheckedIOException e) {
                // Not yet.
            }
            if (System.nanoTime() > end) {
                throw new AssertionError("not ready after a minute: " + log());
            }
            pause(5);
        }
        return false;
    }

    /** Waits until it and a majority agree on a leader. */
    void awaitHealth() {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!isHealthy()) {
            if (!process.isAlive() || System.nanoTime() > end) {
                throw new AssertionError("is not well: " + log());
            }
            pause(5);
        }
    }

    /** Whether it answers, with a majority behind it. */
    public boolean isHealthy() {
        try {
            return get("/health").contains("true");
        } catch (UncheckedIOException e) {
            return false;
        }
    }

    private static void pause(long millis) {
        try {
            TimeUnit.MILLISECONDS.sleep(millis);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
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

    /** Where its clients connect to. */
    public int port() {
        return port;
    }

    public long pid() {
        return process.pid();
    }

    public boolean isAlive() {
        return process != null && process.isAlive();
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

    /** Whether it takes itself for the leader. One that is cut off does so for a while. */
    public boolean isLeader() {
        return metric("etcd_server_is_leader") == 1;
    }

    /** All of its metrics, as text. */
    public String metrics() {
        return get("/metrics");
    }

    /** Its version, such as 3.4.23. */
    public String version() {
        return ctl("endpoint", "status", "-w", "fields")
                .lines()
                .filter(line -> line.startsWith("\"Version\""))
                .map(line -> line.replaceAll("[^0-9.]", ""))
                .findFirst()
                .orElseThrow();
    }

    /**
     * The sum of all metrics that begin so.
     *
     * @param start name, brace and first labels, such as grpc_server_started_total, {, grpc_method="Txn"
     */
    public double metric(String start) {
        double sum = 0;
        for (String line : metrics().split("\n", -1)) {
            if (line.startsWith(start)) {
                sum += Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1));
            }
        }
        return sum;
    }

    /** How many calls of this name ({@code Txn}, {@code Range}, {@code LeaseGrant}) were begun at this server. */
    public long calls(String method) {
        return (long) metric("grpc_server_started_total{grpc_method=\"" + method + "\"");
    }

    /** How many messages of this name ({@code LeaseKeepAlive}, {@code Watch}) came to this server. */
    public long messages(String method) {
        return (long) metric("grpc_server_msg_received_total{grpc_method=\"" + method + "\"");
    }

    private String get(String path) {
        return http("GET", "http://127.0.0.1:" + metricsPort + path, null);
    }

    /**
     * One request to its JSON gateway, as one without TLS and users has it.
     *
     * @param path as {@code /v3/kv/deleterange}
     */
    public String post(String path, String json) {
        return http("POST", "http://127.0.0.1:" + port + path, json);
    }

    /** Removes a key as an administrator would. */
    public void delete(String key) {
        post("/v3/kv/deleterange", "{\"key\":\"" + base64(key) + "\"}");
    }

    /** Removes all keys that begin so. */
    public void deleteAll(String start) {
        String after = start.substring(0, start.length() - 1) + (char) (start.charAt(start.length() - 1) + 1);
        post("/v3/kv/deleterange", "{\"key\":\"" + base64(start) + "\",\"range_end\":\"" + base64(after) + "\"}");
    }

    /** How many keys begin so. */
    public int count(String start) {
        String after = start.substring(0, start.length() - 1) + (char) (start.charAt(start.length() - 1) + 1);
        String answer = post(
                "/v3/kv/range",
                "{\"key\":\"" + base64(start) + "\",\"range_end\":\"" + base64(after) + "\",\"count_only\":true}");
        int at = answer.indexOf("\"count\":\"");
        return at < 0 ? 0 : Integer.parseInt(answer.substring(at + 9, answer.indexOf('"', at + 9)));
    }

    /** How many leases there are, used or not. */
    public int leases() {
        return post("/v3/lease/leases", "{}").split("\"ID\"", -1).length - 1;
    }

    static String base64(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String http(String method, String address, String body) {
        try {
            HttpURLConnection connection =
                    (HttpURLConnection) URI.create(address).toURL().openConnection(java.net.Proxy.NO_PROXY);
            connection.setConnectTimeout(5_000);
            connection.setReadTimeout(10_000);
            connection.setRequestMethod(method);
            if (body != null) {
                connection.setDoOutput(true);
                connection.getOutputStream().write(body.getBytes(StandardCharsets.UTF_8));
            }
            return new String(connection.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(method + " " + address, e);
        }
    }

    /**
     * What its command line tool prints.
     *
     * @param words as {@code user add ...}; with {@code --cacert} and so on where it speaks TLS
     * @throws AssertionError if it fails
     */
    public String ctl(String... words) {
        List<String> command = new ArrayList<>(List.of("etcdctl"));
        Collections.addAll(command, "--endpoints", (secure ? "https" : "http") + "://127.0.0.1:" + port);
        Collections.addAll(command, words);
        try {
            ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
            builder.environment().put("ETCDCTL_API", "3");
            Process tool = builder.start();
            tool.getOutputStream().close();
            String text = new String(tool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (tool.waitFor() != 0) {
                throw new AssertionError(String.join(" ", words) + ": " + text);
            }
            return text;
        } catch (IOException e) {
            throw new AssertionError(
                    "the client of etcd is not installed. Run ./verify, or this line:"
                            + " sudo apt-get install -y --no-install-recommends etcd-server etcd-client",
                    e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Stops it at once, as a machine that hangs; its connections stay. */
    public void freeze() {
        signal("STOP");
    }

    /** Lets it go on. */
    public void resume() {
        signal("CONT");
    }

    private void signal(String signal) {
        try {
            int code = new ProcessBuilder("kill", "-s", signal, String.valueOf(process.pid()))
                    .inheritIO()
                    .start()
                    .waitFor();
            if (code != 0) {
                throw new AssertionError("kill -s " + signal + ": " + code);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** By SIGKILL: memory is lost, files stay. */
    public void kill() {
        Process running = process;
        if (running == null) {
            return;
        }
        running.destroyForcibly();
        try {
            running.waitFor();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** What it has in it now, as one file for {@link #restore}. */
    Path snapshot() {
        Path file = folder.resolve("snapshot" + System.nanoTime());
        ctl("snapshot", "save", file.toString());
        return file;
    }

    /** While it does not run: all of its data is gone. */
    void loseData() {
        delete(folder.resolve("data"));
    }

    /** While it does not run: its data is what was in that snapshot, of this server or of another member. */
    void restore(Path snapshot) {
        loseData();
        String all = peers.isEmpty() ? name + "=http://127.0.0.1:" + peerPort : peers;
        int advertised = peers.isEmpty() ? peerPort : advertisedPeerPort;
        List<String> words = new ArrayList<>(List.of("snapshot", "restore", snapshot.toString()));
        Collections.addAll(words, "--data-dir", folder.resolve("data").toString());
        Collections.addAll(words, "--name", name, "--initial-cluster", all);
        Collections.addAll(words, "--initial-advertise-peer-urls", "http://127.0.0.1:" + advertised);
        ctl(words.toArray(new String[0]));
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
