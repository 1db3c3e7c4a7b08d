package dev.mortise.lock.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class StoreUriTest {
    /** The characters with a meaning in a URI. */
    private static final String SPECIAL = "%@:/?#&=,";

    private static final Pattern HEX_PAIR = Pattern.compile("%[0-9A-Fa-f]{2}");
    private static final Pattern ADVICE = Pattern.compile("the character (.) must be written %([0-9A-F]{2})");

    private static StoreUri parse(String uri) {
        return StoreUri.parse(uri, Map.of());
    }

    /** All but letters and digits encoded. */
    private static String encodeAll(String text, boolean upper) {
        StringBuilder out = new StringBuilder();
        for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
            if ((b >= '0' && b <= '9') || (b >= 'A' && b <= 'Z') || (b >= 'a' && b <= 'z')) {
                out.append((char) b);
            } else {
                out.append(String.format(upper ? "%%%02X" : "%%%02x", b & 0xff));
            }
        }
        return out.toString();
    }

    /** Only those characters encoded that have a meaning. */
    private static String encodeSpecial(String text) {
        StringBuilder out = new StringBuilder();
        text.codePoints()
                .forEach(c -> out.append(SPECIAL.indexOf(c) >= 0 ? String.format("%%%02X", c) : Character.toString(c)));
        return out.toString();
    }

    static List<String> printable() {
        return IntStream.rangeClosed(0x20, 0x7e).mapToObj(Character::toString).toList();
    }

    @Provide
    Arbitrary<String> ascii() {
        return Arbitraries.strings().withCharRange(' ', '~').ofMinLength(1).ofMaxLength(40);
    }

    /** Any text but unpaired surrogates, and full of the characters that hurt. */
    @Provide
    Arbitrary<String> texts() {
        Arbitrary<Integer> any = Arbitraries.integers()
                .between(0, Character.MAX_CODE_POINT)
                .filter(c -> c < Character.MIN_SURROGATE || c > Character.MAX_SURROGATE);
        Arbitrary<Integer> special = Arbitraries.of(SPECIAL.chars().boxed().toList());
        Arbitrary<Integer> plain = Arbitraries.integers().between(' ', '~');
        return Arbitraries.frequencyOf(Tuple.of(2, any), Tuple.of(2, special), Tuple.of(3, plain))
                .list()
                .ofMinSize(1)
                .ofMaxSize(40)
                .map(list -> {
                    StringBuilder out = new StringBuilder();
                    list.forEach(out::appendCodePoint);
                    return out.toString();
                });
    }

    private static void assertRoundTrip(String text) {
        for (String encoded : List.of(encodeAll(text, true), encodeAll(text, false), encodeSpecial(text))) {
            StoreUri uri = parse("redis://" + encoded + ":" + encoded + "@host:6379/" + encoded + "?" + encoded + "="
                    + encoded + "&z" + encoded + "=" + encoded);
            assertThat(uri.user()).contains(text);
            assertThat(uri.password()).contains(text);
            assertThat(uri.path()).isEqualTo("/" + text);
            assertThat(uri.hosts()).extracting(Object::toString).containsExactly("host:6379");
            if (!text.equals("user") && !text.equals("password")) {
                assertThat(uri.options()).containsOnly(Map.entry(text, text), Map.entry("z" + text, text));
            }
            assertThat(parse("redis://host?user=" + encoded + "&password=" + encoded))
                    .satisfies(it -> assertThat(it.user()).contains(text))
                    .satisfies(it -> assertThat(it.password()).contains(text))
                    .satisfies(it -> assertThat(it.options()).isEmpty());
        }
    }

    @ParameterizedTest
    @MethodSource("printable")
    void everyPrintableCharacterRoundTripsThroughEveryPart(String character) {
        assertRoundTrip(character);
        assertRoundTrip("a" + character);
        assertRoundTrip(character + "41");
    }

    @Property
    void everyPrintableTextRoundTripsThroughEveryPart(@ForAll("ascii") String text) {
        assertRoundTrip(text);
    }

    @Property
    void everyUnicodeTextRoundTripsThroughEveryPart(@ForAll("texts") String text) {
        assertRoundTrip(text);
    }

    /** Given beside the URI, nothing needs an encoding. */
    @Property
    void optionsBesideTheUriAreTakenAsTheyAre(@ForAll("texts") String text) {
        StoreUri uri = StoreUri.parse("redis://host", Map.of("user", text, "password", text, "x" + text, text));
        assertThat(uri.user()).contains(text);
        assertThat(uri.password()).contains(text);
        assertThat(uri.options()).containsOnly(Map.entry("x" + text, text));
        assertThat(uri).hasToString("redis://host");
    }

    /** All that is ever said of a URI whose password is not encoded. That it is a fixed set shows that it tells nothing. */
    private static final Set<String> SAYINGS = sayings();

    private static Set<String> sayings() {
        Set<String> sayings = new TreeSet<>();
        for (String password : List.of("#", ":", "@", "/", "%", "%FF")) {
            IllegalArgumentException e = catchThrowableOfType(
                    IllegalArgumentException.class, () -> parse("redis://u:" + password + "@host:6379/0"));
            sayings.add(e.getMessage());
        }
        return sayings;
    }

    private static void assertReadOrRefusedWithAdvice(String password) {
        String text = "redis://joe:" + password + "@host:6379/0?tls=true";
        StoreUri uri;
        try {
            uri = parse(text);
        } catch (IllegalArgumentException e) {
            assertThat(e).hasNoCause();
            assertThat(e.getSuppressed()).isEmpty();
            assertThat(SAYINGS).contains(e.getMessage());
            assertThat(ADVICE.matcher(e.getMessage()).results())
                    .as("characters to encode in: " + e.getMessage())
                    .isNotEmpty()
                    .allSatisfy(m -> assertThat(m.group(2))
                            .isEqualTo(String.format("%02X", (int) m.group(1).charAt(0))))
                    .anySatisfy(m -> assertThat(password).contains(m.group(1)));
            return;
        }
        assertThat(uri).hasToString("redis://host:6379/0");
        assertThat(uri.user()).contains("joe");
        assertThat(uri.options()).containsOnly(Map.entry("tls", "true"));
        if (!HEX_PAIR.matcher(password).find()) {
            assertThat(uri.password()).contains(password);
        }
    }

    @ParameterizedTest
    @MethodSource("printable")
    void anUnencodedCharacterOfAPasswordIsReadOrRefusedWithWhatToEncode(String character) {
        assertReadOrRefusedWithAdvice(character);
        assertReadOrRefusedWithAdvice("qzxk" + character);
        assertReadOrRefusedWithAdvice(character + "qzxk");
        assertReadOrRefusedWithAdvice("qzxk" + character + "vwyj");
        assertReadOrRefusedWithAdvice("qzxk" + character + "@vwyj" + character);
    }

    @Property
    void anUnencodedPasswordIsReadOrRefusedWithWhatToEncode(@ForAll("ascii") String password) {
        assertReadOrRefusedWithAdvice(password);
    }

    @Property
    void anUnencodedUnicodePasswordIsReadOrRefusedWithWhatToEncode(@ForAll("texts") String password) {
        assertReadOrRefusedWithAdvice(password);
    }

    /** No part of a password of four characters or more is in any text that comes of its URI. */
    @ParameterizedTest
    @MethodSource("printable")
    void noPartOfAPasswordIsEverShown(String character) {
        String password = "Qz7Xk" + character + "Vw9Yj";
        for (String uri : List.of(
                "redis://joe:" + password + "@host:6379/0",
                "redis://joe:" + encodeAll(password, true) + "@host:6379/0",
                "redis://joe:" + password + "@host:x/0",
                "redis://joe:" + password + "@ho st/0",
                "redis://joe:" + password + "@/0?a=b&a=b",
                "redis://joe:" + password + "@host?a",
                "redis://joe:" + password.replace("@", "") + "host:6379/0",
                "redis://host:6379/0?password=" + password,
                "redis://joe:x@host:6379/0?password=" + password,
                "redis://host?password=" + password + "&password=" + password,
                "redis:/joe:" + password + "@host",
                "redis:joe:" + password + "@host",
                "jdbc:postgresql://joe:" + password + "@host/db",
                "jdbc:postgresql://host/db?user=joe&password=" + password,
                "jdbc:sqlserver://host;user=joe;password=" + password,
                "jdbc:oracle:thin:joe/" + password + "@host:1521:db",
                "jdbc:oracle:thin:joe/" + password + "@//host:1521/db")) {
            String said;
            try {
                StoreUri parsed = parse(uri);
                said = parsed + " " + parsed.hosts() + " " + parsed.without(List.of());
            } catch (IllegalArgumentException e) {
                assertThat(e).hasNoCause();
                said = e.toString();
            }
            // What stands behind a ? or & is read as an option of its own, whose name may be shown.
            String parts = uri.contains("password=") ? password.replace('&', ' ') : password;
            for (int i = 0; i + 4 <= parts.length(); i++) {
                assertThat(said).as(uri).doesNotContain(parts.substring(i, i + 4));
            }
        }
    }

    @Test
    void aPasswordWithoutAUserAndAUserWithoutAPasswordAreRead() {
        assertThat(parse("redis://:pw@h").user()).isEmpty();
        assertThat(parse("redis://:pw@h").password()).contains("pw");
        assertThat(parse("redis://me@h").user()).contains("me");
        assertThat(parse("redis://me@h").password()).isEmpty();
        assertThat(parse("redis://me:@h").password()).contains("");
        assertThat(parse("redis://@h").user()).isEmpty();
        assertThat(parse("redis://@h").password()).isEmpty();
        assertThat(parse("redis://h").user()).isEmpty();
    }

    @Test
    void aPlusIsAPlus() {
        StoreUri uri = parse("redis://a+b:c+d@h/e+f?g+h=i+j");
        assertThat(uri.user()).contains("a+b");
        assertThat(uri.password()).contains("c+d");
        assertThat(uri.path()).isEqualTo("/e+f");
        assertThat(uri.options()).containsOnly(Map.entry("g+h", "i+j"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "etcd://a|a",
                "etcd://a:1|a:1",
                "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3|10.0.0.1:2379,10.0.0.2:2379,10.0.0.3",
                "etcd://my_host,x-y.z_:65535|my_host,x-y.z_:65535",
                "etcd://[::1]|[::1]",
                "etcd://[::1]:2379,[fe80::1%25eth0]:2380,c|[::1]:2379,[fe80::1%eth0]:2380,c",
                "etcd://[::ffff:10.0.0.1]:1|[::ffff:10.0.0.1]:1",
                "etcd://u:p@a,b:2/path|a,b:2",
                "etcd://a,a|a,a",
                "ETCD://Host|Host",
                "etcd://|''",
                "etcd:///path|''",
                "etcd://?a=b|''",
            })
    void hostsAreReadInTheirOrder(String uri, String hosts) {
        assertThat(String.join(
                        ",", parse(uri).hosts().stream().map(Object::toString).toList()))
                .isEqualTo(hosts);
        assertThat(parse(uri).scheme()).isEqualTo("etcd");
    }

    @Test
    void aHostHasANameWithoutBracketsAndPerhapsAPort() {
        StoreUri.Host six = parse("etcd://[fe80::1%25eth0]:2379").hosts().get(0);
        assertThat(six.name()).isEqualTo("fe80::1%eth0");
        assertThat(six.port()).isEqualTo(OptionalInt.of(2379));
        StoreUri.Host name = parse("etcd://a_b").hosts().get(0);
        assertThat(name.name()).isEqualTo("a_b");
        assertThat(name.port()).isEmpty();
    }

    @Property
    void everyPortIsReadOrRefused(@ForAll @IntRange(min = 0, max = 70_000) int port) {
        if (port >= 1 && port <= 65_535) {
            assertThat(parse("etcd://h:" + port).hosts().get(0).port()).isEqualTo(OptionalInt.of(port));
        } else {
            assertRefused("etcd://g,h:" + port, "the port of host 2");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"0", "65536", "abc", "", "-1", "+1", "1 ", "99999999999999999999", "1x", "٣", "00000"})
    void aPortIsANumberFrom1To65535(String port) {
        assertRefused("etcd://h:" + port, "the port of host 1 is not a number from 1 to 65535");
        assertRefused("etcd://[::1]:" + port, "the port of host 1 is not a number from 1 to 65535");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "a,,b|host 2",
                ",a|host 1",
                "a,|host 2",
                ",|host 1",
                ":2379|host 1",
                "u:p@a,:1|host 2",
                "a b|host 1",
                "a,b%41|host 2",
                "größe|host 1",
                "[::1|host 1",
                "::1]|host 1",
                "[]|host 1",
                "[::1]x|host 1",
                "x[::1]|host 1",
                "[host]|host 1",
                "[::1%eth0]|host 1",
                "::1|brackets",
                "fe80::1|brackets",
                "a:1:2|brackets",
                "a;b|host 1",
            })
    void whatIsNoHostIsRefusedByItsNumber(String hosts, String part) {
        assertRefused("etcd://" + hosts, part);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "''|must start with a scheme",
                "host|must start with a scheme",
                "/locks.db|must start with a scheme",
                "://host|must start with a scheme",
                "1redis://host|must start with a scheme",
                "re dis://host|must start with a scheme",
                "réd://host|must start with a scheme",
                "redis:host|'redis:' must be followed by //",
                "redis:/host|'redis:' must be followed by //",
                "redis:|'redis:' must be followed by //",
                "jdbc:|a JDBC URL starts with jdbc:",
                "jdbc:sqlite|a JDBC URL starts with jdbc:",
                "jdbc::x|a JDBC URL starts with jdbc:",
                "jdbc://host|a JDBC URL starts with jdbc:",
                "redis://h#x|the character # must be written %23",
                "redis://h/#|the character # must be written %23",
                "redis://h?a=#|the character # must be written %23",
                "redis://h/a@b|the character @ must be written %40",
                "redis://h?a=b@c|the character @ must be written %40",
                "redis://h?a|%3D and %26",
                "redis://h?=b|%3D and %26",
                "redis://h?a=b=c|%3D and %26",
                "redis://h?a=b&|%3D and %26",
                "redis://h?&a=b|%3D and %26",
                "redis://h?a=b&&c=d|%3D and %26",
                "redis://h?a=1&a=2|option a is given twice",
                "redis://h?a=1&%61=1|option a is given twice",
                "redis://h?%0A=1&%0a=1|option \\u000a is given twice",
                "redis://u@h?user=v|user is given twice",
                "redis://u:p@h?password=p|password is given twice",
                "redis://h?user=v&user=v|user is given twice",
                "redis://h?password=v&password=v|password is given twice",
                "redis://u%zz@h|in the user, the character % must be written %25",
                "redis://u:%zz@h|in the password, the character % must be written %25",
                "redis://u:%@h|in the password, the character % must be written %25",
                "redis://u:%4@h|in the password, the character % must be written %25",
                "redis://u:%+1@h|in the password, the character % must be written %25",
                "redis://u:%４１@h|in the password, the character % must be written %25",
                "redis://h/%zz|in the path, the character % must be written %25",
                "redis://h?%zz=1|in the option's name, the character % must be written %25",
                "redis://h?a=%zz|in the option a, the character % must be written %25",
                "redis://u:%C3%28@h|the percent-encoding of the password is not UTF-8",
                "redis://%FF@h|the percent-encoding of the user is not UTF-8",
                "redis://h/%C0%80|the percent-encoding of the path is not UTF-8",
                "redis://h?a=%ED%A0%80|the percent-encoding of the option a is not UTF-8",
                "redis://h?a=%E2%82|the percent-encoding of the option a is not UTF-8",
                "redis://h?a=%C3ß|the percent-encoding of the option a is not UTF-8",
            })
    void whatCannotBeReadIsRefusedWithTheReason(String uri, String reason) {
        assertRefused(uri, reason);
    }

    /** Half a character is not turned into a question mark. */
    @ParameterizedTest
    @ValueSource(strings = {"\ud800", "%41\udc00", "a\ud83d"})
    void anUnpairedSurrogateIsRefused(String text) {
        assertRefused("redis://u:" + text + "@h", "in the password is an unpaired surrogate");
        assertRefused("redis://h/" + text, "in the path is an unpaired surrogate");
        assertRefused("redis://h?a=" + text, "in the option a is an unpaired surrogate");
    }

    private static void assertRefused(String uri, String reason) {
        assertThatThrownBy(() -> parse(uri))
                .isInstanceOf(IllegalArgumentException.class)
                .hasNoCause()
                .hasMessageStartingWith("uri cannot be read: ")
                .hasMessageContaining(reason);
    }

    @Test
    void whatIsGivenInTheUriIsNotGivenAgainBesideIt() {
        String uri = "redis://me:pw@h?a=1";
        assertThatThrownBy(() -> StoreUri.parse(uri, Map.of("user", "you")))
                .hasMessageContaining("user is given twice");
        assertThatThrownBy(() -> StoreUri.parse(uri, Map.of("password", "pw")))
                .hasMessageContaining("password is given twice");
        assertThatThrownBy(() -> StoreUri.parse(uri, Map.of("a", "1"))).hasMessageContaining("option a is given twice");
        StoreUri both = StoreUri.parse("redis://me@h?a=1", Map.of("password", "pw", "b", "2"));
        assertThat(both.user()).contains("me");
        assertThat(both.password()).contains("pw");
        assertThat(both.options()).containsOnly(Map.entry("a", "1"), Map.entry("b", "2"));
    }

    /** Whatever one types: a URI, or an IllegalArgumentException. */
    @Property
    void anyTextIsReadOrRefused(@ForAll("texts") String text, @ForAll("texts") String more) {
        for (String uri : List.of(
                text,
                "redis:" + text,
                "redis://" + text,
                "redis://h" + text,
                "redis://[" + text + "]:" + more,
                "redis://h/" + text + "?" + more,
                "jdbc:" + text,
                "jdbc:h2:" + text,
                "jdbc:h2://" + text + "@" + more)) {
            try {
                assertThat(parse(uri).verbatim()).isEqualTo(uri);
                assertThat(parse(uri).toString()).isNotEmpty();
            } catch (IllegalArgumentException e) {
                assertThat(e).hasNoCause().hasMessageStartingWith("uri cannot be read: ");
            }
        }
    }

    @Test
    void optionsCanBeTakenAwayAndNothingElseChanges() {
        StoreUri uri = parse("redis://me:pw@h:1/p?a=1&b=2&c=3");
        StoreUri fewer =
                uri.without(List.of(Option.text("a", "", ""), Option.text("c", "", ""), Option.text("d", "", "")));
        assertThat(fewer.options()).containsOnly(Map.entry("b", "2"));
        assertThat(fewer.user()).contains("me");
        assertThat(fewer.password()).contains("pw");
        assertThat(fewer.path()).isEqualTo("/p");
        assertThat(fewer.verbatim()).isEqualTo(uri.verbatim());
        assertThat(fewer).hasToString(uri.toString());
        assertThat(uri.options()).hasSize(3);
        assertThatThrownBy(() -> uri.options().clear()).isInstanceOf(UnsupportedOperationException.class);
        assertThatThrownBy(() -> uri.hosts().clear()).isInstanceOf(UnsupportedOperationException.class);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "jdbc:sqlite:/a@b/c.db?x=y|jdbc:sqlite|jdbc:sqlite:/a@b/c.db",
                "jdbc:sqlite:|jdbc:sqlite|jdbc:sqlite:",
                "jdbc:sqlite::memory:|jdbc:sqlite|jdbc:sqlite::memory:",
                "jdbc:sqlite:file:/a=b.db?cipher=x&key=secret|jdbc:sqlite|jdbc:sqlite:file:/a=b.db",
                "JDBC:SQLite:C:\\locks.db|jdbc:sqlite|JDBC:SQLite:C:\\locks.db",
                "jdbc:postgresql://u:p@h/db?password=x|jdbc:postgresql|jdbc:postgresql://h/db",
                "jdbc:postgresql://u:a/b@h/db|jdbc:postgresql|jdbc:postgresql://h/db",
                "jdbc:postgresql://u:a//b@h/db|jdbc:postgresql|jdbc:postgresql://h/db",
                "jdbc:postgresql://u:a@b@h/db|jdbc:postgresql|jdbc:postgresql://h/db",
                "jdbc:postgresql://u:a?b@h/db|jdbc:postgresql|jdbc:postgresql:...",
                "jdbc:postgresql://u:a;b@h/db|jdbc:postgresql|jdbc:postgresql:...",
                "jdbc:postgresql://u:a=b@h/db|jdbc:postgresql|jdbc:postgresql:...",
                "jdbc:postgresql://h1:1,h2:2/db?user=me&password=a@b|jdbc:postgresql|jdbc:postgresql:...",
                "jdbc:postgresql://h1:1,h2:2/db?user=me&password=ab|jdbc:postgresql|jdbc:postgresql://h1:1,h2:2/db",
                "JDBC:MariaDB://u:p@h/db|jdbc:mariadb|jdbc:mariadb://h/db",
                "jdbc:mysql://(host=h,user=u,password=secret)/db|jdbc:mysql|jdbc:mysql:...",
                "jdbc:mysql://address=(host=h)(password=secret)/db|jdbc:mysql|jdbc:mysql:...",
                "jdbc:db2://h:1/db:user=u;password=secret;|jdbc:db2|jdbc:db2:...",
                "jdbc:h2:mem:x;USER=u;PASSWORD=p|jdbc:h2|jdbc:h2:mem:x",
                "jdbc:sqlserver://h;user=u;password=p@q|jdbc:sqlserver|jdbc:sqlserver:...",
                "jdbc:oracle:thin:u/p@h|jdbc:oracle|jdbc:oracle:...",
                "jdbc:oracle:thin:u/p@//h:1521/db|jdbc:oracle|jdbc:oracle:...",
                "jdbc:oracle:thin:u/p//q@h|jdbc:oracle|jdbc:oracle:...",
            })
    void aJdbcUrlIsKeptForTheDriverAndShownWithoutSecrets(String url, String scheme, String shown) {
        StoreUri uri = parse(url);
        assertThat(uri.verbatim()).isEqualTo(url);
        assertThat(uri.scheme()).isEqualTo(scheme);
        assertThat(uri).hasToString(shown);
        assertThat(uri.hosts()).isEmpty();
        assertThat(uri.path()).isEmpty();
        assertThat(uri.options()).isEmpty();
        assertThat(uri.user()).isEmpty();
        assertThat(uri.password()).isEmpty();
    }

    @Test
    void aJdbcUrlTakesItsOptionsFromTheMapAlone() {
        Map<String, String> more = new TreeMap<>(Map.of("user", "me", "password", "pw@?;", "table", "t"));
        StoreUri uri = StoreUri.parse("jdbc:postgresql://h/db?table=u&user=you", more);
        more.clear();
        assertThat(uri.user()).contains("me");
        assertThat(uri.password()).contains("pw@?;");
        assertThat(uri.options()).containsOnly(Map.entry("table", "t"));
        assertThat(uri).hasToString("jdbc:postgresql://h/db");
    }

    /** Whatever is in it, what stands before the last @ of a JDBC URL is not shown, nor what stands behind a ? or ;. */
    @Property
    void aJdbcUrlNeverShowsAPassword(@ForAll("ascii") String password) {
        assertThat(parse("jdbc:mariadb://joe:" + password + "@host/db").toString())
                .isIn("jdbc:mariadb://host/db", "jdbc:mariadb:...");
        assertThat(parse("jdbc:mariadb://host/db?password=" + password).toString())
                .isIn("jdbc:mariadb://host/db", "jdbc:mariadb:...");
        assertThat(parse("jdbc:sqlserver://host;password=" + password).toString())
                .isIn("jdbc:sqlserver://host", "jdbc:sqlserver:...");
        assertThat(parse("jdbc:oracle:thin:joe/" + password + "@host").toString())
                .isEqualTo("jdbc:oracle:...");
        assertThat(parse("jdbc:oracle:thin:joe/" + password + "@//host/db").toString())
                .isEqualTo("jdbc:oracle:...");
    }
}
