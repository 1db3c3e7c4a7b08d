package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TicketTest {
    private static final String ALPHABET =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=.+/ \u0000é\ud800";
    private static final Ticket TICKET = new Ticket("invoice-42", "host:1~0123abcd", 42, Duration.ofSeconds(30));

    @Provide
    Arbitrary<Ticket> tickets() {
        Arbitrary<String> names = Arbitraries.strings()
                .ofMinLength(1)
                .ofMaxLength(200)
                .filter(s -> StandardCharsets.UTF_8.newEncoder().canEncode(s)
                        && s.getBytes(StandardCharsets.UTF_8).length <= 512);
        Arbitrary<String> owners =
                Arbitraries.strings().withCharRange('!', '~').ofMinLength(1).ofMaxLength(128);
        Arbitrary<Long> tokens = Arbitraries.longs().between(1, Long.MAX_VALUE);
        Arbitrary<Duration> leases =
                Arbitraries.longs().between(1, Long.MAX_VALUE).map(Duration::ofMillis);
        return Combinators.combine(names, owners, tokens, leases).as(Ticket::new);
    }

    @Property
    void aTicketRoundTrips(@ForAll("tickets") Ticket ticket) {
        assertThat(Ticket.parse(ticket.toString())).isEqualTo(ticket);
    }

    @ParameterizedTest
    @ValueSource(strings = {"a", "\u0000", "/", "{}", " ", "\ud83d\ude00", "\u202e\u05d0", "é", "e\u0301", "\uffff"})
    void anOddNameRoundTrips(String name) {
        Ticket ticket = new Ticket(name, "o", 1, Duration.ofMillis(1));
        assertThat(Ticket.parse(ticket.toString())).isEqualTo(ticket);
    }

    @ParameterizedTest
    @ValueSource(strings = {"x", "ß", "\ud83d\ude00"})
    void theLongestNameAndOwnerRoundTrip(String character) {
        int bytes = character.getBytes(StandardCharsets.UTF_8).length;
        Ticket ticket = new Ticket(
                character.repeat(512 / bytes), "o".repeat(128), Long.MAX_VALUE, Duration.ofMillis(Long.MAX_VALUE));
        assertThat(Ticket.parse(ticket.toString())).isEqualTo(ticket);
    }

    /** It can be a part of a URL, an argument of a command or a variable of an environment as it is. */
    @Property
    void aTicketIsUrlSafe(@ForAll("tickets") Ticket ticket) {
        assertThat(ticket.toString()).matches("m1\\.[A-Za-z0-9_-]+");
    }

    /** One character damaged: refused, or another ticket, of which no store knows. Never this one, never another error. */
    @Property(tries = 20)
    void aDamagedCharacterIsRefusedOrGivesAnotherTicket(@ForAll("tickets") Ticket ticket) {
        String text = ticket.toString();
        for (int i = 0; i < text.length(); i++) {
            for (int c = 0; c < ALPHABET.length(); c++) {
                if (text.charAt(i) != ALPHABET.charAt(c)) {
                    assertRefusedOrOther(text.substring(0, i) + ALPHABET.charAt(c) + text.substring(i + 1), ticket);
                }
            }
        }
    }

    /** The same for every bit and byte of what is inside. */
    @Property(tries = 20)
    void aDamagedByteIsRefusedOrGivesAnotherTicket(@ForAll("tickets") Ticket ticket) {
        byte[] bytes = Base64.getUrlDecoder().decode(ticket.toString().substring(3));
        for (int i = 0; i < bytes.length; i++) {
            for (int flip = 1; flip < 256; flip = flip < 128 ? flip * 2 : flip + 127) {
                byte[] damaged = bytes.clone();
                damaged[i] ^= (byte) flip;
                assertRefusedOrOther(
                        "m1." + Base64.getUrlEncoder().withoutPadding().encodeToString(damaged), ticket);
            }
        }
    }

    private static void assertRefusedOrOther(String text, Ticket ticket) {
        Ticket other;
        try {
            other = Ticket.parse(text);
        } catch (IllegalArgumentException e) {
            assertThat(e).hasMessageStartingWith("ticket is ");
            return;
        }
        assertThat(other).isNotEqualTo(ticket);
        assertThat(other.toString()).isEqualTo(text);
    }

    @Test
    void aTicketThatWasCutIsRefused() {
        String text = TICKET.toString();
        for (int end = 0; end < text.length(); end++) {
            String cut = text.substring(0, end);
            assertThatThrownBy(() -> Ticket.parse(cut)).isInstanceOf(IllegalArgumentException.class);
        }
        for (int start = 1; start < text.length(); start++) {
            String cut = text.substring(start);
            assertThatThrownBy(() -> Ticket.parse(cut)).isInstanceOf(IllegalArgumentException.class);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"A", "AA", "AAAA", "=", "==", " ", "\n", "&x=y", "."})
    void aTicketWithSomethingBehindItIsRefused(String more) {
        assertThatThrownBy(() -> Ticket.parse(TICKET + more))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("ticket is damaged");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "m", "m1", "m2.", "m0.", "M1.", " m1.", "redis://host", "n1.AAAA"})
    void aTicketOfAnotherVersionIsRefusedWithTheOneKnown(String start) {
        assertThatThrownBy(() -> Ticket.parse(start + TICKET.toString().substring(3)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("version")
                .hasMessageContaining("m1.");
    }

    @Property
    void anyTextIsATicketOrRefused(@ForAll String text) {
        assertRefusedOrOther(text, TICKET);
        assertRefusedOrOther("m1." + text, TICKET);
    }

    @Property
    void anyBytesAreATicketOrRefused(@ForAll byte[] bytes) {
        assertRefusedOrOther("m1." + Base64.getUrlEncoder().withoutPadding().encodeToString(bytes), TICKET);
    }

    /** A ticket that no lock can have given out: no name, no owner, no token, no lease. */
    @Test
    void aTicketOfNothingIsRefused() {
        for (Ticket bad : new Ticket[] {
            new Ticket("", "o", 1, Duration.ofSeconds(1)),
            new Ticket("x".repeat(513), "o", 1, Duration.ofSeconds(1)),
            new Ticket("n", "", 1, Duration.ofSeconds(1)),
            new Ticket("n", "o".repeat(129), 1, Duration.ofSeconds(1)),
            new Ticket("n", "not ascii \u00e9", 1, Duration.ofSeconds(1)),
            new Ticket("n", "o", 0, Duration.ofSeconds(1)),
            new Ticket("n", "o", -1, Duration.ofSeconds(1)),
            new Ticket("n", "o", 1, Duration.ZERO),
            new Ticket("n", "o", 1, Duration.ofMillis(-1))
        }) {
            assertThatThrownBy(() -> Ticket.parse(bad.toString()))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessage("ticket is damaged");
        }
    }

    /** Names that UTF-8 cannot hold are not made into other names. */
    @Test
    void bytesThatAreNotUtf8AreRefused() {
        byte[] bytes = {0, 1, (byte) 0xff, 0, 1, 'o', 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1};
        assertThatThrownBy(() -> Ticket.parse(
                        "m1." + Base64.getUrlEncoder().withoutPadding().encodeToString(bytes)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("ticket is damaged");
    }
}
