package dev.mortise.lock.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.StringLength;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class ClaimTest {
    private static final Duration LEASE = Duration.ofSeconds(30);

    static List<String> goodNames() {
        return List.of(
                "a",
                " ",
                "invoice-42",
                "a/b//c/",
                "/",
                "..",
                "{a}{b}",
                "with \u0000 inside",
                "\u0000",
                "line\nbreak\ttab",
                "100% 'quoted' \"twice\" `--;",
                "größe",
                "\ud83d\ude00",
                "\u05e9\u05dc\u05d5\u05dd \u202e right to left",
                "e\u0301 is not \u00e9",
                "\uffff\ufffe",
                "x".repeat(512),
                "ß".repeat(256),
                "\u20ac".repeat(170) + "ab",
                "\ud83d\ude00".repeat(128));
    }

    @ParameterizedTest
    @MethodSource("goodNames")
    void anyOtherTextOfAtMost512BytesIsAName(String name) {
        assertThat(Claim.requireName(name)).isSameAs(name);
        assertThat(Claim.of(name, "o", LEASE).name()).isSameAs(name);
    }

    @Test
    void theEmptyNameIsRefused() {
        assertThatThrownBy(() -> Claim.requireName(""))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("name must not be empty");
    }

    static List<String> longNames() {
        return List.of(
                "x".repeat(513), "ß".repeat(256) + "x", "\ud83d\ude00".repeat(129), "x\ud83d\ude00".repeat(1 << 20));
    }

    /** However long it is, the message stays short. */
    @ParameterizedTest
    @MethodSource("longNames")
    void aNameOfMoreThan512BytesIsRefusedWithItsLength(String name) {
        assertThatThrownBy(() -> Claim.requireName(name))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(name.getBytes(StandardCharsets.UTF_8).length + " bytes")
                .hasMessageContaining("512")
                .message()
                .hasSizeLessThan(400);
    }

    static List<String> unpaired() {
        return List.of(
                "\ud800",
                "\udfff",
                "a\ud83d",
                "\ude00a",
                "\ude00\ud83d",
                "a\ud83db",
                "\ud83d\ud83d\ude00",
                "x".repeat(1 << 20) + "\ud800");
    }

    @ParameterizedTest
    @MethodSource("unpaired")
    void aNameWithAnUnpairedSurrogateIsRefusedWithTheReason(String name) {
        assertThatThrownBy(() -> Claim.requireName(name))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("unpaired surrogate")
                .message()
                .hasSizeLessThan(400)
                .matches("[^\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}]+");
    }

    @Provide
    Arbitrary<String> anyText() {
        return Arbitraries.strings().ofMaxLength(600);
    }

    /** A name is what UTF-8 can hold and give back, in 1 to 512 bytes; a refusal is printable. */
    @Property
    void aNameIsWhatSurvivesUtf8In512Bytes(@ForAll("anyText") String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        boolean good =
                bytes.length >= 1 && bytes.length <= 512 && new String(bytes, StandardCharsets.UTF_8).equals(text);
        if (good) {
            assertThat(Claim.requireName(text)).isSameAs(text);
        } else {
            assertThatThrownBy(() -> Claim.requireName(text))
                    .isInstanceOf(IllegalArgumentException.class)
                    .message()
                    .matches("[^\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}]+");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "a b", "a\u0000", "a\u007f", "é", "\n"})
    void anOwnerIsPrintableAsciiWithoutSpace(String owner) {
        assertThatThrownBy(() -> Claim.of("n", owner, LEASE))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("owner must be 1 to 128 printable ASCII characters");
    }

    @Test
    void anOwnerHasAtMost128Characters() {
        assertThat(Claim.of("n", "o".repeat(128), LEASE).owner()).hasSize(128);
        assertThatThrownBy(() -> Claim.of("n", "o".repeat(129), LEASE)).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> Claim.of("n", "o".repeat(1 << 20), LEASE))
                .isInstanceOf(IllegalArgumentException.class)
                .message()
                .hasSizeLessThan(400);
    }

    @Test
    void aLeaseIsAtLeastOneMillisecond() {
        assertThat(Claim.of("n", "o", Duration.ofMillis(1)).lease()).isEqualTo(Duration.ofMillis(1));
        assertThat(Claim.of("n", "o", Duration.ofSeconds(Long.MAX_VALUE)).lease())
                .isEqualTo(Duration.ofSeconds(Long.MAX_VALUE));
        for (Duration bad : List.of(
                Duration.ZERO, Duration.ofNanos(999_999), Duration.ofMillis(-1), Duration.ofSeconds(Long.MIN_VALUE))) {
            assertThatThrownBy(() -> Claim.of("n", "o", bad))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("lease must be at least 1 ms")
                    .hasMessageContaining(bad.toString());
        }
    }

    /** The lease is no part of a claim's identity; case is. */
    @Property
    void claimsAreEqualWhenNameAndOwnerAre(
            @ForAll @StringLength(min = 1, max = 1) String a, @ForAll @StringLength(min = 1, max = 1) String b) {
        if (Character.isSurrogate(a.charAt(0)) || Character.isSurrogate(b.charAt(0))) {
            return;
        }
        Claim first = Claim.of(a, "o", LEASE);
        Claim second = Claim.of(b, "o", LEASE.multipliedBy(2));
        assertThat(first.equals(second)).isEqualTo(a.equals(b));
        assertThat(first).isNotEqualTo(Claim.of(a, "p", LEASE)).isNotEqualTo(a);
        if (a.equals(b)) {
            assertThat(first).hasSameHashCodeAs(second);
        }
        assertThat(Claim.of("n" + a.toLowerCase(java.util.Locale.ROOT), "o", LEASE)
                        .equals(Claim.of("n" + a.toUpperCase(java.util.Locale.ROOT), "o", LEASE)))
                .isEqualTo(a.toLowerCase(java.util.Locale.ROOT).equals(a.toUpperCase(java.util.Locale.ROOT)));
    }

    @Test
    void aClaimIsShownWithoutControlCharacters() {
        assertThat(Claim.of("a\u0000\u001bé", "me~1", LEASE)).hasToString("a\\u0000\\u001bé by me~1");
    }

    @Test
    void aGrantIsOfItsClaimAndItsRenewalKeepsTheToken() {
        Claim claim = Claim.of("n", "o", LEASE);
        Grant grant = claim.granted(Duration.ofSeconds(20), 7, 100);
        assertThat(grant.claim()).isSameAs(claim);
        assertThat(grant.name()).isEqualTo("n");
        assertThat(grant.owner()).isEqualTo("o");
        assertThat(grant.lease()).isEqualTo(Duration.ofSeconds(20));
        assertThat(grant.token()).isEqualTo(7);
        assertThat(grant.since()).isEqualTo(100);

        Grant same = grant.renewed(200);
        assertThat(same.claim()).isSameAs(claim);
        assertThat(same.token()).isEqualTo(7);
        assertThat(same.since()).isEqualTo(200);
        assertThat(same.lease()).isEqualTo(Duration.ofSeconds(20));

        Grant other = grant.renewed(Duration.ofSeconds(5), 300);
        assertThat(other.token()).isEqualTo(7);
        assertThat(other.since()).isEqualTo(300);
        assertThat(other.lease()).isEqualTo(Duration.ofSeconds(5));
        assertThat(grant.since()).isEqualTo(100);
    }

    @ParameterizedTest
    @ValueSource(longs = {0, -1, Long.MIN_VALUE})
    void aTokenIsPositive(long token) {
        assertThatThrownBy(() -> Claim.of("n", "o", LEASE).granted(LEASE, token, 0))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("token must be positive");
    }

    /** A store may grant less than was asked for, down to nothing, but not less than that. */
    @Test
    void aGrantsLeaseIsNotNegative() {
        Claim claim = Claim.of("n", "o", LEASE);
        assertThat(claim.granted(Duration.ZERO, 1, 0).lease()).isZero();
        assertThatThrownBy(() -> claim.granted(Duration.ofNanos(-1), 1, 0))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("lease must not be negative");
    }
}
