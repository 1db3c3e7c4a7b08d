package dev.mortise.lock.jdbc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.Load;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.ResourceLock;

/** On MariaDB; and calls that fail behind their effect inside the server. */
// Beside other classes, because most of it is waiting; its methods, which share a server, one after the other.
@Execution(ExecutionMode.CONCURRENT)
@ResourceLock("MariaDbAdvisoryFaultTest")
class MariaDbAdvisoryFaultTest extends AdvisoryFaults {
    private static final List<String> CLIENTS = List.of("one", "two", "three");

    private static MariaDbServer server;

    @BeforeAll
    static void start() {
        server = new MariaDbServer();
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @Override
    AdvisoryScene scene() {
        return new MariaDbScene(server);
    }

    private void nothingIsLeft(AdvisoryScene scene) {
        await().atMost(Duration.ofSeconds(6))
                .pollInterval(Duration.ofMillis(10))
                .until(() -> CLIENTS.stream()
                        .allMatch(client -> scene.sessions(client, true).isEmpty()));
    }

    /** Statements and sessions are killed at any moment. When all is over nothing is left. */
    @Test
    void brokenOffAtAnyMoment() throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        try (AdvisoryScene scene = scene()) {
            List<LockBackend> clients = new ArrayList<>();
            for (String client : CLIENTS) {
                clients.add(scene.client(client));
            }
            AtomicBoolean over = new AtomicBoolean();
            AtomicInteger killed = new AtomicInteger();
            Future<?> kills = threads.submit(() -> kill(over, killed));
            try (Load load = new Load(
                    scene.holds,
                    clients,
                    List.of("a", "b", "c"),
                    Duration.ofSeconds(2),
                    AdvisoryScene.CALL_TIMEOUT,
                    true)) {
                load.awaitService(Duration.ofSeconds(30));
                await().atMost(Duration.ofSeconds(60)).until(() -> killed.get() > TestStore.times(30, 100));
                load.awaitService(Duration.ofSeconds(30));
                over.set(true);
                kills.get(20, TimeUnit.SECONDS);
                load.awaitService(Duration.ofSeconds(30));
            }
            nothingIsLeft(scene);
            scene.sound();
        } finally {
            threads.shutdownNow();
        }
    }

    /** Whatever a session of theirs does now; now and then the session itself. */
    private static Void kill(AtomicBoolean over, AtomicInteger killed) throws Exception {
        Random random = new Random(3);
        try (Connection connection = server.connect();
                Statement statement = connection.createStatement()) {
            while (!over.get()) {
                List<Integer> busy = new ArrayList<>();
                try (ResultSet rows = statement.executeQuery("SELECT ID FROM information_schema.PROCESSLIST"
                        + " WHERE COMMAND <> 'Sleep' AND USER IN ('one', 'two', 'three')")) {
                    while (rows.next()) {
                        busy.add(rows.getInt(1));
                    }
                }
                for (int id : busy) {
                    // One that has ended meanwhile is none to fail for.
                    statement.execute("BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; KILL "
                            + (random.nextInt(20) == 0 ? "CONNECTION " : "QUERY ") + id + "; END");
                    killed.incrementAndGet();
                }
                TimeUnit.MICROSECONDS.sleep(random.nextInt(6000));
            }
        }
        return null;
    }

    /**
     * Somebody keeps the name's row locked: the try has the server's lock, and not the row. It fails in time, the lock goes
     * free while the row is still locked, and afterwards the same client gets it.
     */
    @Test
    void theRowIsLocked() throws Exception {
        try (AdvisoryScene scene = scene()) {
            LockBackend client = scene.client("one");
            Duration longer = Duration.ofSeconds(30);
            Hold before = scene.holds.sure(client, "n", longer);
            assertThat(scene.holds.release(client, before)).isTrue();
            Claim claim = Holds.claim("n", longer);
            try (Connection stranger = scene.store().sql();
                    Statement statement = stranger.createStatement()) {
                stranger.setAutoCommit(false);
                statement
                        .executeQuery("SELECT * FROM mortise_lock WHERE name = 'n' FOR UPDATE")
                        .close();
                assertThatThrownBy(() -> client.acquire(claim, Duration.ZERO)).isInstanceOf(LockStoreException.class);
                nothingIsLeft(scene);
                stranger.rollback();
            }
            assertThat(client.release(claim)).isFalse();
            Hold after = scene.holds.sure(client, "n", longer);
            assertThat(after.token).isGreaterThan(before.token);
            assertThat(scene.holds.release(client, after)).isTrue();
            nothingIsLeft(scene);
            scene.sound();
        }
    }
}
