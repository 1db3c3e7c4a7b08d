package dev.mortise.lock.redis;

import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import redis.clients.jedis.util.JedisClusterCRC16;

/**
 * What a lock's name is called in the store. All keys of a name have the same part in braces, so a Cluster keeps them on
 * one server.
 */
final class Keys {
    /** What stands before everything that Mortise keeps, if nothing else is asked for. */
    static final String PREFIX = "mortise";

    /** The parts of a Cluster. */
    static final int SLOTS = 16384;

    private static final Pattern PREFIXES = Pattern.compile("[A-Za-z0-9._:/-]{1,64}");

    private final String shown;
    private final String stem;

    private Keys(String shown, String stem) {
        this.shown = shown;
        this.stem = stem;
    }

    static Keys of(String prefix, String name) {
        String encoded = encode(name);
        return new Keys(encoded, prefix + ":{" + encoded + "}:");
    }

    /**
     * Checks the option {@code prefix}.
     *
     * @throws IllegalArgumentException if it could be mistaken for another part of a key
     */
    static String requirePrefix(String prefix) {
        if (!PREFIXES.matcher(prefix).matches()) {
            throw new IllegalArgumentException(
                    "option prefix must be 1 to 64 letters, digits and . _ : / - : " + encode(prefix));
        }
        return prefix;
    }

    /**
     * The name in printable ASCII, without collisions: space, percent sign, braces, and every byte of UTF-8 beyond
     * printable ASCII become {@code %XX}.
     */
    private static String encode(String name) {
        StringBuilder out = new StringBuilder(name.length());
        for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
            if (b > ' ' && b < 0x7f && b != '%' && b != '{' && b != '}') {
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

    /** {@code format:lease:token:owner} of the live claim; ends with it. */
    String lock() {
        return stem + "lock";
    }

    /** {@code format:token} of the last grant; ends a day after it. */
    String fence() {
        return stem + "fence";
    }

    /** There for some minutes after this owner was released when it had nothing. */
    String released(String owner) {
        return stem + "released:" + owner;
    }

    /** Where releases are told of. */
    String channel() {
        return stem + "free";
    }

    /** Which part of a Cluster keeps it. */
    int slot() {
        return JedisClusterCRC16.getSlot(stem);
    }

    /** The name, for messages. */
    @Override
    public String toString() {
        return shown;
    }
}
