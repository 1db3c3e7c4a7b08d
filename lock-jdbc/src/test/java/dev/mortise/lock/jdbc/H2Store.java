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
    private static final Server SERVER = serve();

    final String url;

    H2Store() {
        url = "jdbc:h2:" + SERVER.getURL() + "/d" + DATABASES.incrementAndGet();
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

    private static void delete(Path folder) {
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
        return url + ";USER=sa";
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
