package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The command never outlives the lock, on whatever store. In each test the holder suffers something, while another mortise waits for the
 * same lock: the other is in within the lease and two seconds (or what the store declares), with a larger token, and finds nobody of the first command
 * alive, grandchildren that ignore TERM included.
 */
abstract class Outliving {
    static final int LEASE = 4;

    /** Every process of the first command writes its token again and again, so that one that outlives it is seen. */
    private static final String STUBBORN =
            "beat() { trap '' TERM; while :; do echo $MORTISE_TOKEN >>\"$0\"; sleep 0.05; done; };"
                    + " beat & (beat & sleep 100) & echo in $MORTISE_TOKEN; wait; sleep 100";

    /** The second command looks first of all who is there. */
    private static final String NEXT =
            "grep -lzx MORTISE_TOKEN=$(head -n 1 \"$0\") /proc/[0-9]*/environ 2>/dev/null >\"$1\"; echo $MORTISE_TOKEN >>\"$0\"; read up rest"
                    + " </proc/uptime; echo at $up token $MORTISE_TOKEN; exec sleep 0.5";

    final Processes processes = new Processes();

    @TempDir
    Path folder;

    @AfterEach
    void nothingIsLeft() throws Exception {
        try {
            processes.awaitNone(Duration.ofSeconds(LEASE + 30));
            assertThat(Mortise.tmp(folder)).isEmptyDirectory();
            long last = 0;
            for (String line : Files.readAllLines(log())) {
                long token = Long.parseLong(line);
                assertThat(token).as("a command has gone on beside the next").isGreaterThanOrEqualTo(last);
                last = token;
            }
        } finally {
            processes.close();
        }
    }

    Path log() {
        return folder.resolve("log");
    }

    Path seen() {
        return folder.resolve("seen");
    }

    ProcessBuilder holder(String... options) {
        Stream<String> words = Stream.of(
                        Stream.of("run", "x", "--lease", LEASE + "s"),
                        store().stream(),
                        Stream.of(options),
                        Stream.of("--", "sh", "-c", STUBBORN, log().toString()))
                .flatMap(some -> some);
        ProcessBuilder builder = Mortise.builder(processes, folder, words.toArray(String[]::new));
        builder.environment().put("FIRST", "yes");
        return builder;
    }

    Mortise start(ProcessBuilder builder) throws IOException {
        Mortise holder = Mortise.start(folder, builder);
        holder.awaitOut("in ");
        return holder;
    }

    Mortise next() throws IOException {
        Stream<String> words = Stream.of(
                        Stream.of("run", "x", "--lease", LEASE + "s"),
                        store().stream(),
                        Stream.of("--", "sh", "-c", NEXT, log().toString(), seen().toString()))
                .flatMap(some -> some);
        return Mortise.start(processes, folder, words.toArray(String[]::new));
    }

    /** @param since when the holder suffered, on the uptime clock */
    void assertHandedOver(Mortise holder, Mortise next, long since) throws Exception {
        assertThat(next.exit()).as(next.err()).isZero();
        List<String> at = List.of(next.out().strip().split(" ", -1));
        long uptime = Long.parseLong(at.get(1).replace(".", ""));
        assertThat(uptime - since).isLessThanOrEqualTo(freedWithin() * 100L);
        assertThat(Long.parseLong(at.get(3))).isGreaterThan(token(holder.out()));
        assertThat(seen()).as("still alive when the next command began").isEmptyFile();
    }

    static long token(String out) {
        Matcher in = Pattern.compile("in (\\d+)").matcher(out);
        assertThat(in.find()).as(out).isTrue();
        return Long.parseLong(in.group(1));
    }

    /** The waiting one is at the store when the first one suffers. */
    Mortise waiting() throws Exception {
        Mortise next = next();
        await().atMost(Mortise.LONG)
                .until(() -> ProcessHandle.of(next.pid()).stream()
                        .flatMap(ProcessHandle::children)
                        .anyMatch(ProcessHandle::isAlive));
        return next;
    }

    @Test
    void killed() throws Exception {
        Mortise holder = start(holder());
        Mortise next = waiting();
        long since = Machine.uptime();
        Processes.signal("KILL", holder.pid());
        assertHandedOver(holder, next, since);
    }

    /** Stopped, and continued when the lock is somebody else's: it says that the lock was lost. */
    @Test
    void stopped() throws Exception {
        Mortise holder = start(holder());
        Mortise next = waiting();
        long since = Machine.uptime();
        Processes.signal("STOP", holder.pid());
        assertHandedOver(holder, next, since);
        Processes.signal("CONT", holder.pid());
        assertThat(holder.exit()).isEqualTo(75);
        assertThat(errors(holder)).startsWith("mortise: the lock 'x' was lost while the command ran");
        assertSaysNoMore(errors(holder));
    }

    /** @param err of one that was stopped, and went on when the lock was somebody else's */
    void assertSaysNoMore(String err) {
        assertThat(err).hasLineCount(1);
    }

    /** In seconds: when the lock of one that has died is free, and the next one is in, at the latest. */
    int freedWithin() {
        return LEASE + 2;
    }

    /** In seconds: how soon a holder has ended its command and itself, when the store does not answer any more. */
    int endedWithin() {
        return LEASE + 2;
    }

    /** What it said beside warnings: each of these is a line too. */
    static String errors(Mortise mortise) {
        return mortise.err()
                .lines()
                .filter(line -> !line.startsWith("mortise: warning: "))
                .collect(Collectors.joining("\n"));
    }

    /** The arguments that name the store. */
    abstract List<String> store();

    /** From now on the store does not answer. */
    abstract void loseStore() throws Exception;

    abstract void bringStoreBack() throws Exception;

    /** No renewal comes through: the command is ended in time, and the exit code says why. */
    @Test
    void storeUnreachable() throws Exception {
        Mortise holder = start(holder());
        long since = Machine.uptime();
        loseStore();
        assertThat(holder.exit()).as(holder.err()).isEqualTo(75);
        long gone = Machine.uptime();
        processes.awaitNone(Duration.ofSeconds(LEASE), "FIRST=yes");
        assertThat(gone - since).isLessThan(endedWithin() * 100L);
        assertThat(errors(holder)).startsWith("mortise: the lock 'x' was lost while the command ran");
        bringStoreBack();
        Mortise next = next();
        assertThat(next.exit()).as(next.err()).isZero();
        assertThat(seen()).isEmptyFile();
        assertThat(Long.parseLong(next.out().strip().split(" ", -1)[3])).isGreaterThan(token(holder.out()));
    }
}
