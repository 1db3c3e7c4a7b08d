package dev.mortise.lock.spi;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * One option of a store: its name, its type, its default and one sentence. Immutable.
 *
 * <p>Options have the same names everywhere: {@code ?k=v} in a URI, the map of {@code LockClient.connect}, and
 * {@code -o k=v} on the command line.
 */
public final class Option<T> {
    private static final Pattern DURATION = Pattern.compile("(\\d{1,18})(ms|s|m|h|d)");

    private interface Parser<T> {
        @Nullable
        T parse(String text);
    }

    private final String name;
    private final String type;
    private final String fallback;
    private final String sentence;
    private final boolean secret;
    private final Parser<T> parser;

    private Option(String name, String type, String fallback, String sentence, boolean secret, Parser<T> parser) {
        this.name = Objects.requireNonNull(name, "name");
        this.type = type;
        this.fallback = Objects.requireNonNull(fallback, "fallback");
        this.sentence = Objects.requireNonNull(sentence, "sentence");
        this.secret = secret;
        this.parser = parser;
    }

    /** Any text. */
    public static Option<String> text(String name, String fallback, String sentence) {
        return new Option<>(name, "text", fallback, sentence, false, text -> text);
    }

    /** Any text, never shown in a message. */
    public static Option<String> secret(String name, String sentence) {
        return new Option<>(name, "secret", "", sentence, true, text -> text);
    }

    /** One of these words. */
    public static Option<String> choice(String name, String fallback, List<String> words, String sentence) {
        return new Option<>(
                name, String.join("|", words), fallback, sentence, false, text -> words.contains(text) ? text : null);
    }

    /** {@code true} or {@code false}. */
    public static Option<Boolean> flag(String name, boolean fallback, String sentence) {
        return new Option<>(
                name,
                "true|false",
                String.valueOf(fallback),
                sentence,
                false,
                text -> text.equals("true") ? Boolean.TRUE : text.equals("false") ? Boolean.FALSE : null);
    }

    /** A whole number within these bounds. */
    public static Option<Integer> number(String name, int fallback, int least, int most, String sentence) {
        return new Option<>(name, least + ".." + most, String.valueOf(fallback), sentence, false, text -> {
            try {
                int value = Integer.parseInt(text);
                return value >= least && value <= most ? value : null;
            } catch (NumberFormatException e) {
                return null;
            }
        });
    }

    /** A length of time: a whole number and {@code ms}, {@code s}, {@code m}, {@code h} or {@code d}. */
    public static Option<Duration> duration(String name, String fallback, String sentence) {
        return new Option<>(name, "duration", fallback, sentence, false, Option::duration);
    }

    private static @Nullable Duration duration(String text) {
        Matcher m = DURATION.matcher(text);
        if (!m.matches()) {
            return null;
        }
        try {
            long n = Long.parseLong(m.group(1));
            return switch (m.group(2)) {
                case "ms" -> Duration.ofMillis(n);
                case "s" -> Duration.ofSeconds(n);
                case "m" -> Duration.ofMinutes(n);
                case "h" -> Duration.ofHours(n);
                default -> Duration.ofDays(n);
            };
        } catch (ArithmeticException e) {
            return null;
        }
    }

    public String name() {
        return name;
    }

    /** The type, for people: {@code text}, {@code 1..100}, {@code true|false}, … */
    public String type() {
        return type;
    }

    /** The default as one would write it; empty for none. */
    public String fallback() {
        return fallback;
    }

    /** What it does, in one sentence. */
    public String sentence() {
        return sentence;
    }

    /**
     * The value that this text stands for.
     *
     * @throws IllegalArgumentException if it stands for none; names the option, the type and, unless it is a secret,
     *     the text
     */
    public T parse(String text) {
        T value = parser.parse(text);
        if (value == null) {
            throw new IllegalArgumentException("option " + name + " must be "
                    + (type.equals("duration") ? "a duration such as 500ms, 30s or 5m" : type)
                    + (secret ? "" : ": " + Claim.printable(text)));
        }
        return value;
    }

    @Override
    public String toString() {
        return name + " (" + type + (fallback.isEmpty() ? "" : ", default " + fallback) + "): " + sentence;
    }
}
