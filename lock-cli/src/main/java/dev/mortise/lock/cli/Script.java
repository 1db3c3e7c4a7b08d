package dev.mortise.lock.cli;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** The shell scripts beside this class. */
final class Script {
    private Script() {}

    /** The text without the lines that are only for readers: it is seen in lists of processes. */
    static String read(String name) {
        InputStream in = Script.class.getResourceAsStream(name);
        if (in == null) {
            throw new IllegalStateException(name + " is missing beside " + Script.class.getName());
        }
        StringBuilder text = new StringBuilder();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.US_ASCII))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String code = line.strip();
                if (!code.isEmpty() && code.charAt(0) != '#') {
                    text.append(code).append('\n');
                }
            }
        } catch (IOException e) {
            throw new IllegalStateException(name + " cannot be read", e);
        }
        return text.toString();
    }
}
