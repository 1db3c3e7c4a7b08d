package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.TestProviders;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.lifecycle.AfterProperty;
import net.jqwik.api.lifecycle.BeforeProperty;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class LockStoresTest {
    private TestProviders providers;

    @BeforeEach
    @BeforeProperty
    void modules() {
        providers = TestProviders.of(TestProviders.Strengths.class);
    }

    @AfterEach
    @AfterProperty
    void noModules() {
        providers.close();
    }

    private static LockStores of(String... uris) {
        return LockStores.of(uris);
    }

    private static String uri(Consistency consistency, int number) {
        return TestProviders.scheme(consistency) + "://host" + number;
    }

    @ParameterizedTest
    @CsvSource({"LOW,BEST_EFFORT", "MEDIUM,QUORUM", "HIGH,CONSENSUS"})
    void stakesAskForAConsistency(Stakes stakes, Consistency least) {
        assertThat(stakes.least()).isEqualTo(least);
    }

    @Provide
    Arbitrary<List<Consistency>> strengths() {
        return Arbitraries.of(Consistency.class).list().ofMinSize(1).ofMaxSize(6);
    }

    /** The weakest that suffices, of two alike the first, and no other is connected to. */
    @Property(tries = 200)
    void theWeakestThatSufficesIsTaken(@ForAll("strengths") List<Consistency> given, @ForAll Stakes stakes) {
        TestProviders.OPENED.clear();
        List<String> uris = new ArrayList<>();
        int expected = -1;
        for (int i = 0; i < given.size(); i++) {
            uris.add(uri(given.get(i), i));
            if (given.get(i).compareTo(stakes.least()) >= 0
                    && (expected < 0 || given.get(i).compareTo(given.get(expected)) < 0)) {
                expected = i;
            }
        }
        try (LockStores stores = of(uris.toArray(String[]::new))) {
            if (expected < 0) {
                assertThatThrownBy(() -> stores.at(stakes)).isInstanceOf(StakesNotMetException.class);
                assertThat(TestProviders.OPENED).isEmpty();
            } else {
                assertThat(stores.at(stakes)).hasToString("locks in " + uris.get(expected));
                assertThat(TestProviders.OPENED).hasSize(1);
            }
        }
    }

    /** The order in which stores are given decides nothing between stores of different strength. */
    @Property(tries = 200)
    void theOrderDecidesOnlyBetweenStoresAlike(
            @ForAll("strengths") List<Consistency> given, @ForAll Stakes stakes, @ForAll Random random) {
        List<String> uris = new ArrayList<>();
        given.stream().distinct().forEach(c -> uris.add(uri(c, 0)));
        List<String> shuffled = new ArrayList<>(uris);
        Collections.shuffle(shuffled, random);
        assertThat(choice(shuffled, stakes)).isEqualTo(choice(uris, stakes));
    }

    private static String choice(List<String> uris, Stakes stakes) {
        try (LockStores stores = of(uris.toArray(String[]::new))) {
            return stores.at(stakes).toString();
        } catch (StakesNotMetException e) {
            return "refused";
        }
    }

    @ParameterizedTest
    @EnumSource(Stakes.class)
    void theChoiceIsTheSameAgainAndTheClientToo(Stakes stakes) {
        try (LockStores stores = of("consensus://c", "quorum://q", "best-effort://b", "database://d")) {
            assertThat(stores.at(stakes)).isSameAs(stores.at(stakes));
            assertThat(TestProviders.OPENED).hasSize(1);
        }
    }

    @Test
    void oneStoreServesAllStakesThatItSuffices() {
        try (LockStores stores = of("consensus://c")) {
            assertThat(stores.at(Stakes.LOW)).isSameAs(stores.at(Stakes.HIGH)).isSameAs(stores.at(Stakes.MEDIUM));
        }
    }

    @Test
    void nothingIsConnectedToBeforeItIsWanted() {
        try (LockStores stores = of("consensus://down", "quorum://q")) {
            assertThat(TestProviders.OPENED).isEmpty();
            assertThat(stores.at(Stakes.LOW)).hasToString("locks in quorum://q");
        }
    }

    /** Two processes that chose differently would not exclude each other. */
    @Test
    void aStoreThatIsDownIsNotReplacedByAnother() {
        try (LockStores stores = of("quorum://down", "quorum://up", "consensus://up", "best-effort://up")) {
            for (int again = 0; again < 3; again++) {
                assertThatThrownBy(() -> stores.at(Stakes.MEDIUM))
                        .isInstanceOf(LockStoreException.class)
                        .hasMessageContaining("quorum://down");
            }
            assertThat(TestProviders.OPENED).isEmpty();
            assertThat(stores.at(Stakes.HIGH)).hasToString("locks in consensus://up");
            assertThat(stores.at(Stakes.LOW)).hasToString("locks in best-effort://up");
            assertThatThrownBy(() -> stores.at(Stakes.MEDIUM)).isInstanceOf(LockStoreException.class);
        }
    }

    @Test
    void aRefusalSaysWhatEachStoreLacksAndWhatEachModuleWouldDo() {
        try (LockStores stores = of("best-effort://b", "database://u:hunter2hunter2@d?key=hunter3hunter3")) {
            assertThatThrownBy(() -> stores.at(Stakes.HIGH))
                    .isInstanceOf(StakesNotMetException.class)
                    .hasMessageContaining("stakes HIGH need CONSENSUS or stronger")
                    .hasMessageContaining("best-effort://b is BEST_EFFORT")
                    .hasMessageContaining("database://d is DATABASE")
                    .hasMessageContaining("best-effort (BEST_EFFORT)")
                    .hasMessageContaining("quorum (QUORUM)")
                    .hasMessageContaining("database (DATABASE)")
                    .hasMessageContaining("consensus (CONSENSUS, would do)")
                    .hasMessageNotContaining("hunter");
            assertThat(TestProviders.OPENED).isEmpty();
        }
    }

    @Test
    void aRefusalWithoutModulesSaysSo() {
        LockClient client = LockClient.connect("best-effort://b");
        noModules();
        try (LockStores stores = LockStores.of(client)) {
            assertThatThrownBy(() -> stores.at(Stakes.HIGH))
                    .isInstanceOf(StakesNotMetException.class)
                    .hasMessageContaining("best-effort://b is BEST_EFFORT")
                    .hasMessageContaining("modules found: none");
        } finally {
            modules();
        }
    }

    /** What a store is worth is known for certain only when it is connected to. */
    @Test
    void aStoreThatTurnsOutWeakerIsRefusedAndClosed() {
        try (LockStores stores = of("consensus://weak")) {
            assertThatThrownBy(() -> stores.at(Stakes.HIGH))
                    .isInstanceOf(StakesNotMetException.class)
                    .hasMessageContaining("stakes HIGH need CONSENSUS")
                    .hasMessageContaining("consensus://weak")
                    .hasMessageContaining("declared as CONSENSUS")
                    .hasMessageContaining("BEST_EFFORT");
            assertThat(TestProviders.OPENED).hasSize(1).allMatch(TestProviders.Store::closed);
        }
    }

    /** Also when it was connected to before, for less. */
    @Test
    void aStoreThatTurnedOutWeakerIsStillRefusedOnceItServesLowerStakes() {
        try (LockStores stores = of("consensus://weak")) {
            LockClient low = stores.at(Stakes.LOW);
            assertThatThrownBy(() -> stores.at(Stakes.HIGH)).isInstanceOf(StakesNotMetException.class);
            assertThatThrownBy(() -> stores.at(Stakes.MEDIUM)).isInstanceOf(StakesNotMetException.class);
            assertThat(stores.at(Stakes.LOW)).isSameAs(low);
            assertThat(TestProviders.OPENED).singleElement().matches(store -> !store.closed());
        }
    }

    @Test
    void closingClosesTheClientsThatWereConnected() {
        LockStores stores = of("best-effort://b", "quorum://q", "consensus://c");
        LockClient low = stores.at(Stakes.LOW);
        LockClient high = stores.at(Stakes.HIGH);
        stores.close();
        assertThat(TestProviders.OPENED).hasSize(2).allMatch(TestProviders.Store::closed);
        assertThatThrownBy(() -> low.lock("n").tryAcquire()).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> high.lock("n").tryAcquire()).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> stores.at(Stakes.LOW))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("closed");
        stores.close();
    }

    /** One that cannot be closed does not keep the others open. */
    @Test
    void closingClosesAllAlsoWhenOneFails() {
        LockStores stores = of("best-effort://sticky", "quorum://sticky", "consensus://c");
        for (Stakes stakes : Stakes.values()) {
            assertThat(stores.at(stakes)).isNotNull();
        }
        assertThatThrownBy(stores::close)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("stuck: best-effort://sticky")
                .satisfies(e -> assertThat(e.getSuppressed()).hasSize(1));
        assertThat(TestProviders.OPENED).hasSize(3).allMatch(TestProviders.Store::closed);
    }

    @Test
    void clientsCanBeGivenInsteadAndAreClosedToo() {
        LockClient quorum = LockClient.connect("quorum://q");
        LockClient base = LockClient.connect("database://d", Map.of("label", "me"));
        try (LockStores stores = LockStores.of(base, quorum)) {
            assertThat(stores.at(Stakes.LOW)).isSameAs(quorum);
            assertThat(stores.at(Stakes.MEDIUM)).isSameAs(quorum);
            assertThatThrownBy(() -> stores.at(Stakes.HIGH))
                    .isInstanceOf(StakesNotMetException.class)
                    .hasMessageContaining("quorum://q is QUORUM")
                    .hasMessageContaining("database://d is DATABASE");
        }
        assertThat(TestProviders.OPENED).hasSize(2).allMatch(TestProviders.Store::closed);
    }

    @Test
    void storesThatCannotBeReadOrHaveNoModuleAreRefusedAtOnce() {
        assertThatThrownBy(() -> of())
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("empty");
        assertThatThrownBy(() -> LockStores.of(new LockClient[0])).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> of("quorum://q", "quorum:q")).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> of("quorum://q", "etcd://e"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("scheme etcd")
                .hasMessageContaining("quorum");
    }
}
