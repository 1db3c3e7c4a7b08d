package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.LockBackend;
import java.io.File;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Two applications in one JVM, each with its own driver, as in a servlet container. */
class TwoCopiesTest {

    /** Opens with everything loaded anew. */
    private static AutoCloseable openIn(ClassLoader loader, Path file) throws Exception {
        Class<?> uri = loader.loadClass("dev.mortise.lock.spi.StoreUri");
        Class<?> context = loader.loadClass("dev.mortise.lock.spi.BackendContext");
        LongSupplier ticker = System::nanoTime;
        return (AutoCloseable) loader.loadClass(BackendProvider.class.getName())
                .getMethod("open", uri, context)
                .invoke(
                        loader.loadClass(JdbcProvider.class.getName())
                                .getConstructor()
                                .newInstance(),
                        uri.getMethod("parse", String.class, Map.class).invoke(null, "jdbc:sqlite:" + file, Map.of()),
                        context.getMethod("of", LongSupplier.class, Duration.class)
                                .invoke(null, ticker, Duration.ofSeconds(3)));
    }

    private static URLClassLoader loader() {
        URL[] urls = Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator, -1))
                .map(entry -> {
                    try {
                        return Path.of(entry).toUri().toURL();
                    } catch (MalformedURLException e) {
                        throw new AssertionError(e);
                    }
                })
                .toArray(URL[]::new);
        return new URLClassLoader(urls, ClassLoader.getPlatformClassLoader());
    }

    /** The second is refused, and does not disturb the first; when the first has closed, the second may. */
    @Test
    void areRefused(@TempDir Path folder) throws Exception {
        try (SqliteStore store = new SqliteStore(folder);
                URLClassLoader loader = loader()) {
            LockBackend a = store.client();
            LockBackend b = store.client();
            TestStore.granted(a, TestStore.claim("n"));
            assertThatThrownBy(() -> openIn(loader, store.file))
                    .cause()
                    .hasMessageContaining("two class loaders")
                    .hasMessageContaining("one class loader above both");
            assertThat(TestStore.acquire(b, TestStore.claim("n"))).isEmpty();
            a.close();
            assertThatThrownBy(() -> openIn(loader, store.file)).cause().hasMessageContaining("two class loaders");
            b.close();
            b.close();
            try (AutoCloseable other = openIn(loader, store.file)) {
                assertThat(other).isNotInstanceOf(LockBackend.class);
                assertThatThrownBy(store::client).hasMessageContaining("two class loaders");
            }
            store.client();
        }
    }
}
