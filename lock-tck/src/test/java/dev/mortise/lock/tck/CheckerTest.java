package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Histories made by hand, good and bad: what each rule must see, and what it must not. Times are in milliseconds. */
class CheckerTest {
    private static final long MS = 1_000_000;
    private static final long LEASE = 1_000 * MS;

    private static Event grant(int attempt, int client, long invoked, long returned, long token) {
        return Event.of(client, attempt, "n", Op.ACQUIRE, Outcome.DONE, invoked * MS, returned * MS)
                .granted(token, invoked * MS, LEASE);
    }

    private static Event event(int attempt, int client, Op op, Outcome outcome, long invoked, long returned) {
        return Event.of(client, attempt, "n", op, outcome, invoked * MS, returned * MS)
                .granted(0, 0, LEASE);
    }

    private static List<Rule> broken(Event... events) {
        History history = new History();
        Stream.of(events).forEach(history::add);
        return Checker.check(history, lease -> lease).findings().stream()
                .map(History.Finding::rule)
                .distinct()
                .toList();
    }

    /** With a fault from 1,000 to 2,000 ms, and 100 ms of grace. */
    private static List<Rule> brokenThroughFault(boolean forgets, Event... events) {
        History history = new History();
        Stream.of(events).forEach(history::add);
        history.add(Event.of(-1, -1, "server-killed", Op.FAULT, Outcome.DONE, 1_000 * MS, 2_000 * MS));
        return Checker.check(history, lease -> lease, fault -> forgets, Duration.ofMillis(100)).findings().stream()
                .map(History.Finding::rule)
                .distinct()
                .toList();
    }

    /** Until a lease after its end, and the grace, what a fault has touched excuses a refusal; no longer. */
    @Test
    void refusalAfterAFault() {
        Event held = grant(0, 0, 500, 505, 1);
        assertThat(brokenThroughFault(false, held, event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 3_090, 3_095)))
                .isEmpty();
        assertThat(brokenThroughFault(false, held, event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 3_120, 3_125)))
                .containsExactly(Rule.R3_1);
        // Not by the one that was over before, unless the store may know it again.
        Event over = event(0, 0, Op.RELEASE, Outcome.DONE, 600, 605);
        Event refused = event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 2_500, 2_505);
        assertThat(brokenThroughFault(false, held, over, refused)).containsExactly(Rule.R2_4, Rule.R1_2);
        assertThat(brokenThroughFault(true, held, over, refused)).isEmpty();
    }

    /** While it lasts a refusal needs no excuse. */
    @Test
    void refusalDuringAFault() {
        assertThat(brokenThroughFault(false, event(0, 0, Op.ACQUIRE, Outcome.REFUSED, 1_500, 1_505)))
                .isEmpty();
        assertThat(brokenThroughFault(false, event(0, 0, Op.ACQUIRE, Outcome.REFUSED, 2_500, 2_505)))
                .containsExactly(Rule.R1_2);
    }

    /** A release that is acknowledged after it ends the excuse, but for a request that may still be on its way. */
    @Test
    void releaseAfterAFault() {
        Event released = event(0, 0, Op.RELEASE, Outcome.REFUSED, 2_100, 2_105);
        Event refused = event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 2_200, 2_205);
        assertThat(brokenThroughFault(false, grant(0, 0, 500, 505, 1), released, refused))
                .containsExactly(Rule.R2_4, Rule.R1_2);
        Event unknown = event(0, 0, Op.ACQUIRE, Outcome.UNKNOWN, 1_200, 1_300);
        assertThat(brokenThroughFault(false, unknown, released, refused)).isEmpty();
    }

    /** A fault is no excuse for two holders, nor for a token that comes twice. */
    @Test
    void twoHoldersThroughAFault() {
        Event held = grant(0, 0, 990, 995, 2);
        assertThat(brokenThroughFault(true, held, grant(1, 1, 1_500, 1_505, 3))).containsExactly(Rule.R1_1);
        assertThat(brokenThroughFault(true, held, grant(1, 1, 2_500, 2_505, 2)))
                .containsExactlyInAnyOrder(Rule.R5_1, Rule.R5_2, Rule.R5_3, Rule.R5_5);
    }

    /** What a finding means depends on what is declared. */
    @Test
    void findingsByDeclaration() {
        Guarantees g = Guarantees.builder(Consistency.BEST_EFFORT)
                .exclusionSurvives(StoreEvent.CONNECTION_LOSS)
                .tokensSurvive(StoreEvent.CONNECTION_LOSS, StoreEvent.STORE_RESTART)
                .leases(Duration.ofMillis(10), Duration.ofDays(1), Duration.ofMillis(1))
                .freedWithin(lease -> lease)
                .build();
        Set<StoreEvent> both = Set.of(StoreEvent.CONNECTION_LOSS);
        Set<StoreEvent> tokens = Set.of(StoreEvent.STORE_RESTART, StoreEvent.CONNECTION_LOSS);
        Set<StoreEvent> none = Set.of(StoreEvent.FAILOVER);
        assertThat(FaultRules.rule(Rule.R1_1, both, g)).isEqualTo(Rule.R6_2);
        assertThat(FaultRules.rule(Rule.R1_1, tokens, g)).isNull();
        assertThat(FaultRules.rule(Rule.R5_2, tokens, g)).isEqualTo(Rule.R6_3);
        assertThat(FaultRules.rule(Rule.R5_3, tokens, g)).isNull();
        assertThat(FaultRules.rule(Rule.R5_6, tokens, g)).isEqualTo(Rule.R6_7);
        assertThat(FaultRules.rule(Rule.R5_6, none, g)).isNull();
        assertThat(FaultRules.rule(Rule.R3_1, none, g)).isEqualTo(Rule.R6_4);
        assertThat(FaultRules.rule(Rule.R3_2, both, g)).isNull();
        assertThat(FaultRules.rule(Rule.R6_8, none, g)).isEqualTo(Rule.R6_8);
    }

    /** Holders one after the other, by release and by the end of the lease. */
    @Test
    void goodHistory() {
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 10, 15),
                        event(0, 0, Op.RELEASE, Outcome.DONE, 20, 25),
                        grant(2, 1, 30, 35, 2),
                        grant(3, 2, 1_031, 1_040, 3)))
                .isEmpty();
    }

    /** An acquire that was granted before its answer is not an overlap. */
    @Test
    void slowAnswerIsNoOverlap() {
        assertThat(broken(grant(0, 0, 0, 900, 1), grant(1, 1, 1_001, 1_005, 2))).isEmpty();
        assertThat(broken(grant(0, 0, 0, 995, 1), grant(1, 1, 990, 1_005, 2))).isEmpty();
    }

    @Test
    void twoHolders() {
        assertThat(broken(grant(0, 0, 0, 5, 1), grant(1, 1, 500, 505, 2))).containsExactly(Rule.R1_1);
    }

    /** From the call of its release on, a holder counts on nothing. */
    @Test
    void releaseUnderWayIsNoHolder() {
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        event(0, 0, Op.RELEASE, Outcome.DONE, 100, 200),
                        grant(1, 1, 150, 160, 2)))
                .isEmpty();
    }

    @Test
    void tokensGoBack() {
        assertThat(broken(grant(0, 0, 0, 5, 7), event(0, 0, Op.RELEASE, Outcome.DONE, 10, 15), grant(1, 1, 20, 25, 6)))
                .containsExactlyInAnyOrder(Rule.R5_2, Rule.R5_3, Rule.R5_5);
    }

    /** Two acquires at the same time may be granted in either order, if they do not overlap as holders. */
    @Test
    void concurrentTokensHaveNoOrder() {
        assertThat(broken(grant(0, 0, 0, 100, 2), grant(1, 1, 0, 10, 1), event(1, 1, Op.RELEASE, Outcome.DONE, 20, 30)))
                .isEmpty();
    }

    @Test
    void refusedAfterRelease() {
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        event(0, 0, Op.RELEASE, Outcome.DONE, 10, 15),
                        event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 20, 25)))
                .contains(Rule.R2_4);
    }

    /** While a release is under way, or had no answer, a refusal is excused. */
    @Test
    void refusedDuringRelease() {
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        event(0, 0, Op.RELEASE, Outcome.DONE, 10, 30),
                        event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 20, 25)))
                .isEmpty();
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        event(0, 0, Op.RELEASE, Outcome.UNKNOWN, 10, 30),
                        event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 500, 510)))
                .isEmpty();
    }

    @Test
    void refusedAfterTheEnd() {
        assertThat(broken(grant(0, 0, 0, 5, 1), event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 1_020, 1_025)))
                .containsExactly(Rule.R3_1);
        assertThat(broken(grant(0, 0, 0, 5, 1), event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 1_003, 1_025)))
                .isEmpty();
    }

    @Test
    void endedEarly() {
        assertThat(broken(grant(0, 0, 0, 5, 1), event(0, 0, Op.RENEW, Outcome.REFUSED, 500, 505)))
                .containsExactly(Rule.R3_2);
        assertThat(broken(grant(0, 0, 0, 5, 1), event(0, 0, Op.RENEW, Outcome.REFUSED, 985, 995)))
                .isEmpty();
    }

    /** What was done to the claim tells why it ended early. */
    @Test
    void endedByAStranger() {
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        event(-1, 1, Op.FOREIGN_RELEASE, Outcome.REFUSED, 10, 15),
                        event(0, 0, Op.RENEW, Outcome.REFUSED, 20, 25)))
                .containsExactly(Rule.R2_1);
    }

    @Test
    void evictedIsNotEarly() {
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        Event.of(-1, -1, "n", Op.EVICT, Outcome.DONE, 10 * MS, 11 * MS),
                        event(0, 0, Op.RENEW, Outcome.REFUSED, 20, 25),
                        grant(1, 1, 30, 35, 2)))
                .isEmpty();
    }

    @Test
    void revived() {
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        event(0, 0, Op.RELEASE, Outcome.DONE, 10, 15),
                        event(0, 0, Op.RENEW, Outcome.DONE, 20, 25).granted(1, 20 * MS, LEASE)))
                .containsExactly(Rule.R2_6);
    }

    @Test
    void replacedAndLive() {
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        grant(1, 1, 1_001, 1_005, 2),
                        event(0, 0, Op.RENEW, Outcome.DONE, 1_010, 1_015).granted(1, 1_010 * MS, LEASE)))
                .containsExactly(Rule.R2_3);
    }

    @Test
    void sinceFromTheAnswer() {
        assertThat(broken(grant(0, 0, 0, 105, 1).late(100 * MS))).isEmpty();
        assertThat(broken(Event.of(0, 0, "n", Op.ACQUIRE, Outcome.DONE, 0, 105 * MS)
                        .granted(1, 104 * MS, LEASE)
                        .late(100 * MS)))
                .containsExactly(Rule.R3_3);
    }

    /** A call that has waited in the store is judged by the end of the wait, not by when it was made. */
    @Test
    void waitedInTheStore() {
        Event hold = Event.of(-1, -1, "n", Op.HOLD_UP, Outcome.DONE, 900 * MS, 1_100 * MS);
        Event renewed = event(0, 0, Op.RENEW, Outcome.DONE, 910, 1_110).granted(1, 910 * MS, LEASE);
        Event adopted = Event.of(1, 1, "n", Op.ADOPT, Outcome.DONE, 910 * MS, 1_110 * MS)
                .granted(2, 910 * MS, LEASE)
                .after(0);
        List<Event> old = List.of(
                renewed,
                adopted,
                event(0, 0, Op.RELEASE, Outcome.DONE, 910, 1_110),
                event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 910, 1_110));
        for (Event each : old) {
            assertThat(broken(grant(0, 0, 0, 5, 1), hold, each)).containsExactly(Rule.R3_8);
            assertThat(broken(grant(0, 0, 0, 5, 1), each)).isEmpty();
        }
        assertThat(broken(grant(0, 0, 0, 5, 1), hold, event(0, 0, Op.RENEW, Outcome.REFUSED, 910, 1_110)))
                .isEmpty();
        assertThat(broken(grant(0, 0, 0, 5, 1), hold, grant(1, 1, 910, 1_110, 2)))
                .isEmpty();
    }

    /** A hold of another name, or one that ended before the lease did, excuses and proves nothing. */
    @Test
    void waitedForLess() {
        Event renewed = event(0, 0, Op.RENEW, Outcome.DONE, 910, 1_110).granted(1, 910 * MS, LEASE);
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        Event.of(-1, -1, "m", Op.HOLD_UP, Outcome.DONE, 900 * MS, 1_100 * MS),
                        renewed))
                .isEmpty();
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        Event.of(-1, -1, "n", Op.HOLD_UP, Outcome.DONE, 900 * MS, 1_001 * MS),
                        renewed))
                .isEmpty();
    }

    /** A refusal for which no request was held up is one as any other. */
    @Test
    void refusedDuringTheHold() {
        assertThat(broken(
                        grant(0, 0, 0, 5, 1),
                        Event.of(-1, -1, "n", Op.HOLD_UP, Outcome.DONE, 900 * MS, 1_100 * MS),
                        event(1, 1, Op.ACQUIRE, Outcome.REFUSED, 910, 1_010)))
                .isEmpty();
    }

    /** A hold through which something is done is none. */
    @Test
    void doneDuringTheHold() {
        assertThat(broken(Event.of(-1, -1, "n", Op.HOLD_UP, Outcome.DONE, 0, 100 * MS), grant(0, 0, 10, 20, 1)))
                .containsExactly(Rule.R3_8);
    }

    private static Event access(Op op, Outcome outcome, long at, long base, long value) {
        return Event.of(0, 0, "n", op, outcome, at * MS, at * MS)
                .granted(1, base, 0)
                .value(value);
    }

    /** Two numbers that were made of the same one. */
    @Test
    void lostUpdate() {
        assertThat(broken(
                        access(Op.WRITE, Outcome.DONE, 10, 0, 1),
                        access(Op.WRITE, Outcome.DONE, 20, 1, 2),
                        access(Op.WRITE, Outcome.REFUSED, 25, 1, 9),
                        access(Op.WRITE, Outcome.DONE, 30, 2, 3)))
                .isEmpty();
        assertThat(broken(access(Op.WRITE, Outcome.DONE, 10, 0, 1), access(Op.WRITE, Outcome.DONE, 20, 0, 2)))
                .containsExactly(Rule.R5_6);
    }

    /** The write of one that was killed may be there or not; if it was read, it was. */
    @Test
    void writeWithoutAnswer() {
        Event unknown = access(Op.WRITE, Outcome.UNKNOWN, 10, 0, 1);
        assertThat(broken(unknown, access(Op.WRITE, Outcome.DONE, 20, 0, 2))).isEmpty();
        assertThat(broken(unknown, access(Op.READ, Outcome.DONE, 15, 0, 1), access(Op.WRITE, Outcome.DONE, 20, 1, 2)))
                .isEmpty();
        assertThat(broken(unknown, access(Op.READ, Outcome.DONE, 15, 0, 1), access(Op.WRITE, Outcome.DONE, 20, 0, 2)))
                .containsExactly(Rule.R5_6);
    }

    /** What has been written is there for whoever reads later. */
    @Test
    void readOfWhatIsGone() {
        Event write = access(Op.WRITE, Outcome.DONE, 10, 1, 2);
        assertThat(broken(write, access(Op.READ, Outcome.DONE, 9, 0, 1))).isEmpty();
        assertThat(broken(write, access(Op.READ, Outcome.DONE, 11, 0, 1))).containsExactly(Rule.R5_6);
    }
}
