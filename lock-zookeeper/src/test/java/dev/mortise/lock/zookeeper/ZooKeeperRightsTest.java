package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.mortise.lock.Holds;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
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
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;
import org.assertj.core.api.AbstractStringAssert;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Who may lock: passwords, and the fewest rights with which everything works. */
class ZooKeeperRightsTest {
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);
    private static final Duration LEASE = Duration.ofSeconds(10);

    /** On the node of the path, which an administrator has made: as {@code docs/stores/zookeeper.md} lists them. */
    private static final int RIGHTS = Perms.CREATE;

    private static final String PATH = "/app";

    private static ZooKeeperServer server;

    /** May do everything. */
    private static ZooKeeper eye;

    @BeforeAll
    static void start() throws Exception {
        server = new ZooKeeperServer(
                "-Dzookeeper.DigestAuthenticationProvider.superDigest=" + digest("super", "administrator"));
        eye = Eye.open(server.connectString());
        eye.addAuthInfo("digest", bytes("super:administrator"));
        // Nobody else makes anything here.
        Stat unused = eye.setACL("/", new ArrayList<>(List.of(new ACL(Perms.READ, new Id("world", "anyone")))), -1);
    }

    @AfterAll
    static void stop() throws Exception {
        eye.close();
        server.close();
    }

    @BeforeEach
    void prepare() throws Exception {
        give(PATH, RIGHTS, "least", "secret");
    }

    @AfterEach
    void clean() throws Exception {
        List<String> all = Eye.all(eye);
        all.removeIf(path -> path.startsWith("/zookeeper"));
        for (int i = all.size() - 1; i >= 0; i--) {
            delete(all.get(i));
        }
    }

    private static void delete(String path) throws Exception {
        for (String child : children(path)) {
            delete(path + "/" + child);
        }
        try {
            eye.delete(path, -1);
        } catch (KeeperException.NoNodeException e) {
            // It has ended.
        }
    }

    private static List<String> children(String path) throws Exception {
        try {
            return eye.getChildren(path, false);
        } catch (KeeperException.NoNodeException e) {
            return List.of();
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String digest(String user, String password) throws Exception {
        return DigestAuthenticationProvider.generateDigest(user + ":" + password);
    }

    private static void give(String path, int rights, String user, String password) throws Exception {
        List<ACL> acl = only(rights, user, password);
        if (eye.exists(path, false) == null) {
            String unused = eye.create(path, new byte[0], acl, CreateMode.PERSISTENT);
        } else {
            Stat unused = eye.setACL(path, acl, -1);
        }
    }

    /** ZooKeeper's client asks the list whether it has null, which one of List.of does not like. */
    private static List<ACL> only(int rights, String user, String password) throws Exception {
        return new ArrayList<>(List.of(new ACL(rights, new Id("digest", digest(user, password)))));
    }

    private static LockBackend open(String... options) {
        Map<String, String> all = new HashMap<>();
        for (int i = 0; i < options.length; i += 2) {
            all.put(options[i], options[i + 1]);
        }
        return Taker.open(server.connectString() + PATH, all, CALL_TIMEOUT);
    }

    private static LockBackend least() {
        return open("user", "least", "password", "secret");
    }

    private static Claim claim(String name) {
        return Holds.claim(name, LEASE);
    }

    private static Grant acquire(LockBackend backend, String name) throws InterruptedException {
        return backend.acquire(claim(name), Duration.ZERO).grant().orElseThrow();
    }

    /** All that a backend does, and all of it well. */
    private static void everything(LockBackend backend) throws Exception {
        Grant held = acquire(backend, "a");
        Claim waiting = claim("a");
        FutureTask<Attempt> wait = new FutureTask<>(() -> backend.acquire(waiting, Duration.ofSeconds(30)));
        Thread waits = new Thread(wait, "waits");
        waits.setDaemon(true);
        waits.start();
        org.awaitility.Awaitility.await().until(() -> !Eye.of(eye, waiting).isEmpty());
        assertThat(backend.acquire(claim("a"), Duration.ZERO).grant()).isEmpty();
        assertThat(backend.renew(List.of(held)).live()).hasSize(1);
        assertThat(backend.holder("a").orElseThrow().token()).isEqualTo(held.token());
        assertThat(backend.release(held.claim())).isTrue();
        Grant next = wait.get(30, TimeUnit.SECONDS).grant().orElseThrow();
        assertThat(next.token()).isGreaterThan(held.token());
        assertThat(backend.release(next.claim())).isTrue();
    }

    private interface Call {
        void run() throws Exception;
    }

    /** No exception but one of the store, with no secret in anything that may be logged. */
    private static AbstractStringAssert<?> refused(Call call, String... secrets) {
        LockStoreException e = catchThrowableOfType(LockStoreException.class, call::run);
        assertThat(e).isNotNull();
        assertThat(e.mayHaveTakenEffect()).isFalse();
        StringWriter trace = new StringWriter();
        e.printStackTrace(new PrintWriter(trace));
        for (String secret : secrets) {
            assertThat(trace.toString()).doesNotContain(secret);
        }
        return assertThat(e.getMessage());
    }

    @Test
    void theListedRightsSuffice() throws Exception {
        try (LockBackend backend = least()) {
            everything(backend);
            everything(backend);
        }
        try (LockBackend another = least()) {
            everything(another);
        }
    }

    /** Nothing on the path itself. */
    @Test
    void aRootThatAnAdministratorMadeSuffices() throws Exception {
        give(PATH, Perms.ADMIN, "somebody", "else");
        String unused = eye.create(
                PATH + "/mortise",
                bytes("mortise 1"),
                only(Perms.READ | Perms.CREATE, "least", "secret"),
                CreateMode.PERSISTENT);
        try (LockBackend backend = least()) {
            everything(backend);
        }
    }

    /** What it makes belongs to the user alone. */
    @Test
    void nodesAreTheirUsersOnly() throws Exception {
        try (LockBackend backend = least()) {
            Grant held = acquire(backend, "a");
            List<String> made = new ArrayList<>(Eye.all(eye));
            made.removeIf(path -> path.startsWith("/zookeeper") || path.equals(PATH));
            assertThat(made).hasSizeGreaterThanOrEqualTo(2);
            for (String path : made) {
                assertThat(eye.getACL(path, null))
                        .as(path)
                        .extracting(acl ->
                                acl.getId().getScheme() + ":" + acl.getId().getId())
                        .containsOnly("digest:" + digest("least", "secret"));
            }
            ZooKeeper stranger = Eye.open(server.connectString());
            try {
                stranger.addAuthInfo("digest", bytes("least:guessed"));
                for (String path : made) {
                    assertThatThrownBy(() -> stranger.delete(path, -1)).isInstanceOf(KeeperException.class);
                    assertThatThrownBy(() -> stranger.setData(path, new byte[0], -1))
                            .isInstanceOf(KeeperException.NoAuthException.class);
                    assertThatThrownBy(() -> stranger.getData(path, false, null))
                            .isInstanceOf(KeeperException.NoAuthException.class);
                    assertThatThrownBy(() -> stranger.create(
                                    path + "/x", new byte[0], ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT))
                            .isInstanceOf(KeeperException.class);
                }
            } finally {
                stranger.close();
            }
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            assertThat(backend.release(held.claim())).isTrue();
        }
    }

    /** Without the one right, or where somebody else has it: what may not be done, where, and where rights are listed. */
    @Test
    void aMissingRightIsNamed() throws Exception {
        give(PATH, Perms.ALL & ~RIGHTS & ~Perms.ADMIN, "least", "secret");
        refused(() -> least().close(), "secret")
                .contains("NOAUTH", PATH + "/mortise", "docs/stores/zookeeper.md", "user and password");
        // The path itself is not there, and nobody may make it.
        refused(
                        () -> Taker.open(
                                        server.connectString() + "/other/deeper",
                                        Map.of("user", "least", "password", "secret"),
                                        CALL_TIMEOUT)
                                .close(),
                        "secret")
                .contains("NOAUTH", "/other", "docs/stores/zookeeper.md");
    }

    /** Rights that go while it works: an error for each call, and nothing is granted that is not there. */
    @Test
    void rightsThatAreTakenAwayAreMissedAtOnce() throws Exception {
        try (LockBackend backend = least()) {
            Grant held = acquire(backend, "a");
            Stat unused = eye.setACL(PATH + "/mortise", only(Perms.READ, "least", "secret"), -1);
            refused(() -> acquire(backend, "new name"), "secret")
                    .contains("NOAUTH", PATH + "/mortise", "docs/stores/zookeeper.md");
            assertThat(backend.renew(List.of(held)).live()).hasSize(1);
            assertThat(backend.release(held.claim())).isTrue();
        }
    }

    /** ZooKeeper takes every password, and then the user is somebody else, who may do nothing. */
    @Test
    void aWrongPasswordIsThatAndIsNotShown() throws Exception {
        try (LockBackend right = least()) {
            Grant held = acquire(right, "a");
            for (String[] options : List.of(
                    new String[] {"user", "least", "password", "wr0ng-p@ss"},
                    new String[] {"user", "nobody", "password", "secret"},
                    new String[] {})) {
                refused(
                                () -> {
                                    try (LockBackend backend = open(options)) {
                                        acquire(backend, "a");
                                    }
                                },
                                "wr0ng-p@ss",
                                "secret")
                        .contains("NOAUTH", PATH + "/mortise", "user and password");
            }
            assertThat(right.renew(List.of(held)).live()).hasSize(1);
            assertThat(right.release(held.claim())).isTrue();
        }
        assertThatThrownBy(() -> open("user", "least"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("user is given without a password");
    }

    @Test
    void passwordsWork() throws Exception {
        for (String password :
                List.of("secret", "p@ss:w/rd?#%&= +", "w\u00f6rd\u20ac\ud83d\ude00", "\"'\\ \t$(x)`", "a,b;c")) {
            give(PATH, RIGHTS, "us\u00e9r@x", password);
            try (LockBackend backend = open("user", "us\u00e9r@x", "password", password)) {
                Grant held = acquire(backend, "p");
                assertThat(backend.release(held.claim())).isTrue();
                assertThat(backend.toString()).doesNotContain(password);
            }
            String encoded = URLEncoder.encode(password, StandardCharsets.UTF_8).replace("+", "%20");
            String uri = "zookeeper://us%C3%A9r%40x:" + encoded + "@" + server.connectString() + PATH;
            try (LockBackend backend = new ZooKeeperProvider()
                    .open(StoreUri.parse(uri, Map.of()), BackendContext.of(System::nanoTime, CALL_TIMEOUT))) {
                Grant held = acquire(backend, "p");
                assertThat(backend.release(held.claim())).isTrue();
                assertThat(backend.toString()).doesNotContain(password).doesNotContain(encoded);
            }
            clean();
        }
    }

    /** Servers that let nobody in without a password. */
    @Test
    void aServerThatDemandsAPassword() throws Exception {
        try (ZooKeeperServer strict = new ZooKeeperServer("enforce.auth.enabled=true", "enforce.auth.schemes=digest")) {
            try (LockBackend backend =
                    Taker.open(strict.connectString(), Map.of("user", "u", "password", "p"), CALL_TIMEOUT)) {
                Grant held = acquire(backend, "a");
                assertThat(backend.renew(List.of(held)).live()).hasSize(1);
                assertThat(backend.release(held.claim())).isTrue();
            }
            refused(() -> {
                        try (LockBackend backend = Taker.open(strict.connectString(), Map.of(), CALL_TIMEOUT)) {
                            acquire(backend, "a");
                        }
                    })
                    .contains(strict.connectString(), "user and password");
        }
    }
}
