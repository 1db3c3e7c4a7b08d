package dev.mortise.lock.cli;

import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.Providers;
import dev.mortise.lock.spi.StoreUri;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The store that the user means, and how it is opened. */
final class Store {
    final String uri;
    final Map<String, String> options;
    /** For people and for the command: without secrets. */
    final String shown;

    private Store(String uri, Map<String, String> options, String shown) {
        this.uri = uri;
        this.options = options;
        this.shown = shown;
    }

    /** From {@code --store} and {@code -o}, else from the environment, else the user's own file. */
    static Store of(@Nullable String given, List<String> pairs) throws Failure {
        Map<String, String> options = new LinkedHashMap<>();
        for (String pair : pairs) {
            int equals = pair.indexOf('=');
            if (equals <= 0) {
                // Not shown: it may be the second half of a password.
                throw new Failure(Failure.USAGE, "an option is written -o NAME=VALUE; one has no NAME or no =");
            }
            if (options.put(pair.substring(0, equals), pair.substring(equals + 1)) != null) {
                throw new Failure(
                        Failure.USAGE, "the option " + Text.quoted(pair.substring(0, equals)) + " is given twice");
            }
        }
        String uri = given == null ? variable("MORTISE_STORE") : given;
        if (uri == null) {
            uri = "jdbc:sqlite:" + file();
        }
        StoreUri parsed = StoreUri.parse(uri, options);
        String user = variable("MORTISE_USER");
        String password = variable("MORTISE_PASSWORD");
        if (user != null || password != null) {
            List<Option<?>> known = Providers.find().of(parsed.scheme()).options();
            if (user != null && parsed.user().isEmpty() && knows(known, "user")) {
                options.put("user", user);
            }
            if (password != null && parsed.password().isEmpty() && knows(known, "password")) {
                options.put("password", password);
            }
        }
        return new Store(uri, options, parsed.toString());
    }

    private static boolean knows(List<Option<?>> options, String name) {
        for (Option<?> option : options) {
            if (option.name().equals(name)) {
                return true;
            }
        }
        return false;
    }

    /** In the folder of the XDG base directory specification for what should be kept between runs. */
    private static Path file() throws Failure {
        String state = variable("XDG_STATE_HOME");
        Path folder;
        // The specification: a relative path is to be ignored.
        if (state != null && state.startsWith("/")) {
            folder = Path.of(state, "mortise");
        } else {
            String home = variable("HOME");
            if (home == null || !home.startsWith("/")) {
                throw new Failure(
                        Failure.USAGE,
                        "no folder for the default store: HOME is not set; set it or XDG_STATE_HOME, or name a store with"
                                + " --store");
            }
            folder = Path.of(home, ".local", "state", "mortise");
        }
        if (folder.toString().indexOf('?') >= 0) {
            throw new Failure(
                    Failure.USAGE,
                    "the path of the default store, " + Text.quoted(folder.toString())
                            + ", has a ?, which a store's URL cannot have; name another with --store");
        }
        try {
            if (!Files.isDirectory(folder)) {
                Files.createDirectories(
                        folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            }
        } catch (IOException e) {
            String reason = e.getClass().getSimpleName().replace("Exception", "");
            if (e instanceof FileSystemException f && f.getReason() != null) {
                reason = f.getReason();
            }
            throw new Failure(
                    Failure.UNAVAILABLE,
                    "the folder of the default store, " + Text.quoted(folder.toString()) + ", cannot be made: " + reason
                            + "; make it, set XDG_STATE_HOME, or name another store with --store",
                    e);
        }
        return folder.resolve("locks.db");
    }

    private static @Nullable String variable(String name) throws Failure {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            return null;
        }
        if (value.indexOf('\ufffd') >= 0) {
            // The JVM has put it for what does not fit the locale: it would be another store, or another password.
            throw new Failure(
                    Failure.USAGE,
                    name + " cannot be read in this locale; set LC_ALL to one of UTF-8, such as C.UTF-8");
        }
        return value;
    }
}
