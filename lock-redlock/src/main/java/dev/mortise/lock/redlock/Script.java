package dev.mortise.lock.redlock;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** The scripts that run in the servers; each is a resource with a header that says what goes in and what comes out. */
enum Script {
    PROPOSE,
    RENEW,
    RELEASE,
    MEMORY,
    JOIN,
    LOOK,
    PROBE;

    /** The whole script. */
    private final String text;

    /** By which a server that has seen it knows it. */
    private final String sha;

    Script() {
        String body = read(name().toLowerCase(java.util.Locale.ROOT));
        text = standsAlone() ? body : Head.TEXT + body;
        sha = sha(text);
    }

    /** What stands in front of each. In a class of its own, because an enum's constants come before its statics. */
    private static final class Head {
        static final String TEXT = read("common");
    }

    /** Whether it is of no matter which server process runs it. */
    private boolean standsAlone() {
        return name().equals("RELEASE");
    }

    String text() {
        return text;
    }

    String sha() {
        return sha;
    }

    private static String read(String name) {
        try (InputStream in = Script.class.getResourceAsStream(name + ".lua")) {
            if (in == null) {
                throw new IllegalStateException("the module is incomplete: " + name + ".lua is missing");
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String sha(String text) {
        try {
            return HexFormat.of()
                    .formatHex(MessageDigest.getInstance("SHA-1").digest(text.getBytes(StandardCharsets.UTF_8)));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // Every JDK has it.
        }
    }
}
