package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.h2.tools.Server;

/** A database of its own, a file, behind an H2 server in this process. */
final class H2Store extends TestStore {
    private static final AtomicInteger DATABASES = new AtomicInteger();
    private static Server shared;

    final String url;
    private final String adminUrl;

    H2Store() {
        this(shared().getPort(), shared().getPort());
    }

    /** With another way to the server for clients than for an administrator: the port of a proxy. */
    H2Store(int port, int adminPort) {
        String database = "/d" + DATABASES.incrementAndGet();
        url = "jdbc:h2:tcp://127.0.0.1:" + port + database;
        adminUrl = "jdbc:h2:tcp://127.0.0.1:" + adminPort + database;
    }

    private static synchronized Server shared() {
        if (shared == null) {
            shared = serve();
        }
        return shared;
    }

    private static Server serve() {
        try {
            Path folder = Files.createTempDirectory("mh2");
            Server server = Server.createTcpServer("-tcpPort", "0", "-ifNotExists", "-baseDir", folder.toString())
                    .start();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                server.stop();
                delete(folder);
            }));
            return server;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (SQLException e) {
            throw new AssertionError(e);
        }
    }

    static void delete(Path folder) {
        try (var files = Files.list(folder)) {
            for (Path each : files.toList()) {
                Files.deleteIfExists(each);
            }
            Files.delete(folder);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    BackendProvider provider() {
        return new H2Provider();
    }

    @Override
    StoreUri uri() {
        return StoreUri.parse(url, Map.of("user", "sa"));
    }

    @Override
    List<String> arguments() {
        return List.of(url, "user=sa");
    }

    @Override
    String adminUrl() {
        return adminUrl + ";USER=sa";
    }

    @Override
    String now() {
        return "CAST(FLOOR(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) * 1000) AS BIGINT)";
    }

    /** None: rows can be locked, but not those that are not there, nor reads. */
    @Override
    String standstill() {
        return "";
    }

    @Override
    Dialect dialect(Duration callTimeout, UnaryOperator<Connection> wrapping) {
        H2Provider.Url own = new H2Provider.Url(uri());
        return new H2Dialect(
                new ServerDialect.Source() {
                    @Override
                    public String store() {
                        return own.store();
                    }

                    @Override
                    public boolean own() {
                        return true;
                    }

                    @Override
                    public Connection connect(long nanos) throws SQLException {
                        return wrapping.apply(own.connect(nanos));
                    }
                },
                null);
    }
}
