package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.CALL_TIMEOUT;
import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static dev.mortise.lock.jdbc.TestStore.context;
import static dev.mortise.lock.jdbc.TestStore.granted;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The file is deleted, moved, replaced under the clients' hands, or is none that could hold a lock. */
class FileTest {
    @TempDir
    Path folder;

    private SqliteStore store;

    @BeforeEach
    void open() {
        store = new SqliteStore(folder);
    }

    @AfterEach
    void close() throws Exception {
        store.close();
    }

    private static void refused(ThrowingCallable call, boolean effect, String... words) {
        assertThatThrownBy(call)
                .isInstanceOfSatisfying(LockStoreException.class, e -> {
                    assertThat(e.mayHaveTakenEffect()).isEqualTo(effect);
                    assertThat(e.store()).startsWith("jdbc:sqlite:");
                    assertThat(e.getMessage()).doesNotContain("\n").startsWith(e.store());
                })
                .hasMessageContainingAll(words);
    }

    private LockBackend at(String path) {
        return new JdbcProvider().open(StoreUri.parse("jdbc:sqlite:" + path, Map.of()), context(CALL_TIMEOUT));
    }

    // ---- The file goes away

    /** Moved away: nothing is believed any more that is told by the old file; moved back: all is as it was. */
    @Test
    void movedAwayAndBack() throws Exception {
        LockBackend a = store.client();
        Grant grant = granted(a, claim("n"));
        Path away = folder.resolve("away.db");
        Files.move(store.file, away);
        for (int i = 0; i < 2; i++) {
            // The first time each finds it out, later it is not made anew: it may come back.
            boolean first = i == 0;
            refused(() -> a.renew(List.of(grant)), first, first ? "moved" : "gone", store.file.toString());
            refused(() -> a.holder("n"), false, store.file.toString());
            refused(() -> acquire(a, claim("other")), false, store.file.toString());
            refused(() -> a.release(grant.claim()), false, "put");
        }
        assertThat(store.file).doesNotExist();
        Files.move(away, store.file);
        assertThat(a.renew(List.of(grant)).live()).hasSize(1);
        assertThat(acquire(store.client(), claim("n"))).isEmpty();
        assertThat(a.holder("other")).isEmpty();
    }

    /** Deleted, and made anew by another: the old holder learns nothing good from the old file. */
    @Test
    void deletedAndMadeAnew() throws Exception {
        LockBackend a = store.client();
        Grant old = granted(a, claim("n"));
        for (String companion : List.of("", "-wal", "-shm")) {
            Files.delete(Path.of(store.file + companion));
        }
        LockBackend b = store.client();
        Grant now = granted(b, claim("n"));
        assertThat(now.token()).isGreaterThan(old.token());
        refused(() -> a.renew(List.of(old)), true, "deleted, moved or replaced");
        assertThat(a.renew(List.of(old)).ended()).hasSize(1);
        assertThat(acquire(a, claim("n"))).isEmpty();
        assertThat(b.renew(List.of(now)).live()).hasSize(1);
    }

    /** Replaced by another file, as an administrator restores a backup: the same. */
    @Test
    void replaced() throws Exception {
        LockBackend a = store.client();
        LockBackend b = store.client();
        Grant grant = granted(a, claim("n"));
        Path backup = folder.resolve("backup.db");
        try (Connection connection = store.sql();
                Statement statement = connection.createStatement()) {
            statement.execute("VACUUM INTO '" + backup + "'");
        }
        a.release(grant.claim());
        b.close();
        for (String companion : List.of("-wal", "-shm")) {
            Files.delete(Path.of(store.file + companion));
        }
        Files.move(backup, store.file, StandardCopyOption.REPLACE_EXISTING);
        refused(() -> acquire(a, claim("n")), true, "deleted, moved or replaced");
        // What the backup says holds: its row is live.
        assertThat(acquire(a, claim("n"))).isEmpty();
        assertThat(a.release(grant.claim())).isTrue();
        assertThat(granted(a, claim("n")).token()).isGreaterThan(grant.token());
    }

    /** Moved between the send and the answer: the answer is not believed, whichever it is. */
    @Test
    void movedDuringAStatement() throws Exception {
        AtomicBoolean trap = new AtomicBoolean();
        Path away = folder.resolve("away.db");
        LockBackend a = store.client(
                CALL_TIMEOUT,
                connection -> TestStore.observed(connection, sql -> {
                    if (trap.getAndSet(false)) {
                        try {
                            Files.move(store.file, away);
                        } catch (IOException e) {
                            throw new SQLException(e);
                        }
                    }
                }));
        Grant held = granted(a, claim("held"));
        for (ThrowingCallable call : List.<ThrowingCallable>of(
                () -> acquire(a, claim("n")),
                () -> a.renew(List.of(held)),
                () -> a.release(held.claim()),
                () -> a.adopt(held, claim("held")))) {
            trap.set(true);
            refused(call, true, "moved");
            assertThat(trap).isFalse();
            Files.move(away, store.file);
        }
    }

    /**
     * A companion deleted: the log of this process is lost for good, and SQLite would go on in it. So this process says
     * to start anew. Others go on, or are told to stop all programs; nobody gets a wrong answer.
     */
    @ParameterizedTest
    @ValueSource(strings = {"-wal", "-shm"})
    void companionDeleted(String companion) throws Exception {
        LockBackend a = store.client();
        Grant grant = granted(a, claim("n"));
        Files.delete(Path.of(store.file + companion));
        refused(() -> a.renew(List.of(grant)), true, companion, "part of it");
        refused(() -> a.renew(List.of(grant)), false, "start this program anew");
        refused(store::client, false, "start this program anew");
        try (Child child = Child.start(List.of(), Contender.class, "child", "1", store.adminUrl())) {
            String first = child.line(30_000);
            if (companion.equals("-shm")) {
                assertThat(first).isEqualTo("READY");
                assertThat(child.line(30_000)).startsWith("GRANT n0");
            } else {
                assertThat(first).contains("stop all programs");
            }
            child.kill();
        }
    }

    /** One file under two names has two logs, and would have two holders. */
    @Test
    void hardLinksAreRefused() throws Exception {
        LockBackend a = store.client();
        granted(a, claim("n"));
        Path second = folder.resolve("second.db");
        Files.createLink(second, store.file);
        refused(() -> at(second.toString()), false, "hard links");
        refused(store::client, false, "hard links");
        assertThat(Path.of(second + "-wal")).doesNotExist();
        Files.delete(second);
        assertThat(acquire(store.client(), claim("n"))).isEmpty();
    }

    /** Nobody can switch the log off while it is in use. */
    @Test
    void othersCannotSwitchTheLogOff() throws Exception {
        LockBackend a = store.client();
        Grant grant = granted(a, claim("n"));
        try (Connection other = store.sql();
                Statement statement = other.createStatement()) {
            statement.execute("PRAGMA busy_timeout = 50");
            assertThatThrownBy(() -> statement.executeQuery("PRAGMA journal_mode = DELETE"))
                    .isInstanceOf(SQLException.class);
        }
        assertThat(a.renew(List.of(grant)).live()).hasSize(1);
    }

    /** The list of mounts, as Linux writes it. */
    @Test
    void mountPoints() throws IOException {
        Path mounts = folder.resolve("mountinfo");
        Files.writeString(
                mounts,
                "22 1 254:0 / / rw - ext4 /dev/vda rw\n31 22 254:0 /data/x.db /var/lib/a\\040b/ü.db rw - ext4 /dev/vda\n");
        assertThat(StoreFile.isMountPoint(mounts, Path.of("/var/lib/a b/ü.db"))).isTrue();
        assertThat(StoreFile.isMountPoint(mounts, Path.of("/var/lib/a b"))).isFalse();
        assertThat(StoreFile.isMountPoint(mounts, Path.of("/data/x.db"))).isFalse();
    }

    /** Symbolic links lead to one store, and a link that leads elsewhere is found out. */
    @Test
    void symbolicLinks() throws Exception {
        LockBackend a = store.client();
        granted(a, claim("n"));
        Path link = folder.resolve("link.db");
        Files.createSymbolicLink(link, store.file);
        LockBackend b = at(link.toString());
        assertThat(acquire(b, claim("n"))).isEmpty();
        Files.delete(link);
        Files.createSymbolicLink(link, folder.resolve("other.db"));
        refused(() -> b.holder("n"), false, "moved or replaced");
        b.close();
    }

    /** A log without its file: SQLite would delete it, and with it what was committed last. */
    @Test
    void logWithoutFile() throws Exception {
        LockBackend a = store.client();
        Grant grant = granted(a, claim("n"));
        Path away = folder.resolve("away.db");
        Files.move(store.file, away);
        refused(store::client, false, "-wal", "put");
        assertThat(store.file).doesNotExist();
        Files.move(away, store.file);
        assertThat(store.client().renew(List.of(grant)).live()).hasSize(1);
    }

    /** The table is dropped, or its rows deleted, by an administrator: no wrong answer, and it is there again. */
    @Test
    void tableDropped() throws Exception {
        LockBackend a = store.client();
        Grant grant = granted(a, claim("n"));
        store.change("DROP TABLE mortise_lock");
        refused(() -> a.renew(List.of(grant)), false, "mortise_lock");
        assertThat(a.renew(List.of(grant)).ended()).hasSize(1);
        granted(a, claim("n"));
    }

    // ---- What cannot be a store

    @ParameterizedTest
    @ValueSource(
            strings = {"", ":memory:", "file::memory:", "file:x.db?mode=memory", "file:x.db?nolock=1", ":resource:x"})
    void memoryExcludesNobody(String path) {
        assertThatThrownBy(() -> at(path))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("jdbc:sqlite:/folder/file.db");
    }

    @ParameterizedTest
    @ValueSource(strings = {"mode=memory", "cache=shared", "vfs=unix-none", "nolock=1", "immutable=1", "foo=bar"})
    void unknownOptionsOfTheUrl(String option) {
        assertThatThrownBy(() -> at(store.file + "?" + option))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(option.substring(0, option.indexOf('=')))
                .hasMessageContaining("busy_timeout");
        assertThat(folder).isEmptyDirectory();
    }

    /** The driver would show the whole URL here. */
    @Test
    void noSecretInMessages() {
        for (String query : List.of("password=s3cret&journal_mode", "password=a&s3cret=1", "password=s3cret&x=1")) {
            assertThatThrownBy(() -> at(store.file + "?" + query))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageNotContaining("s3cret");
        }
    }

    /** Whatever the URL asks for, the log is written ahead, flushed at each commit, and open to others. */
    @Test
    void optionsOfTheUrlDoNotWeaken() throws Exception {
        String query = "?journal_mode=DELETE&synchronous=OFF&locking_mode=EXCLUSIVE&busy_timeout=60000"
                + "&read_uncommitted=true&shared_cache=true&open_mode=1&count_changes=true&foreign_keys=true"
                + "&reverse_unordered_selects=true&transaction_mode=EXCLUSIVE&cache_size=10";
        AtomicReference<Connection> used = new AtomicReference<>();
        LockBackend a = TableBackend.open(
                new SqliteDialect(
                        StoreUri.parse("jdbc:sqlite:" + store.file + query, Map.of()),
                        StoreFile::fileSystem,
                        connection -> {
                            used.set(connection);
                            return connection;
                        }),
                context(CALL_TIMEOUT));
        granted(a, claim("n"));
        LockBackend b = at(store.file + query);
        assertThat(acquire(b, claim("n"))).isEmpty();
        granted(b, claim("m"));
        for (String[] expected : new String[][] {
            {"journal_mode", "wal"},
            {"synchronous", "2"},
            {"locking_mode", "normal"},
            {"busy_timeout", "0"},
            {"read_uncommitted", "0"},
            {"fullfsync", "1"},
            {"foreign_keys", "1"}
        }) {
            try (Statement statement = used.get().createStatement();
                    ResultSet rows = statement.executeQuery("PRAGMA " + expected[0])) {
                assertThat(rows.getString(1)).as(expected[0]).isEqualTo(expected[1]);
            }
        }
        a.close();
        b.close();
    }

    @Test
    void missingFolder() {
        Path missing = folder.resolve("it's missing").resolve("deep");
        refused(
                () -> at(missing + "/x.db"),
                false,
                "does not exist",
                "mkdir -p '" + folder + "/it'\\''s missing/deep'");
    }

    @Test
    void folderIsAFile() throws IOException {
        Path file = Files.createFile(folder.resolve("file"));
        refused(() -> at(file + "/x.db"), false, "file", "folder");
    }

    @Test
    void fileIsAFolder() throws IOException {
        Path directory = Files.createDirectory(folder.resolve("x.db"));
        refused(() -> at(directory.toString()), false, "is a folder");
    }

    @Test
    void fileIsNoDatabase() throws IOException {
        String text = "To be or not to be, that is the question.\n".repeat(200);
        Files.writeString(store.file, text);
        refused(store::client, false, "not a database", "SQLite database");
        assertThat(store.file).hasContent(text);
    }

    @Test
    void damagedDatabase() throws Exception {
        store.client().close();
        byte[] bytes = Files.readAllBytes(store.file);
        for (int i = 100; i < bytes.length; i++) {
            bytes[i] = (byte) (i * 31);
        }
        Files.write(store.file, bytes);
        refused(store::client, false, "malformed", "move it");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "CREATE TABLE mortise_lock (name TEXT PRIMARY KEY, owner TEXT)",
                "CREATE TABLE mortise_lock (name TEXT, format, strategy, token, owner, lease_ms, until_ms)",
                "CREATE VIEW mortise_lock AS SELECT 1 AS name"
            })
    void tableOfAnotherVersion(String ddl) throws SQLException {
        store.change(ddl);
        refused(store::client, false, "mortise_lock", "format 1", "same version");
    }

    /** The file is the user's own database as well: his tables stay as they are, and he can use it while we do. */
    @Test
    void sharedWithTheApplication() throws SQLException {
        store.change("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER)");
        store.change("INSERT INTO account VALUES (1, 7)");
        LockBackend a = store.client();
        granted(a, claim("n"));
        store.change("UPDATE account SET cents = 8");
        assertThat(store.number("SELECT cents FROM account")).isEqualTo(8);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "nfs",
                "nfs4",
                "cifs",
                "smb3",
                "SMB2",
                "smbfs",
                "9p",
                "virtiofs",
                "fuse.sshfs",
                "fuse.glusterfs",
                "ceph",
                "glusterfs",
                "lustre",
                "afs",
                "ocfs2",
                "macfuse"
            })
    void networkFileSystems(String type) {
        refused(
                () -> TableBackend.open(
                        new SqliteDialect(store.uri(), path -> type, connection -> connection), context(CALL_TIMEOUT)),
                false,
                "type " + type,
                "local disk");
        assertThat(folder).isEmptyDirectory();
    }

    @ParameterizedTest
    @ValueSource(strings = {"ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "NTFS", "fuseblk"})
    void localFileSystems(String type) {
        assertThat(StoreFile.isNetwork(type)).isFalse();
    }

    /** No room: the same on every machine, by SQLite's own limit. Nothing is acquired, and a client with room goes on. */
    @Test
    void full() throws SQLException {
        LockBackend roomy = store.client();
        LockBackend full = at(store.file + "?max_page_count=" + store.number("PRAGMA page_count"));
        Grant held = null;
        String refusedName = null;
        for (int i = 0; refusedName == null; i++) {
            String name = "n" + i + "-" + "x".repeat(400);
            try {
                held = granted(full, claim(name));
            } catch (LockStoreException e) {
                assertThat(e.mayHaveTakenEffect()).isFalse();
                assertThat(e).hasMessageContainingAll("full", "make room", folder.toString());
                refusedName = name;
            }
        }
        assertThat(roomy.holder(refusedName)).isEmpty();
        granted(roomy, claim(refusedName));
        assertThat(full.renew(List.of(held)).live()).hasSize(1);
        assertThat(full.release(held.claim())).isTrue();
        full.close();
    }
}
