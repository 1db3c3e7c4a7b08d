package dev.mortise.lock.etcd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** URIs, options, and what is looked at when a store is opened. */
class EtcdProviderTest {
    private static LockBackend open(String uri) {
        return new EtcdProvider()
                .open(StoreUri.parse(uri, Map.of()), BackendContext.of(System::nanoTime, Duration.ofSeconds(6)));
    }

    private static void assertBad(String uri, String... says) {
        assertThatThrownBy(() -> open(uri))
                .as(uri)
                .isInstanceOf(IllegalArgumentException.class)
                .satisfies(e -> {
                    for (String each : says) {
                        assertThat(e).hasMessageContaining(each);
                    }
                    assertThat(e.toString()).doesNotContain("hunter2");
                });
    }

    @Test
    void badUrisAreRefusedBeforeAnyInput() {
        assertBad("etcd://", "host", "etcd://host:2379");
        assertBad("etcd://a/x", "path", "prefix");
        assertBad("etcd://a?prefix=a%7Bb", "prefix");
        assertBad("etcd://a?prefix=", "prefix");
        assertBad("etcd://a?prefix=x%2F", "prefix");
        assertBad("etcd://a?prefix=x%2F%2Fy", "prefix");
        assertBad("etcd://a?trust=x", "trust", "etcds://");
        assertBad("etcd://a?identity=x", "identity", "etcds://");
        assertBad("etcds://u:hunter2@a?trust=%2Fnot%2Fthere", "trust", "/not/there");
        assertBad("etcds://u:hunter2@a?identity=%2Fnot%2Fthere", "identity", "/not/there");
        assertBad("etcd://u@a", "password");
        assertBad("etcd://:hunter2@a", "user");
        assertBad("etcd3://a", "etcd3");
    }

    @Test
    void optionsAreDescribed() {
        assertThat(new EtcdProvider().options()).hasSize(3).allSatisfy(option -> {
            assertThat(option.sentence()).endsWith(".");
            assertThat(option.name()).matches("[a-z-]+");
        });
    }

    @Test
    void aServerThatIsDownIsSaid() {
        int port = EtcdServer.freePort();
        assertThatThrownBy(() -> open("etcd://u:hunter2@127.0.0.1:" + port))
                .isInstanceOfSatisfying(LockStoreException.class, e -> {
                    assertThat(e.store()).isEqualTo("etcd://127.0.0.1:" + port);
                    assertThat(e.mayHaveTakenEffect()).isFalse();
                })
                .hasMessageContaining("open")
                .hasMessageContaining("127.0.0.1:" + port)
                .hasMessageContaining("refused")
                .hasMessageContaining("check that the server runs");
    }

    @Test
    void serversOfTwoClustersAreRefused() {
        try (EtcdServer one = new EtcdServer("--initial-cluster-token", "one");
                EtcdServer other = new EtcdServer("--initial-cluster-token", "other")) {
            assertThatThrownBy(() -> open("etcd://127.0.0.1:" + one.port() + ",127.0.0.1:" + other.port()))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("two clusters");
        }
    }

    /** One of the names that is down does not keep the others from being used, nor does the order matter. */
    @Test
    void oneServerOfThoseNamedIsEnoughAndIsFoundByItsScheme() throws InterruptedException {
        try (EtcdServer server = new EtcdServer()) {
            String down = "127.0.0.1:" + EtcdServer.freePort();
            String up = "127.0.0.1:" + server.port();
            for (String hosts : new String[] {down + "," + up, up + "," + down}) {
                try (LockClient locks = LockClient.connect("etcd://" + hosts)) {
                    assertThat(locks.lock("found").tryAcquire()).hasValueSatisfying(lease -> {
                        assertThat(lease.isHeld()).isTrue();
                        assertThat(lease.release()).isTrue();
                    });
                }
            }
        }
    }
}
