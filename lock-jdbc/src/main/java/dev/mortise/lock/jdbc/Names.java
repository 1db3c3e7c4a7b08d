package dev.mortise.lock.jdbc;

import java.nio.charset.StandardCharsets;

/** How names are written into a column of a table. */
final class Names {
    private Names() {}

    /**
     * The name in printable ASCII, without collisions: a space, a percent sign and every byte of UTF-8 beyond printable
     * ASCII become {@code %XX}. So no database normalizes it, cuts it at a NUL, pads it or drops a space at its end;
     * the column must only be told to keep upper and lower case apart.
     */
    static String encode(String name) {
        StringBuilder out = new StringBuilder(name.length());
        for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
            if (b > ' ' && b < 0x7f && b != '%') {
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
}
