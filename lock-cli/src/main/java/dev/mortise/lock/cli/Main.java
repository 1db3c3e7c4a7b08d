package dev.mortise.lock.cli;

import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.redlock.RedlockLocks;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.Providers;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParseResult;

/** The program {@code mortise}. */
final class Main {
    private static final Option<Duration> WAIT = Option.duration("--wait", "", "");
    private static final Option<Duration> LEASE = Option.duration("--lease", "30s", "");

    private Main() {}

    /** Package-private as all of this package: the launcher does not mind. */
    public static void main(String[] args) {
        Logging.install();
        System.exit(run(Arguments.of(args)));
    }

    static int run(Arguments arguments) {
        try {
            return new Main().dispatch(arguments);
        } catch (Failure e) {
            return failed(e.code, e, e.getMessage());
        } catch (IllegalArgumentException e) {
            return failed(Failure.USAGE, e, e.getMessage());
        } catch (LockStoreException e) {
            return failed(Failure.UNAVAILABLE, e, e.getMessage());
        } catch (RuntimeException | LinkageError | OutOfMemoryError e) {
            return failed(Failure.INTERNAL, e, "internal error: " + e + "; MORTISE_DEBUG=1 shows where");
        }
    }

    private static int failed(int code, Throwable e, @Nullable String message) {
        Text.complain(message == null ? e.toString() : message);
        if ("1".equals(System.getenv("MORTISE_DEBUG"))) {
            e.printStackTrace();
        }
        return code;
    }

    private int dispatch(Arguments arguments) throws Failure {
        // What follows is not ours to read; picocli would.
        int dashes = arguments.indexOfDashes();
        int end = dashes < 0 ? arguments.count() : dashes;
        CommandSpec spec = Commands.mortise();
        CommandLine line = new CommandLine(spec)
                // A name may start with @.
                .setExpandAtFiles(false);
        ParseResult parsed;
        try {
            parsed = line.parseArgs(arguments.texts(0, end));
        } catch (CommandLine.ParameterException e) {
            throw new Failure(Failure.USAGE, Commands.explain(e), e);
        }
        if (parsed.isUsageHelpRequested()
                || (parsed.hasSubcommand() && parsed.subcommand().isUsageHelpRequested())) {
            CommandLine asked =
                    parsed.hasSubcommand() ? parsed.subcommand().commandSpec().commandLine() : line;
            asked.usage(System.out);
            return 0;
        }
        if (parsed.isVersionHelpRequested()) {
            System.out.println("mortise " + version());
            return 0;
        }
        if (!parsed.hasSubcommand()) {
            throw new Failure(Failure.USAGE, "say what to do: run, status, stores, tck or init; see mortise --help");
        }
        ParseResult command = parsed.subcommand();
        return switch (command.commandSpec().name()) {
            case "run" -> run(command, arguments, dashes);
            case "status" -> status(command, arguments, dashes);
            case "init" -> init(command);
            case "tck" -> tck(command);
            default -> stores();
        };
    }

    private int run(ParseResult parsed, Arguments arguments, int dashes) throws Failure {
        String name = parsed.matchedPositionalValue(0, null);
        int command = dashes + 1;
        if (name == null && dashes >= 0 && arguments.isDashes(command + 1)) {
            // mortise run -- -NAME -- COMMAND
            name = arguments.text(command);
            command += 2;
        }
        if (name == null) {
            throw new Failure(Failure.USAGE, "no lock is named: mortise run NAME -- COMMAND");
        }
        if (dashes < 0 || command >= arguments.count()) {
            throw new Failure(
                    Failure.USAGE, "no command is given; put it behind two dashes: mortise run NAME -- COMMAND");
        }
        Duration lease = LEASE.parse(parsed.matchedOptionValue("--lease", LEASE.fallback()));
        if (lease.compareTo(Run.SHORTEST_LEASE) < 0) {
            throw new Failure(
                    Failure.USAGE,
                    "--lease must be at least 2s: the guardian needs time to end the command before its end");
        }
        String wait = parsed.matchedOptionValue("--wait", null);
        Duration patience = wait == null ? null : wait.equals("0") ? Duration.ZERO : WAIT.parse(wait);
        int conflict = conflict(parsed.matchedOptionValue("--conflict-exit-code", null));
        boolean foreground = parsed.hasMatchedOption("--foreground");
        return new Run(store(parsed), name, arguments, command, lease, patience, conflict, foreground).call();
    }

    private static int conflict(@Nullable String text) throws Failure {
        if (text == null) {
            return Failure.CONFLICT;
        }
        try {
            int code = Integer.parseInt(text);
            if (code >= 0 && code <= 255) {
                return code;
            }
        } catch (NumberFormatException e) {
            // Said below.
        }
        throw new Failure(Failure.USAGE, "--conflict-exit-code must be a number from 0 to 255");
    }

    private static Store store(ParseResult parsed) throws Failure {
        List<String> options = parsed.matchedOptionValue("-o", List.of());
        return Store.of(parsed.matchedOptionValue("--store", null), options);
    }

    private int status(ParseResult parsed, Arguments arguments, int dashes) throws Failure {
        String name = parsed.matchedPositionalValue(0, null);
        if (name == null && dashes >= 0 && arguments.count() == dashes + 2) {
            name = arguments.text(dashes + 1);
        } else if (dashes >= 0 || name == null) {
            throw new Failure(Failure.USAGE, "name one lock: mortise status NAME");
        }
        Store store = store(parsed);
        try (LockClient client = LockClient.builder(store.uri, store.options).build()) {
            Optional<Holder> holder = client.holder(name);
            if (holder.isPresent()) {
                Holder h = holder.get();
                System.out.println(Text.quoted(name) + " is held by " + Text.visible(h.owner()) + ", token " + h.token()
                        + ", for " + seconds(h.rest()) + " s unless renewed");
            } else {
                System.out.println(Text.quoted(name) + " is free");
            }
        }
        return 0;
    }

    private int init(ParseResult parsed) throws Failure {
        String uri = parsed.matchedPositionalValue(0, null);
        if (uri == null) {
            throw new Failure(Failure.USAGE, "name the servers: mortise init redlock://HOST:PORT,HOST:PORT,HOST:PORT");
        }
        Store store = Store.of(uri, parsed.matchedOptionValue("-o", List.of()));
        RedlockLocks.initialise(store.uri, store.options).forEach(System.out::println);
        return 0;
    }

    private static int tck(ParseResult parsed) throws Failure {
        String uri = parsed.matchedPositionalValue(0, null);
        if (uri == null && System.getenv("MORTISE_STORE") == null) {
            throw new Failure(Failure.USAGE, "name the store: mortise tck URI");
        }
        Store store = Store.of(uri, parsed.matchedOptionValue("-o", List.of()));
        return new Tck(store, parsed).call();
    }

    private static String seconds(Duration d) {
        return d.toSeconds() + "." + d.toMillisPart() / 100;
    }

    private int stores() {
        Providers providers = Providers.find();
        PrintStream out = System.out;
        Map<String, BackendProvider> byScheme = new TreeMap<>();
        for (BackendProvider provider : providers.loaded()) {
            for (String scheme : provider.schemes().keySet()) {
                byScheme.put(scheme, provider);
            }
        }
        byScheme.forEach((scheme, provider) -> {
            out.println(scheme);
            Guarantees promised = provider.schemes().get(scheme);
            if (promised != null) {
                out.println("  " + promised);
            }
            for (Option<?> option : provider.options()) {
                out.println("  -o " + option);
            }
        });
        if (byScheme.isEmpty()) {
            out.println("none: put a module such as lock-jdbc on the class path");
        }
        for (String failed : providers.failed()) {
            Text.complain("cannot be loaded: " + failed);
        }
        return 0;
    }

    /** As Maven has written it into the jar. */
    private static String version() {
        Properties properties = new Properties();
        try (InputStream in = Main.class.getResourceAsStream("/META-INF/maven/dev.mortise/lock-cli/pom.properties")) {
            if (in != null) {
                properties.load(in);
            }
        } catch (IOException e) {
            // As if it were not there.
        }
        return properties.getProperty("version", "(not from a jar)");
    }
}
