package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.SimulatedClient.Fate;
import dev.mortise.lock.Waiter.Terms;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The rules of the engine, one by one, in virtual time, with a store whose answers come late, wrong or never. */
class EngineTest {
    private static final Duration LEASE = Duration.ofSeconds(3);
    private static final Duration CALL_TIMEOUT = SimulatedClient.CALL_TIMEOUT;
    private static final Terms TERMS = new Terms(LEASE, Nanos.FOREVER);
    private static final String EMPTY = "holds 0, lines 0, others 0, undos 0, heirs 0, alarms 0";

    private final VirtualTime world = new VirtualTime();
    private final InMemoryBackend store = new InMemoryBackend(world);
    private final SimulatedClient a = new SimulatedClient(0, world, store);
    private final SimulatedClient b = new SimulatedClient(1, world, store);
    private final Logger logger = Logger.getLogger("dev.mortise.lock");
    private final List<LogRecord> logged = new ArrayList<>();
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord record) {
            logged.add(record);
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    @BeforeEach
    void listen() {
        logger.setUseParentHandlers(false);
        logger.addHandler(handler);
    }

    @AfterEach
    void noRuleWasBrokenOnTheWay() {
        logger.removeHandler(handler);
        logger.setUseParentHandlers(true);
        assertThat(a.faults).isEmpty();
        assertThat(b.faults).isEmpty();
    }

    private Lease acquire(SimulatedClient client) {
        return take(client, TERMS);
    }

    private Lease take(SimulatedClient client, Terms terms) {
        CompletableFuture<Optional<Lease>> future = client.engine.waiters.acquireAsync("n", terms, 1);
        advance(6);
        return future.join().orElseThrow();
    }

    private void advance(long millis) {
        world.advance(Duration.ofMillis(millis));
    }

    /** Releases without waiting for the store's word. */
    private void letGo(Lease lease) {
        CompletableFuture<Boolean> unused = a.engine.release(lease.hold, task -> world.schedule(Duration.ZERO, task));
    }

    private List<LockEvent.Kind> kinds(SimulatedClient client) {
        return client.events.stream().map(LockEvent::kind).toList();
    }

    // ------------------------------------------------------------------------------------------------------ deadline

    /** The deadline counts from before the request was sent, and is shortened by a hundredth and two milliseconds. */
    @Test
    void deadlineCountsFromTheSend() {
        a.fates.add(Fate.REPLY_SLOW);
        long sent = world.nanoTime();
        CompletableFuture<Optional<Lease>> future = a.engine.waiters.acquireAsync("n", TERMS, 1);
        world.advance(CALL_TIMEOUT);
        Lease lease = future.join().orElseThrow();
        assertThat(lease.hold.end - sent)
                .isEqualTo(LEASE.minus(LEASE.dividedBy(100)).minusMillis(2).toNanos());
    }

    /** A grant that arrives after its own deadline is released, and counts as not acquired. */
    @Test
    void lateGrantIsReleased() {
        a.fates.add(Fate.REPLY_VERY_LATE);
        Terms shortLease = new Terms(Duration.ofSeconds(1), Nanos.FOREVER);
        CompletableFuture<Optional<Lease>> future = a.engine.waiters.acquireAsync("n", shortLease, 10_000_000_000L);
        advance(1_300);
        assertThat(store.holder("n")).as("the claim that took effect late").isPresent();
        assertThat(future).isNotDone();
        advance(1_300);
        Lease second = future.join().orElseThrow();
        assertThat(second.token()).as("of an attempt of its own").isGreaterThan(1);
        assertThat(second.isHeld()).isTrue();
    }

    /** From the deadline on the answer is no, on the dot, although no timer has run and the process was stopped. */
    @Test
    void isHeldIsNeverLate() {
        Lease lease = acquire(a);
        a.stop(Duration.ofMinutes(1));
        world.advance(Duration.ofNanos(lease.hold.end - world.nanoTime() - 1));
        assertThat(lease.isHeld()).isTrue();
        assertThat(lease.remaining()).isEqualTo(Duration.ofNanos(1));
        world.advance(Duration.ofNanos(1));
        assertThat(lease.hold.state).as("nobody has noticed").isEqualTo(Hold.State.HELD);
        assertThat(lease.isHeld()).isFalse();
        assertThat(lease.remaining()).isZero();
        assertThatThrownBy(lease::ensureHeld).isInstanceOf(LeaseLostException.class);
    }

    // ------------------------------------------------------------------------------------------------------- renewal

    /** Renewal comes at a third of the lease, and keeps the lease as long as it is answered. */
    @Test
    void renewedAtAThird() {
        Lease lease = acquire(a);
        advance(990);
        assertThat(a.renewCalls).isZero();
        advance(20);
        assertThat(a.renewCalls).isEqualTo(1);
        world.advance(Duration.ofMinutes(10));
        assertThat(lease.isHeld()).isTrue();
        assertThat(a.renewCalls).isBetween(590, 650);
    }

    /** A thousand leases are renewed by one call a tick; leases acquired over time by at most ten calls a third. */
    @Test
    void renewalsAreBatched() {
        List<CompletableFuture<Optional<Lease>>> leases = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            leases.add(a.engine.waiters.acquireAsync("n" + i, TERMS, 1));
            advance(1);
        }
        advance(6);
        int before = a.renewCalls;
        world.advance(Duration.ofSeconds(30));
        assertThat(a.renewCalls - before).as("in thirty thirds").isLessThanOrEqualTo(300);
        assertThat(leases).allMatch(lease -> lease.join().orElseThrow().isHeld());
    }

    /** One renewal without an answer neither ends nor lengthens the lease: it is asked for again, soon. */
    @Test
    void unansweredRenewalIsRepeated() {
        Lease lease = acquire(a);
        a.fates.addAll(List.of(Fate.REQUEST_LOST, Fate.REFUSED, Fate.REPLY_LOST, Fate.BUG, Fate.NONSENSE));
        long end = lease.hold.end;
        advance(1_010);
        assertThat(lease.hold.end).isEqualTo(end);
        world.advance(Duration.ofNanos(end - world.nanoTime()));
        assertThat(lease.isHeld()).isTrue();
        assertThat(kinds(a)).contains(LockEvent.Kind.UNCERTAIN, LockEvent.Kind.RENEWED);
        world.advance(Duration.ofMinutes(1));
        assertThat(lease.isHeld()).isTrue();
    }

    /** What a partial answer leaves out is unknown, not lost, and does not hold up the others. */
    @Test
    void partialAnswer() {
        List<CompletableFuture<Optional<Lease>>> leases = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            leases.add(a.engine.waiters.acquireAsync("n" + i, TERMS, 1));
        }
        advance(6);
        a.fates.add(Fate.PARTIAL);
        world.advance(Duration.ofSeconds(20));
        assertThat(kinds(a)).contains(LockEvent.Kind.UNCERTAIN).doesNotContain(LockEvent.Kind.LOST);
        assertThat(leases).allMatch(lease -> lease.join().orElseThrow().isHeld());
    }

    /** At the deadline without a confirmed renewal the lease is EXPIRED, whether calls fail, hang or never come back. */
    @Test
    void expiredAtTheDeadline() {
        for (Fate fate : List.of(Fate.REQUEST_LOST, Fate.HUNG, Fate.REPLY_VERY_LATE, Fate.REFUSED)) {
            VirtualTime time = new VirtualTime();
            InMemoryBackend memory = new InMemoryBackend(time);
            SimulatedClient client = new SimulatedClient(0, time, memory);
            CompletableFuture<Optional<Lease>> future = client.engine.waiters.acquireAsync("n", TERMS, 1);
            time.advance(Duration.ofMillis(6));
            Lease lease = future.join().orElseThrow();
            List<Long> told = new ArrayList<>();
            lease.onLoss(loss -> {
                assertThat(loss.reason()).isEqualTo(Loss.Reason.EXPIRED);
                told.add(time.nanoTime());
            });
            for (int i = 0; i < 40; i++) {
                client.fates.add(fate);
            }
            long end = lease.hold.end;
            time.advance(Duration.ofSeconds(4));
            assertThat(told).as("with " + fate).containsExactly(end);
            assertThat(lease.isHeld()).isFalse();
        }
    }

    /** An answer after the loss changes nothing, and what it may have lengthened in the store is released. */
    @Test
    void lateRenewalDoesNotRevive() {
        Lease lease = acquire(a);
        advance(997);
        assertThat(a.renewCalls).isEqualTo(1);
        a.stop(Duration.ofMillis(2_500)); // with the answer on its way: it is read first when the process goes on
        advance(2_505);
        assertThat(lease.hold.state).isEqualTo(Hold.State.LOST);
        assertThat(lease.isHeld()).isFalse();
        advance(1_000);
        assertThat(lease.isHeld()).isFalse();
        assertThat(store.holder("n")).isEmpty();
    }

    /** The store's word that the claim is gone ends the lease at once, as REVOKED. */
    @Test
    void revokedAtOnce() {
        Lease lease = acquire(a);
        List<Loss> losses = new ArrayList<>();
        lease.onLoss(losses::add);
        lease.lost().thenAccept(losses::add);
        store.evict("n");
        advance(1_020);
        assertThat(losses).hasSize(2).allMatch(loss -> loss.reason() == Loss.Reason.REVOKED);
        assertThat(lease.isHeld()).isFalse();
        List<Loss> afterwards = new ArrayList<>();
        lease.onLoss(afterwards::add);
        advance(0);
        assertThat(afterwards).as("a callback that comes later is called too").hasSize(1);
    }

    /** A grant of the same name to the same client proves that an earlier one has ended. */
    @Test
    void laterGrantRevokesTheEarlier() {
        Lease first = acquire(a);
        CompletableFuture<Optional<Lease>> second = a.engine.waiters.acquireAsync("n", TERMS, LEASE.toNanos());
        store.evict("n");
        advance(1_100);
        assertThat(first.isHeld()).isFalse();
        assertThat(second.join().orElseThrow().isHeld()).isTrue();
    }

    /** A grant that is answered behind a later one of the same client has ended, and takes nothing from the later. */
    @Test
    void outdatedGrant() {
        a.fates.add(Fate.REPLY_SLOW);
        CompletableFuture<Optional<Lease>> slow = a.engine.waiters.acquireAsync("n", TERMS, 0);
        advance(10);
        store.evict("n");
        Lease later = acquire(a);
        advance(300);
        assertThat(slow.join()).isEmpty();
        assertThat(later.token()).isEqualTo(2);
        assertThat(later.isHeld()).isTrue();
        assertThat(store.holder("n").orElseThrow().token()).isEqualTo(2);
    }

    // ----------------------------------------------------------------------------------------------------------- undo

    /** An acquire whose answer never came is undone, so that others wait for no lease of nobody. */
    @Test
    void unknownAcquireIsUndone() {
        a.fates.add(Fate.REPLY_LOST);
        CompletableFuture<Optional<Lease>> future = a.engine.waiters.acquireAsync("n", TERMS, 1);
        world.advance(CALL_TIMEOUT);
        assertThatThrownBy(future::join).hasCauseInstanceOf(LockStoreException.class);
        advance(6);
        assertThat(store.holder("n")).isEmpty();
    }

    /** One that arrives even after its undo is undone once more, a lease later. */
    @Test
    void requestThatArrivesAfterItsUndo() {
        a.fates.add(Fate.REQUEST_LATE);
        CompletableFuture<Optional<Lease>> future = a.engine.waiters.acquireAsync("n", TERMS, 1);
        advance(600);
        assertThat(future).isCompletedExceptionally();
        assertThat(store.holder("n")).as("the ghost").isPresent();
        advance(LEASE.toMillis() - 300);
        assertThat(store.holder("n")).as("before it would have ended by itself").isEmpty();
        advance(1_000);
        assertThat(a.engine.contents()).isEqualTo(EMPTY);
    }

    /** Undoing goes on while the store does not answer, until it does. */
    @Test
    void undoIsRepeated() {
        a.fates.addAll(List.of(Fate.REPLY_LOST, Fate.REQUEST_LOST, Fate.REFUSED, Fate.HUNG, Fate.NONSENSE, Fate.BUG));
        Terms longLease = new Terms(Duration.ofMinutes(5), Nanos.FOREVER);
        CompletableFuture<Optional<Lease>> future = a.engine.waiters.acquireAsync("n", longLease, 1);
        world.advance(Duration.ofSeconds(30));
        assertThat(future).isCompletedExceptionally();
        assertThat(a.fates).isEmpty();
        assertThat(store.holder("n")).isEmpty();
        assertThat(kinds(a)).contains(LockEvent.Kind.UNRELEASED);
    }

    /** A store that never answers is not asked for ever: once the claim must have ended by itself, it is let go. */
    @Test
    void undoEnds() {
        Lease lease = acquire(a);
        for (int i = 0; i < 1000; i++) {
            a.fates.add(Fate.REQUEST_LOST);
        }
        world.advance(Duration.ofSeconds(20));
        assertThat(lease.isHeld()).isFalse();
        assertThat(a.engine.contents()).isEqualTo(EMPTY);
        assertThat(logged).anyMatch(record -> record.getMessage().contains("did not acknowledge the release"));
    }

    /** A release that fails says so, ends the lease all the same, and goes on by itself. */
    @Test
    void failedReleaseGoesOn() {
        Lease lease = acquire(a);
        a.fates.add(Fate.REQUEST_LOST);
        assertThatThrownBy(lease::release)
                .isInstanceOf(LockStoreException.class)
                .hasMessageContaining("no answer");
        assertThat(lease.isHeld()).isFalse();
        assertThat(lease.release()).as("a second release").isFalse();
        advance(50);
        assertThat(store.holder("n")).isEmpty();
    }

    /** close() never throws. */
    @Test
    void closeNeverThrows() {
        for (Fate fate : List.of(Fate.REQUEST_LOST, Fate.REFUSED, Fate.BUG, Fate.NONSENSE, Fate.REPLY_LOST)) {
            Lease lease = acquire(a);
            a.fates.add(fate);
            lease.close();
            lease.close();
            advance(100);
            assertThat(store.holder("n")).as("after " + fate).isEmpty();
        }
    }

    /** Release is told the truth: a lease that the store had ended before counts as lost. */
    @Test
    void releaseOfARevokedLease() {
        Lease lease = acquire(a);
        store.evict("n");
        assertThat(lease.release()).isFalse();
        assertThat(lease.loss()).isPresent();
    }

    // -------------------------------------------------------------------------------------------------------- waiting

    /** A thousand waiters of one name cost the store one, and are served in the order in which they came. */
    @Test
    void aThousandWaitersAreOne() {
        Lease held = acquire(b);
        List<Integer> served = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            int number = i;
            CompletableFuture<Void> unused = a.engine
                    .waiters
                    .acquireAsync("n", TERMS, Nanos.FOREVER)
                    .thenAccept(lease -> {
                        served.add(number);
                        letGo(lease.orElseThrow());
                    });
        }
        int before = a.calls;
        world.advance(Duration.ofSeconds(10));
        assertThat(a.calls - before).as("questions in ten seconds").isBetween(60, 130);
        held.close();
        world.advance(Duration.ofSeconds(20));
        assertThat(served).hasSize(1000).isSorted();
        assertThat(a.engine.contents()).isEqualTo(EMPTY);
    }

    /** While this client holds the lock itself, its waiters do not ask a store that has no queue. */
    @Test
    void ownHoldIsNotAskedFor() {
        Lease held = acquire(a);
        CompletableFuture<Optional<Lease>> next = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        int before = a.calls - a.renewCalls;
        world.advance(Duration.ofMinutes(1));
        assertThat(a.calls - a.renewCalls - before).isZero();
        CompletableFuture<Optional<Lease>> attempt = a.engine.waiters.acquireAsync("n", TERMS, 0);
        advance(0);
        assertThat(attempt.join()).as("a try").isEmpty();
        assertThat(a.calls - a.renewCalls - before).isZero();
        held.close();
        advance(6);
        assertThat(next.join()).as("right after the release").isPresent();
    }

    /** A waiter comes back no later than the end of the holder's lease, however long its pauses have grown. */
    @Test
    void neverPastAKnownExpiry() {
        acquire(b);
        b.stop(Duration.ofDays(1)); // and is never heard of again
        CompletableFuture<Optional<Lease>> next = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        advance(2_990);
        assertThat(next).isNotDone();
        advance(20);
        assertThat(next.join()).isPresent();
    }

    /** A wait ends when its patience does, with one last question at the end. */
    @Test
    void lastQuestionAtTheEnd() {
        Lease held = acquire(b);
        CompletableFuture<Optional<Lease>> wait =
                a.engine.waiters.acquireAsync("n", TERMS, Duration.ofMillis(500).toNanos());
        advance(499);
        held.hold.state = Hold.State.RELEASED; // not told to anybody: only a question can find out
        store.release(held.hold.claim);
        advance(1);
        assertThat(wait).as("asks").isNotDone();
        advance(4);
        assertThat(wait.join()).isPresent();

        CompletableFuture<Optional<Lease>> vain =
                b.engine.waiters.acquireAsync("n", TERMS, Duration.ofMillis(500).toNanos());
        advance(500 + 4);
        assertThat(vain.join()).isEmpty();
    }

    /** A cancelled, timed out or completed future ends its wait; a lease that comes all the same is released. */
    @Test
    void futureCompletedByItsUser() {
        a.fates.add(Fate.REPLY_SLOW);
        CompletableFuture<Optional<Lease>> cancelled = a.engine.waiters.acquireAsync("n", TERMS, LEASE.toNanos());
        advance(100);
        assertThat(store.holder("n")).isPresent();
        cancelled.cancel(true);
        advance(300);
        assertThatThrownBy(cancelled::join).isInstanceOf(CancellationException.class);
        assertThat(store.holder("n")).isEmpty();

        Lease held = acquire(b);
        CompletableFuture<Optional<Lease>> first = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        CompletableFuture<Optional<Lease>> second = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        advance(1_000);
        first.complete(Optional.empty());
        held.close();
        advance(300);
        assertThat(second.join()).as("the next in line").isPresent();
    }

    /** An acquire that never comes back fails in time, is undone, and does not block those behind it. */
    @Test
    void hungAcquire() {
        a.fates.add(Fate.HUNG);
        CompletableFuture<Optional<Lease>> hung =
                a.engine.waiters.acquireAsync("n", TERMS, Duration.ofMillis(100).toNanos());
        CompletableFuture<Optional<Lease>> next =
                a.engine.waiters.acquireAsync("n", TERMS, Duration.ofSeconds(5).toNanos());
        advance(100 + 2 * CALL_TIMEOUT.toMillis());
        assertThat(hung).isCompletedExceptionally();
        advance(500);
        assertThat(next.join()).isPresent();
    }

    /** A process that was stopped during a call does not mistake its own absence for the store's. */
    @Test
    void stoppedDuringAnAcquire() {
        a.fates.add(Fate.REPLY_VERY_LATE);
        CompletableFuture<Optional<Lease>> wait =
                a.engine.waiters.acquireAsync("n", TERMS, Duration.ofSeconds(1).toNanos());
        a.stop(Duration.ofMinutes(5));
        advance(Duration.ofMinutes(5).toMillis() + 500);
        assertThat(wait.join()).as("an answer, and not a failure").isEmpty();
    }

    /** A store failure is one waiter's: the next asks for itself. */
    @Test
    void failureIsNotShared() {
        a.fates.add(Fate.REFUSED);
        CompletableFuture<Optional<Lease>> first = a.engine.waiters.acquireAsync("n", TERMS, LEASE.toNanos());
        CompletableFuture<Optional<Lease>> second = a.engine.waiters.acquireAsync("n", TERMS, LEASE.toNanos());
        advance(20);
        assertThatThrownBy(first::join).hasCauseInstanceOf(LockStoreException.class);
        assertThat(second.join()).isPresent();
    }

    /** A grant for another claim, an answer from the future and no answer at all are failures, and are undone. */
    @Test
    void nonsenseIsAFailure() {
        a.fates.add(Fate.NONSENSE);
        CompletableFuture<Optional<Lease>> future = a.engine.waiters.acquireAsync("n", TERMS, 1);
        advance(10);
        assertThatThrownBy(future::join)
                .hasCauseInstanceOf(LockStoreException.class)
                .hasMessageContaining("fault of the backend");
        advance(10);
        assertThat(store.holder("n")).isEmpty();
    }

    // ------------------------------------------------------------------------------------------------------- passing
    // on

    /** Where the store can, a release asks for the next in line: the lock moves on in one call. */
    @Test
    void passedOnInOneCall() {
        Lease held = acquire(a);
        CompletableFuture<Optional<Lease>> first = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        CompletableFuture<Optional<Lease>> second = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        advance(10);
        int calls = a.calls;
        a.events.clear();
        long sent = world.nanoTime();
        letGo(held);
        advance(5);
        Lease next = first.join().orElseThrow();
        assertThat(next.token()).isGreaterThan(held.token());
        assertThat(next.hold.end - sent)
                .isEqualTo(LEASE.minus(LEASE.dividedBy(100)).minusMillis(2).toNanos());
        advance(1_000);
        assertThat(second).as("its own client holds the lock").isNotDone();
        assertThat(a.calls - calls).isEqualTo(1 + a.renewCalls);
        assertThat(kinds(a)).startsWith(LockEvent.Kind.RELEASED, LockEvent.Kind.ATTEMPT, LockEvent.Kind.ACQUIRED);
        letGo(next);
        advance(5);
        letGo(second.join().orElseThrow());
        advance(5);
        assertThat(store.holder("n")).isEmpty();
        assertThat(a.engine.contents()).isEqualTo(EMPTY);
    }

    /** A store that cannot is asked once more, by the next in line. */
    @Test
    void notPassedOn() {
        Lease held = acquire(b);
        CompletableFuture<Optional<Lease>> next = b.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        advance(10);
        int calls = b.calls;
        b.events.clear();
        CompletableFuture<Boolean> unused = b.engine.release(held.hold, task -> world.schedule(Duration.ZERO, task));
        advance(10);
        assertThat(next.join()).isPresent();
        assertThat(b.calls - calls).isEqualTo(2);
        assertThat(kinds(b)).containsExactly(LockEvent.Kind.RELEASED, LockEvent.Kind.ATTEMPT, LockEvent.Kind.ACQUIRED);
    }

    /** Whatever becomes of the call that does both, the next in line gets the lock, and nothing else stays in the store. */
    @Test
    void passedOnWithoutAnAnswer() {
        for (Fate fate : Fate.values()) {
            VirtualTime time = new VirtualTime();
            InMemoryBackend backend = new InMemoryBackend(time);
            SimulatedClient client = new SimulatedClient(0, time, backend);
            Executor soon = task -> time.schedule(Duration.ZERO, task);
            CompletableFuture<Optional<Lease>> acquired = client.engine.waiters.acquireAsync("n", TERMS, 1);
            time.advance(Duration.ofMillis(6));
            Lease held = acquired.join().orElseThrow();
            CompletableFuture<Optional<Lease>> next = client.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
            CompletableFuture<Optional<Lease>> last = client.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
            time.advance(Duration.ofMillis(10));
            client.fates.add(fate);
            CompletableFuture<Boolean> unused = client.engine.release(held.hold, soon);
            time.advance(LEASE.multipliedBy(3));
            // A call that does not come back within its time at all fails for whom it was, as an acquire does.
            boolean endless = fate == Fate.HUNG || fate == Fate.REPLY_VERY_LATE;
            if (endless) {
                assertThat(next).as(fate.name()).isCompletedExceptionally();
            } else {
                unused = client.engine.release(next.join().orElseThrow().hold, soon);
                time.advance(LEASE);
            }
            unused = client.engine.release(last.join().orElseThrow().hold, soon);
            time.advance(LEASE.multipliedBy(4));
            assertThat(backend.holder("n")).as(fate.name()).isEmpty();
            assertThat(client.engine.contents()).as(fate.name()).isEqualTo(EMPTY);
            assertThat(client.faults).as(fate.name()).isEmpty();
        }
    }

    /** Who gives up while the release asks for him gets nothing, and what comes for him is given back. */
    @Test
    void passedOnToOneWhoIsGone() {
        Lease held = acquire(a);
        CompletableFuture<Optional<Lease>> gone = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        CompletableFuture<Optional<Lease>> next = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        advance(10);
        a.fates.add(Fate.REPLY_SLOW);
        letGo(held);
        advance(10);
        gone.cancel(true);
        advance(LEASE.toMillis());
        letGo(next.join().orElseThrow());
        advance(10);
        assertThat(store.holder("n")).isEmpty();
        assertThat(a.engine.contents()).isEqualTo(EMPTY);
    }

    /** Found held by somebody else, it is waited for like everything that is held. */
    @Test
    void passedOnTooLate() {
        Lease held = acquire(a);
        CompletableFuture<Optional<Lease>> next = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        advance(10);
        store.evict("n");
        Lease other = acquire(b);
        letGo(held);
        advance(100);
        assertThat(held.loss()).isPresent();
        assertThat(next).isNotDone();
        CompletableFuture<Boolean> unused = b.engine.release(other.hold, task -> world.schedule(Duration.ZERO, task));
        advance(500);
        assertThat(next.join()).isPresent();
    }

    // ------------------------------------------------------------------------------------------------------- the ends

    /** A lease with a chosen end is lost at that end, and released then. */
    @Test
    void chosenEnd() {
        Lease bounded = take(a, new Terms(LEASE, Duration.ofMillis(8_500).toNanos()));
        advance(8_400);
        assertThat(bounded.isHeld()).isTrue();
        advance(100);
        assertThat(bounded.isHeld()).isFalse();
        advance(10);
        assertThat(store.holder("n")).isEmpty();
    }

    /** However short it may be held, it is acquired, and lost then. */
    @Test
    void shortestHold() {
        Lease bounded = take(a, new Terms(LEASE, 1_000_000));
        assertThat(bounded.token()).isEqualTo(1);
        advance(1);
        assertThat(bounded.isHeld()).isFalse();
        advance(10);
        assertThat(store.holder("n")).isEmpty();
    }

    /** Without renewal the store is not asked again, and the lease ends by itself. */
    @Test
    void withoutRenewal() {
        Lease once = take(a, new Terms(LEASE, LEASE.toNanos()));
        advance(2_900);
        assertThat(once.isHeld()).isTrue();
        assertThat(a.renewCalls).isZero();
        advance(100);
        assertThat(once.isHeld()).isFalse();
        assertThat(a.renewCalls).isZero();
    }

    /** A dropped handle is no longer renewed, is told of once with the place of its acquire, and is released. */
    @Test
    void droppedHandle() throws InterruptedException {
        acquire(a);
        collectGarbage();
        advance(1_100);
        assertThat(a.renewCalls).isZero();
        assertThat(store.holder("n")).isEmpty();
        assertThat(logged).hasSize(1);
        assertThat(logged.get(0).getMessage()).contains("dropped without being released");
        assertThat(logged.get(0).getThrown().getStackTrace())
                .anyMatch(frame -> frame.getMethodName().equals("droppedHandle"));
        assertThat(kinds(a)).contains(LockEvent.Kind.LEAKED);
    }

    /** Whoever waits for the loss of a lease uses it, even without a reference to it. */
    @Test
    void handleWithACallbackIsNotDropped() throws InterruptedException {
        List<Loss> losses = new ArrayList<>();
        acquire(a).onLoss(losses::add);
        collectGarbage();
        advance(10_000);
        assertThat(a.renewCalls).isPositive();
        store.evict("n");
        advance(1_100);
        assertThat(losses).hasSize(1);
    }

    private static void collectGarbage() throws InterruptedException {
        java.lang.ref.WeakReference<Object> witness = new java.lang.ref.WeakReference<>(new Object());
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (witness.get() != null && System.nanoTime() < until) {
            System.gc();
            TimeUnit.MILLISECONDS.sleep(1);
        }
        assertThat(witness.get()).isNull();
        System.gc();
    }

    // ------------------------------------------------------------------------------------------------------ hand-over

    private String detach(Lease lease) {
        return lease.detach();
    }

    private Optional<Lease> adopt(SimulatedClient client, String ticket) {
        return client.engine.adopt(Ticket.parse(ticket), ticket, TERMS);
    }

    /** A ticket hands the lock to one heir, in any process, ahead of the waiters, with a larger token. */
    @Test
    void handOver() {
        Lease held = acquire(a);
        CompletableFuture<Optional<Lease>> waiter = b.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        String ticket = detach(held);
        assertThat(held.isHeld()).isFalse();
        assertThatThrownBy(held::ensureHeld).hasMessageContaining("detached");
        advance(2_000);
        Lease heir = adopt(b, ticket).orElseThrow();
        assertThat(heir.token()).isGreaterThan(held.token());
        assertThat(waiter).isNotDone();
        assertThat(adopt(a, ticket)).as("a second heir").isEmpty();
        assertThat(adopt(b, ticket)).as("the same ticket again").isEmpty();
        held.close();
        assertThat(store.holder("n"))
                .as("the former holder no longer touches it")
                .isPresent();
        heir.close();
        advance(200);
        assertThat(waiter.join()).isPresent();
    }

    /** Nobody renews a detached lease, and closing its former client does not release it. */
    @Test
    void detachedLeaseIsLeftAlone() {
        String ticket = detach(acquire(a));
        int renewals = a.renewCalls;
        a.engine.close();
        advance(2_900);
        assertThat(a.renewCalls).isEqualTo(renewals);
        assertThat(store.holder("n")).isPresent();
        advance(200);
        assertThat(store.holder("n")).isEmpty();
        assertThat(adopt(b, ticket)).as("after its lease").isEmpty();
    }

    /** After a lost answer the same heir asks again, and gets the lock that it may have had already. */
    @Test
    void adoptAgainAfterALostReply() {
        String ticket = detach(acquire(a));
        b.fates.add(Fate.REPLY_LOST);
        assertThatThrownBy(() -> adopt(b, ticket)).isInstanceOf(LockStoreException.class);
        Lease heir = adopt(b, ticket).orElseThrow();
        assertThat(heir.token()).isEqualTo(2);
        advance(10_000);
        assertThat(heir.isHeld()).isTrue();
        assertThat(b.engine.contents()).startsWith("holds 1, lines 0, others 0, undos 0, heirs 0");
    }

    /** A hand-over that the store did not confirm does not happen: the lease goes on. */
    @Test
    void unconfirmedDetach() {
        Lease held = acquire(a);
        a.fates.add(Fate.REQUEST_LOST);
        assertThatThrownBy(() -> detach(held)).isInstanceOf(LockStoreException.class);
        advance(10_000);
        assertThat(held.isHeld()).isTrue();
    }

    /** A renewal that hangs while somebody wants to detach ends in a loss, not in a hang. */
    @Test
    void detachWhileARenewalHangs() {
        Lease held = acquire(a);
        a.fates.add(Fate.HUNG);
        advance(1_100);
        assertThatThrownBy(() -> detach(held)).isInstanceOf(LeaseLostException.class);
    }

    // ---------------------------------------------------------------------------------------------------------- close

    /** Closing releases what is held, ends waits, and leaves nothing; whatever comes later is refused. */
    @Test
    void close() {
        Lease held = acquire(a);
        CompletableFuture<Optional<Lease>> wait = a.engine.waiters.acquireAsync("n", TERMS, Nanos.FOREVER);
        assertThat(a.engine.close()).isTrue();
        assertThat(a.engine.close()).isFalse();
        advance(0);
        assertThat(held.isHeld()).isFalse();
        assertThatThrownBy(wait::join).hasCauseInstanceOf(IllegalStateException.class);
        assertThat(store.holder("n")).isEmpty();
        assertThatThrownBy(() -> a.engine.waiters.acquireAsync("n", TERMS, 1)).hasMessageContaining("closed");
    }

    /** Closing ends within the call timeout when the store is dead, also from within a callback. */
    @Test
    void closeWithADeadStore() {
        Lease first = acquire(a);
        List<Long> closed = new ArrayList<>();
        first.onLoss(loss -> {
            long start = world.nanoTime();
            a.engine.close();
            closed.add(world.nanoTime() - start);
        });
        CompletableFuture<Void> other = a.engine
                .waiters
                .acquireAsync("m", TERMS, 1)
                .thenAccept(lease -> lease.orElseThrow().onLoss(loss -> {}));
        advance(10);
        store.evict("n");
        for (int i = 0; i < 100; i++) {
            a.fates.add(i == 0 ? Fate.REPLY_SLOW : Fate.HUNG);
        }
        advance(10_000);
        assertThat(other).isDone();
        assertThat(closed).hasSize(1);
        assertThat(closed.get(0)).isLessThanOrEqualTo(CALL_TIMEOUT.toNanos());
    }

    /** An acquire that is granted while the client closes is released. */
    @Test
    void grantedDuringClose() {
        a.fates.add(Fate.REPLY_SLOW);
        CompletableFuture<Optional<Lease>> wait = a.engine.waiters.acquireAsync("n", TERMS, 1);
        advance(100);
        a.engine.close();
        advance(0);
        assertThat(wait).isCompletedExceptionally();
        advance(300);
        assertThat(store.holder("n")).isEmpty();
    }

    /** Nothing grows: a thousand names later the engine holds on to nothing. */
    @Test
    void nothingGrows() {
        for (int i = 0; i < 1000; i++) {
            CompletableFuture<Optional<Lease>> lease = a.engine.waiters.acquireAsync("n" + i, TERMS, 1);
            CompletableFuture<Optional<Lease>> vain = b.engine.waiters.acquireAsync("n" + i, TERMS, 50_000_000);
            advance(6);
            lease.join().orElseThrow().close();
            advance(100);
            vain.join().ifPresent(Lease::close);
        }
        advance(10_000);
        assertThat(a.engine.contents()).isEqualTo(EMPTY);
        assertThat(b.engine.contents()).isEqualTo(EMPTY);
    }

    // --------------------------------------------------------------------------------------------------------- events

    /** Listeners hear of it in order, with name, token and times. */
    @Test
    void events() {
        Lease lease = acquire(a);
        advance(1_100);
        lease.close();
        advance(0);
        assertThat(kinds(a))
                .containsExactly(
                        LockEvent.Kind.ATTEMPT,
                        LockEvent.Kind.ACQUIRED,
                        LockEvent.Kind.RENEWED,
                        LockEvent.Kind.RELEASED);
        LockEvent acquired = a.events.get(1);
        assertThat(acquired.name()).isEqualTo("n");
        assertThat(acquired.token()).hasValue(lease.token());
        assertThat(acquired.took()).isEqualTo(Duration.ofMillis(4));
        assertThat(acquired.remaining()).isBetween(LEASE.minusMillis(40), LEASE);
        assertThat(a.events.get(3).took()).isBetween(Duration.ofMillis(1_100), Duration.ofMillis(1_110));
    }

    /** The margin grows with the lease. */
    @Test
    void margin() {
        Grant grant = Claim.of("n", "o", Duration.ofMinutes(10)).granted(Duration.ofMinutes(10), 1, 0);
        assertThat(Hold.deadline(grant))
                .isEqualTo(Duration.ofMinutes(10).minusSeconds(6).minusMillis(2).toNanos());
    }
}
