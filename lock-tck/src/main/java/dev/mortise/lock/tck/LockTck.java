package dev.mortise.lock.tck;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.opentest4j.TestAbortedException;

/**
 * The compatibility kit. Extend it in the tests of a backend, and each rule of {@code docs/spec.md} that a backend can
 * break is a test, with the rule's number in its name:
 *
 * <pre>{@code
 * class MyBackendTest extends LockTck {
 *     @Override
 *     protected Store store() {
 *         return new MyStore();
 *     }
 * }
 * }</pre>
 *
 * <p>A failure says which rule, why there is such a rule, what was seen, what to look at, and the shortest scenario found
 * that shows it. A rule that does not apply to what the backend declares is skipped, with the reason. A page of text on the
 * run is written to {@code target/lock-tck/}.
 *
 * <p>System properties: {@code mortise.tck.seed} and {@code mortise.tck.scenarios} choose the generated scenarios; {@code
 * mortise.tck.scale} makes all leases and limits longer, for slow stores and machines.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Execution(ExecutionMode.SAME_THREAD)
public abstract class LockTck {
    private @Nullable Kit kit;
    private Instant started = Instant.EPOCH;
    private long began;

    /** For the tests of a backend. */
    protected LockTck() {}

    /** The store under test, empty and running. Called once; the kit closes it. */
    protected abstract Store store() throws Exception;

    @BeforeAll
    final void open() throws Exception {
        started = Instant.now();
        began = System.nanoTime();
        Kit run = Kit.of(store());
        run.progress = line -> System.out.println("lock-tck, " + getClass().getSimpleName() + ": " + line);
        kit = run;
    }

    @AfterAll
    final void report() throws Exception {
        Kit run = kit;
        if (run == null) {
            return; // There was no store; that has been told.
        }
        try {
            report(run, getClass().getSimpleName(), getClass().getName(), started, began);
        } finally {
            run.close();
        }
    }

    /**
     * Judges these rules alone, for a test that a mistake is found. A report is written into {@code
     * target/lock-tck/broken/}.
     *
     * @param store is closed
     * @param numbers as {@code 1.1}; none for all
     * @return by number, what a test would fail with, of each that is broken
     * @throws IllegalArgumentException if there is no rule of a number
     * @throws Exception if the store threw what ends the run of the kit
     */
    public static Map<String, String> broken(Store store, String... numbers) throws Exception {
        Instant started = Instant.now();
        long began = System.nanoTime();
        Map<String, String> broken = new LinkedHashMap<>();
        try (Kit run = Kit.of(store)) {
            List<Rule> rules = new ArrayList<>();
            for (String number : numbers) {
                rules.add(Arrays.stream(Rule.values())
                        .filter(rule -> rule.number().equals(number))
                        .findAny()
                        .orElseThrow(() -> new IllegalArgumentException("numbers: there is no rule " + number)));
            }
            if (!rules.isEmpty()) {
                run.asked = EnumSet.copyOf(rules);
            }
            for (Rule rule : run.asked) {
                if (rule.scope != Rule.Scope.CLIENT) {
                    Kit.Result result = run.judge(rule);
                    if (result.status() == Kit.Status.FAILED) {
                        broken.put(rule.number(), result.message());
                    }
                }
            }
            String title = store.about().getOrDefault("store", store.getClass().getSimpleName());
            report(run, title, "broken/" + title.replaceAll("[^A-Za-z0-9]+", "-"), started, began);
        }
        return broken;
    }

    private static void report(Kit run, String title, String file, Instant started, long began) throws IOException {
        String replay = "mvn test -Dtest=" + title + " '-DargLine=-D{}'";
        new Report(run, title, replay, started, Duration.ofNanos(System.nanoTime() - began))
                .write(Path.of("target", "lock-tck"), file);
    }

    private void judge(Rule rule) throws Exception {
        Kit run = kit;
        if (run == null) {
            throw new IllegalStateException("there is no store");
        }
        Kit.Result result = run.judge(rule);
        switch (result.status()) {
            case FAILED -> throw new AssertionError(result.message());
            case SKIPPED ->
                throw new TestAbortedException("rule " + rule.number() + " is skipped: " + result.message());
            case PASSED -> {}
        }
    }

    @Test
    final void rule_0_1_declarationMakesSense() throws Exception {
        judge(Rule.R0_1);
    }

    @Test
    final void rule_0_2_outlivesClientIsTrue() throws Exception {
        judge(Rule.R0_2);
    }

    @Test
    final void rule_0_3_closeIsIdempotent() throws Exception {
        judge(Rule.R0_3);
    }

    @Test
    final void rule_0_4_everyCallIsAnswered() throws Exception {
        judge(Rule.R0_4);
    }

    @Test
    final void rule_1_1_oneHolderAtATime() throws Exception {
        judge(Rule.R1_1);
    }

    @Test
    final void rule_1_2_freeLockIsGranted() throws Exception {
        judge(Rule.R1_2);
    }

    @Test
    final void rule_1_3_namesAreDifferentLocks() throws Exception {
        judge(Rule.R1_3);
    }

    @Test
    final void rule_1_4_everyNameIsUsable() throws Exception {
        judge(Rule.R1_4);
    }

    @Test
    final void rule_1_5_askedAgainSameToken() throws Exception {
        judge(Rule.R1_5);
    }

    @Test
    final void rule_2_1_releaseEndsOnlyItsOwn() throws Exception {
        judge(Rule.R2_1);
    }

    @Test
    final void rule_2_2_renewLengthensOnlyItsOwn() throws Exception {
        judge(Rule.R2_2);
    }

    @Test
    final void rule_2_3_replacedGrantHasEnded() throws Exception {
        judge(Rule.R2_3);
    }

    @Test
    final void rule_2_4_releasedLockIsFree() throws Exception {
        judge(Rule.R2_4);
    }

    @Test
    final void rule_2_5_releaseIsIdempotentAndTrue() throws Exception {
        judge(Rule.R2_5);
    }

    @Test
    final void rule_2_6_endedClaimIsNotRevived() throws Exception {
        judge(Rule.R2_6);
    }

    @Test
    final void rule_3_1_claimEndsByItself() throws Exception {
        judge(Rule.R3_1);
    }

    @Test
    final void rule_3_2_claimDoesNotEndEarly() throws Exception {
        judge(Rule.R3_2);
    }

    @Test
    final void rule_3_3_sinceIsBeforeTheSend() throws Exception {
        judge(Rule.R3_3);
    }

    @Test
    final void rule_3_4_claimEndsBesideARenewedOne() throws Exception {
        judge(Rule.R3_4);
    }

    @Test
    final void rule_3_5_youngerClaimIsLiveForItsFullLease() throws Exception {
        judge(Rule.R3_5);
    }

    @Test
    final void rule_3_6_grantsOfABatchAreJudgedSingly() throws Exception {
        judge(Rule.R3_6);
    }

    @Test
    final void rule_3_7_renewalIsForAFullLease() throws Exception {
        judge(Rule.R3_7);
    }

    @Test
    final void rule_3_8_judgedWhenCarriedOut() throws Exception {
        judge(Rule.R3_8);
    }

    @Test
    final void rule_4_1_zeroPatienceDoesNotWait() throws Exception {
        judge(Rule.R4_1);
    }

    @Test
    final void rule_4_2_waitEndsInTime() throws Exception {
        judge(Rule.R4_2);
    }

    @Test
    final void rule_4_3_waiterIsNotForgotten() throws Exception {
        judge(Rule.R4_3);
    }

    @Test
    final void rule_4_4_refusalLeavesNothing() throws Exception {
        judge(Rule.R4_4);
    }

    @Test
    final void rule_4_5_interruptLeavesNothing() throws Exception {
        judge(Rule.R4_5);
    }

    @Test
    final void rule_4_6_longWaitEndsInALiveGrant() throws Exception {
        judge(Rule.R4_6);
    }

    @Test
    final void rule_4_7_restIsNoLongerThanTheLease() throws Exception {
        judge(Rule.R4_7);
    }

    @Test
    final void rule_5_1_tokensAreUnique() throws Exception {
        judge(Rule.R5_1);
    }

    @Test
    final void rule_5_2_tokensGrowFromGrantToLaterAcquire() throws Exception {
        judge(Rule.R5_2);
    }

    @Test
    final void rule_5_3_tokensGrowInTheOrderOfHolding() throws Exception {
        judge(Rule.R5_3);
    }

    @Test
    final void rule_5_4_renewalKeepsTheToken() throws Exception {
        judge(Rule.R5_4);
    }

    @Test
    final void rule_5_5_tokensOutliveTheLock() throws Exception {
        judge(Rule.R5_5);
    }

    @Test
    final void rule_5_6_fencedResourceLosesNoUpdate() throws Exception {
        judge(Rule.R5_6);
    }

    @Test
    final void rule_6_1_declaredEventsCanBeCaused() throws Exception {
        judge(Rule.R6_1);
    }

    @Test
    final void rule_6_2_oneHolderThroughEvents() throws Exception {
        judge(Rule.R6_2);
    }

    @Test
    final void rule_6_3_tokensGrowThroughEvents() throws Exception {
        judge(Rule.R6_3);
    }

    @Test
    final void rule_6_4_lockIsHadAgainAfterwards() throws Exception {
        judge(Rule.R6_4);
    }

    @Test
    final void rule_6_5_callsEndDuringFaults() throws Exception {
        judge(Rule.R6_5);
    }

    @Test
    final void rule_6_6_whatIsNotDeclaredIsSeenBroken() throws Exception {
        judge(Rule.R6_6);
    }

    @Test
    final void rule_6_7_fencedResourceLosesNoUpdateThroughEvents() throws Exception {
        judge(Rule.R6_7);
    }

    @Test
    final void rule_6_8_holderIsToldByItsDeadline() throws Exception {
        judge(Rule.R6_8);
    }

    @Test
    final void rule_7_1_heirTakesOverWithALargerToken() throws Exception {
        judge(Rule.R7_1);
    }

    @Test
    final void rule_7_2_heirAsksAgain() throws Exception {
        judge(Rule.R7_2);
    }

    @Test
    final void rule_7_3_secondHeirGetsNothing() throws Exception {
        judge(Rule.R7_3);
    }

    @Test
    final void rule_7_4_formerOwnerTouchesNothing() throws Exception {
        judge(Rule.R7_4);
    }

    @Test
    final void rule_7_5_endedClaimHasNoHeir() throws Exception {
        judge(Rule.R7_5);
    }

    @Test
    final void rule_7_6_releaseWorksWithoutAnAnswer() throws Exception {
        judge(Rule.R7_6);
    }

    @Test
    final void rule_7_7_renewalWithoutAnAnswerIsUnknown() throws Exception {
        judge(Rule.R7_7);
    }

    @Test
    final void rule_7_8_releaseAskedAgainEndsNoOther() throws Exception {
        judge(Rule.R7_8);
    }

    @Test
    final void rule_7_9_adoptAskedAgainAfterALostAnswer() throws Exception {
        judge(Rule.R7_9);
    }

    @Test
    final void rule_7_10_lateAcquireIsGoneInTime() throws Exception {
        judge(Rule.R7_10);
    }

    @Test
    final void rule_7_11_failureSaysThatItMayHaveTakenEffect() throws Exception {
        judge(Rule.R7_11);
    }

    @Test
    final void rule_7_12_resendingBringsNoSecondToken() throws Exception {
        judge(Rule.R7_12);
    }

    @Test
    final void rule_7_13_chainOfLostAcquiresIsFreed() throws Exception {
        judge(Rule.R7_13);
    }

    @Test
    final void rule_7_14_heirComesFirst() throws Exception {
        judge(Rule.R7_14);
    }
}
