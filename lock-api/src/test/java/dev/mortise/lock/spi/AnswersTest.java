package dev.mortise.lock.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What a backend answers: {@link Attempt}, {@link Renewal}, {@link Holder}, and the {@link BackendContext} it gets. */
class AnswersTest {
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Grant GRANT = Claim.of("n", "o", SECOND).granted(SECOND, 1, 0);

    @Test
    void anAttemptIsGrantedOrHeld() {
        assertThat(Attempt.granted(GRANT).grant()).containsSame(GRANT);
        assertThat(Attempt.granted(GRANT).pause()).isZero();
        assertThat(Attempt.granted(GRANT).rest()).isEmpty();
        assertThat(Attempt.held(SECOND).grant()).isEmpty();
        assertThat(Attempt.held(SECOND).pause()).isEqualTo(SECOND);
        assertThat(Attempt.held(SECOND).rest()).isEmpty();
        assertThat(Attempt.held(SECOND, Duration.ofSeconds(5)).rest()).contains(Duration.ofSeconds(5));
        assertThatThrownBy(() -> Attempt.granted(null)).isInstanceOf(NullPointerException.class);
    }

    /** A pause of zero would make a loop that never rests. */
    @Test
    void aPauseIsPositive() {
        for (Duration bad : List.of(Duration.ZERO, Duration.ofNanos(-1))) {
            assertThatThrownBy(() -> Attempt.held(bad)).isInstanceOf(IllegalArgumentException.class);
            assertThatThrownBy(() -> Attempt.held(bad, SECOND)).isInstanceOf(IllegalArgumentException.class);
        }
    }

    /** By the time that the store answers, the holder's lease may be over. */
    @Test
    void aRestThatIsOverIsZero() {
        assertThat(Attempt.held(SECOND, Duration.ofSeconds(-5)).rest()).contains(Duration.ZERO);
    }

    @Test
    void aRenewalDoesNotChangeWithTheListsItWasMadeFrom() {
        List<Grant> live = new ArrayList<>(List.of(GRANT));
        List<Grant> ended = new ArrayList<>();
        Renewal renewal = Renewal.of(live, ended);
        live.clear();
        ended.add(GRANT);
        assertThat(renewal.live()).containsExactly(GRANT);
        assertThat(renewal.ended()).isEmpty();
        assertThatThrownBy(() -> renewal.live().clear()).isInstanceOf(UnsupportedOperationException.class);
    }

    @Test
    void aHolderIsShownWithOwnerTokenAndRest() {
        Holder holder = Holder.of("me~1", 7, SECOND);
        assertThat(holder.owner()).isEqualTo("me~1");
        assertThat(holder.token()).isEqualTo(7);
        assertThat(holder.rest()).isEqualTo(SECOND);
        assertThat(holder).hasToString("me~1 token 7 for PT1S");
    }

    @Test
    void aContextHasATickerAndAPositiveCallTimeout() {
        BackendContext context = BackendContext.of(() -> 42, SECOND);
        assertThat(context.nanoTime()).isEqualTo(42);
        assertThat(context.callTimeout()).isEqualTo(SECOND);
        for (Duration bad : List.of(Duration.ZERO, Duration.ofNanos(-1))) {
            assertThatThrownBy(() -> BackendContext.of(() -> 42, bad)).isInstanceOf(IllegalArgumentException.class);
        }
    }
}
