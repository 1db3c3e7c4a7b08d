package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.spi.StoreUri;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.ServiceLoader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class JdbcProviderTest {
    @TempDir
    Path folder;

    private LockBackend open(String uri, Map<String, String> options) {
        return new JdbcProvider().open(StoreUri.parse(uri, options), TestStore.context(TestStore.CALL_TIMEOUT));
    }

    /** Found by ServiceLoader; serves SQLite only, and says so. */
    @Test
    void isFound() {
        assertThat(ServiceLoader.load(BackendProvider.class)).anySatisfy(provider -> {
            assertThat(provider).isInstanceOf(JdbcProvider.class);
            assertThat(provider.schemes()).containsOnlyKeys("jdbc:sqlite");
            assertThat(provider.options())
                    .extracting(Object::toString)
                    .singleElement()
                    .asString()
                    .contains("strategy");
        });
        assertThatThrownBy(() -> open("jdbc:postgresql://host/db", Map.of()))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("jdbc:postgresql")
                .hasMessageContaining("jdbc:sqlite");
    }

    /** SQLite knows no users: refused, without showing the secret. */
    @ParameterizedTest
    @CsvSource({"user, root", "password, s3cret"})
    void userAndPassword(String option, String value) {
        assertThatThrownBy(() -> open("jdbc:sqlite:" + folder.resolve("x.db"), Map.of(option, value)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(option)
                .hasMessageNotContaining(value);
        assertThat(folder).isEmptyDirectory();
    }

    @Test
    void strategy() {
        open("jdbc:sqlite:" + folder.resolve("x.db"), Map.of("strategy", "table"))
                .close();
        assertThatThrownBy(() -> open("jdbc:sqlite:" + folder.resolve("y.db"), Map.of("strategy", "advisory")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("strategy")
                .hasMessageContaining("table");
    }

    /** The scheme in capitals, a relative path, and a path with odd characters, all name a file. */
    @Test
    void paths() {
        open("JDBC:SQLITE:" + folder.resolve("capitals.db"), Map.of()).close();
        assertThat(folder.resolve("capitals.db")).exists();
        open("jdbc:sqlite:" + folder.resolve("spaces and ünïcode #1 100%25 ; a&b='c'.db"), Map.of())
                .close();
        assertThat(folder.resolve("spaces and ünïcode #1 100%25 ; a&b='c'.db")).exists();
        Path relative = Path.of("").toAbsolutePath().relativize(folder.resolve("relative.db"));
        open("jdbc:sqlite:" + relative, Map.of()).close();
        assertThat(folder.resolve("relative.db")).exists();
    }

    /** What is declared, and what is not: a step of the clock can end a lease early, a lost file frees its locks. */
    @Test
    void declares() {
        Guarantees guarantees = SqliteDialect.GUARANTEES;
        assertThat(guarantees.consistency()).isEqualTo(Consistency.DATABASE);
        assertThat(guarantees.exclusionSurvives())
                .containsExactlyInAnyOrder(
                        StoreEvent.RELEASE_AND_EXPIRY,
                        StoreEvent.CLIENT_CRASH,
                        StoreEvent.CONNECTION_LOSS,
                        StoreEvent.STORE_RESTART);
        assertThat(guarantees.tokensSurvive())
                .containsExactlyInAnyOrder(
                        StoreEvent.RELEASE_AND_EXPIRY,
                        StoreEvent.CLIENT_CRASH,
                        StoreEvent.CONNECTION_LOSS,
                        StoreEvent.STORE_RESTART,
                        StoreEvent.RESTART_WITHOUT_DATA,
                        StoreEvent.STORE_CLOCK_STEP);
        assertThat(guarantees.fair()).isFalse();
        assertThat(guarantees.outlivesClient()).isTrue();
        assertThat(guarantees.freedWithin(Duration.ofMillis(1))).isGreaterThan(guarantees.shortestLease());
        assertThat(guarantees.freedWithin(Duration.ofSeconds(30))).isEqualTo(Duration.ofMillis(30_050));
    }
}
