package dev.mortise.lock.cli;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.logging.LogManager;

/**
 * What stores log, on standard error as the rest: one line each, and only what somebody has to know. Left alone, the JVM prints
 * two, and also what a library says to itself.
 *
 * <p>Public for the JVM, which makes one when something is logged for the first time; so a run without a word does not pay for
 * it.
 */
public final class Logging {
    private static final String CONFIGURATION = """
            handlers=java.util.logging.ConsoleHandler
            .level=WARNING
            java.util.logging.SimpleFormatter.format=mortise: warning: %5$s%n
            """;

    /** For the JVM. */
    public Logging() throws IOException {
        LogManager.getLogManager()
                .readConfiguration(new ByteArrayInputStream(CONFIGURATION.getBytes(StandardCharsets.ISO_8859_1)));
    }

    /** Unless whoever starts this JVM has said otherwise. */
    static void install() {
        if (System.getProperty("java.util.logging.config.file") == null) {
            System.getProperties().putIfAbsent("java.util.logging.config.class", Logging.class.getName());
        }
    }
}
