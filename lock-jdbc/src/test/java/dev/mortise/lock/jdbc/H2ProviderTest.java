package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.context;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.concurrent.TimeUnit;
import org.h2.jdbcx.JdbcDataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Databases of H2: which are taken, which are refused with what to do, and what is promised. */
class H2ProviderTest {
    private final H2Store store = new H2Store();

    @TempDir
    Path folder;

    @AfterEach
    void close() throws Exception {
        store.close();
    }

    private LockBackend open(String url, Map<String, String> options) {
        return store.opened(new H2Provider().open(StoreUri.parse(url, options), context(CALL_TIMEOUT)));
    }

    private static String all(Throwable e) {
        StringWriter out = new StringWriter();
        e.printStackTrace(new PrintWriter(out));
        return out.toString();
    }

    private void works(LockBackend client, LockBackend other) {
        Grant grant = granted(client, claim("n'\\"));
        assertThat(acquire(other, claim("n'\\"))).isEmpty();
        assertThat(acquire(other, claim("N'\\"))).isPresent();
        assertThat(client.renew(List.of(grant)).live()).hasSize(1);
        Grant heir = client.adopt(grant, claim("n'\\")).orElseThrow();
        assertThat(other.holder("n'\\").orElseThrow().owner()).isEqualTo(heir.owner());
        assertThat(client.release(heir.claim())).isTrue();
        assertThat(granted(other, claim("n'\\")).token()).isGreaterThan(heir.token());
    }

    /** Found as a service; a crash of the server is not survived, nor is failover or a step of the clock. */
    @Test
    void declares() {
        assertThat(ServiceLoader.load(BackendProvider.class))
                .anySatisfy(provider ->
                        assertThat(provider.schemes()).containsOnly(Map.entry("jdbc:h2", H2Dialect.GUARANTEES)));
        assertThat(H2Dialect.GUARANTEES.exclusionSurvives())
                .containsExactlyInAnyOrder(
                        StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH, StoreEvent.CONNECTION_LOSS);
        assertThat(H2Dialect.GUARANTEES.outlivesClient()).isTrue();
    }

    /** Behind a server, in a file, and in modes that follow other databases. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                ";MODE=MySQL;DATABASE_TO_LOWER=TRUE",
                ";MODE=PostgreSQL;DATABASE_TO_LOWER=TRUE",
                ";MODE=Oracle",
                ";TIME ZONE=Asia/Kathmandu"
            })
    void databases(String settings) throws Exception {
        Map<String, String> options = Map.of("user", "sa", "password", "pw");
        works(open(store.url + settings, options), open(store.url + settings, options));
        String file = "jdbc:h2:" + folder.resolve("f") + settings;
        works(open(file, options), open(file, options));
        try (LockClient locks = LockClient.connect(file, options)) {
            assertThat(locks.lock("m").tryRun(lease -> assertThat(lease.token()).isPositive()))
                    .isTrue();
        }
    }

    /** A file in this process: interrupts of threads that lock do not close it for the others, nor hurt what they do. */
    @Test
    void interruptsInAFile() throws Exception {
        String file = "jdbc:h2:" + folder.resolve("f") + ";WRITE_DELAY=0";
        Map<String, String> options = Map.of("user", "sa");
        LockBackend client = open(file, options);
        try (Connection other = DriverManager.getConnection(file, "sa", "");
                Statement statement = other.createStatement()) {
            statement.execute("CREATE TABLE mine (n INT)");
            Thread locking = new Thread(() -> {
                for (int i = 0; i < 300; i++) {
                    Claim claim = claim("n" + i % 5);
                    try {
                        client.acquire(claim, Duration.ZERO);
                    } catch (InterruptedException e) {
                        // It left nothing, or is released here.
                    }
                    client.release(claim);
                }
            });
            locking.start();
            while (locking.isAlive()) {
                locking.interrupt();
                TimeUnit.MICROSECONDS.sleep(300);
                statement.execute("INSERT INTO mine VALUES (1)");
            }
            statement.execute("DELETE FROM mine");
            for (int i = 0; i < 5; i++) {
                granted(client, claim("n" + i));
            }
        }
    }

    /** In memory, or with a client as the server, or a file that another process has: refused, with what to do. */
    @Test
    void refused() throws Exception {
        assertThatThrownBy(() -> open("jdbc:h2:mem:x;DB_CLOSE_DELAY=-1", Map.of()))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("in memory");
        assertThatThrownBy(() -> open("jdbc:h2:" + folder.resolve("f") + ";AUTO_SERVER=TRUE", Map.of()))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("jdbc:h2:tcp://");
        assertThatThrownBy(() -> open(store.url.replaceAll("/d\\d+$", "/mem:x"), Map.of("user", "sa")))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("in memory");
        String ignoring = "jdbc:h2:" + folder.resolve("i");
        try (Connection connection = DriverManager.getConnection(ignoring, "sa", "");
                Statement statement = connection.createStatement()) {
            statement.execute("SET COLLATION ENGLISH STRENGTH PRIMARY");
            assertThatThrownBy(() -> open(ignoring, Map.of("user", "sa")))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("upper and lower case");
        }
        JdbcDataSource memory = new JdbcDataSource();
        memory.setURL("jdbc:h2:mem:y;DB_CLOSE_DELAY=-1");
        assertThatThrownBy(() -> JdbcLocks.table(memory))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("in memory");
    }

    /** A wrong password, a setting that H2 does not know, a password twice: said without showing it. */
    @Test
    void wrongPassword() {
        open(store.url, Map.of("user", "sa", "password", "right"));
        assertThatThrownBy(() -> open(store.url, Map.of("user", "mallory", "password", "s3cret")))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("MORTISE_PASSWORD")
                .satisfies(e -> assertThat(all(e)).doesNotContain("s3cret").doesNotContain("mallory"));
        assertThatThrownBy(() -> open(store.url + ";NOSUCH=1;PASSWORD=s3cret", Map.of("user", "sa")))
                .isInstanceOf(LockStoreException.class)
                .satisfies(e -> assertThat(all(e)).doesNotContain("s3cret"));
        assertThatThrownBy(() -> open(store.url + ";PASSWORD=s3cret", Map.of("password", "s3cret2")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("twice")
                .satisfies(e -> assertThat(all(e)).doesNotContain("s3cret"));
        assertThatThrownBy(() -> open("jdbc:h2:tcp://127.0.0.1:1/x", Map.of("user", "sa", "password", "s3cret")))
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("127.0.0.1:1")
                .hasMessageContaining("server runs")
                .satisfies(e -> assertThat(all(e)).doesNotContain("s3cret"));
    }

    /** Who may not make the table is told what to run; when it is there, SELECT, INSERT and UPDATE are enough. */
    @Test
    void leastRights() throws Exception {
        try (Connection admin = store.sql();
                Statement statement = admin.createStatement()) {
            statement.execute("CREATE USER u PASSWORD 'u'");
            Map<String, String> user = Map.of("user", "u", "password", "u");
            assertThatThrownBy(() -> open(store.url, user))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("h2.sql");
            store.client();
            assertThatThrownBy(() -> open(store.url, user))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("GRANT SELECT, INSERT, UPDATE");
            statement.execute("GRANT SELECT, INSERT, UPDATE ON mortise_lock TO u");
            works(open(store.url, user), store.client());
        }
    }

    /** The odd name of a schema is quoted, and cannot break out of a statement; a table with other columns is refused. */
    @Test
    void schemas() throws Exception {
        String odd = "x\"; DROP ALL OBJECTS; --'";
        try (Connection admin = store.sql();
                Statement statement = admin.createStatement()) {
            statement.execute("CREATE TABLE mine (n INT)");
            statement.execute("CREATE SCHEMA \"" + odd.replace("\"", "\"\"") + "\"");
            Map<String, String> options = Map.of("user", "sa", "schema", odd);
            works(open(store.url, options), open(store.url, options));
            statement.execute("SELECT * FROM mine");
            statement.execute("CREATE TABLE mortise_lock (name VARCHAR(9) PRIMARY KEY, until TIMESTAMP)");
            assertThatThrownBy(() -> store.client())
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("format 1");
            assertThatThrownBy(() -> open(store.url, Map.of("user", "sa", "schema", "nosuch")))
                    .isInstanceOf(LockStoreException.class)
                    .hasMessageContaining("make that schema");
        }
    }

    /** A connection of a pool is given back as it was; one with a transaction open in it is refused. */
    @Test
    void pools() throws Exception {
        for (boolean autoCommit : new boolean[] {true, false}) {
            HikariConfig config = new HikariConfig();
            config.setJdbcUrl(store.url + ";LOCK_TIMEOUT=1234");
            config.setUsername("sa");
            config.setMaximumPoolSize(1);
            config.setAutoCommit(autoCommit);
            config.setTransactionIsolation("TRANSACTION_SERIALIZABLE");
            try (HikariDataSource pool = new HikariDataSource(config)) {
                works(store.opened(JdbcLocks.table(pool)), store.client());
                store.change("DELETE FROM mortise_lock");
                try (Connection connection = pool.getConnection();
                        Statement statement = connection.createStatement();
                        ResultSet row = statement.executeQuery("SELECT LOCK_TIMEOUT()")) {
                    row.next();
                    assertThat(row.getInt(1)).isEqualTo(1234);
                    assertThat(connection.getAutoCommit()).isEqualTo(autoCommit);
                    assertThat(connection.getTransactionIsolation()).isEqualTo(Connection.TRANSACTION_SERIALIZABLE);
                }
            }
        }
        store.change("CREATE TABLE mine (n INT)");
        try (Connection mine = store.sql();
                Statement statement = mine.createStatement()) {
            mine.setAutoCommit(false);
            LockBackend client = store.opened(JdbcLocks.table(MariaDbSettingsTest.one(mine)));
            statement.execute("INSERT INTO mine VALUES (1)");
            assertThatThrownBy(() -> granted(client, claim("n"))).hasMessageContaining("transaction open");
            mine.rollback();
            granted(client, claim("n"));
        }
        assertThat(store.number("SELECT count(*) FROM mine")).isZero();
    }

    /** A server that says nothing any more hangs no call, and what it did late is undone. */
    @Test
    void silentServer() throws IOException {
        int port = Integer.parseInt(store.url.replaceAll(".*:(\\d+)/.*", "$1"));
        try (TcpProxy way = new TcpProxy(port)) {
            LockBackend far = store.opened(new H2Provider()
                    .open(
                            StoreUri.parse(
                                    store.url.replaceAll("//.*/", "//127.0.0.1:" + way.port() + "/"),
                                    Map.of("user", "sa")),
                            context(Duration.ofMillis(500))));
            Grant grant = granted(far, claim("n"));
            way.requests(TcpProxy.Mode.HOLD);
            Claim late = claim("m");
            long start = System.nanoTime();
            assertThatThrownBy(() -> far.acquire(late, Duration.ZERO))
                    .isInstanceOfSatisfying(
                            LockStoreException.class,
                            e -> assertThat(e.mayHaveTakenEffect()).isTrue());
            assertThatThrownBy(() -> far.renew(List.of(grant))).isInstanceOf(LockStoreException.class);
            assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(10));
            way.heal();
            await().ignoreExceptions().until(() -> {
                far.release(late);
                return far.renew(List.of(grant)).live().size() == 1;
            });
            await().until(() -> {
                far.release(late);
                return acquire(far, claim("m")).isPresent();
            });
        }
    }
}
