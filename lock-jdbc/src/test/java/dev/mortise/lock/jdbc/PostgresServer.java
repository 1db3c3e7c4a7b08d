package dev.mortise.lock.jdbc;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A PostgreSQL server of the tests' own: its data in a temporary folder, on a free port of the loopback, with its socket
 * in that folder. Its superuser {@code test} needs no password; everybody else does.
 */
public final class PostgresServer implements DatabaseServer {
    private static final Path BINARIES = Path.of("/usr/lib/postgresql");

    /** Nothing but what we do writes to the log of this server, so that writes can be counted. */
    private static final List<String> SETTINGS = List.of(
            "listen_addresses=127.0.0.1",
            "fsync=on",
            "shared_preload_libraries=pg_stat_statements",
            "wal_level=minimal",
            "max_wal_senders=0",
            "autovacuum=off",
            "max_connections=150",
            "shared_buffers=16MB",
            "checkpoint_timeout=1h",
            // After a kill: not file by file, which takes a second.
            "recovery_init_sync_method=syncfs");

    private static PostgresServer shared;

    private final Path bin;
    private final Path folder;
    private final Path data;
    private final boolean root = System.getProperty("user.name").equals("root");
    private int port;
    private Process process;

    /** With these settings over those of the others. */
    private final List<String> settings;

    private final Map<String, String> environment;

    public PostgresServer(String... settings) {
        this(Map.of(), settings);
    }

    /** With these variables in the environment of its processes. */
    PostgresServer(Map<String, String> environment, String... settings) {
        this(environment, 0, settings);
    }

    /**
     * A stand-by of a server that has {@code wal_level=replica} and wal senders, with settings like that one's. By the
     * name {@code standby}.
     *
     * @param primary the port by which it reaches that server, now and later: of a proxy, as a rule
     */
    static PostgresServer standby(int primary, String... settings) {
        return new PostgresServer(Map.of(), primary, settings);
    }

    private PostgresServer(Map<String, String> environment, int primary, String... settings) {
        this.environment = Map.copyOf(environment);
        this.settings = List.of(settings);
        bin = binaries();
        try {
            folder = Files.createTempDirectory("mpg");
            Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
            data = folder.resolve("data");
            Files.createDirectory(data);
            if (root) {
                run("chown", "postgres", folder.toString(), data.toString());
            }
            if (primary != 0) {
                String from = "host=127.0.0.1 port=" + primary + " user=test application_name=standby";
                Files.setPosixFilePermissions(data, PosixFilePermissions.fromString("rwx------"));
                run(asPostgres("pg_basebackup", "-D", data.toString(), "-d", from, "-R", "-c", "fast", "-N"));
                start();
                return;
            }
            run(asPostgres(
                    "initdb", "-D", data.toString(), "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"));
            Files.writeString(
                    data.resolve("pg_hba.conf"),
                    "host all,replication test 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n");
            start();
            sql("CREATE EXTENSION pg_stat_statements");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The one that most tests share; ends with this JVM. */
    static synchronized PostgresServer shared() {
        if (shared == null) {
            PostgresServer server = new PostgresServer();
            Runtime.getRuntime().addShutdownHook(new Thread(server::close));
            shared = server;
        }
        return shared;
    }

    private static Path binaries() {
        if (Files.isDirectory(BINARIES)) {
            try (Stream<Path> versions = Files.list(BINARIES)) {
                List<Path> found = versions.map(version -> version.resolve("bin"))
                        .filter(each -> Files.isExecutable(each.resolve("postgres")))
                        .sorted(Comparator.comparingInt(each ->
                                Integer.parseInt(each.getParent().getFileName().toString())))
                        .collect(Collectors.toList());
                if (!found.isEmpty()) {
                    return found.get(found.size() - 1);
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        throw new AssertionError("the PostgreSQL server is not installed. Run ./verify, or this line:"
                + " sudo apt-get install -y --no-install-recommends postgresql");
    }

    private List<String> asPostgres(String program, String... arguments) {
        List<String> command = new ArrayList<>();
        if (root) {
            // It refuses to run as root. Not runuser, which would be the process that we then stop and kill.
            Collections.addAll(command, "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups");
        }
        command.add(bin.resolve(program).toString());
        Collections.addAll(command, arguments);
        return command;
    }

    private void run(String... command) {
        run(List.of(command));
    }

    private void run(List<String> command) {
        try {
            Process done = new ProcessBuilder(command)
                    .directory(folder.toFile())
                    .redirectErrorStream(true)
                    .start();
            String output = new String(done.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
            if (done.waitFor() != 0) {
                throw new AssertionError(command + ": " + output);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Starts, on the port that it had, and returns when it answers and is this very server. */
    @Override
    public void start() {
        try {
            for (int i = 0; i < 10; i++) {
                if (port == 0) {
                    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                        port = free.getLocalPort();
                    }
                }
                List<String> command = asPostgres("postgres", "-D", data.toString(), "-p", String.valueOf(port));
                SETTINGS.forEach(setting -> Collections.addAll(command, "-c", setting));
                settings.forEach(setting -> Collections.addAll(command, "-c", setting));
                Collections.addAll(command, "-c", "unix_socket_directories=" + folder);
                ProcessBuilder builder = new ProcessBuilder(command)
                        .directory(folder.toFile())
                        .redirectErrorStream(true)
                        .redirectOutput(ProcessBuilder.Redirect.appendTo(
                                folder.resolve("log").toFile()));
                builder.environment().putAll(environment);
                process = builder.start();
                if (answers()) {
                    return;
                }
                // The port was taken meanwhile, or processes of a killed server were still there.
                process.waitFor();
                if (i > 5) {
                    port = 0;
                }
            }
            throw new AssertionError("does not start: " + Files.readString(folder.resolve("log")));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private boolean answers() throws IOException, InterruptedException {
        Path pid = data.resolve("postmaster.pid");
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (process.isAlive()) {
            if (Files.exists(pid)) {
                List<String> lines = lines(pid);
                if (lines.size() >= 8
                        && lines.get(0).equals(String.valueOf(process.pid()))
                        && lines.get(7).startsWith("ready")) {
                    if (!data.toString().equals(text("SHOW data_directory"))) {
                        throw new AssertionError("port " + port + " leads to another server");
                    }
                    return true;
                }
            }
            if (System.nanoTime() > end) {
                throw new AssertionError("not ready after a minute: " + Files.readString(folder.resolve("log")));
            }
            TimeUnit.MILLISECONDS.sleep(10);
        }
        return false;
    }

    /** Empty when a starting server has just taken away what a killed one left. */
    private static List<String> lines(Path file) throws IOException {
        try {
            return Files.readAllLines(file);
        } catch (NoSuchFileException e) {
            return List.of();
        }
    }

    @Override
    public int port() {
        return port;
    }

    /** Without user and options. */
    public String url() {
        return url("postgres");
    }

    public String url(String database) {
        return "jdbc:postgresql://127.0.0.1:" + port + "/" + database;
    }

    /** The superuser's connection. */
    Connection connect() throws SQLException {
        return DriverManager.getConnection(url() + "?user=test");
    }

    public void sql(String... statements) {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            for (String each : statements) {
                statement.execute(each);
            }
        } catch (SQLException e) {
            throw new AssertionError(e);
        }
    }

    public String text(String query) {
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(query)) {
            return rows.next() ? rows.getString(1) : null;
        } catch (SQLException e) {
            throw new AssertionError(e);
        }
    }

    /** As text. */
    public List<List<String>> rows(String query) {
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(query)) {
            List<List<String>> all = new ArrayList<>();
            while (rows.next()) {
                List<String> row = new ArrayList<>();
                for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) {
                    row.add(rows.getString(i));
                }
                all.add(row);
            }
            return all;
        } catch (SQLException e) {
            throw new AssertionError(e);
        }
    }

    /** Of all its processes. */
    public List<Long> pids() {
        return processes().stream().map(ProcessHandle::pid).collect(Collectors.toList());
    }

    Path data() {
        return data;
    }

    /** All that it has written to its log. */
    String log() {
        try {
            return Files.readString(folder.resolve("log"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Writes a file into its data folder, as its own. */
    void write(String name, String content) {
        try {
            Path file = Files.writeString(data.resolve(name), content);
            Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
            if (root) {
                run("chown", "postgres", file.toString());
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Makes a primary of a stand-by. */
    void promote() {
        run(asPostgres("pg_ctl", "promote", "-D", data.toString()));
    }

    /** Kills one of its processes; the server then ends all sessions, and recovers by itself. */
    void killBackend(int pid) {
        ProcessHandle backend = process.descendants()
                .filter(each -> each.pid() == pid)
                .findFirst()
                .orElseThrow(() -> new AssertionError(pid + " is no process of this server"));
        backend.destroyForcibly();
    }

    /** Ends it in good order, without waiting for those who are connected. */
    void stop() {
        run("kill", "-s", "INT", String.valueOf(process.pid()));
        try {
            if (!process.waitFor(60, TimeUnit.SECONDS)) {
                throw new AssertionError("does not stop: " + log());
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private List<ProcessHandle> processes() {
        List<ProcessHandle> all = new ArrayList<>();
        all.add(process.toHandle());
        process.toHandle().descendants().forEach(all::add);
        return all;
    }

    /** STOP or CONT to all processes of the server, the one that makes new ones first. */
    @Override
    public void signal(String name) {
        processes().forEach(each -> {
            try {
                // One that has ended meanwhile is none to fail for.
                new ProcessBuilder("kill", "-s", name, String.valueOf(each.pid()))
                        .redirectErrorStream(true)
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                        .start()
                        .waitFor();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
    }

    /** All processes at once, as a crash of the machine would; the disk keeps what was flushed, and more. */
    @Override
    public void kill() {
        List<ProcessHandle> all = processes();
        all.forEach(ProcessHandle::destroyForcibly);
        try {
            process.waitFor();
            for (ProcessHandle each : all) {
                while (each.isAlive() && !isZombie(each.pid())) {
                    TimeUnit.MILLISECONDS.sleep(2);
                }
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Dead, and not yet fetched by init, whose child it has become. */
    private static boolean isZombie(long pid) {
        try {
            return Files.readString(Path.of("/proc/" + pid + "/stat")).contains(") Z ");
        } catch (IOException e) {
            return false;
        }
    }

    @Override
    public void close() {
        try {
            if (process.isAlive()) {
                signal("CONT");
                // Fast: sessions are ended.
                run("kill", "-s", "INT", String.valueOf(process.pid()));
                if (!process.waitFor(20, TimeUnit.SECONDS)) {
                    kill();
                }
            }
            try (Stream<Path> files = Files.walk(folder)) {
                for (Path each : files.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
                    Files.delete(each);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
