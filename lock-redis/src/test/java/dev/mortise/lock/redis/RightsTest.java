package dev.mortise.lock.redis;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Who may lock: passwords, and the fewest rights with which everything works. */
class RightsTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);
    private static final Duration LEASE = Duration.ofSeconds(30);

    /** As {@code docs/stores/redis.md} lists them. */
    static final List<String> RIGHTS = List.of(
            "~mortise:*",
            "&mortise:*",
            "+evalsha",
            "+eval",
            "+get",
            "+set",
            "+del",
            "+exists",
            "+pttl",
            "+pexpire",
            "+time",
            "+publish",
            "+subscribe",
            "+unsubscribe");

    /** With these the store is also checked when it is opened. */
    private static final List<String> LOOKS = List.of("+info", "+config|get");

    private static RedisServer server;

    private final List<String> logged = new ArrayList<>();
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord entry) {
            StringWriter all = new StringWriter();
            if (entry.getThrown() != null) {
                entry.getThrown().printStackTrace(new PrintWriter(all));
            }
            synchronized (logged) {
                logged.add(entry.getLevel() + " " + entry.getMessage() + all);
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    private final Logger log = Logger.getLogger("dev.mortise");

    @BeforeAll
    static void start() {
        server = new RedisServer("--requirepass", "administrator");
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @BeforeEach
    void listen() {
        log.setLevel(Level.ALL);
        log.addHandler(handler);
    }

    @AfterEach
    void stopListening() {
        log.removeHandler(handler);
        log.setLevel(null);
        server.ask("FLUSHALL");
    }

    private List<String> warnings() {
        synchronized (logged) {
            return logged.stream().filter(line -> line.startsWith("WARNING")).toList();
        }
    }

    private static void user(String name, String password, List<String> rights) {
        user(server, name, password, rights);
    }

    static void user(RedisServer server, String name, String password, List<String> rights) {
        List<String> words = new ArrayList<>(List.of("ACL", "SETUSER", name, "reset", "on", ">" + password));
        words.addAll(rights);
        server.ask(words.toArray(String[]::new));
    }

    private static List<String> without(String right) {
        List<String> rights = new ArrayList<>(RIGHTS);
        rights.addAll(LOOKS);
        assertThat(rights.remove(right)).isTrue();
        return rights;
    }

    private static LockBackend open(String... options) {
        Map<String, String> all = new HashMap<>();
        for (int i = 0; i < options.length; i += 2) {
            all.put(options[i], options[i + 1]);
        }
        return new RedisProvider()
                .open(
                        StoreUri.parse("redis://127.0.0.1:" + server.port(), all),
                        BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    private static LockBackend least() {
        return open("user", "least", "password", "secret");
    }

    private static Claim claim(String name) {
        return Claim.of(name, UUID.randomUUID().toString(), LEASE);
    }

    private static Grant acquire(LockBackend backend, String name) throws InterruptedException {
        return backend.acquire(claim(name), Duration.ZERO).grant().orElseThrow();
    }

    private static CompletableFuture<Attempt> waiting(LockBackend backend, String name) {
        return CompletableFuture.supplyAsync(
                () -> {
                    try {
                        return backend.acquire(claim(name), Duration.ofSeconds(20));
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                },
                RedisStore::inAThread);
    }

    /** All that a backend does, and all of it well. */
    private static void everything(LockBackend backend) throws Exception {
        Grant held = acquire(backend, "a");
        CompletableFuture<Attempt> wait = waiting(backend, "a");
        await().until(() -> !((List<?>) server.ask("PUBSUB", "CHANNELS")).isEmpty());
        assertThat(backend.renew(List.of(held)).live()).hasSize(1);
        Grant heir = backend.adopt(held, claim("a")).orElseThrow();
        assertThat(backend.holder("a").orElseThrow().token()).isEqualTo(heir.token());
        assertThat(backend.release(held.claim())).isFalse();
        assertThat(backend.release(heir.claim())).isTrue();
        Grant next = wait.get(20, TimeUnit.SECONDS).grant().orElseThrow();
        assertThat(next.token()).isGreaterThan(heir.token());
        assertThat(backend.release(next.claim())).isTrue();
    }

    @Test
    void theListedRightsSuffice() throws Exception {
        List<String> all = new ArrayList<>(RIGHTS);
        all.addAll(LOOKS);
        user("least", "secret", all);
        server.ask("SCRIPT", "FLUSH");
        server.ask("ACL", "LOG", "RESET");
        try (LockBackend backend = least()) {
            everything(backend);
            // Idle for long enough that a connection is tried before it is used, and the subscription given up.
            await().pollDelay(Duration.ofMillis(1100))
                    .atMost(Duration.ofSeconds(30))
                    .until(() -> ((List<?>) server.ask("PUBSUB", "CHANNELS")).isEmpty());
            everything(backend);
        }
        // Nothing was even tried that he may not do, but to say his name and to try a connection.
        List<?> refused = (List<?>) server.ask("ACL", "LOG");
        for (Object entry : refused) {
            assertThat(((List<?>) entry).get(7)).isIn("client|setname", "ping");
        }
        assertThat(warnings()).noneMatch(line -> line.contains("may not"));
    }

    /** An idle connection is tried before it is used; that a user may not ask is an answer, too. */
    @Test
    void theRightToPingIsNotNeeded() throws Exception {
        user("least", "secret", RIGHTS);
        try (LockBackend backend = least()) {
            Grant held = acquire(backend, "a");
            String id = connection();
            TimeUnit.MILLISECONDS.sleep(1200);
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            assertThat(connection()).isEqualTo(id);
        }
    }

    /** The one that the backend has. */
    private static String connection() {
        List<String> all = ((String) server.ask("CLIENT", "LIST"))
                .lines()
                .filter(line -> line.contains("user=least"))
                .toList();
        assertThat(all).hasSize(1);
        return all.get(0).substring(0, all.get(0).indexOf(' '));
    }

    /** Whoever may not look at the server locks all the same, and is told what was not checked. */
    @Test
    void withoutTheRightToLookMoreIsNotChecked() throws Exception {
        user("least", "secret", RIGHTS);
        try (LockBackend backend = least()) {
            everything(backend);
        }
        assertThat(warnings()).hasSize(1).first().asString().contains("not checked", "INFO");
    }

    private static void refused(org.assertj.core.api.ThrowableAssert.ThrowingCallable call, String... parts) {
        LockStoreException e = catchThrowableOfType(LockStoreException.class, call);
        assertThat(e).isNotNull();
        assertThat(e.getMessage()).contains(parts).contains("docs/stores/redis.md");
        assertThat(e.mayHaveTakenEffect()).isFalse();
    }

    @Test
    void aMissingCommandIsNamed() throws Exception {
        for (String command : List.of("evalsha", "eval", "get", "set", "exists", "time")) {
            user("least", "secret", without("+" + command));
            server.ask("SCRIPT", "FLUSH");
            try (LockBackend backend = least()) {
                refused(() -> acquire(backend, "a"), "acquire a", "NOPERM", command);
            }
            assertThat(server.ask("EXISTS", Keys.of(Keys.PREFIX, "a").lock())).isEqualTo(0L);
        }
    }

    @Test
    void aMissingCommandOfOthersIsNamed() throws Exception {
        user("most", "secret", without("+eval").stream().toList());
        List<String> all = new ArrayList<>(RIGHTS);
        all.addAll(LOOKS);
        user("most", "secret", all);
        try (LockBackend most = open("user", "most", "password", "secret")) {
            Grant held = acquire(most, "a");
            user("least", "secret", without("+pttl"));
            try (LockBackend backend = least()) {
                refused(() -> backend.acquire(claim("a"), Duration.ZERO), "acquire a", "NOPERM", "pttl");
                refused(() -> backend.holder("a"), "look at a", "NOPERM", "pttl");
            }
            user("least", "secret", without("+pexpire"));
            try (LockBackend backend = least()) {
                refused(() -> backend.renew(List.of(held)), "renew 1 lease", "NOPERM", "pexpire");
            }
            user("least", "secret", without("+del"));
            try (LockBackend backend = least()) {
                refused(() -> backend.release(held.claim()), "release a", "NOPERM", "del");
            }
            assertThat(most.renew(List.of(held)).live()).hasSize(1);
        }
    }

    /** It has been taken: it is given back, or said to be there. */
    @Test
    void whoMayNotWaitForReplicasKeepsNothing() throws Exception {
        user("least", "secret", without("+info"));
        try (LockBackend backend = open("user", "least", "password", "secret", "replicas", "1")) {
            LockStoreException e = catchThrowableOfType(LockStoreException.class, () -> acquire(backend, "a"));
            assertThat(e).isNotNull();
            assertThat(e.getMessage()).contains("NOPERM", "wait", "given back");
            assertThat(e.mayHaveTakenEffect()).isFalse();
            assertThat(server.ask("EXISTS", Keys.of(Keys.PREFIX, "a").lock())).isEqualTo(0L);
        }
    }

    @Test
    void aRenewalThatMayNotReadSaysSo() throws Exception {
        List<String> all = new ArrayList<>(RIGHTS);
        all.addAll(LOOKS);
        user("most", "secret", all);
        user("least", "secret", without("+get"));
        try (LockBackend most = open("user", "most", "password", "secret");
                LockBackend backend = least()) {
            Grant held = acquire(most, "a");
            refused(() -> backend.renew(List.of(held)), "renew 1 lease", "NOPERM", "get");
        }
    }

    /** Waiters then ask again and again; said once. */
    @Test
    void whoMayNotSubscribeIsToldOnce() throws Exception {
        user("least", "secret", without("+subscribe"));
        try (LockBackend backend = least()) {
            acquire(backend, "a");
            for (int i = 0; i < 3; i++) {
                assertThat(backend.acquire(claim("a"), Duration.ofMillis(300)).grant())
                        .isEmpty();
            }
            await().until(() -> warnings().stream().anyMatch(line -> line.contains("subscribe")));
        }
        assertThat(warnings().stream()
                        .filter(line -> line.contains("subscribe"))
                        .toList())
                .hasSize(1)
                .allMatch(line -> line.contains("docs/stores/redis.md"));
    }

    @Test
    void missingKeysAreNamed() throws Exception {
        List<String> rights = without("~mortise:*");
        user("least", "secret", rights);
        try (LockBackend backend = least()) {
            refused(() -> acquire(backend, "a"), "acquire a", "NOPERM", "keys");
        }
        rights.add("~other:*");
        user("least", "secret", rights);
        try (LockBackend backend = least()) {
            refused(() -> acquire(backend, "a"), "acquire a", "NOPERM", "keys");
        }
        try (LockBackend backend = open("user", "least", "password", "secret", "prefix", "other")) {
            assertThat(acquire(backend, "a").token()).isPositive();
        }
    }

    /** Released all the same; said once. */
    @Test
    void whoMayNotPublishIsTold() throws Exception {
        for (String right : List.of("+publish", "&mortise:*")) {
            synchronized (logged) {
                logged.clear();
            }
            user("least", "secret", without(right));
            try (LockBackend backend = least()) {
                for (int i = 0; i < 3; i++) {
                    Grant held = acquire(backend, "a");
                    assertThat(backend.release(held.claim())).isTrue();
                }
            }
            assertThat(warnings().stream()
                            .filter(line -> line.contains("publish"))
                            .toList())
                    .hasSize(1);
        }
    }

    @Test
    void passwordsWork() throws Exception {
        for (String password :
                List.of("secret", "p@ss:w/rd?#%&= +", "w\u00f6rd\u20ac\ud83d\ude00", "\"'\\ \t$(x)`", "a,b;c")) {
            List<String> all = new ArrayList<>(RIGHTS);
            all.addAll(LOOKS);
            user("us\u00e9r@x:y", password, all);
            try (LockBackend backend = open("user", "us\u00e9r@x:y", "password", password)) {
                assertThat(backend.release(acquire(backend, "a").claim())).isTrue();
                assertThat(backend.toString()).doesNotContain(password);
            }
            String encoded = java.net.URLEncoder.encode(password, java.nio.charset.StandardCharsets.UTF_8)
                    .replace("+", "%20");
            String uri = "redis://us%C3%A9r%40x%3Ay:" + encoded + "@127.0.0.1:" + server.port();
            try (LockBackend backend = new RedisProvider()
                    .open(StoreUri.parse(uri, Map.of()), BackendContext.of(System::nanoTime, CALL_TIMEOUT))) {
                assertThat(backend.release(acquire(backend, "a").claim())).isTrue();
                assertThat(backend.toString()).doesNotContain(password).doesNotContain(encoded);
            }
        }
        try (LockBackend backend = open("password", "administrator")) {
            assertThat(backend.release(acquire(backend, "a").claim())).isTrue();
        }
    }

    @Test
    void aWrongPasswordIsThatAndIsNotShown() {
        String wrong = "wr0ng-p@ss";
        user("least", "secret", RIGHTS);
        List<String[]> all = List.of(
                new String[] {"password", wrong},
                new String[] {"user", "least", "password", wrong},
                new String[] {"user", "nobody", "password", wrong},
                new String[] {"password", ""},
                new String[] {});
        for (String[] options : all) {
            LockStoreException e = catchThrowableOfType(
                    LockStoreException.class, () -> open(options).close());
            assertThat(e).isNotNull();
            assertThat(e.getMessage())
                    .contains("127.0.0.1:" + server.port())
                    .containsAnyOf("WRONGPASS", "NOAUTH")
                    .contains("give user and password");
            assertThat(e.mayHaveTakenEffect()).isFalse();
            StringWriter trace = new StringWriter();
            e.printStackTrace(new PrintWriter(trace));
            assertThat(trace.toString()).doesNotContain(wrong);
        }
        synchronized (logged) {
            assertThat(logged).noneMatch(line -> line.contains(wrong));
        }
        assertThatThrownBy(() -> open("user", "least"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("user is given without a password");
    }

    /** A password where the server has none: not locked out by a guess that it does not need. */
    @Test
    void aPasswordThatNobodyAskedForIsRefused() {
        try (RedisServer open = new RedisServer()) {
            LockStoreException e = catchThrowableOfType(
                    LockStoreException.class,
                    () -> RedisStore.connect(open.port(), CALL_TIMEOUT, Map.of("password", "unneeded"))
                            .close());
            assertThat(e).isNotNull();
            assertThat(e.getMessage())
                    .contains("without any password configured")
                    .doesNotContain("unneeded");
        }
    }

    /** Rotated under a running client: its connections stay what they are; new ones are refused with the reason. */
    @Test
    void aPasswordThatWasChangedIsToldWhenConnectionsAreMadeAnew() throws Exception {
        List<String> all = new ArrayList<>(RIGHTS);
        all.addAll(LOOKS);
        user("least", "secret", all);
        try (LockBackend backend = least()) {
            Grant held = acquire(backend, "a");
            user("least", "changed", all);
            server.ask("CLIENT", "KILL", "USER", "least");
            LockStoreException e = catchThrowableOfType(LockStoreException.class, () -> backend.renew(List.of(held)));
            // Killed under the renewal, or refused when it connects again.
            for (int i = 0; i < 3 && e != null && !e.getMessage().contains("WRONGPASS"); i++) {
                e = catchThrowableOfType(LockStoreException.class, () -> backend.renew(List.of(held)));
            }
            assertThat(e).isNotNull();
            assertThat(e.getMessage())
                    .contains("WRONGPASS", "give user and password")
                    .doesNotContain("secret");
            user("least", "secret", all);
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
        }
    }

    @Test
    void tooManyClientsAreToldAsThat() {
        try (RedisServer small = new RedisServer("--maxclients", "2")) {
            try (LockBackend first = RedisStore.connect(small.port(), CALL_TIMEOUT, Map.of())) {
                small.ask("CONFIG", "SET", "maxclients", "1");
                LockStoreException e = catchThrowableOfType(
                        LockStoreException.class,
                        () -> RedisStore.connect(small.port(), CALL_TIMEOUT, Map.of())
                                .close());
                assertThat(e).isNotNull();
                assertThat(e.getMessage()).contains("max number of clients", "maxclients");
                assertThat(e.mayHaveTakenEffect()).isFalse();
                assertThat(first.guarantees()).isNotNull();
            }
        }
    }
}
