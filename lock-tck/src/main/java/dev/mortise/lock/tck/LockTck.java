package dev.mortise.lock.tck;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
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

    /** For the tests of a backend. */
    protected LockTck() {}

    /** The store under test, empty and running. Called once; the kit closes it. */
    protected abstract Store store() throws Exception;

    @BeforeAll
    final void open() throws Exception {
        kit = Kit.of(store());
    }

    @AfterAll
    final void report() throws Exception {
        Kit run = kit;
        if (run == null) {
            return; // There was no store; that has been told.
        }
        try {
            Path report = Path.of("target", "lock-tck", getClass().getName() + ".txt");
            Files.createDirectories(report.getParent());
            Files.writeString(report, run.report(getClass().getSimpleName()), StandardCharsets.UTF_8);
        } finally {
            run.close();
        }
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
}
