package dev.mortise.lock.jdbc;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.h2.tools.Server;

/** An H2 server in a process of its own. */
final class H2Server implements DatabaseServer {
    private final Path folder;
    private final Map<String, String> environment;
    private final int port;
    private final Thread atExit = new Thread(this::kill);
    private Child process;

    /** With these variables in its environment. */
    H2Server(Map<String, String> environment) {
        this.environment = environment;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
            folder = Files.createTempDirectory("mh2");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Runtime.getRuntime().addShutdownHook(atExit);
        start();
    }

    @Override
    public void start() {
        try {
            process = Child.start(
                    environment,
                    List.of(),
                    Server.class,
                    "-tcp",
                    "-tcpPort",
                    String.valueOf(port),
                    "-ifNotExists",
                    "-baseDir",
                    folder.toString());
            await().atMost(Duration.ofSeconds(60))
                    .pollInterval(Duration.ofMillis(10))
                    .ignoreExceptionsInstanceOf(IOException.class)
                    .until(() -> {
                        new Socket(InetAddress.getLoopbackAddress(), port).close();
                        return true;
                    });
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public int port() {
        return port;
    }

    @Override
    public void signal(String name) {
        try {
            process.signal(name);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public void kill() {
        try {
            process.kill();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public void close() {
        kill();
        H2Store.delete(folder);
        try {
            Runtime.getRuntime().removeShutdownHook(atExit);
        } catch (IllegalStateException e) {
            // This JVM ends.
        }
    }
}
