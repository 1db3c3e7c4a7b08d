package dev.mortise.lock.etcd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
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
class EtcdRightsTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);
    private static final Duration LEASE = Duration.ofSeconds(30);
    private static final String ROOT = "root:administrator";

    /** As docs/stores/etcd.md lists them: to read and write what begins so. */
    private static final String RIGHTS = Keys.PREFIX + "/";

    private static EtcdServer server;
    private static int number;

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

    /** What jetcd and gRPC log is heard too. */
    private final Logger log = Logger.getLogger("");

    @BeforeAll
    static void start() {
        // How slowly passwords are checked is nothing that is tested here.
        server = new EtcdServer("--bcrypt-cost", "4");
        server.ctl("user", "add", ROOT);
        server.ctl("user", "grant-role", "root", "root");
        server.ctl("auth", "enable");
        user("least", "secret", "readwrite", RIGHTS);
    }

    private static void root(String... words) {
        List<String> all = new ArrayList<>(List.of("--user", ROOT));
        all.addAll(List.of(words));
        server.ctl(all.toArray(String[]::new));
    }

    private static void user(String name, String password, String permission, String start) {
        String role = "role-" + ++number;
        root("user", "add", name + ":" + password);
        root("role", "add", role);
        root("role", "grant-permission", role, permission, start, "--prefix=true");
        root("user", "grant-role", name, role);
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @BeforeEach
    void listen() {
        log.addHandler(handler);
        handler.setLevel(Level.ALL);
    }

    @AfterEach
    void stopListening() {
        log.removeHandler(handler);
        synchronized (logged) {
            assertThat(logged).noneMatch(line -> line.contains("secret") || line.contains("wr0ng"));
        }
    }

    private static LockBackend open(String... options) {
        Map<String, String> all = new HashMap<>();
        for (int i = 0; i < options.length; i += 2) {
            all.put(options[i], options[i + 1]);
        }
        return Ways.connect("etcd://127.0.0.1:" + server.port(), CALL_TIMEOUT, all);
    }

    private static Grant acquire(LockBackend backend, String name) throws InterruptedException {
        return backend.acquire(Holds.claim(name, LEASE), Duration.ZERO).grant().orElseThrow();
    }

    /** All that a backend does, and all of it well. */
    private static void everything(LockBackend backend, String name) throws Exception {
        Grant held = acquire(backend, name);
        Claim second = Holds.claim(name, LEASE);
        assertThat(backend.acquire(second, Duration.ZERO).grant()).isEmpty();
        FutureTask<Attempt> wait =
                new FutureTask<>(() -> backend.acquire(Holds.claim(name, LEASE), Duration.ofSeconds(20)));
        new Thread(wait).start();
        assertThat(backend.renew(List.of(held)).live()).hasSize(1);
        assertThat(backend.holder(name).orElseThrow().token()).isEqualTo(held.token());
        assertThat(backend.release(held.claim())).isTrue();
        Grant next = wait.get(20, TimeUnit.SECONDS).grant().orElseThrow();
        assertThat(next.token()).isGreaterThan(held.token());
        assertThat(backend.release(next.claim())).isTrue();
        assertThat(backend.release(next.claim())).isFalse();
    }

    @Test
    void theListedRightsSuffice() throws Exception {
        try (LockBackend backend = open("user", "least", "password", "secret")) {
            everything(backend, "a");
            everything(backend, "../b/\0\u20ac");
            assertThat(backend.toString()).doesNotContain("secret");
        }
    }

    /** No right at all, the wrong place, only one of the two: which is missing is told, by what was tried. */
    @Test
    void aMissingRightIsToldWithItsPlace() throws Exception {
        user("reader", "secret", "read", RIGHTS);
        user("writer", "secret", "write", RIGHTS);
        user("elsewhere", "secret", "readwrite", "mortise2/");
        root("user", "add", "nothing:secret");
        for (String user : List.of("reader", "writer", "elsewhere", "nothing")) {
            LockStoreException e = catchThrowableOfType(LockStoreException.class, () -> {
                try (LockBackend backend = open("user", user, "password", "secret")) {
                    acquire(backend, "a");
                }
            });
            assertThat(e).as(user).isNotNull();
            assertThat(e.getMessage())
                    .as(user)
                    .contains("127.0.0.1:" + server.port(), "permission denied", "docs/stores/etcd.md")
                    .doesNotContain("secret");
            assertThat(e.mayHaveTakenEffect()).as(user).isFalse();
        }
        try (LockBackend backend = open("user", "elsewhere", "password", "secret", "prefix", "mortise2")) {
            everything(backend, "a");
        }
    }

    /** Taken away from a holder: he is told why he can renew and release no more, and has it again when the right is. */
    @Test
    void aRightThatIsTakenAway() throws Exception {
        user("former", "secret", "readwrite", RIGHTS);
        String role = "role-" + number;
        try (LockBackend backend = open("user", "former", "password", "secret")) {
            Grant held = acquire(backend, "former");
            root("user", "revoke-role", "former", role);
            LockStoreException e = catchThrowableOfType(LockStoreException.class, () -> backend.renew(List.of(held)));
            assertThat(e).hasMessageContaining("permission denied").hasMessageContaining("docs/stores/etcd.md");
            assertThatThrownBy(() -> backend.release(held.claim()))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("permission denied");
            assertThatThrownBy(() -> backend.holder("former"))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("permission denied");
            root("user", "grant-role", "former", role);
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            assertThat(backend.release(held.claim())).isTrue();
        }
    }

    @Test
    void aWrongPasswordIsThatAndIsNotShown() {
        for (String[] options : List.of(
                new String[] {"user", "least", "password", "wr0ng-p@ss"},
                new String[] {"user", "nobody", "password", "wr0ng-p@ss"},
                new String[] {})) {
            LockStoreException e = catchThrowableOfType(
                    LockStoreException.class, () -> open(options).close());
            assertThat(e).isNotNull();
            assertThat(e.getMessage()).contains("127.0.0.1:" + server.port(), "user and password");
            assertThat(e.mayHaveTakenEffect()).isFalse();
            StringWriter trace = new StringWriter();
            e.printStackTrace(new PrintWriter(trace));
            assertThat(trace.toString()).doesNotContain("wr0ng");
        }
        assertThatThrownBy(() -> open("user", "least"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("user is given without a password");
        assertThatThrownBy(() -> open("password", "secret"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("password is given without a user");
    }

    @Test
    void passwordsWork() throws Exception {
        int count = 0;
        for (String password : List.of("p@ss:w/rd?#%&= +", "w\u00f6rd\u20ac", "\"'\\ $(x)`", "a,b;c")) {
            String user = "us\u00e9r@" + ++count;
            user(user, password, "readwrite", RIGHTS);
            try (LockBackend backend = open("user", user, "password", password)) {
                assertThat(backend.release(acquire(backend, "p").claim())).isTrue();
            }
            String encoded = URLEncoder.encode(password, StandardCharsets.UTF_8).replace("+", "%20");
            String uri = "etcd://us%C3%A9r%40" + count + ":" + encoded + "@127.0.0.1:" + server.port();
            try (LockBackend backend = Ways.connect(uri, CALL_TIMEOUT, Map.of())) {
                assertThat(backend.release(acquire(backend, "p").claim())).isTrue();
                assertThat(backend.toString()).doesNotContain(password).doesNotContain(encoded);
            }
        }
    }

    /** Credentials where the server asks for none are no harm, and told: it is open to all. */
    @Test
    void aPasswordThatNobodyAskedForIsTold() throws Exception {
        try (EtcdServer open = new EtcdServer();
                LockBackend backend = Ways.connect(
                        "etcd://127.0.0.1:" + open.port(),
                        CALL_TIMEOUT,
                        Map.of("user", "least", "password", "secret"))) {
            everything(backend, "a");
        }
        synchronized (logged) {
            assertThat(logged).anyMatch(line -> line.startsWith("WARNING") && line.contains("nobody asks for them"));
        }
    }

    /** ET-12: the server forgets whom it knew, as it does after a while and when it is restarted. */
    @Test
    void anAuthTokenThatEndedIsAskedForAgain() throws Exception {
        try (LockBackend backend = open("user", "least", "password", "secret")) {
            Grant held = acquire(backend, "token");
            server.kill();
            server.start();
            Renewal renewal = await().atMost(Duration.ofSeconds(20))
                    .ignoreExceptionsInstanceOf(LockStoreException.class)
                    .until(
                            () -> backend.renew(List.of(held)),
                            answer -> !answer.live().isEmpty());
            assertThat(renewal.ended()).isEmpty();
            everything(backend, "after");
            server.kill();
            server.start();
            await().atMost(Duration.ofSeconds(20))
                    .ignoreExceptionsInstanceOf(LockStoreException.class)
                    .until(() -> backend.release(held.claim()));
        }
    }

    /** As does a change of its users: what a client had is old then, and is asked for again in the same call. */
    @Test
    void aChangeOfRightsDoesNotDisturb() throws Exception {
        try (LockBackend backend = open("user", "least", "password", "secret")) {
            Grant held = acquire(backend, "changes");
            for (int i = 0; i < 3; i++) {
                root("user", "add", "more-" + i + ":secret");
                assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            }
            root("user", "add", "more:secret");
            assertThat(backend.release(held.claim())).isTrue();
        }
    }

    /** ET-13: whatever a name or a prefix looks like, it is one lock, and sees nobody else's keys. */
    @Test
    void namesStayWithinTheirKeys() throws Exception {
        List<String> names = List.of(
                "a",
                "a/",
                "a/b",
                "a//b",
                "/a",
                "ab",
                ".",
                "..",
                "../a",
                "a/../b",
                "a\0",
                "a\0b",
                "\0",
                "%2F",
                "%",
                "a%2Fb",
                "a~",
                "\u00ff",
                "\uffff",
                "\ud83d\ude00",
                "mortise/a",
                " ",
                "A");
        try (LockBackend one = open("user", "root", "password", "administrator", "prefix", "x");
                LockBackend longer = open("user", "root", "password", "administrator", "prefix", "x/a");
                LockBackend beside = open("user", "root", "password", "administrator", "prefix", "xx")) {
            // An administrator's own keys, which are no claims.
            for (String key : List.of("x", "x/", "x/a", "x/ab", "x/a0", "x/a/b", "x0")) {
                root("put", key, "somebody's");
            }
            List<Grant> grants = new ArrayList<>();
            for (String name : names) {
                for (LockBackend each : List.of(one, longer, beside)) {
                    Grant grant = acquire(each, name);
                    if (each == one) {
                        grants.add(grant);
                    }
                    assertThat(each.acquire(Holds.claim(name, LEASE), Duration.ZERO)
                                    .grant())
                            .isEmpty();
                }
            }
            // Each release ends one.
            for (Grant grant : grants) {
                assertThat(one.release(grant.claim())).isTrue();
                assertThat(longer.holder(grant.name())).isPresent();
                assertThat(beside.holder(grant.name())).isPresent();
            }
            List<Grant> again = new ArrayList<>();
            for (String name : names) {
                again.add(acquire(one, name));
            }
            assertThat(one.renew(again).live()).hasSize(names.size());
        }
    }

    @Test
    void prefixesThatAreNoneAreRefused() {
        for (String prefix : List.of("", "/", "a/", "a//b", "a\0", "a b", "a".repeat(200), "\u00e9", "a\n")) {
            assertThatThrownBy(() -> open("user", "least", "password", "secret", "prefix", prefix)
                            .close())
                    .as("prefix %s", prefix)
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("prefix");
        }
    }
}
