package dev.mortise.lock.etcd;

import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;

/**
 * What a lock's name is called in the store: {@code <prefix>//<name>/<owner>}, one key for each who holds it or waits for it.
 * No name begins with another's, because a slash ends it and none is left in it; nor does a prefix reach into another's names,
 * because none has two slashes in it.
 */
final class Keys {
    /** What stands before everything that Mortise keeps, if nothing else is asked for. */
    static final String PREFIX = "mortise";

    /** What each value begins with: the version of this layout. */
    private static final String FORMAT = "1:";

    private static final Pattern PREFIXES = Pattern.compile("[A-Za-z0-9._:/-]{1,64}");

    private final String shown;
    private final String start;

    private Keys(String shown, String start) {
        this.shown = shown;
        this.start = start;
    }

    static Keys of(String prefix, String name) {
        String encoded = encode(name);
        return new Keys(encoded, prefix + "//" + encoded + "/");
    }

    /**
     * Checks the option {@code prefix}.
     *
     * @throws IllegalArgumentException if it could be mistaken for another part of a key
     */
    static String requirePrefix(String prefix) {
        if (!PREFIXES.matcher(prefix).matches() || prefix.endsWith("/") || prefix.contains("//")) {
            throw new IllegalArgumentException(
                    "option prefix must be 1 to 64 letters, digits and . _ : / - , without // and no / at the end: "
                            + encode(prefix));
        }
        return prefix;
    }

    /**
     * The name in printable ASCII, without collisions: space, percent sign, slash, and every byte of UTF-8 beyond printable
     * ASCII become {@code %XX}.
     */
    private static String encode(String name) {
        StringBuilder out = new StringBuilder(name.length());
        for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
            if (b > ' ' && b < 0x7f && b != '%' && b != '/') {
                out.append((char) b);
            } else {
                out.append('%').append(hex(b >> 4)).append(hex(b));
            }
        }
        return out.toString();
    }

    private static char hex(int digit) {
        return "0123456789ABCDEF".charAt(digit & 0xf);
    }

    /** The first key that an owner can have here. */
    String start() {
        return start;
    }

    /** The first key after all that owners can have here: what comes after the slash. */
    String end() {
        return start.substring(0, start.length() - 1) + '0';
    }

    String of(String owner) {
        return start + owner;
    }

    /** The owner whose key it is. */
    String owner(String key) {
        return key.substring(start.length());
    }

    /** What stands in an owner's key. */
    static String value(long seconds) {
        return FORMAT + seconds;
    }

    /**
     * The lease that a value tells, in seconds.
     *
     * @throws Trouble if it is of another format
     */
    static long seconds(String value) throws Trouble {
        if (value.startsWith(FORMAT) && value.substring(FORMAT.length()).matches("\\d{1,10}")) {
            return Long.parseLong(value.substring(FORMAT.length()));
        }
        throw new Trouble(
                "what is stored for this name is not of format 1, the only one that this client knows: "
                        + dev.mortise.lock.spi.Claim.printable(
                                value.length() > 20 ? value.substring(0, 20) + "..." : value),
                "let all users of this store have the same version of Mortise, or choose another prefix",
                false,
                null);
    }

    /** The name, for messages. */
    @Override
    public String toString() {
        return shown;
    }
}
