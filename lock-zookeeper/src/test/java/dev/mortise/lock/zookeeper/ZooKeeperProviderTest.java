package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.curator.framework.AuthInfo;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.imps.CuratorFrameworkState;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.junit.jupiter.api.Test;

/** How locks are opened: by URI, and over the application's own Curator client. */
class ZooKeeperProviderTest {
    private static final BackendContext CONTEXT = BackendContext.of(System::nanoTime, Duration.ofSeconds(3));

    private static LockBackend open(String uri, Map<String, String> options) {
        return new ZooKeeperProvider().open(StoreUri.parse(uri, options), CONTEXT);
    }

    /** Before any I/O: nobody is at these addresses. */
    @Test
    void whatMakesNoSenseIsRefused() {
        Map<String, String> none = Map.of();
        refused("zookeeper://", none, "host");
        refused("zookeeper://h", Map.of("trust", "x.pem"), "trust");
        refused("zookeeper://h", Map.of("identity", "x.pem"), "identity");
        refused("zookeeper://h", Map.of("tls", "true", "trust", "/nowhere/x.pem"), "/nowhere/x.pem");
        refused("zookeeper://me@h", none, "password");
        refused("zookeeper://h", Map.of("password", "geheim"), "user");
        refused("zookeeper://h", Map.of("user", "a:b", "password", "geheim"), "colon");
        refused("zookeeper://h", Map.of("shortest-lease", "5ms"), "shortest-lease");
        refused("zookeeper://h", Map.of("shortest-lease", "2m"), "shortest-lease");
        refused("zookeeper://h/a//b", none, "path");
        refused("zookeeper://h/a/../b", none, "path");
        refused("zookeeper://h/zookeeper", none, "path");
        refused("redis://h", none, "redis");
    }

    private static void refused(String uri, Map<String, String> options, String says) {
        assertThatThrownBy(() -> open(uri, options))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(says)
                .hasMessageNotContaining("geheim");
    }

    @Test
    void aServerThatIsNotThere() {
        int port = ZooKeeperServer.freePort();
        assertThatThrownBy(() -> new ZooKeeperProvider()
                        .open(
                                StoreUri.parse("zookeeper://me:geheim@127.0.0.1:" + port, Map.of()),
                                BackendContext.of(System::nanoTime, Duration.ofSeconds(1))))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("127.0.0.1:" + port)
                .hasMessageContaining("refused")
                .hasMessageNotContaining("geheim");
    }

    /** Both are for the same locks; with a login their nodes are that login's alone. */
    @Test
    void theApplicationsOwnClient() throws Exception {
        try (ZooKeeperServer server = new ZooKeeperServer();
                CuratorFramework curator = CuratorFrameworkFactory.builder()
                        .connectString(server.connectString())
                        .namespace("app")
                        .retryPolicy(new RetryOneTime(100))
                        .build()) {
            assertThatThrownBy(() -> ZooKeeperLocks.over(curator))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("started");
            curator.start();
            List<AuthInfo> logins = List.of(new AuthInfo("digest", "me:geheim".getBytes(StandardCharsets.UTF_8)));
            Duration lease = Duration.ofSeconds(5);
            Claim first = Claim.of("a", "test~1", lease);
            Claim second = Claim.of("a", "test~2", lease);
            ZooKeeper administrator = ZooKeeperStore.connectPlainly(server.connectString());
            administrator.addAuthInfo("digest", "me:geheim".getBytes(StandardCharsets.UTF_8));
            try (LockBackend own = ZooKeeperLocks.over(curator, logins, CONTEXT);
                    LockBackend plain = open("zookeeper://me:geheim@" + server.connectString() + "/app", Map.of())) {
                Grant grant = own.acquire(first, Duration.ZERO).grant().orElseThrow();
                assertThat(plain.acquire(second, Duration.ZERO).grant()).isEmpty();
                assertThat(own.renew(List.of(grant)).live()).hasSize(1);
                for (String path : List.of("/app", "/app/mortise", "/app/mortise/a")) {
                    for (ACL right : administrator.getACL(path, null)) {
                        assertThat(right.getId().getScheme()).as(path).isEqualTo("digest");
                        assertThat(right.getId().getId()).as(path).startsWith("me:");
                    }
                }
                assertThat(own.release(first)).isTrue();
                Claim third = Claim.of("a", "test~3", lease);
                assertThat(plain.acquire(third, Duration.ZERO).grant()).isPresent();
                assertThat(plain.release(third)).isTrue();
                assertThat(own.toString() + plain).doesNotContain("geheim");
            } finally {
                administrator.close();
            }
            assertThat(curator.getState())
                    .as("it is the application's to close")
                    .isEqualTo(CuratorFrameworkState.STARTED);
        }
    }
}
