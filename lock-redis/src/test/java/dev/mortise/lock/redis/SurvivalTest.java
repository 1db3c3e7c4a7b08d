package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.tck.TcpProxy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What befalls the server: tokens grow through all of it; exclusion does not, and that is shown. */
class SurvivalTest {
    private static Grant acquire(RedisBackend backend) throws InterruptedException {
        return backend.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant().orElseThrow();
    }

    private static RedisBackend connect(RedisServer server) {
        return RedisStore.connect(server.port(), RedisStore.CALL_TIMEOUT, Map.of());
    }

    /** The first answer after a restart may be that of a connection that the restart broke. */
    private static Grant afterRestart(RedisBackend backend) throws InterruptedException {
        try {
            return acquire(backend);
        } catch (LockStoreException e) {
            return acquire(backend);
        }
    }

    @Test
    void tokensGrowAcrossARestartWithoutData() throws InterruptedException {
        try (RedisServer server = new RedisServer();
                RedisBackend old = connect(server)) {
            long last = 0;
            for (int i = 0; i < 5; i++) {
                Grant grant = afterRestart(old);
                assertThat(grant.token()).isGreaterThan(last);
                last = grant.token();
                server.kill();
                server.start();
                // Known to be unsafe: the first holder still counts on it. The token tells them apart.
                try (RedisBackend other = connect(server)) {
                    Grant second = acquire(other);
                    assertThat(second.token()).isGreaterThan(grant.token());
                    last = second.token();
                    assertThat(other.release(second.claim())).isTrue();
                }
            }
        }
    }

    @Test
    void anOldSnapshotIsNoMatterForTokens() throws InterruptedException {
        try (RedisServer server = new RedisServer("--save", "3600 100000");
                RedisBackend backend = connect(server)) {
            backend.release(acquire(backend).claim());
            server.ask("SAVE");
            long last = 0;
            for (int i = 0; i < 3; i++) {
                Grant grant = afterRestart(backend);
                assertThat(grant.token()).isGreaterThan(last);
                last = grant.token();
                assertThat(backend.release(grant.claim())).isTrue();
                server.kill();
                server.start();
            }
        }
    }

    @Test
    void aLockSurvivesARestartWithItsData() throws InterruptedException {
        try (RedisServer server = new RedisServer("--appendonly", "yes", "--appendfsync", "always");
                RedisBackend backend = connect(server)) {
            Grant grant = acquire(backend);
            server.kill();
            server.start();
            try (RedisBackend other = connect(server)) {
                assertThat(other.acquire(ScriptsTest.claim("a"), Duration.ZERO).grant())
                        .isEmpty();
                assertThat(other.renew(List.of(grant)).live()).hasSize(1);
                assertThat(other.release(grant.claim())).isTrue();
                assertThat(acquire(other).token()).isGreaterThan(grant.token());
            }
        }
    }

    /** Ends by the server's wall clock, so the time that it was down counts. */
    @Test
    void aLeaseGoesOnWhileTheServerIsDown() throws Exception {
        try (RedisServer server = new RedisServer("--appendonly", "yes", "--appendfsync", "always");
                RedisBackend backend = connect(server)) {
            Claim claim = ScriptsTest.claim("a", Duration.ofMillis(500));
            Grant grant = backend.acquire(claim, Duration.ZERO).grant().orElseThrow();
            server.kill();
            java.util.concurrent.TimeUnit.MILLISECONDS.sleep(600);
            server.start();
            try (RedisBackend other = connect(server)) {
                assertThat(other.renew(List.of(grant)).ended()).hasSize(1);
                assertThat(acquire(other).token()).isGreaterThan(grant.token());
            }
        }
    }

    /** RD-13: a replica that missed the grants takes over. */
    @Test
    void tokensGrowAcrossThePromotionOfAStaleReplica() throws Exception {
        try (RedisServer master = new RedisServer();
                TcpProxy link = new TcpProxy(master.port());
                RedisServer replica = new RedisServer("--replicaof", "127.0.0.1 " + link.port());
                RedisBackend before = connect(master)) {
            backToBack(replica);
            Grant first = acquire(before);
            before.release(first.claim());
            await().until(() -> replica.ask("GET", Keys.of(Keys.PREFIX, "a").fence()) != null);
            // From here on the replica hears nothing.
            link.replies(TcpProxy.Mode.DROP);
            Grant second = acquire(before);
            replica.ask("REPLICAOF", "NO", "ONE");
            try (RedisBackend after = connect(replica)) {
                // Known to be unsafe: two holders. The resource refuses the older.
                Grant third = acquire(after);
                assertThat(third.token()).isGreaterThan(second.token());
                assertThat(before.renew(List.of(second)).live()).hasSize(1);
                assertThat(after.renew(List.of(second)).ended()).hasSize(1);
                assertThat(after.release(second.claim())).isFalse();
                assertThat(after.renew(List.of(third)).live()).hasSize(1);
            }
        }
    }

    private static void backToBack(RedisServer replica) {
        await().atMost(Duration.ofSeconds(30))
                .until(() ->
                        replica.info("replication").get("master_link_status").equals("up"));
    }

    @Test
    void whoAsksForReplicasGetsThem() throws Exception {
        try (RedisServer master = new RedisServer();
                TcpProxy link = new TcpProxy(master.port());
                RedisServer replica = new RedisServer("--replicaof", "127.0.0.1 " + link.port())) {
            backToBack(replica);
            assertThatThrownBy(
                            () -> RedisStore.connect(master.port(), RedisStore.CALL_TIMEOUT, Map.of("replicas", "2")))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("1 replicas, fewer than the 2 asked for");
            try (RedisBackend backend =
                    RedisStore.connect(master.port(), Duration.ofSeconds(1), Map.of("replicas", "1"))) {
                Grant grant = acquire(backend);
                String lock = Keys.of(Keys.PREFIX, "a").lock();
                assertThat(replica.ask("GET", lock)).isNotNull();
                assertThat(backend.renew(List.of(grant)).live()).hasSize(1);
                Grant heir = backend.adopt(grant, ScriptsTest.claim("a")).orElseThrow();
                assertThat((String) replica.ask("GET", lock)).endsWith(heir.owner());
                // A replica that hears nothing acknowledges nothing.
                link.replies(TcpProxy.Mode.HOLD);
                assertThatThrownBy(() -> backend.renew(List.of(heir))).isInstanceOf(LockStoreException.class);
                assertThat(backend.release(heir.claim())).isTrue();
                LockStoreException few = (LockStoreException) catchThrowable(() -> acquire(backend));
                assertThat(few).hasMessageContaining("0 of 1 replicas").hasMessageContaining("was given back");
                assertThat(few.mayHaveTakenEffect()).isFalse();
                assertThat(master.ask("EXISTS", lock)).isEqualTo(0L);
                // Somebody else's lock is told of at once, whatever the replicas do.
                try (RedisBackend other = connect(master)) {
                    Grant held = acquire(other);
                    assertThat(backend.acquire(ScriptsTest.claim("a"), Duration.ZERO)
                                    .grant())
                            .isEmpty();
                    assertThat(other.release(held.claim())).isTrue();
                }
                link.heal();
                await().atMost(Duration.ofSeconds(30)).ignoreExceptions().until(() -> acquire(backend) != null);
            }
        }
    }
}
