package dev.mortise.lock.etcd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.PutOption;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** The application's own client of etcd: locks over it, and transactions that happen only while a lock is held. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class EtcdFenceTest {
    private static final Duration LONG = Duration.ofSeconds(30);

    private EtcdServer server;
    private Client client;

    @BeforeAll
    void start() {
        server = new EtcdServer();
        client = Client.builder().endpoints("http://127.0.0.1:" + server.port()).build();
    }

    @AfterAll
    void stop() {
        client.close();
        server.close();
    }

    private static Claim claim(String name, Duration lease) {
        return Claim.of(name, "test~" + UUID.randomUUID(), lease);
    }

    private static ByteSequence bytes(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }

    private LockBackend own() {
        return EtcdLocks.over(client, "mortise", BackendContext.of(System::nanoTime, Duration.ofSeconds(5)));
    }

    private EtcdBackend direct() {
        return EtcdStore.connect("127.0.0.1:" + server.port(), Duration.ofSeconds(5), Map.of());
    }

    private boolean write(Cmp held, String value) throws Exception {
        return client.getKVClient()
                .txn()
                .If(held)
                .Then(Op.put(bytes("balance"), bytes(value), PutOption.DEFAULT))
                .commit()
                .get(30, TimeUnit.SECONDS)
                .isSucceeded();
    }

    @Test
    void aTransactionHappensOnlyWhileTheLockIsHeld() throws Exception {
        EtcdFence fence = new EtcdFence(client);
        try (EtcdBackend backend = direct()) {
            Claim first = claim("fenced", Duration.ofSeconds(60));
            Grant old = backend.acquire(first, Duration.ZERO).grant().orElseThrow();
            Cmp held = fence.of("fenced", old.token()).orElseThrow();
            assertThat(write(held, "1")).isTrue();
            backend.release(first);
            assertThat(write(held, "2")).isFalse();
            Grant next = backend.acquire(claim("fenced", Duration.ofSeconds(60)), Duration.ZERO)
                    .grant()
                    .orElseThrow();
            assertThat(write(held, "3")).isFalse();
            assertThat(fence.of("fenced", old.token())).isEmpty();
            assertThat(write(fence.of("fenced", next.token()).orElseThrow(), "4"))
                    .isTrue();
        }
    }

    /** Who waits is no holder, though its key is there with its revision. */
    @Test
    void aWaiterHasNone() throws Exception {
        EtcdFence fence = new EtcdFence(client);
        try (EtcdBackend holder = direct();
                EtcdBackend waiter = direct()) {
            Claim held = claim("line", Duration.ofSeconds(60));
            Grant grant = holder.acquire(held, Duration.ZERO).grant().orElseThrow();
            Thread waits = EtcdStore.inAThread(() -> {
                try {
                    waiter.acquire(claim("line", Duration.ofSeconds(60)), LONG);
                } catch (InterruptedException | LockStoreException e) {
                    Thread.currentThread().interrupt();
                }
            });
            Awaitility.await()
                    .atMost(LONG)
                    .until(() -> server.count(Keys.of("mortise", "line").start()) == 2);
            String all = server.post(
                    "/v3/kv/range",
                    "{\"key\":\"" + EtcdServer.base64("mortise//line/") + "\",\"range_end\":\""
                            + EtcdServer.base64("mortise//line0") + "\"}");
            List<Long> revisions = java.util.regex.Pattern.compile("\"create_revision\":\"(\\d+)\"")
                    .matcher(all)
                    .results()
                    .map(m -> Long.valueOf(m.group(1)))
                    .toList();
            assertThat(revisions).hasSize(2).contains(grant.token());
            for (long revision : revisions) {
                assertThat(fence.of("line", revision).isPresent()).isEqualTo(revision == grant.token());
            }
            waits.interrupt();
            waits.join();
        }
    }

    @Test
    void saysWhatItWasGiven() {
        EtcdFence fence = new EtcdFence(client);
        assertThatThrownBy(() -> fence.of("", 1))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("name");
        assertThatThrownBy(() -> fence.of("x", 0))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("token");
        assertThatThrownBy(() -> new EtcdFence(client, "a b", LONG))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("prefix");
        assertThatThrownBy(() -> new EtcdFence(client, "a", Duration.ZERO))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("timeout");
    }

    /** The whole life of a claim, and both ways exclude each other. */
    @Test
    void anOwnClientLocksAsTheUriDoes() throws Exception {
        try (LockBackend mine = own();
                EtcdBackend theirs = direct()) {
            Claim held = claim("own", Duration.ofSeconds(30));
            Grant grant = mine.acquire(held, Duration.ZERO).grant().orElseThrow();
            assertThat(theirs.acquire(claim("own", Duration.ofSeconds(30)), Duration.ZERO)
                            .grant())
                    .isEmpty();
            Grant renewed = mine.renew(List.of(grant)).live().get(0);
            assertThat(renewed.since() - grant.since()).isPositive();
            assertThat(renewed.token()).isEqualTo(grant.token());
            assertThat(mine.acquire(held, Duration.ZERO).grant().orElseThrow().token())
                    .isEqualTo(grant.token());
            assertThat(mine.holder("own").orElseThrow().owner()).isEqualTo(held.owner());
            Claim other = claim("own", Duration.ofSeconds(30));
            Thread release = EtcdStore.inAThread(() -> {
                Awaitility.await()
                        .atMost(LONG)
                        .until(() -> server.count(Keys.of("mortise", "own").start()) == 2);
                mine.release(held);
            });
            Grant next = theirs.acquire(other, LONG).grant().orElseThrow();
            release.join();
            assertThat(next.token()).isGreaterThan(grant.token());
            // And the other way round, with mine waiting.
            Claim third = claim("own", Duration.ofSeconds(30));
            Thread hands = EtcdStore.inAThread(() -> {
                Awaitility.await()
                        .atMost(LONG)
                        .until(() -> server.count(Keys.of("mortise", "own").start()) == 2);
                theirs.release(other);
            });
            assertThat(mine.acquire(third, LONG).grant().orElseThrow().token()).isGreaterThan(next.token());
            hands.join();
            assertThat(mine.renew(List.of(grant)).ended()).containsExactly(grant);
            assertThat(mine.release(third)).isTrue();
            assertThat(mine.release(third)).isFalse();
            assertThat(server.count("mortise//own/")).isZero();
        }
        // It is the application's still.
        assertThat(client.getKVClient().get(bytes("x")).get(30, TimeUnit.SECONDS))
                .isNotNull();
    }

    @Test
    void aClientOfLocksWorksOverIt() throws InterruptedException {
        try (LockClient locks = LockClient.builder(EtcdLocks.over(client)).build()) {
            long first = token(locks);
            assertThat(token(locks)).isGreaterThan(first);
        }
    }

    private static long token(LockClient locks) throws InterruptedException {
        long[] token = new long[1];
        locks.lock("by the client").run(lease -> token[0] = lease.token());
        return token[0];
    }

    @Test
    void aClosedClientIsSaid() {
        Client closed =
                Client.builder().endpoints("http://127.0.0.1:" + server.port()).build();
        try (LockBackend backend =
                EtcdLocks.over(closed, "mortise", BackendContext.of(System::nanoTime, Duration.ofSeconds(2)))) {
            closed.close();
            assertThatThrownBy(() -> backend.acquire(claim("closed", Duration.ofSeconds(30)), Duration.ZERO))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("jetcd");
        }
    }
}
