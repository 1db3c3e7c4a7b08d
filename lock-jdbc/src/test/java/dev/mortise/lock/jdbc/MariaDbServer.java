package dev.mortise.lock.jdbc;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A MariaDB server of the tests' own: its data in a temporary folder, on a free port of the loopback, with its socket in
 * that folder, and with the settings under which what is committed is on the disk. Its administrator {@code test} needs
 * no password; databases and users are made by the tests.
 */
public final class MariaDbServer implements DatabaseServer {
    private static final List<String> SETTINGS = List.of(
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--max-connections=200",
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=8M",
            // One a process is limited by the kernel, and several servers run here.
            "--innodb-use-native-aio=0",
            "--innodb-flush-log-at-trx-commit=1");

    private static MariaDbServer shared;

    /** A data folder as it was made once in this process; the others are copies. */
    private static Path template;

    private final Path folder;
    private final Path data;
    private final boolean root = System.getProperty("user.name").equals("root");
    private final List<String> settings;
    private final Map<String, String> environment;
    private int port;
    private Process process;

    /** With these options of mariadbd over those of the others. */
    public MariaDbServer(String... settings) {
        this(Map.of(), settings);
    }

    /** With these variables in its environment, such as TZ. */
    MariaDbServer(Map<String, String> environment, String... settings) {
        this.environment = environment;
        this.settings = List.of(settings);
        try {
            folder = folder("mmy");
            data = folder.resolve("data");
            run("cp", "-a", template().resolve("data").toString(), data.toString());
            // Run by the server at each start, before it answers.
            Files.write(
                    folder.resolve("init.sql"),
                    List.of(
                            "CREATE USER IF NOT EXISTS test@'%';",
                            "GRANT ALL ON *.* TO test@'%' WITH GRANT OPTION;",
                            "DROP USER IF EXISTS ''@'localhost';",
                            "CREATE DATABASE IF NOT EXISTS test;"));
            start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The one that most tests share; ends with this JVM. */
    static synchronized MariaDbServer shared() {
        if (shared == null) {
            MariaDbServer server = new MariaDbServer();
            Runtime.getRuntime().addShutdownHook(new Thread(server::close));
            shared = server;
        }
        return shared;
    }

    private Path folder(String prefix) throws IOException {
        Path made = Files.createTempDirectory(prefix);
        Files.setPosixFilePermissions(made, PosixFilePermissions.fromString("rwxr-xr-x"));
        if (root) {
            run("chown", "mysql", made.toString());
        }
        return made;
    }

    private Path template() throws IOException {
        synchronized (MariaDbServer.class) {
            if (template == null) {
                Path made = folder("mmyt");
                Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(made)));
                List<String> command = new ArrayList<>(List.of(
                        program("mariadb-install-db"),
                        "--no-defaults",
                        "--datadir=" + made.resolve("data"),
                        "--auth-root-authentication-method=normal",
                        "--skip-test-db",
                        "--skip-name-resolve",
                        "--innodb-log-file-size=8M",
                        "--innodb-use-native-aio=0"));
                if (root) {
                    command.add("--user=mysql");
                }
                run(command.toArray(String[]::new));
                template = made;
            }
            return template;
        }
    }

    private static String program(String name) {
        for (String folder : List.of("/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin")) {
            Path each = Path.of(folder, name);
            if (Files.isExecutable(each)) {
                return each.toString();
            }
        }
        throw new AssertionError("the MariaDB server (" + name + ") is not installed. Run ./verify, or this line:"
                + " sudo apt-get install -y --no-install-recommends mariadb-server");
    }

    private static void run(String... command) {
        try {
            Process done = new ProcessBuilder(command).redirectErrorStream(true).start();
            String output = new String(done.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (done.waitFor() != 0) {
                throw new AssertionError(List.of(command) + ": " + output);
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
                List<String> command = new ArrayList<>(List.of(
                        program("mariadbd"),
                        "--no-defaults",
                        "--datadir=" + data,
                        "--port=" + port,
                        "--socket=" + folder.resolve("s"),
                        "--pid-file=" + folder.resolve("pid"),
                        "--init-file=" + folder.resolve("init.sql")));
                if (root) {
                    command.add("--user=mysql");
                }
                command.addAll(SETTINGS);
                command.addAll(settings);
                ProcessBuilder builder = new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(ProcessBuilder.Redirect.appendTo(
                                folder.resolve("log").toFile()));
                builder.environment().putAll(environment);
                process = builder.start();
                if (answers()) {
                    return;
                }
                // The port was taken meanwhile.
                process.waitFor();
                if (i > 2) {
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
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (process.isAlive()) {
            try (Connection connection = connect()) {
                // Written before it listens; with its own number, so that nobody else's server is taken for it.
                String pid = Files.readString(folder.resolve("pid")).trim();
                String answering = text(connection, "SELECT @@pid_file");
                if (!pid.equals(String.valueOf(process.pid()))
                        || !folder.resolve("pid").toString().equals(answering)) {
                    throw new AssertionError("port " + port + " leads to another server");
                }
                return true;
            } catch (SQLException e) {
                if (System.nanoTime() > end) {
                    throw new AssertionError("not ready after a minute: " + Files.readString(folder.resolve("log")), e);
                }
                TimeUnit.MILLISECONDS.sleep(10);
            }
        }
        return false;
    }

    @Override
    public int port() {
        return port;
    }

    public long pid() {
        return process.pid();
    }

    /** Without user and options. */
    public String url(String database) {
        return "jdbc:mariadb://127.0.0.1:" + port + "/" + database;
    }

    /** The administrator's connection, to the database {@code test}. */
    Connection connect() throws SQLException {
        return DriverManager.getConnection(url("test") + "?user=test");
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
        try (Connection connection = connect()) {
            return text(connection, query);
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

    private static String text(Connection connection, String query) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(query)) {
            return rows.next() ? rows.getString(1) : null;
        }
    }

    Path folder() {
        return folder;
    }

    /** STOP or CONT. */
    @Override
    public void signal(String name) {
        run("kill", "-s", name, String.valueOf(process.pid()));
    }

    /** At once, as a crash would; the disk keeps what was flushed, and more. */
    @Override
    public void kill() {
        process.destroyForcibly();
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Ends it in order; it can be started again. */
    void stop() {
        try {
            if (process.isAlive()) {
                signal("CONT");
                signal("TERM");
                if (!process.waitFor(20, TimeUnit.SECONDS)) {
                    kill();
                }
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public void close() {
        // Nobody needs what it would write in order.
        kill();
        delete(folder);
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
}
