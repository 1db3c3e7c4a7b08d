package dev.mortise.lock.cli;

import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;

/** What is printed: one line each, in which nothing steers a terminal. */
final class Text {
    private static final boolean ASCII_ONLY = !Charset.defaultCharset().equals(StandardCharsets.UTF_8);

    private Text() {}

    static void complain(String message) {
        System.err.println("mortise: " + visible(message));
    }

    /** The text with everything escaped that is not a character one sees, or that this locale cannot print. */
    static String visible(String text) {
        StringBuilder out = new StringBuilder(text.length());
        for (int i = 0; i < text.length(); ) {
            int c = text.codePointAt(i);
            i += Character.charCount(c);
            if ((c >= 0x20 && c < 0x7f) || (c > 0x7f && !ASCII_ONLY && isSeen(c))) {
                out.appendCodePoint(c);
            } else if (c == '\n' && i < text.length() && text.charAt(i) != '\n') {
                // Messages of drivers have several lines.
                out.append(' ');
            } else {
                out.append(String.format(c > 0xffff ? "\\U%08x" : "\\u%04x", c));
            }
        }
        return out.toString();
    }

    private static boolean isSeen(int c) {
        return switch (Character.getType(c)) {
            // FORMAT turns the direction of the text around it, among others.
            case Character.CONTROL,
                    Character.FORMAT,
                    Character.SURROGATE,
                    Character.UNASSIGNED,
                    Character.PRIVATE_USE,
                    Character.LINE_SEPARATOR,
                    Character.PARAGRAPH_SEPARATOR -> false;
            default -> true;
        };
    }

    /** A name or path of the user, set off from the sentence around it. */
    static String quoted(String text) {
        return "'" + visible(text) + "'";
    }
}
