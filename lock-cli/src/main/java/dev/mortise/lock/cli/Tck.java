package dev.mortise.lock.cli;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.tck.TckRun;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine.ParseResult;
import sun.misc.Signal;
import sun.misc.SignalHandler;

/** The kit on the store: how far it is on standard error, what it found on standard output and in the report. */
final class Tck implements SignalHandler {
    private static final int BROKEN = 1;

    private final Store store;
    private final TckRun run;
    private final Path folder;
    private final long began = System.nanoTime();
    private final Thread main = Thread.currentThread();
    private int signal;

    Tck(Store store, ParseResult parsed) throws Failure {
        this.store = store;
        folder = Path.of(parsed.matchedOptionValue("--report", "mortise-tck"));
        run = TckRun.of(store.uri, store.options)
                .seed(number(parsed, "--seed", Long.MIN_VALUE, Long.MAX_VALUE, 1))
                .scenarios((int) number(parsed, "--scenarios", 0, 1_000_000, 120))
                .length(Duration.ofMinutes(number(parsed, "--minutes", 0, 100_000, 0)))
                .processes(!parsed.hasMatchedOption("--no-processes"))
                .report(folder);
        String prefix = parsed.matchedOptionValue("--prefix", null);
        if (prefix != null) {
            run.prefix(prefix);
        }
        if (!parsed.hasMatchedOption("--quiet")) {
            run.progress(line -> Text.complain(String.format("%4d s  %s", seconds(), line)));
        }
    }

    private long seconds() {
        return Duration.ofNanos(System.nanoTime() - began).toSeconds();
    }

    private static long number(ParseResult parsed, String option, long least, long most, long otherwise)
            throws Failure {
        String text = parsed.matchedOptionValue(option, null);
        if (text == null) {
            return otherwise;
        }
        try {
            long number = Long.parseLong(text);
            if (number >= least && number <= most) {
                return number;
            }
        } catch (NumberFormatException e) {
            // Said below.
        }
        throw new Failure(
                Failure.USAGE,
                option + " must be a whole number" + (least == 0 ? " from 0 to " + most : "") + ", not "
                        + Text.quoted(text));
    }

    int call() throws Failure {
        for (String name : List.of("INT", "TERM", "HUP")) {
            try {
                Signal.handle(new Signal(name), this);
            } catch (IllegalArgumentException e) {
                // The JVM was told to leave signals alone (-Xrs), and dies of them: the leases then end by themselves.
            }
        }
        TckRun.Result result;
        try {
            result = run.run();
        } catch (InterruptedException e) {
            return interrupted();
        } catch (IOException e) {
            throw new Failure(
                    Failure.UNAVAILABLE,
                    "the report cannot be written into " + Text.quoted(folder.toString()) + ": " + e.getMessage()
                            + "; name another folder with --report",
                    e);
        } catch (LockStoreException e) {
            // One that is interrupted says so in its own way.
            if (signalled() != 0) {
                return interrupted();
            }
            throw e;
        }
        tell(result, System.out);
        return result.broken().isEmpty() ? 0 : BROKEN;
    }

    private int interrupted() {
        Text.complain("ended by signal " + (signalled() - Failure.SIGNAL) + "; what was locked is released");
        return signalled();
    }

    private void tell(TckRun.Result result, PrintStream out) {
        out.println(store.shown + ": " + result.held().size() + " rules hold, "
                + result.broken().size() + " broken, " + result.notTested().size() + " not tested");
        Map<String, List<String>> reasons = new LinkedHashMap<>();
        result.notTested()
                .forEach((rule, reason) ->
                        reasons.computeIfAbsent(reason, r -> new ArrayList<>()).add(rule));
        reasons.forEach((reason, rules) ->
                out.println("not tested: " + String.join(", ", rules) + " (" + Text.visible(reason) + ")"));
        result.broken().values().forEach(message -> {
            out.println();
            message.lines().map(Text::visible).forEach(out::println);
        });
        out.println("report: " + Text.visible(folder.resolve("report.html").toString()) + " and report.json");
    }

    private synchronized int signalled() {
        return signal;
    }

    /** The first ends the run, which then releases what it has locked; at a second nobody waits for that. */
    @Override
    public synchronized void handle(Signal caught) {
        if (signal != 0) {
            Runtime.getRuntime().halt(Failure.SIGNAL + caught.getNumber());
        }
        signal = Failure.SIGNAL + caught.getNumber();
        main.interrupt();
    }
}
