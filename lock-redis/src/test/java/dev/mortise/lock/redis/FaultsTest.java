package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The network, the server and the caller fail at every place: calls end, and nothing is lost track of. */
class FaultsTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(1);

    /** What a busy machine may add. */
    private static final long SLACK = TimeUnit.SECONDS.toNanos(4);

    private RedisStore store;
    private RedisBackend near;
    private RedisBackend far;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    @BeforeEach
    void start() throws InterruptedException {
        store = new RedisStore();
        // One beside the server, and one behind the network that fails.
        near = RedisStore.connect(store.server.port(), RedisStore.CALL_TIMEOUT, Map.of());
        far = store.connect(CALL_TIMEOUT, Map.of());
        Grant grant = acquire(near, "scripts");
        near.renew(List.of(grant));
        near.adopt(grant, ScriptsTest.claim("scripts")).ifPresent(heir -> near.release(heir.claim()));
    }

    @AfterEach
    void stop() throws InterruptedException {
        store.server.signal("CONT");
        threads.shutdownNow();
        far.close();
        near.close();
        store.close();
        assertThat(threads.awaitTermination(20, TimeUnit.SECONDS)).isTrue();
    }

    private static Grant acquire(RedisBackend backend, String name) throws InterruptedException {
        return backend.acquire(ScriptsTest.claim(name), Duration.ZERO).grant().orElseThrow();
    }

    private boolean isHeld(String name) {
        return store.server.ask("EXISTS", Keys.of(Keys.PREFIX, name).lock()).equals(1L);
    }

    private long runs() {
        return store.server.calls().getOrDefault("evalsha", 0L);
    }

    private Map<String, Callable<?>> operations(RedisBackend backend, Grant grant) {
        Map<String, Callable<?>> operations = new LinkedHashMap<>();
        operations.put("acquire", () -> backend.acquire(ScriptsTest.claim("x"), Duration.ZERO));
        operations.put("wait", () -> backend.acquire(ScriptsTest.claim("y"), Duration.ofMillis(200)));
        operations.put("renew", () -> backend.renew(List.of(grant)));
        operations.put("release", () -> backend.release(grant.claim()));
        operations.put("adopt", () -> backend.adopt(grant, ScriptsTest.claim(grant.name())));
        operations.put("holder", () -> backend.holder("x"));
        return operations;
    }

    /** All of them fail, in time, and say what they were. */
    private void assertAllEnd(RedisBackend backend, Grant grant) {
        operations(backend, grant).forEach((name, operation) -> {
            long start = System.nanoTime();
            Throwable thrown = catchThrowable(operation::call);
            long took = System.nanoTime() - start;
            assertThat(thrown)
                    .as(name)
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("redis://127.0.0.1:")
                    .hasMessageContaining(name.equals("holder") ? "look at" : name.equals("wait") ? "acquire" : name);
            assertThat(took).as(name).isLessThan(CALL_TIMEOUT.plusMillis(200).toNanos() + SLACK);
        });
    }

    @Test
    void aBlackHoleEndsEveryCall() throws InterruptedException {
        Grant grant = acquire(far, "a");
        store.network.requests(TcpProxy.Mode.DROP);
        assertAllEnd(far, grant);
        // New connections, too.
        assertAllEnd(far, grant);
        store.network.heal();
        assertThat(far.renew(List.of(grant)).live()).hasSize(1);
        assertThat(far.release(grant.claim())).isTrue();
    }

    @Test
    void lostAnswersEndEveryCall() throws InterruptedException {
        Grant grant = acquire(far, "a");
        store.network.replies(TcpProxy.Mode.DROP);
        assertAllEnd(far, grant);
        store.network.heal();
        assertThat(far.release(grant.claim())).isTrue();
        assertThat(isHeld("a")).isFalse();
    }

    @Test
    void aStoppedServerEndsEveryCall() throws InterruptedException {
        Grant grant = acquire(far, "a");
        store.server.signal("STOP");
        assertAllEnd(far, grant);
        store.server.signal("CONT");
        // What was given up was taken back with its connection, or is carried out now.
        boolean unused = far.release(grant.claim());
        assertThat(isHeld("a")).isFalse();
    }

    @Test
    void aDeadServerIsToldAtOnce() throws InterruptedException {
        Grant grant = acquire(far, "a");
        store.server.kill();
        assertAllEnd(far, grant);
        Throwable thrown = catchThrowable(() -> near.acquire(ScriptsTest.claim("b"), Duration.ZERO));
        assertThat(thrown).isInstanceOf(LockStoreException.class);
        // Over a new connection, of which there is none: certainly nothing was done.
        thrown = catchThrowable(() -> near.acquire(ScriptsTest.claim("b"), Duration.ZERO));
        assertThat(thrown).hasMessageContaining("refused").hasMessageContaining("check that the server runs");
        assertThat(((LockStoreException) thrown).mayHaveTakenEffect()).isFalse();
        store.server.start();
        assertThat(near.acquire(ScriptsTest.claim("b"), Duration.ZERO).grant()).isPresent();
    }

    /** Each byte comes in time, and the answer never. */
    @Test
    void anAnswerThatTricklesInEndsEveryCall() throws Exception {
        try (ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            CompletableFuture<Boolean> trickles = new CompletableFuture<>();
            threads.execute(() -> {
                try {
                    while (true) {
                        Socket socket = door.accept();
                        threads.execute(() -> serve(socket, trickles));
                    }
                } catch (IOException e) {
                    // The test is over.
                }
            });
            try (RedisBackend slow = RedisStore.connect(door.getLocalPort(), CALL_TIMEOUT, Map.of())) {
                trickles.complete(true);
                assertAllEnd(slow, ScriptsTest.claim("a").granted(Duration.ofSeconds(30), 1, System.nanoTime()));
            }
        }
    }

    /** A server that says that all is well, until it is told to answer a byte at a time. */
    private static void serve(Socket socket, Future<Boolean> trickles) {
        try (socket) {
            OutputStream out = socket.getOutputStream();
            byte[] request = new byte[1 << 16];
            while (socket.getInputStream().read(request) >= 0) {
                if (!trickles.isDone()) {
                    String asked = new String(request, StandardCharsets.ISO_8859_1);
                    out.write((asked.contains("INFO") ? "$13\r\nrole:master\r\n\r\n*0\r\n" : "+OK\r\n")
                            .getBytes(StandardCharsets.ISO_8859_1));
                    continue;
                }
                out.write("$1000000\r\n".getBytes(StandardCharsets.ISO_8859_1));
                while (true) {
                    out.write('x');
                    TimeUnit.MILLISECONDS.sleep(100);
                }
            }
        } catch (IOException | InterruptedException e) {
            // The client gave it up, as it should, or the test is over.
        }
    }

    /** A request that does not fit into the network's memory: a write has no limit of its own. */
    @Test
    void aWriteThatHangsEnds() throws Exception {
        acquire(far, "a");
        List<Grant> many = new ArrayList<>();
        for (int i = 0; i < 60_000; i++) {
            many.add(ScriptsTest.claim("a-name-of-some-length-so-that-they-fill-a-buffer-" + i)
                    .granted(Duration.ofSeconds(30), i + 1L, System.nanoTime()));
        }
        store.server.signal("STOP");
        long start = System.nanoTime();
        assertThatThrownBy(() -> near.renew(many)).isInstanceOf(LockStoreException.class);
        assertThat(System.nanoTime() - start).isLessThan(RedisStore.CALL_TIMEOUT.toNanos() + SLACK);
    }

    @Test
    void anIdleConnectionThatWasDroppedIsNotUsed() throws Exception {
        RedisBackend idle = store.connect();
        Grant grant = acquire(idle, "a");
        for (int i = 0; i < 3; i++) {
            TimeUnit.MILLISECONDS.sleep(1100);
            store.network.cut();
            assertThat(idle.acquire(ScriptsTest.claim("b-" + i), Duration.ZERO).grant())
                    .isPresent();
        }
        assertThat(idle.renew(List.of(grant)).live()).hasSize(1);
        idle.close();
    }

    // ---- Unknown outcomes --------------------------------------------------------------------------------------

    @Test
    void aLostAnswerToEachOperation() throws InterruptedException {
        store.network.loseReplyTo(request -> request.contains("EVAL"));
        Claim claim = ScriptsTest.claim("a");
        LockStoreException thrown = (LockStoreException) catchThrowable(() -> far.acquire(claim, Duration.ZERO));
        assertThat(thrown.mayHaveTakenEffect()).isTrue();
        assertThat(isHeld("a")).isTrue();
        // Asked again, it is the same claim.
        Grant grant = far.acquire(claim, Duration.ZERO).grant().orElseThrow();

        store.network.loseReplyTo(request -> request.contains("EVAL"));
        assertThatThrownBy(() -> far.renew(List.of(grant))).isInstanceOf(LockStoreException.class);
        assertThat(far.renew(List.of(grant)).live()).hasSize(1);

        store.network.loseReplyTo(request -> request.contains("EVAL"));
        Claim heir = ScriptsTest.claim("a");
        assertThatThrownBy(() -> far.adopt(grant, heir)).isInstanceOf(LockStoreException.class);
        Grant adopted = far.adopt(grant, heir).orElseThrow();
        assertThat(adopted.token()).isGreaterThan(grant.token());
        assertThat(far.adopt(grant, heir).orElseThrow().token()).isEqualTo(adopted.token());

        store.network.loseReplyTo(request -> request.contains("EVAL"));
        assertThatThrownBy(() -> far.release(heir)).isInstanceOf(LockStoreException.class);
        assertThat(isHeld("a")).isFalse();
        assertThat(far.release(heir)).isFalse();
    }

    /**
     * The acquire is on its way when its caller gives up and releases, over another connection or from another process:
     * it arrives after that, and takes nothing.
     */
    @Test
    void anAcquireThatComesAfterItsReleaseTakesNothing() throws Exception {
        for (int i = 0; i < 5; i++) {
            String name = "late-" + i;
            acquire(far, "warm-" + i);
            Claim claim = ScriptsTest.claim(name);
            store.network.requests(TcpProxy.Mode.HOLD);
            assertThatThrownBy(() -> far.acquire(claim, Duration.ZERO)).isInstanceOf(LockStoreException.class);
            assertThat(near.release(claim)).isFalse();
            long before = runs();
            store.network.heal();
            await().until(() -> runs() > before);
            assertThat(isHeld(name)).isFalse();
        }
    }

    @Test
    void aHeirThatComesAfterItsReleaseTakesNothing() throws Exception {
        Grant grant = acquire(far, "a");
        Claim heir = ScriptsTest.claim("a");
        store.network.requests(TcpProxy.Mode.HOLD);
        assertThatThrownBy(() -> far.adopt(grant, heir)).isInstanceOf(LockStoreException.class);
        assertThat(near.release(heir)).isFalse();
        long before = runs();
        store.network.heal();
        await().until(() -> runs() > before);
        assertThat(near.renew(List.of(grant)).live()).hasSize(1);
    }

    /** RD-02: interrupted while the answer is on its way. */
    @Test
    void anInterruptedAcquireLeavesNothing() throws Exception {
        for (boolean held : List.of(false, true)) {
            String name = "interrupted-" + held;
            Grant other = held ? acquire(near, name) : null;
            store.network.delayReplies(Duration.ofMillis(300));
            CompletableFuture<Throwable> thrown = new CompletableFuture<>();
            Thread thread = new Thread(() -> thrown.complete(
                    catchThrowable(() -> far.acquire(ScriptsTest.claim(name), Duration.ofSeconds(20)))));
            long before = runs();
            thread.start();
            await().pollDelay(Duration.ZERO).pollInterval(Duration.ofMillis(5)).until(() -> runs() > before);
            thread.interrupt();
            assertThat(thrown.get(20, TimeUnit.SECONDS)).isInstanceOf(InterruptedException.class);
            store.network.heal();
            if (other == null) {
                assertThat(isHeld(name)).isFalse();
            } else {
                assertThat(near.release(other.claim())).isTrue();
            }
        }
    }

    @Test
    void whoIsInterruptedBeforeSendsNothing() throws Exception {
        long before = runs();
        Thread.currentThread().interrupt();
        assertThatThrownBy(() -> far.acquire(ScriptsTest.claim("a"), Duration.ZERO))
                .isInstanceOf(InterruptedException.class);
        assertThat(Thread.interrupted()).isFalse();
        assertThat(runs()).isEqualTo(before);
    }

    @Test
    void anInterruptDoesNotKeepOthersFromTheirWork() throws Exception {
        Grant grant = acquire(far, "a");
        Thread.currentThread().interrupt();
        Renewal renewal = far.renew(List.of(grant));
        assertThat(Thread.interrupted()).isTrue();
        assertThat(renewal.live()).hasSize(1);
        Thread.currentThread().interrupt();
        boolean released = far.release(grant.claim());
        assertThat(Thread.interrupted()).isTrue();
        assertThat(released).isTrue();
    }

    @Test
    void closeEndsCallsThatHang() throws Exception {
        acquire(far, "a");
        store.network.requests(TcpProxy.Mode.DROP);
        List<Future<Attempt>> calls = new ArrayList<>();
        RedisBackend patient = store.connectThroughBlackHole(Duration.ofSeconds(60));
        for (int i = 0; i < 5; i++) {
            int number = i;
            calls.add(threads.submit(() -> patient.acquire(ScriptsTest.claim("c-" + number), Duration.ofSeconds(60))));
        }
        TimeUnit.MILLISECONDS.sleep(300);
        long start = System.nanoTime();
        patient.close();
        for (Future<Attempt> call : calls) {
            assertThatThrownBy(() -> call.get(20, TimeUnit.SECONDS))
                    .hasRootCauseInstanceOf(Exception.class)
                    .hasCauseInstanceOf(LockStoreException.class);
        }
        assertThat(System.nanoTime() - start).isLessThan(SLACK);
    }

    // ---- What the server refuses -------------------------------------------------------------------------------

    private static LockStoreException refused(Callable<?> operation) {
        Throwable thrown = catchThrowable(operation::call);
        assertThat(thrown).isInstanceOf(LockStoreException.class);
        LockStoreException refused = (LockStoreException) thrown;
        assertThat(refused.mayHaveTakenEffect()).isFalse();
        return refused;
    }

    /** RD-31. */
    @Test
    void aServerWithoutMemoryIsToldAsWhatItIs() throws InterruptedException {
        Grant grant = acquire(near, "a");
        store.server.ask("CONFIG", "SET", "maxmemory", "1");
        assertThat(refused(() -> near.acquire(ScriptsTest.claim("b"), Duration.ZERO)))
                .hasMessageContaining("OOM")
                .hasMessageContaining("memory");
        assertThat(isHeld("b")).isFalse();
        assertThat(near.renew(List.of(grant)).live()).hasSize(1);
        // A release that cannot leave its mark is none, and is repeated.
        assertThat(refused(() -> near.release(ScriptsTest.claim("b")))).hasMessageContaining("OOM");
        assertThat(near.release(grant.claim())).isTrue();
    }

    /** Else an acquire that comes after its release would take the lock, when the server can write again. */
    @Test
    void aReleaseThatLeftNoMarkIsNone() throws InterruptedException {
        Claim late = ScriptsTest.claim("a");
        store.server.ask("CONFIG", "SET", "min-replicas-to-write", "1");
        assertThatThrownBy(() -> near.release(late))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("NOREPLICAS");
        store.server.ask("CONFIG", "SET", "min-replicas-to-write", "0");
        assertThat(near.release(late)).isFalse();
        assertThatThrownBy(() -> near.acquire(late, Duration.ZERO))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("released before");
    }

    /** RD-31. */
    @Test
    void aServerWithoutADiskIsToldAsWhatItIs() throws Exception {
        java.nio.file.Path gone = java.nio.file.Files.createTempDirectory("mrd");
        try (RedisServer server = new RedisServer("--save", "3600 1", "--dir", gone.toString());
                RedisBackend backend = RedisStore.connect(server.port(), RedisStore.CALL_TIMEOUT, Map.of())) {
            Grant grant = acquire(backend, "a");
            java.nio.file.Files.delete(gone);
            server.ask("BGSAVE");
            await().until(() ->
                    server.info("persistence").get("rdb_last_bgsave_status").equals("err"));
            assertThat(refused(() -> backend.acquire(ScriptsTest.claim("b"), Duration.ZERO)))
                    .hasMessageContaining("MISCONF")
                    .hasMessageContaining("disk");
            assertThatThrownBy(() -> backend.renew(List.of(grant))).isInstanceOf(LockStoreException.class);
            assertThatThrownBy(() -> backend.release(grant.claim())).isInstanceOf(LockStoreException.class);
            server.ask("CONFIG", "SET", "stop-writes-on-bgsave-error", "no");
            assertThat(backend.renew(List.of(grant)).live()).hasSize(1);
            assertThat(backend.release(grant.claim())).isTrue();
        }
    }

    @Test
    void aMasterThatBecomesAReplicaIsToldAsWhatItIs() throws InterruptedException {
        Grant grant = acquire(near, "a");
        store.server.ask("REPLICAOF", "127.0.0.1", "1");
        assertThat(refused(() -> near.acquire(ScriptsTest.claim("b"), Duration.ZERO)))
                .hasMessageContaining("READONLY")
                .hasMessageContaining("redis+sentinel://");
        assertThatThrownBy(() -> near.renew(List.of(grant))).isInstanceOf(LockStoreException.class);
        store.server.ask("REPLICAOF", "NO", "ONE");
        assertThat(near.renew(List.of(grant)).live()).hasSize(1);
    }

    @Test
    void aPausedServerEndsEveryCall() throws InterruptedException {
        Grant grant = acquire(far, "a");
        store.server.ask("CLIENT", "PAUSE", "60000", "WRITE");
        assertAllEnd(far, grant);
        store.server.ask("CLIENT", "UNPAUSE");
        boolean unused = far.release(grant.claim());
        assertThat(isHeld("a")).isFalse();
    }
}
