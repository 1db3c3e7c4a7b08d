package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.TestProviders;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What a client may be told, and what it refuses to be told. */
class LockClientOptionsTest {
    private static final Duration EVER = Duration.ofSeconds(Long.MAX_VALUE, 999_999_999);
    private static final Duration NEVER = Duration.ofSeconds(Long.MIN_VALUE);

    private final VirtualTime time = new VirtualTime();
    private final InMemoryBackend store = new InMemoryBackend(time);
    private TestProviders providers;

    @BeforeEach
    void modules() {
        providers = TestProviders.of(TestProviders.Strengths.class);
    }

    @AfterEach
    void noModules() {
        providers.close();
    }

    private LockClient.Builder builder() {
        return LockClient.builder(store).time(time);
    }

    /** The call timeout that the store was opened with. */
    private static Duration callTimeout(String uri, Map<String, String> options) {
        try (LockClient client = LockClient.connect(uri, options)) {
            assertThat(client).isNotNull();
            return TestProviders.OPENED
                    .get(TestProviders.OPENED.size() - 1)
                    .context
                    .callTimeout();
        }
    }

    private static void assertRefused(String uri, Map<String, String> options, String... parts) {
        assertThatThrownBy(() -> LockClient.connect(uri, options))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContainingAll(parts);
        assertThat(TestProviders.OPENED).as("opened stores").allMatch(TestProviders.Store::closed);
    }

    // defaults and options

    @Test
    void unlessToldTheLeaseIsThirtySecondsAndTheCallTimeoutThree() {
        try (LockClient client = LockClient.connect("quorum://h")) {
            assertThat(client.lease()).isEqualTo(Duration.ofSeconds(30));
        }
        assertThat(callTimeout("quorum://h", Map.of())).isEqualTo(Duration.ofSeconds(3));
    }

    @ParameterizedTest
    @CsvSource({"12s,PT3S", "1h,PT3S", "8s,PT2S", "100ms,PT0.025S"})
    void unlessToldTheCallTimeoutIsAtMostAQuarterOfTheLease(String lease, Duration timeout) {
        assertThat(callTimeout("quorum://h?lease=" + lease, Map.of())).isEqualTo(timeout);
    }

    @Test
    void theClientsOptionsCanBeGivenInTheUriAndInTheMap() {
        try (LockClient client =
                LockClient.connect("quorum://h?lease=1m", Map.of("call-timeout", "1s", "label", "me"))) {
            assertThat(client.lease()).isEqualTo(Duration.ofMinutes(1));
        }
        TestProviders.Store opened = TestProviders.OPENED.get(0);
        assertThat(opened.context.callTimeout()).isEqualTo(Duration.ofSeconds(1));
        assertThat(opened.uri.options()).isEmpty();
    }

    @Test
    void theStoresOptionsReachTheStore() {
        assertThat(callTimeout("quorum://u:p@h?replicas=2&lease=40s", Map.of("tls", "true")))
                .isEqualTo(Duration.ofSeconds(3));
        assertThat(TestProviders.OPENED.get(0).uri.options())
                .containsOnly(Map.entry("replicas", "2"), Map.entry("tls", "true"));
        assertThat(TestProviders.OPENED.get(0).uri.password()).contains("p");
    }

    @Test
    void whatTheBuilderIsToldLastCounts() throws InterruptedException {
        try (LockClient client = LockClient.builder("quorum://h?lease=1m&label=uri", Map.of())
                .lease(Duration.ofMinutes(2))
                .label("builder")
                .callTimeout(Duration.ofSeconds(2))
                .build()) {
            assertThat(client.lease()).isEqualTo(Duration.ofMinutes(2));
            try (Lease lease = client.lock("n").acquire()) {
                assertThat(lease.isHeld()).isTrue();
                assertThat(client.holder("n").orElseThrow().owner()).startsWith("builder~");
            }
        }
    }

    @Test
    void anUnknownSchemeIsRefusedWithThoseFoundAndTheModuleToAdd() {
        assertRefused(
                "redis://h", Map.of(), "redis", "found: best-effort, consensus, database, quorum", "add the module");
    }

    @Test
    void anUnknownOptionIsRefusedWithThoseKnown() {
        assertRefused(
                "quorum://h?tsl=true",
                Map.of(),
                "unknown option tsl",
                "call-timeout, key, label, lease, replicas, tls");
        assertRefused("quorum://h", Map.of("LEASE", "30s"), "unknown option LEASE");
        assertRefused("quorum://h", Map.of("", "30s"), "unknown option");
    }

    @Test
    void anOptionGivenTwiceIsRefused() {
        assertRefused("quorum://h?lease=30s", Map.of("lease", "30s"), "option lease is given twice");
    }

    @Test
    void aRefusalShowsNoSecret() {
        String uri = "quorum://joe:hunter2hunter2@h?key=hunter3hunter3";
        for (Map<String, String> bad : List.of(
                Map.of("nope", "1"), Map.of("replicas", "9"), Map.of("lease", "0s"), Map.of("password", "hunter4"))) {
            assertThatThrownBy(() -> LockClient.connect(uri, bad))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasNoCause()
                    .hasMessageNotContaining("hunter");
        }
        assertThatThrownBy(() -> LockClient.connect("quorum://joe:hunter2hunter2@down?key=hunter3hunter3"))
                .isInstanceOf(LockStoreException.class)
                .hasMessageNotContaining("hunter");
        try (LockClient client = LockClient.connect(uri)) {
            assertThat(client).hasToString("locks in quorum://h");
        }
    }

    // durations

    @ParameterizedTest
    @ValueSource(strings = {"", "30", "-1s", "1.5s", "forever", "999999999999999999d"})
    void whatIsNoDurationIsRefusedBeforeTheStoreIsOpened(String text) {
        assertRefused("quorum://h", Map.of("lease", text), "option lease must be a duration");
        assertRefused("quorum://h", Map.of("call-timeout", text), "option call-timeout must be a duration");
        assertThat(TestProviders.OPENED).isEmpty();
    }

    @Test
    void aLeaseOrCallTimeoutOfNothingIsRefusedBeforeTheStoreIsOpened() {
        assertRefused("quorum://h?lease=0ms", Map.of(), "lease must be positive");
        assertRefused("quorum://h?call-timeout=0d", Map.of(), "call-timeout must be positive");
        assertThat(TestProviders.OPENED).isEmpty();
        for (Duration bad : List.of(Duration.ZERO, Duration.ofNanos(-1), NEVER)) {
            assertThatThrownBy(() -> builder().lease(bad).build())
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("lease must be positive: " + bad);
            assertThatThrownBy(() -> builder().callTimeout(bad).build())
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("call-timeout must be positive: " + bad);
        }
    }

    /** A lease too short for a renewal to be tried again; the option to change is named. */
    @Test
    void aLeaseBelowFourCallTimeoutsIsRefused() {
        assertRefused(
                "quorum://h?lease=7s&call-timeout=2s",
                Map.of(),
                "lease PT7S",
                "four call timeouts of PT2S",
                "call-timeout");
        assertThat(callTimeout("quorum://h?lease=8s&call-timeout=2s", Map.of())).isEqualTo(Duration.ofSeconds(2));
        try (LockClient client = builder().build()) {
            assertThatThrownBy(() ->
                            client.lock("n").withLease(Duration.ofSeconds(12).minusNanos(1)))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("four call timeouts");
            assertThat(client.lock("n").withLease(Duration.ofSeconds(12))).isNotNull();
        }
    }

    /** However long: a refusal that names the option, not an arithmetic error. */
    @Test
    void anEnormousLeaseOrCallTimeoutIsRefused() {
        assertRefused("quorum://h?lease=999999999999999999s", Map.of(), "lease", "is longer than quorum://h allows");
        assertRefused("quorum://h?call-timeout=999999999999999999s", Map.of(), "call-timeout");
        assertThatThrownBy(() -> builder().lease(EVER).build())
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("is longer than memory allows");
        try (LockClient client = builder().build()) {
            assertThatThrownBy(() -> client.lock("n").withLease(EVER))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("is longer than memory allows");
        }
    }

    @Test
    void theLargestCallTimeoutIsRefusedToo() {
        assertThatThrownBy(() -> builder().callTimeout(EVER).build())
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("call-timeout");
    }

    @Test
    void aLockRefusesDurationsThatMakeNoSense() {
        try (LockClient client = builder().build()) {
            DistributedLock lock = client.lock("n");
            for (Duration bad : List.of(Duration.ZERO, Duration.ofNanos(-1), NEVER)) {
                assertThatThrownBy(() -> lock.withLease(bad)).isInstanceOf(IllegalArgumentException.class);
                assertThatThrownBy(() -> lock.holdAtMost(bad)).isInstanceOf(IllegalArgumentException.class);
            }
            for (Duration bad : List.of(Duration.ofNanos(-1), NEVER)) {
                assertThatThrownBy(() -> lock.tryAcquire(bad))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessageContaining("patience must not be negative");
                assertThatThrownBy(() -> lock.tryAcquireAsync(bad)).isInstanceOf(IllegalArgumentException.class);
            }
            assertThat(store.holder("n")).isEmpty();
        }
    }

    /** For ever is a patience and a longest hold like any other. */
    @Test
    void enormousPatienceAndHoldsAreTaken() throws InterruptedException {
        try (LockClient client = builder().build()) {
            DistributedLock lock = client.lock("n").holdAtMost(EVER);
            try (Lease lease = lock.tryAcquire(EVER).orElseThrow()) {
                time.advance(Duration.ofDays(1));
                assertThat(lease.isHeld()).isTrue();
            }
            Lease first = lock.acquire();
            var second = lock.tryAcquireAsync(EVER);
            time.advance(Duration.ofDays(1));
            assertThat(second).isNotDone();
            first.release();
            time.advance(Duration.ofSeconds(1));
            assertThat(second).isDone();
            second.join().orElseThrow().release();
        }
    }

    /** The store's shortest lease and its unit: raised and rounded up, never down. */
    @Test
    void aLeaseIsRaisedAndRoundedUpToWhatTheStoreKnows() {
        try (LockClient client = builder()
                .lease(Duration.ofNanos(1_000_000_001))
                .callTimeout(Duration.ofMillis(1))
                .build()) {
            assertThat(client.lease()).isEqualTo(Duration.ofMillis(1001));
        }
        try (LockClient client = builder()
                .lease(Duration.ofMillis(5))
                .callTimeout(Duration.ofMillis(1))
                .build()) {
            assertThat(client.lease()).isEqualTo(store.guarantees().shortestLease());
        }
        try (LockClient client =
                builder().lease(store.guarantees().longestLease()).build()) {
            assertThat(client.lease()).isEqualTo(store.guarantees().longestLease());
        }
    }

    // label

    @ParameterizedTest
    @ValueSource(strings = {"a", "host:1", "a/b", "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}"})
    void aLabelIsThePartOfTheOwnerThatPeopleKnow(String label) throws InterruptedException {
        try (LockClient client = builder().label(label).build();
                Lease lease = client.lock("n").acquire()) {
            assertThat(lease.isHeld()).isTrue();
            assertThat(client.holder("n").orElseThrow().owner()).startsWith(label + "~");
        }
    }

    static List<String> badLabels() {
        return List.of(" ", "a b", "a~b", "é", "a\u0000", "a\n", "\u007f", "x".repeat(97));
    }

    @ParameterizedTest
    @MethodSource("badLabels")
    void aLabelIsAtMost96PrintableCharactersWithoutSpaceAndTilde(String label) {
        assertThatThrownBy(() -> builder().label(label).build())
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("label must be at most 96 printable ASCII characters");
        assertRefused("quorum://h", Map.of("label", label), "label");
        assertThat(TestProviders.OPENED).isEmpty();
    }

    @Test
    void theLongestLabelStillMakesAnOwner() throws InterruptedException {
        try (LockClient client = builder().label("x".repeat(96)).build();
                Lease lease = client.lock("n").acquire()) {
            assertThat(lease.isHeld()).isTrue();
            assertThat(client.holder("n").orElseThrow().owner()).hasSizeLessThanOrEqualTo(Claim.LONGEST_OWNER);
        }
    }

    @Test
    void unlessToldTheLabelIsHostAndProcess() throws InterruptedException {
        try (LockClient client = builder().label("").build();
                Lease lease = client.lock("n").acquire()) {
            assertThat(lease.isHeld()).isTrue();
            assertThat(client.holder("n").orElseThrow().owner())
                    .contains(":" + ProcessHandle.current().pid() + "~");
        }
    }

    // names

    static List<String> goodNames() {
        return List.of(
                "a",
                " ",
                "a/b//c/",
                "../..",
                "{a}{b}",
                "\u0000",
                "a\u0000b",
                "a\nb",
                "'; drop table locks; --",
                "\ud83d\ude00",
                "\u202e\u05e9\u05dc\u05d5\u05dd",
                "x".repeat(512),
                "ß".repeat(256),
                "\ud83d\ude00".repeat(128));
    }

    @ParameterizedTest
    @MethodSource("goodNames")
    void anOddNameIsALockLikeAnyOther(String name) throws InterruptedException {
        try (LockClient one = builder().build();
                LockClient other = builder().build()) {
            try (Lease lease = one.lock(name).acquire()) {
                assertThat(lease.name()).isEqualTo(name);
                assertThat(lease.isHeld()).isTrue();
                assertThat(other.lock(name).tryAcquire()).isEmpty();
                assertThat(other.holder(name)).isPresent();
            }
            assertThat(other.holder(name)).isEmpty();
        }
    }

    static List<String> badNames() {
        return List.of(
                "",
                "x".repeat(513),
                "ß".repeat(256) + "x",
                "\ud83d\ude00".repeat(129),
                "\ud800",
                "a\udc00",
                "\ude00\ud83d");
    }

    @ParameterizedTest
    @MethodSource("badNames")
    void whatIsNoNameIsRefused(String name) {
        try (LockClient client = builder().build()) {
            assertThatThrownBy(() -> client.lock(name))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("name");
            assertThatThrownBy(() -> client.holder(name)).isInstanceOf(IllegalArgumentException.class);
        }
    }

    /** Case and the form of an accent make another lock. */
    @Test
    void namesAreToldApartToTheLastBit() throws InterruptedException {
        List<String> names = List.of("lock", "Lock", "LOCK", "lock ", "é", "e\u0301", "É", "ß", "ss", "a", "a\u0000");
        try (LockClient client = builder().build()) {
            List<Lease> leases = new ArrayList<>();
            for (String name : names) {
                leases.add(client.lock(name).tryAcquire().orElseThrow());
            }
            assertThat(leases).allMatch(Lease::isHeld);
            leases.forEach(Lease::close);
        }
    }

    @Test
    void nullIsRefusedWhereItIsGiven() {
        assertThatThrownBy(() -> builder().lease(null)).isInstanceOf(NullPointerException.class);
        assertThatThrownBy(() -> builder().callTimeout(null)).isInstanceOf(NullPointerException.class);
        assertThatThrownBy(() -> builder().label(null)).isInstanceOf(NullPointerException.class);
        assertThatThrownBy(() -> builder().time(null)).isInstanceOf(NullPointerException.class);
        assertThatThrownBy(() -> builder().listener(null)).isInstanceOf(NullPointerException.class);
        assertThatThrownBy(() -> LockClient.builder(null)).isInstanceOf(NullPointerException.class);
        assertThatThrownBy(() -> LockClient.connect(null)).isInstanceOf(NullPointerException.class);
    }
}
