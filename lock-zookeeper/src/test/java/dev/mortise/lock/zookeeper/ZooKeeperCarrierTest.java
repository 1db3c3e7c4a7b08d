package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.Loss;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.tck.TcpProxy;
import dev.mortise.lock.zookeeper.Taker.Answer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;

/** One server, and what becomes of sessions, connections and nodes under a lock: lost replies, ends, meddling, interrupts. */
class ZooKeeperCarrierTest {
    private static final Duration LEASE = Duration.ofSeconds(10);
    private static final Duration SHORT = Duration.ofSeconds(1);
    private static final Duration LONGEST = Duration.ofSeconds(30);

    private static ZooKeeperServer server;
    private static ZooKeeper eye;

    private final Holds holds = new Holds();
    private Taker a;
    private Taker b;

    @BeforeAll
    static void open() throws Exception {
        server = new ZooKeeperServer("tickTime=100", "minSessionTimeout=200", "maxSessionTimeout=60000");
        eye = Eye.open("127.0.0.1:" + server.port());
    }

    @AfterAll
    static void close() throws Exception {
        eye.close();
        server.close();
    }

    @BeforeEach
    void connect() {
        a = new Taker(0, holds, List.of(server.port()), Map.of());
        b = new Taker(1, holds, List.of(server.port()), Map.of());
    }

    @AfterEach
    void judge() throws Exception {
        try {
            a.heal();
            b.heal();
            holds.judge(false);
        } finally {
            a.close();
            b.close();
        }
    }

    private TcpProxy way() {
        return a.ways.get(0);
    }

    private static <T> FutureTask<T> inAThread(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task, "test-call");
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    private FutureTask<Optional<Hold>> waits(Taker taker, Claim claim) throws Exception {
        FutureTask<Optional<Hold>> wait = inAThread(() -> holds.take(taker.backend, claim, LONGEST));
        await().atMost(LONGEST).until(() -> !nodes(claim).isEmpty());
        return wait;
    }

    private static List<String> nodes(Claim claim) throws KeeperException, InterruptedException {
        return Eye.of(eye, claim);
    }

    private static void nothingIsLeftOf(Claim claim) {
        await().atMost(LONGEST).until(() -> nodes(claim).isEmpty());
    }

    // ------------------------------------------------------------------------------------------------- lost replies

    /** The node is there, and its maker does not know: found again, or else undone by the release that follows. */
    @RepeatedTest(3)
    void theReplyToAnAcquireIsLost() throws Exception {
        Claim claim = Holds.claim("a", LEASE);
        a.release(a.sure("warm", LEASE));
        way().loseReplyTo(bytes -> bytes.contains(claim.owner()));
        try {
            Hold hold =
                    holds.take(a.backend, claim, Duration.ZERO).orElseThrow(() -> new AssertionError("nobody has it"));
            assertThat(nodes(claim)).hasSize(1);
            assertThat(a.renew(hold)).isEqualTo(Answer.LIVE);
            assertThat(a.release(hold)).isTrue();
        } catch (LockStoreException e) {
            assertThat(e.mayHaveTakenEffect()).isTrue();
            a.undone(claim);
        }
        assertThat(nodes(claim)).isEmpty();
        assertThat(b.release(b.atOnce("a", LEASE))).isTrue();
    }

    /** As before, but behind another one, whom the lost place must not block or pass. */
    @Test
    void theReplyToAWaitersAcquireIsLost() throws Exception {
        Hold held = b.sure("a", LEASE);
        a.release(a.sure("warm", LEASE));
        Claim claim = Holds.claim("a", LEASE);
        way().loseReplyTo(bytes -> bytes.contains(claim.owner()));
        FutureTask<Optional<Hold>> wait = inAThread(() -> holds.take(a.backend, claim, LONGEST));
        try {
            wait.get(4, TimeUnit.SECONDS);
            throw new AssertionError("passed the holder");
        } catch (TimeoutException e) {
            // It waits.
            assertThat(b.release(held)).isTrue();
            Hold next = wait.get(30, TimeUnit.SECONDS).orElseThrow();
            assertThat(next.token).isGreaterThan(held.token);
            assertThat(a.release(next)).isTrue();
        } catch (ExecutionException e) {
            assertThat(e).hasCauseInstanceOf(LockStoreException.class);
            a.undone(claim);
            assertThat(b.release(held)).isTrue();
        }
        assertThat(nodes(claim)).isEmpty();
        assertThat(b.release(b.atOnce("a", LEASE))).isTrue();
    }

    /** What a waiter is asked when its turn has come, and whose answer is lost. */
    @Test
    void theReplyToAConfirmationIsLost() throws Exception {
        Hold held = b.sure("a", LEASE);
        Claim claim = Holds.claim("a", LEASE);
        FutureTask<Optional<Hold>> wait = waits(a, claim);
        way().loseReplyTo(bytes -> bytes.contains(claim.owner()));
        assertThat(b.release(held)).isTrue();
        try {
            Hold next = wait.get(30, TimeUnit.SECONDS).orElseThrow();
            assertThat(next.token).isGreaterThan(held.token);
            assertThat(a.renew(next)).isEqualTo(Answer.LIVE);
            assertThat(a.release(next)).isTrue();
        } catch (ExecutionException e) {
            assertThat(e).hasCauseInstanceOf(LockStoreException.class);
            a.undone(claim);
        }
        assertThat(nodes(claim)).isEmpty();
        assertThat(b.release(b.atOnce("a", LEASE))).isTrue();
    }

    /** Released or not: it is asked again, and then it is. */
    @RepeatedTest(3)
    void theReplyToAReleaseIsLost() throws Exception {
        Hold hold = a.sure("a", LEASE);
        way().loseReplyTo(bytes -> bytes.contains(hold.claim.owner()));
        a.undone(hold.claim);
        Taker.stop(hold);
        assertThat(a.backend.release(hold.claim)).as("once more").isFalse();
        assertThat(nodes(hold.claim)).isEmpty();
        // The same process and another one.
        Hold again = a.sure("a", LEASE);
        assertThat(a.release(again)).isTrue();
        assertThat(b.release(b.atOnce("a", LEASE))).isTrue();
    }

    /** The next one is of the same client, and would have heard of it by that reply. */
    @RepeatedTest(3)
    void theReplyToAReleaseThatPassesIsLost() throws Exception {
        Hold held = a.sure("a", LEASE);
        Claim claim = Holds.claim("a", LEASE);
        FutureTask<Optional<Hold>> wait = waits(a, claim);
        way().loseReplyTo(bytes -> bytes.contains(held.claim.owner()));
        Taker.stop(held);
        a.undone(held.claim);
        grantedOrUndone(wait, claim, held);
    }

    /** Its turn comes while it is interrupted: granted, or gone without a trace. */
    @Test
    void aWaiterIsInterruptedWhenItsTurnComes() throws Exception {
        int granted = 0;
        for (int i = 0; i < 200; i++) {
            Hold held = a.sure("a", LEASE);
            Claim claim = Holds.claim("a", LEASE);
            FutureTask<Optional<Hold>> wait = new FutureTask<>(() -> holds.take(a.backend, claim, LONGEST));
            Thread waiter = new Thread(wait, "test-call");
            waiter.setDaemon(true);
            waiter.start();
            await().atMost(LONGEST)
                    .pollInterval(Duration.ofMillis(2))
                    .until(() -> !nodes(claim).isEmpty());
            Thread other = new Thread(
                    () -> {
                        LockSupport.parkNanos(ThreadLocalRandom.current().nextInt(2_000_000));
                        waiter.interrupt();
                    },
                    "test-interrupt");
            other.start();
            assertThat(a.release(held)).isTrue();
            try {
                Optional<Hold> next = wait.get(40, TimeUnit.SECONDS);
                granted++;
                assertThat(a.release(next.orElseThrow())).isTrue();
            } catch (ExecutionException e) {
                assertThat(e).hasCauseInstanceOf(InterruptedException.class);
                a.undone(claim);
            }
            other.join();
            assertThat(nodes(claim)).isEmpty();
        }
        assertThat(granted).isBetween(1, 200);
    }

    /** Not known, and not lost. */
    @Test
    void theReplyToARenewalIsLost() throws Exception {
        Hold hold = a.sure("a", LEASE);
        Hold other = a.sure("other", LEASE);
        way().loseReplyTo(bytes -> bytes.contains(hold.claim.owner()));
        assertThat(a.renew(List.of(hold, other))).doesNotContain(Answer.ENDED);
        await().atMost(LEASE)
                .until(
                        () -> a.renew(List.of(hold, other)),
                        answers -> answers.stream().allMatch(answer -> answer == Answer.LIVE));
        assertThat(Taker.held(hold)).isTrue();
        assertThat(a.release(hold)).isTrue();
        assertThat(a.release(other)).isTrue();
    }

    /** One renewal in three has no answer: no lease is lost of it. */
    @Test
    void someRenewalsFail() throws Exception {
        Hold hold = a.sure("a", LEASE);
        for (int i = 0; i < 3; i++) {
            way().cut();
            await().atMost(LEASE).until(() -> a.renew(hold) == Answer.LIVE);
        }
        assertThat(Taker.held(hold)).isTrue();
        assertThat(a.release(hold)).isTrue();
    }

    /** The whole request arrives when its caller has given up, and so does its undo: nothing stays. */
    @Test
    void anAcquireArrivesAfterItsCallerHasGoneAway() throws Exception {
        a.release(a.sure("warm", LEASE));
        way().requests(TcpProxy.Mode.HOLD);
        Claim claim = Holds.claim("a", LEASE);
        long start = System.nanoTime();
        assertThatThrownBy(() -> a.backend.acquire(claim, Duration.ofMillis(500)))
                .isInstanceOf(LockStoreException.class);
        assertThat(Duration.ofNanos(System.nanoTime() - start))
                .isLessThan(Taker.CALL_TIMEOUT.plusMillis(500).plus(Duration.ofSeconds(1)));
        assertThat(a.undo(claim)).isFalse();
        way().heal();
        a.undone(claim);
        nothingIsLeftOf(claim);
        assertThat(b.release(b.atOnce("a", LEASE))).isTrue();
        // Nor does it come later.
        long end = System.nanoTime() + Duration.ofSeconds(2).toNanos();
        await().atMost(LONGEST).until(() -> {
            assertThat(nodes(claim)).isEmpty();
            return System.nanoTime() - end > 0;
        });
    }

    /** Stopped, a black hole, and hung: in each the call ends in time, says so, and leaves nothing for later. */
    @Test
    void aServerThatDoesNotAnswerEndsTheWaitInTime() throws Exception {
        a.release(a.sure("warm", LEASE));
        for (String how : List.of("refused", "black hole", "frozen")) {
            switch (how) {
                case "refused" -> a.refuse(0);
                case "black hole" -> a.blackHole(0);
                default -> server.signal("STOP");
            }
            Claim claim = Holds.claim("a", LEASE);
            long start = System.nanoTime();
            try {
                assertThatThrownBy(() -> a.backend.acquire(claim, Duration.ofMillis(500)))
                        .as(how)
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("127.0.0.1:" + way().port());
                assertThat(Duration.ofNanos(System.nanoTime() - start))
                        .as(how)
                        .isLessThan(Taker.CALL_TIMEOUT.plusMillis(500).plus(Duration.ofSeconds(2)));
            } finally {
                server.signal("CONT");
                a.heal();
            }
            a.undone(claim);
            nothingIsLeftOf(claim);
        }
        assertThat(a.release(a.sure("a", LEASE))).isTrue();
    }

    /** Connections break all the time: all go on, nobody is forgotten, and nothing is left. */
    @Test
    void connectionsBreakAgainAndAgain() throws Exception {
        a.work(List.of("x", "y"), SHORT);
        b.work(List.of("x", "y"), SHORT);
        Random random = new Random(1);
        for (int i = 0; i < 40; i++) {
            TimeUnit.MILLISECONDS.sleep(random.nextInt(150));
            (random.nextBoolean() ? a : b).ways.get(0).cut();
        }
        long healed = System.nanoTime();
        await().atMost(LONGEST).until(() -> a.grantedSince(healed) && b.grantedSince(healed));
        a.rest();
        b.rest();
        await().atMost(LONGEST).until(() -> Eye.ofAll(eye).isEmpty());
    }

    // ------------------------------------------------------------------------------------------------------ sessions

    /** The session's end is the end of all its claims, of each by itself, and of no others. */
    @Test
    void aSessionThatEndsEndsAllItsClaims() throws Exception {
        List<Hold> all = new ArrayList<>();
        for (String name : List.of("a", "b", "c")) {
            all.add(a.sure(name, LEASE));
        }
        Hold others = b.sure("d", LEASE);
        for (Hold hold : all) {
            for (String path : nodes(hold.claim)) {
                if (eye.exists(path, false) != null) {
                    Eye.expire("127.0.0.1:" + server.port(), Eye.session(eye, path));
                }
            }
        }
        List<Hold> next = new ArrayList<>();
        for (Hold hold : all) {
            Taker.stop(hold); // The store has given it up, which is an eviction.
            next.add(b.atOnce(hold.claim.name(), LEASE));
        }
        await().atMost(LONGEST)
                .until(() -> a.renew(all), answers -> answers.stream().allMatch(answer -> answer == Answer.ENDED));
        for (Hold hold : all) {
            await().atMost(LONGEST).ignoreExceptions().until(() -> !a.backend.release(hold.claim));
        }
        assertThat(b.renew(next)).containsOnly(Answer.LIVE);
        for (Hold hold : next) {
            assertThat(b.release(hold)).isTrue();
        }
        assertThat(b.renew(others)).isEqualTo(Answer.LIVE);
        assertThat(b.release(others)).isTrue();
        // And it goes on with another session.
        Hold again = a.sure("a", LEASE);
        assertThat(a.release(again)).isTrue();
    }

    /** Each lease has a loss of its own, and its client goes on. */
    @Test
    void eachLeaseOfASessionIsToldOfItsLoss() throws Exception {
        List<Loss> losses = new CopyOnWriteArrayList<>();
        try (LockClient client = LockClient.connect("zookeeper://127.0.0.1:" + server.port())) {
            List<Lease> leases = new ArrayList<>();
            for (String name : List.of("l1", "l2", "l3")) {
                Lease lease = client.lock(name)
                        .withLease(Duration.ofSeconds(12))
                        .tryAcquire()
                        .orElseThrow();
                lease.onLoss(losses::add);
                leases.add(lease);
            }
            Eye.expire("127.0.0.1:" + server.port(), session("l1"));
            await().atMost(LONGEST).until(() -> losses.size() == 3);
            assertThat(losses.stream().map(Loss::name)).containsExactlyInAnyOrder("l1", "l2", "l3");
            assertThat(losses.stream().map(Loss::reason)).containsOnly(Loss.Reason.REVOKED);
            assertThat(leases).noneMatch(Lease::isHeld);
            assertThat(client.lock("l1").tryAcquire(LONGEST)).isPresent();
        }
    }

    /** The session under the only claim of this name. */
    private static long session(String name) throws Exception {
        for (String path : Eye.all(eye)) {
            if (path.contains(name) && Eye.session(eye, path) != 0) {
                return Eye.session(eye, path);
            }
        }
        throw new AssertionError("no claim of " + name);
    }

    /** A place in the queue ends with its session; who waits in it is not forgotten. */
    @Test
    void aSessionThatEndsForgetsNoWaiter() throws Exception {
        Hold held = b.sure("a", LEASE);
        Claim claim = Holds.claim("a", LEASE);
        FutureTask<Optional<Hold>> wait = waits(a, claim);
        Eye.expire("127.0.0.1:" + server.port(), Eye.session(eye, nodes(claim).get(0)));
        // In any case not granted, as long as the other has it.
        assertThat(b.renew(held)).isEqualTo(Answer.LIVE);
        try {
            wait.get(2, TimeUnit.SECONDS);
            throw new AssertionError("passed the holder");
        } catch (TimeoutException | ExecutionException e) {
            assertThat(b.release(held)).isTrue();
        }
        grantedOrUndone(wait, claim, held);
    }

    private void grantedOrUndone(FutureTask<Optional<Hold>> wait, Claim claim, Hold before) throws Exception {
        try {
            Optional<Hold> next = wait.get(40, TimeUnit.SECONDS);
            if (next.isPresent()) {
                assertThat(next.get().token).isGreaterThan(before.token);
                assertThat(nodes(claim)).hasSize(1);
                assertThat(b.take(claim.name(), LEASE, Duration.ZERO)).isEmpty();
                assertThat(a.renew(next.get())).isEqualTo(Answer.LIVE);
                assertThat(a.release(next.get())).isTrue();
            } else {
                throw new AssertionError("a waiter was refused, although it was free");
            }
        } catch (ExecutionException e) {
            assertThat(e).hasCauseInstanceOf(LockStoreException.class);
            a.undone(claim);
        }
        nothingIsLeftOf(claim);
        assertThat(b.release(b.atOnce(claim.name(), LEASE))).isTrue();
    }

    /** Its connection moves to another one, as after a quick reconnect elsewhere: the claims stay what they are. */
    @Test
    void aSessionThatIsTakenOverIsNotCountedOn() throws Exception {
        Hold hold = a.sure("a", SHORT.multipliedBy(3));
        long session = Eye.session(eye, nodes(hold.claim).get(0));
        ZooKeeper thief = Eye.take("127.0.0.1:" + server.port(), session);
        try {
            // Both fight for it; whatever is answered must be true.
            for (int i = 0; i < 5; i++) {
                Answer unused = a.renew(hold);
            }
        } finally {
            thief.close();
        }
        Taker.stop(hold);
        Hold next = b.sure("a", LEASE);
        assertThat(next.token).isGreaterThan(hold.token);
        await().atMost(LONGEST).until(() -> a.renew(List.of(hold)).contains(Answer.ENDED));
        a.undone(hold.claim);
        assertThat(b.release(next)).isTrue();
    }

    // ------------------------------------------------------------------------------------------------------- meddling

    private static void delete(String path) throws InterruptedException, KeeperException {
        eye.delete(path, -1);
    }

    @Test
    void somebodyDeletesTheHoldersNode() throws Exception {
        Hold hold = a.sure("a", LEASE);
        Hold other = a.sure("other", LEASE);
        Taker.stop(hold);
        delete(nodes(hold.claim).get(0));
        Hold next = b.atOnce("a", LEASE);
        assertThat(next.token).isGreaterThan(hold.token);
        assertThat(a.renew(List.of(hold, other))).containsExactly(Answer.ENDED, Answer.LIVE);
        assertThat(a.backend.release(hold.claim)).isFalse();
        assertThat(b.renew(next)).isEqualTo(Answer.LIVE);
        assertThat(b.release(next)).isTrue();
        assertThat(a.release(other)).isTrue();
    }

    @Test
    void somebodyDeletesAWaitersPredecessor() throws Exception {
        Hold held = b.sure("a", LEASE);
        Claim claim = Holds.claim("a", LEASE);
        FutureTask<Optional<Hold>> wait = waits(a, claim);
        Taker.stop(held);
        delete(nodes(held.claim).get(0));
        Hold next = wait.get(30, TimeUnit.SECONDS).orElseThrow();
        assertThat(next.token).isGreaterThan(held.token);
        assertThat(b.renew(List.of(held))).containsOnly(Answer.ENDED);
        assertThat(a.release(next)).isTrue();
    }

    /** In the middle of the queue: who was behind it does not take the lock beside the holder. */
    @Test
    void somebodyDeletesAWaiterInTheMiddle() throws Exception {
        Hold held = b.sure("a", LEASE);
        Claim middle = Holds.claim("a", LEASE);
        FutureTask<Optional<Hold>> first = waits(a, middle);
        Claim last = Holds.claim("a", LEASE);
        FutureTask<Optional<Hold>> second = waits(b, last);
        delete(nodes(middle).get(0));
        try {
            second.get(1, TimeUnit.SECONDS);
            throw new AssertionError("passed the holder");
        } catch (TimeoutException e) {
            assertThat(b.renew(held)).isEqualTo(Answer.LIVE);
        }
        assertThat(b.release(held)).isTrue();
        Hold next = second.get(30, TimeUnit.SECONDS).orElseThrow();
        assertThat(b.release(next)).isTrue();
        grantedOrUndone(first, middle, held);
    }

    /** ZooKeeper removes a container without children whenever it looks: between its making and the first child, too. */
    @Test
    void theParentIsRemovedAgainAndAgain() throws Exception {
        Hold first = a.sure("reaped", LEASE);
        String node = nodes(first.claim).get(0);
        String parent = node.substring(0, node.lastIndexOf('/'));
        assertThat(a.release(first)).isTrue();
        FutureTask<Integer> reaper = inAThread(() -> {
            int reaped = 0;
            while (!Thread.currentThread().isInterrupted() && reaped >= 0) {
                try {
                    eye.delete(parent, -1);
                    reaped++;
                } catch (KeeperException.NoNodeException | KeeperException.NotEmptyException e) {
                    // Until it can.
                } catch (InterruptedException e) {
                    break;
                }
            }
            return reaped;
        });
        long last = first.token;
        long end = System.nanoTime() + Duration.ofSeconds(3).toNanos();
        int count = 0;
        try {
            while (System.nanoTime() - end < 0 || count < 20) {
                Taker taker = count++ % 2 == 0 ? a : b;
                Hold hold = taker.atOnce("reaped", LEASE);
                assertThat(hold.token).isGreaterThan(last);
                last = hold.token;
                assertThat(taker.renew(hold)).isEqualTo(Answer.LIVE);
                assertThat(taker.release(hold)).isTrue();
            }
        } finally {
            reaper.cancel(true);
        }
    }

    // ----------------------------------------------------------------------------------------------------- interrupts

    /** At any moment, sometimes twice: nothing is left in the store. */
    @Test
    void interruptedAcquiresLeaveNothing() throws Exception {
        way().delayReplies(Duration.ofMillis(3));
        Random random = new Random(3);
        Hold held = b.sure("b", LEASE);
        for (int i = 0; i < 60; i++) {
            String name = i % 2 == 0 ? "a" : "b";
            Claim claim = Holds.claim(name, LEASE);
            FutureTask<Attempt> task = new FutureTask<>(() -> a.backend.acquire(claim, LONGEST));
            Thread thread = new Thread(task, "interrupted");
            thread.start();
            TimeUnit.MICROSECONDS.sleep(random.nextInt(15_000));
            thread.interrupt();
            if (random.nextBoolean()) {
                TimeUnit.MICROSECONDS.sleep(random.nextInt(5_000));
                thread.interrupt();
            }
            try {
                // What came in spite of it is released as well.
                Attempt unused = task.get(20, TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                assertThat(e.getCause()).isInstanceOfAny(InterruptedException.class, LockStoreException.class);
            }
            a.undone(claim);
            assertThat(nodes(claim)).isEmpty();
            if (i % 10 == 9) {
                assertThat(b.renew(held)).isEqualTo(Answer.LIVE);
            }
        }
        assertThat(b.release(b.atOnce("a", LEASE))).isTrue();
        assertThat(b.release(held)).isTrue();
    }

    // ---------------------------------------------------------------------------------------------------------- names

    /** A lock is no node of another one, whatever their names. */
    @Test
    void namesDoNotMeet() throws Exception {
        List<String> names = List.of(
                "x",
                "x/0",
                "/x",
                "x/",
                "//",
                "/",
                ".",
                "..",
                "../x",
                "x/..",
                "./x",
                "x/lock-0000000000",
                "x/_c_1-lock-1",
                "zookeeper",
                "/zookeeper/config",
                "%",
                "%2F",
                "x%2F0",
                "\0",
                "a\0b",
                "\u0001",
                "\t\n\r",
                "\u007f",
                "\u0085",
                "\u009f",
                "\ufff0",
                "\uffff",
                "\ue000",
                "\uf8ff",
                "\ud83d\ude00",
                "\u00e4",
                "a\u0308",
                "X",
                " ",
                "x ",
                "n".repeat(512),
                "n".repeat(511),
                "\u20ac".repeat(170),
                "\0".repeat(512),
                "/".repeat(512),
                ".".repeat(512));
        List<Hold> all = new ArrayList<>();
        for (String name : names) {
            all.add(a.atOnce(name, LEASE));
        }
        for (String name : names) {
            assertThat(b.take(name, LEASE, Duration.ZERO)).isEmpty();
        }
        // All of it is below one node.
        assertThat(eye.getChildren("/", false)).containsExactlyInAnyOrder("zookeeper", "mortise");
        assertThat(eye.getChildren("/zookeeper", false)).containsOnly("config", "quota");
        assertThat(a.renew(all)).containsOnly(Answer.LIVE);
        for (Hold hold : all) {
            assertThat(a.release(hold)).isTrue();
        }
        await().atMost(LONGEST).until(() -> Eye.ofAll(eye).isEmpty());
    }
}
