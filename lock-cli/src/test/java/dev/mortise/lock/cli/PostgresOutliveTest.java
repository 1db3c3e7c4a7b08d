package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.jdbc.PostgresServer;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** {@code mortise run} on PostgreSQL, by its default strategy: the advisory lock. */
class PostgresOutliveTest extends Outliving {
    private final PostgresServer server = new PostgresServer();

    @AfterEach
    void stop() {
        server.close();
    }

    @Override
    List<String> store() {
        return List.of("--store", server.url(), "-o", "user=test");
    }

    /** The release waits for the server for a call timeout, a quarter of the lease, and so does the end of the client. */
    @Override
    int endedWithin() {
        return super.endedWithin() + LEASE / 4;
    }

    @Override
    void loseStore() {
        server.signal("STOP");
    }

    @Override
    void bringStoreBack() {
        server.signal("CONT");
    }

    /** It is the advisory lock: the server knows it, by the session of the one who holds it. */
    @Test
    void isAnAdvisoryLock() throws Exception {
        String held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
        Mortise holder = start(holder());
        assertThat(server.text(held)).isEqualTo("1");
        Processes.signal("TERM", holder.pid());
        holder.exit();
        processes.awaitNone(Mortise.LONG);
        // Its session ends with its process, which the server notices by itself.
        await().untilAsserted(() -> assertThat(server.text(held)).isEqualTo("0"));
    }

    /** The server ends the session of the holder, who goes on: the row still says who it is, until it is renewed or ends. */
    @Test
    void sessionEndedUnderTheCommand() throws Exception {
        ProcessBuilder words = Mortise.builder(
                processes,
                folder,
                "run",
                "x",
                "--lease",
                LEASE + "s",
                "--store",
                server.url(),
                "-o",
                "user=test",
                "--",
                "sh",
                "-c",
                "echo in $MORTISE_TOKEN; echo $MORTISE_TOKEN >>\"$0\"; sleep 3; echo $MORTISE_TOKEN >>\"$0\"; echo done",
                log().toString());
        Mortise holder = start(words);
        assertThat(server.rows(
                        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"))
                .hasSize(1);
        Mortise next = next();
        assertThat(next.exit()).as(next.err()).isZero();
        assertThat(seen()).as("still alive when the next command began").isEmptyFile();
        assertThat(holder.exit()).as(holder.err()).isIn(0, 75);
    }

    /** The port is nobody's: one line that says what was tried, and nothing has run. */
    @Test
    void noStore() throws Exception {
        server.kill();
        Mortise next = next();
        assertThat(next.exit()).isEqualTo(69);
        assertThat(next.err()).contains(server.url()).hasLineCount(1);
        assertThat(next.out()).isEmpty();
        Files.createFile(log());
    }
}
