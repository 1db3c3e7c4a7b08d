package dev.mortise.lock.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ProvidersTest {
    private static final BackendContext CONTEXT = BackendContext.of(System::nanoTime, Duration.ofSeconds(1));
    private static final String GOOD = TestProviders.Strengths.class.getName();
    private static final String BROKEN = BrokenProviders.class.getName() + "$";

    /** A provider that cannot be used is named, with the reason, and those before and behind it are found. */
    @ParameterizedTest
    @ValueSource(strings = {"Constructor", "StaticInit", "Parameter", "Stranger", "Schemes", "Outdated"})
    void aBrokenProviderIsNamedAndHidesNoOther(String broken) {
        try (TestProviders first = TestProviders.without(Set.of(), BROKEN + broken, GOOD)) {
            assertFoundWithout(broken);
        }
        try (TestProviders last = TestProviders.without(Set.of(), GOOD, BROKEN + broken)) {
            assertFoundWithout(broken);
        }
    }

    private static void assertFoundWithout(String broken) {
        Providers providers = Providers.find();
        assertThat(providers.loaded()).hasExactlyElementsOfTypes(TestProviders.Strengths.class);
        assertThat(providers.failed()).singleElement().asString().contains(BROKEN + broken);
        assertThat(providers.of("quorum")).isInstanceOf(TestProviders.Strengths.class);
        assertThatThrownBy(() -> providers.of("broken"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("failed to load")
                .hasMessageContaining(BROKEN + broken);
    }

    /** The reason is told: what the constructor or the initializer threw. */
    @Test
    void theReasonOfAFailureIsTold() {
        try (TestProviders all = TestProviders.without(Set.of(), BROKEN + "Constructor", BROKEN + "Schemes")) {
            assertThat(Providers.find().failed())
                    .anySatisfy(line -> assertThat(line).contains("no constructor today"))
                    .anySatisfy(line -> assertThat(line).contains("no schemes today"));
        }
    }

    /** A name in a services file without a class behind it. */
    @Test
    void aMissingProviderIsNamedAndHidesNoOther() {
        try (TestProviders all = TestProviders.without(Set.of(), "com.example.Gone", GOOD)) {
            Providers providers = Providers.find();
            assertThat(providers.loaded()).hasSize(1);
            assertThat(providers.failed()).singleElement().asString().contains("com.example.Gone");
        }
    }

    /** A provider whose driver is not on the class path. */
    @Test
    void aProviderWithoutItsDriverIsNamedWithTheDriverAndHidesNoOther() {
        Set<String> missing = Set.of(BROKEN + "Driver");
        try (TestProviders all = TestProviders.without(missing, BROKEN + "NeedsDriver", GOOD)) {
            Providers providers = Providers.find();
            assertThat(providers.loaded()).hasExactlyElementsOfTypes(TestProviders.Strengths.class);
            assertThat(providers.failed())
                    .singleElement()
                    .asString()
                    .contains(BROKEN + "NeedsDriver")
                    .contains("NoClassDefFoundError")
                    .contains("Driver");
        }
    }

    /** The class loader tells of the class that is missing, not of the provider. */
    @Test
    void aProviderWithoutItsSuperclassHidesNoOther() {
        Set<String> missing = Set.of(BROKEN + "Parent");
        try (TestProviders all = TestProviders.without(missing, BROKEN + "Orphan", GOOD)) {
            Providers providers = Providers.find();
            assertThat(providers.loaded()).hasExactlyElementsOfTypes(TestProviders.Strengths.class);
            assertThat(providers.failed())
                    .singleElement()
                    .asString()
                    .contains("NoClassDefFoundError")
                    .contains("Parent");
        }
    }

    /** Every failure is listed, once, although two class loaders are asked. */
    @Test
    void everyFailureIsListedOnce() {
        String[] names = {BROKEN + "Constructor", GOOD, BROKEN + "StaticInit", "com.example.Gone", BROKEN + "Schemes"};
        try (TestProviders all = TestProviders.without(Set.of(), names)) {
            assertThat(Providers.find().failed()).hasSize(4).doesNotHaveDuplicates();
        }
    }

    /** A provider named twice, or seen by two class loaders, is one provider. */
    @Test
    void aProviderFoundTwiceCountsOnce() {
        try (TestProviders outer = TestProviders.without(Set.of(), GOOD);
                TestProviders inner = TestProviders.without(Set.of(), GOOD, GOOD)) {
            assertThat(Providers.find().loaded()).hasSize(1);
        }
    }

    @Test
    void aThreadWithoutAClassLoaderFindsWhatMortiseItselfCanSee() {
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        Thread.currentThread().setContextClassLoader(null);
        try {
            assertThat(Providers.find().failed()).isEmpty();
        } finally {
            Thread.currentThread().setContextClassLoader(before);
        }
    }

    @Test
    void twoProvidersOfOneSchemeAreRefusedWithBothNamed() {
        try (TestProviders both = TestProviders.of(TestProviders.Strengths.class, TestProviders.Rival.class)) {
            assertThatThrownBy(Providers::find)
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("quorum")
                    .hasMessageContaining(TestProviders.Strengths.class.getName())
                    .hasMessageContaining(TestProviders.Rival.class.getName());
        }
    }

    @Test
    void anUnknownSchemeIsRefusedWithThoseFoundAndTheModuleToAdd() {
        try (TestProviders all = TestProviders.of(TestProviders.Strengths.class)) {
            assertThatThrownBy(() -> Providers.find().of("redis"))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("scheme redis")
                    .hasMessageContaining("found: best-effort, consensus, database, quorum")
                    .hasMessageContaining("add the module that serves it")
                    .hasMessageContaining("dev.mortise:lock-")
                    .hasMessageNotContaining("failed");
        }
    }

    @Test
    void withoutAnyModuleTheRefusalSaysThatNoneWasFound() {
        try (TestProviders none = TestProviders.of()) {
            assertThatThrownBy(() -> Providers.find().of("quorum"))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("found: none")
                    .hasMessageContaining("add the module");
        }
    }

    @Test
    void anUnknownOptionIsRefusedWithThoseKnownAndNothingIsOpened() {
        StoreUri uri = StoreUri.parse("quorum://u:hunter2hunter2@host?tsl=true", Map.of());
        try (TestProviders all = TestProviders.of(TestProviders.Strengths.class)) {
            assertThatThrownBy(() -> Providers.find().open(uri, List.of(), CONTEXT))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("unknown option tsl")
                    .hasMessageContaining("quorum://host")
                    .hasMessageContaining("known: key, replicas, tls")
                    .hasMessageNotContaining("hunter2");
            assertThat(TestProviders.OPENED).isEmpty();
        }
    }

    /** A value of the wrong type is found before the store is opened, whether or not the store would ask for it. */
    @Test
    void aBadValueIsRefusedWithTheOptionAndTheValueAndNothingIsOpened() {
        StoreUri uri = StoreUri.parse("quorum://host?replicas=6", Map.of());
        try (TestProviders all = TestProviders.of(TestProviders.Strengths.class)) {
            assertThatThrownBy(() -> Providers.find().open(uri, List.of(), CONTEXT))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("replicas")
                    .hasMessageContaining("0..5")
                    .hasMessageContaining("6");
            assertThat(TestProviders.OPENED).isEmpty();
        }
    }

    @Test
    void theProviderGetsTheUriAndTheContext() {
        StoreUri uri = StoreUri.parse("quorum://host?replicas=3", Map.of("key", "secret"));
        try (TestProviders all = TestProviders.of(TestProviders.Strengths.class)) {
            LockBackend opened = Providers.find().open(uri, List.of(), CONTEXT);
            assertThat(TestProviders.OPENED).singleElement().isSameAs(opened);
            assertThat(TestProviders.OPENED.get(0).uri).isSameAs(uri);
            assertThat(TestProviders.OPENED.get(0).context).isSameAs(CONTEXT);
        }
    }
}
