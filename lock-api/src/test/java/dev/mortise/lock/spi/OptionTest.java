package dev.mortise.lock.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class OptionTest {
    private static final Option<Duration> LEASE = Option.duration("lease", "30s", "How long.");
    private static final Option<Integer> COUNT = Option.number("count", 3, 1, 100, "How many.");
    private static final Option<Boolean> FLAG = Option.flag("flag", true, "Whether.");
    private static final Option<String> CHOICE = Option.choice("mode", "fast", List.of("fast", "safe"), "How.");

    @ParameterizedTest
    @CsvSource({
        "1ms, PT0.001S",
        "500ms, PT0.5S",
        "30s, PT30S",
        "5m, PT5M",
        "2h, PT2H",
        "7d, PT168H",
        "007s, PT7S",
        "0ms, PT0S",
        "0d, PT0S",
        "999999999999999999s, PT277777777777777H46M39S",
        "999999999999999999ms, PT277777777777H46M39.999S",
        "106751991167300d, PT2562047788015200H"
    })
    void aDurationIsAWholeNumberAndAUnit(String text, Duration duration) {
        assertThat(LEASE.parse(text)).isEqualTo(duration);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "", " ", "30", "s", "-1s", "+1s", "1.5s", "1 s", " 1s", "1s ", "1S", "1us", "1w", "1s1s", "1m30s",
                "PT1S", "forever", "٣s", "1s\n"
            })
    void whatIsNoDurationIsRefusedWithTheOptionAnExampleAndTheText(String text) {
        assertThatThrownBy(() -> LEASE.parse(text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith("option lease must be a duration such as 500ms, 30s or 5m: ")
                .hasMessageEndingWith(Claim.printable(text));
    }

    /** Too large for a Duration is a bad value like any other, not an arithmetic error. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "999999999999999999d",
                "999999999999999999h",
                "999999999999999999m",
                "106751991167301d",
                "1000000000000000000s",
                "99999999999999999999999999999999999999ms"
            })
    void aDurationThatOverflowsIsRefusedByName(String text) {
        assertThatThrownBy(() -> LEASE.parse(text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("option lease")
                .hasMessageContaining(text);
    }

    @Property
    void everyNumberOfMillisecondsIsRead(@ForAll @LongRange(min = 0, max = 999_999_999_999_999_999L) long n) {
        assertThat(LEASE.parse(n + "ms")).isEqualTo(Duration.ofMillis(n));
    }

    @Property
    void aNumberIsReadWithinItsBoundsAndRefusedOutside(@ForAll @IntRange(min = -200, max = 300) int n) {
        if (n >= 1 && n <= 100) {
            assertThat(COUNT.parse(String.valueOf(n))).isEqualTo(n);
        } else {
            assertThatThrownBy(() -> COUNT.parse(String.valueOf(n)))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessage("option count must be 1..100: " + n);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "1 ", "1.0", "0x1", "one", "99999999999999999999", "-", "1e1"})
    void whatIsNoNumberIsRefusedWithTheOptionTheBoundsAndTheText(String text) {
        assertThatThrownBy(() -> COUNT.parse(text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("option count must be 1..100: " + text)
                .hasNoCause();
    }

    @Test
    void aFlagIsTrueOrFalseAndNothingElse() {
        assertThat(FLAG.parse("true")).isTrue();
        assertThat(FLAG.parse("false")).isFalse();
        for (String text : List.of("", "TRUE", "False", "yes", "no", "1", "0", "on", "true ")) {
            assertThatThrownBy(() -> FLAG.parse(text))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessage("option flag must be true|false: " + text);
        }
    }

    @Test
    void aChoiceIsOneOfItsWords() {
        assertThat(CHOICE.parse("safe")).isEqualTo("safe");
        for (String text : List.of("", "Safe", "fast|safe", "slow")) {
            assertThatThrownBy(() -> CHOICE.parse(text))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessage("option mode must be fast|safe: " + text);
        }
    }

    @Property
    void anyTextIsAText(@ForAll String text) {
        assertThat(Option.text("label", "", "Who.").parse(text)).isEqualTo(text);
        assertThat(Option.secret("key", "What opens.").parse(text)).isEqualTo(text);
    }

    /** Control characters of a bad value do not reach a terminal or a log. */
    @Test
    void aBadValueIsShownEscaped() {
        assertThatThrownBy(() -> CHOICE.parse("\u001b[2J\nfast\ud800é"))
                .hasMessage("option mode must be fast|safe: \\u001b[2J\\u000afast\\ud800é");
    }

    @Test
    void anOptionDescribesItself() {
        assertThat(LEASE).hasToString("lease (duration, default 30s): How long.");
        assertThat(COUNT).hasToString("count (1..100, default 3): How many.");
        assertThat(FLAG).hasToString("flag (true|false, default true): Whether.");
        assertThat(CHOICE).hasToString("mode (fast|safe, default fast): How.");
        assertThat(Option.text("label", "", "Who.")).hasToString("label (text): Who.");
        assertThat(Option.secret("key", "What opens.")).hasToString("key (secret): What opens.");
        assertThat(COUNT.name()).isEqualTo("count");
        assertThat(COUNT.type()).isEqualTo("1..100");
        assertThat(COUNT.fallback()).isEqualTo("3");
        assertThat(COUNT.sentence()).isEqualTo("How many.");
    }

    @Test
    void aUriGivesTheValueGivenOrElseTheDefault() {
        StoreUri uri = StoreUri.parse("quorum://host?count=7", Map.of("mode", "safe"));
        assertThat(uri.get(COUNT)).isEqualTo(7);
        assertThat(uri.get(CHOICE)).isEqualTo("safe");
        assertThat(uri.get(FLAG)).isTrue();
        assertThat(uri.get(LEASE)).isEqualTo(Duration.ofSeconds(30));
    }
}
