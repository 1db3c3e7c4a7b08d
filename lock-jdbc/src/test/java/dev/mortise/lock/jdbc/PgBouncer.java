package dev.mortise.lock.jdbc;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A PgBouncer of a test's own in front of a server, on a free port of the loopback. Everybody is {@code test} there. */
final class PgBouncer implements AutoCloseable {
    private final Path folder;
    private final boolean root = System.getProperty("user.name").equals("root");
    private final int port;
    private final Process process;

    /** With these lines in its section [pgbouncer], pool_mode among them. */
    PgBouncer(PostgresServer server, String... settings) {
        try {
            folder = Files.createTempDirectory("mpb");
            Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
            try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                port = free.getLocalPort();
            }
            List<String> lines = new ArrayList<>();
            lines.add("[databases]");
            lines.add("postgres = host=127.0.0.1 port=" + server.port() + " user=test");
            lines.add("[pgbouncer]");
            lines.add("listen_addr = 127.0.0.1");
            lines.add("listen_port = " + port);
            lines.add("unix_socket_dir =");
            lines.add("auth_type = any");
            lines.addAll(List.of(settings));
            Path ini = Files.write(folder.resolve("pgbouncer.ini"), lines);
            List<String> command = new ArrayList<>();
            if (root) {
                // It refuses to run as root.
                Collections.addAll(command, "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups");
            }
            Collections.addAll(command, program(), ini.toString());
            process = new ProcessBuilder(command)
                    .directory(folder.toFile())
                    .redirectErrorStream(true)
                    .redirectOutput(folder.resolve("log").toFile())
                    .start();
            awaitListening();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static String program() {
        for (String each : List.of("/usr/sbin/pgbouncer", "/usr/bin/pgbouncer")) {
            if (Files.isExecutable(Path.of(each))) {
                return each;
            }
        }
        throw new AssertionError("PgBouncer is not installed. Run ./verify, or this line:"
                + " sudo apt-get install -y --no-install-recommends pgbouncer");
    }

    private void awaitListening() throws IOException, InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (true) {
            try {
                new Socket(InetAddress.getLoopbackAddress(), port).close();
                return;
            } catch (IOException e) {
                if (!process.isAlive() || System.nanoTime() - end > 0) {
                    throw new AssertionError("does not start: " + Files.readString(folder.resolve("log")), e);
                }
                TimeUnit.MILLISECONDS.sleep(10);
            }
        }
    }

    int port() {
        return port;
    }

    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
            try (Stream<Path> files = Files.walk(folder)) {
                for (Path each : files.sorted(Comparator.reverseOrder()).toList()) {
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
