package dev.mortise.lock.zookeeper;

import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * What a lock and a claim are called in ZooKeeper. A lock is a container below the root, a claim an ephemeral sequential node in
 * it: {@code /mortise/NAME/OWNER:0000000042}.
 */
final class Paths {
    /** The node below which everything is, in the chroot. */
    static final String ROOT = "/mortise";

    /** The version of the layout, in the data of the root. */
    static final String FORMAT = "mortise 1";

    /** An owner, and the number that the server has given out. Negative ones come after an overflow, and are never used. */
    private static final Pattern NODE = Pattern.compile("(.{1,400}):(\\d{10})");

    private final String root;

    Paths(String chroot) {
        root = chroot + ROOT;
    }

    String root() {
        return root;
    }

    String container(String name) {
        return root + "/" + encode(name);
    }

    /** What the server adds the number to. */
    String prefix(String name, String owner) {
        return container(name) + "/" + node(owner);
    }

    /** The same without what is before it. */
    static String node(String owner) {
        return encode(owner) + ":";
    }

    /**
     * In printable ASCII, without collisions: slash, percent sign, control characters, space and every byte of UTF-8 beyond ASCII
     * become {@code %XX}, and so does a dot at the beginning, because {@code .} and {@code ..} are no names of nodes.
     */
    static String encode(String text) {
        StringBuilder out = new StringBuilder(text.length());
        for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
            if (b > ' ' && b < 0x7f && b != '%' && b != '/' && !(b == '.' && out.length() == 0)) {
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

    /** The owner as it is written in the name of a node; null if it is none of a claim. */
    static @Nullable String owner(String node) {
        Matcher matcher = NODE.matcher(node);
        return matcher.matches()
                ? matcher.group(1).replace("%2E", ".").replace("%2F", "/").replace("%25", "%")
                : null;
    }

    /** The number in the name of a node; -1 if it is none of a claim. */
    static long number(String node) {
        Matcher matcher = NODE.matcher(node);
        return matcher.matches() ? Long.parseLong(matcher.group(2)) : -1;
    }

    static String last(String path) {
        return path.substring(path.lastIndexOf('/') + 1);
    }

    /** The one that comes just before this number; null if none does. Nodes that are none of a claim do not count. */
    static @Nullable String before(long number, Collection<String> nodes) {
        String found = null;
        long most = -1;
        for (String node : nodes) {
            long each = number(node);
            if (each < number && each > most) {
                most = each;
                found = node;
            }
        }
        return found;
    }

    /** The first of all claims; null if there is none. */
    static @Nullable String first(Collection<String> nodes) {
        String found = null;
        long least = Long.MAX_VALUE;
        for (String node : nodes) {
            long each = number(node);
            if (each >= 0 && each < least) {
                least = each;
                found = node;
            }
        }
        return found;
    }
}
