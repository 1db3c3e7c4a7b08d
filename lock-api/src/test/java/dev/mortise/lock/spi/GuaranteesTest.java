package dev.mortise.lock.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class GuaranteesTest {
    private static final Duration MILLI = Duration.ofMillis(1);

    private static Guarantees.Builder whole() {
        return Guarantees.builder(Consistency.DATABASE)
                .exclusionSurvives(StoreEvent.CLIENT_CRASH, StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH)
                .tokensSurvive()
                .leases(MILLI, Duration.ofDays(1), MILLI)
                .freedWithin(lease -> lease.plusSeconds(2));
    }

    @Test
    void theOrderOfConsistencyIsTheOrderOfStrength() {
        assertThat(Consistency.values())
                .isSorted()
                .containsExactly(
                        Consistency.BEST_EFFORT, Consistency.QUORUM, Consistency.DATABASE, Consistency.CONSENSUS);
    }

    @Test
    void whatIsDeclaredIsWhatIsRead() {
        Guarantees g = whole().fair(true).outlivesClient(true).build();
        assertThat(g.consistency()).isEqualTo(Consistency.DATABASE);
        assertThat(g.exclusionSurvives()).containsExactly(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH);
        assertThat(g.tokensSurvive()).isEmpty();
        assertThat(g.shortestLease()).isEqualTo(MILLI);
        assertThat(g.longestLease()).isEqualTo(Duration.ofDays(1));
        assertThat(g.granularity()).isEqualTo(MILLI);
        assertThat(g.freedWithin(Duration.ofSeconds(10))).isEqualTo(Duration.ofSeconds(12));
        assertThat(g.fair()).isTrue();
        assertThat(g.outlivesClient()).isTrue();
        assertThat(g.toString()).contains("DATABASE", "CLIENT_CRASH", "fair", "outlives its client");
    }

    @Test
    void notFairAndNotOutlivingUnlessSaid() {
        Guarantees g = whole().build();
        assertThat(g.fair()).isFalse();
        assertThat(g.outlivesClient()).isFalse();
        assertThat(g.toString()).doesNotContain("fair", "outlives");
    }

    /** An omission is not a promise of nothing: the author must have thought about it. */
    @Test
    void whatIsNotDeclaredIsAskedForByName() {
        Guarantees.Builder builder = Guarantees.builder(Consistency.QUORUM);
        assertThatThrownBy(builder::build)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("exclusion");
        Guarantees.Builder second = builder.exclusionSurvives();
        assertThatThrownBy(second::build)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("tokens");
        Guarantees.Builder third = second.tokensSurvive();
        assertThatThrownBy(third::build)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("leases");
        Guarantees.Builder fourth = third.leases(MILLI, MILLI, MILLI);
        assertThatThrownBy(fourth::build)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("freedWithin");
        assertThat(fourth.freedWithin(lease -> lease).build().shortestLease()).isEqualTo(MILLI);
    }

    @Test
    void leasesThatMakeNoSenseAreRefused() {
        Guarantees.Builder builder = whole();
        assertThatThrownBy(() -> builder.leases(Duration.ZERO, MILLI, MILLI))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> builder.leases(Duration.ofNanos(999_999), MILLI, MILLI))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> builder.leases(Duration.ofMillis(2), MILLI, MILLI))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> builder.leases(MILLI, MILLI, Duration.ZERO))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> builder.leases(MILLI, MILLI, Duration.ofNanos(-1)))
                .isInstanceOf(IllegalArgumentException.class);
    }

    /** A later use of the builder does not reach into what was built. */
    @Test
    void aDeclarationDoesNotChange() {
        Guarantees.Builder builder = whole();
        Guarantees g = builder.build();
        Guarantees other = builder.exclusionSurvives(StoreEvent.FAILOVER).build();
        assertThat(g.exclusionSurvives()).doesNotContain(StoreEvent.FAILOVER);
        assertThat(other.exclusionSurvives()).containsExactly(StoreEvent.FAILOVER);
        assertThatThrownBy(() -> g.exclusionSurvives().clear()).isInstanceOf(UnsupportedOperationException.class);
    }
}
