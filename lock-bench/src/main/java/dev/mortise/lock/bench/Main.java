package dev.mortise.lock.bench;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** The command: {@code java -jar lock-bench/target/bench/lock-bench.jar}. */
@Command(
        name = "bench",
        description = {
            "Measures Mortise beside the bare floor and the libraries people use today, on servers that it starts.",
            "Prints a table; progress goes to the error stream. Exit status 1 if a peer failed; a goal that is not met is"
                    + " told, and is no failure."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true)
final class Main implements Callable<Integer> {
    @Option(
            names = "--only",
            paramLabel = "TIER",
            split = ",",
            description = "${COMPLETION-CANDIDATES}; all unless told.")
    private Set<Tier> tiers = EnumSet.allOf(Tier.class);

    @Option(
            names = "--scenarios",
            paramLabel = "LETTERS",
            description = "Those of a, b, c, d and e that are run: ab, for example; all unless told.")
    private String scenarios = "abcde";

    @Option(
            names = "--peers",
            paramLabel = "PEER",
            split = ",",
            description = "Those that take part, of: ${COMPLETION-CANDIDATES}; all unless told.")
    private Set<Peer> peers = EnumSet.allOf(Peer.class);

    @Option(
            names = "--rounds",
            paramLabel = "N",
            description = "Rounds of each scenario but e; ${DEFAULT-VALUE} unless told.")
    private int rounds = 7;

    @Option(
            names = "--seconds",
            paramLabel = "N",
            description = "Length of a round of one peer; ${DEFAULT-VALUE} unless told.")
    private double seconds = 1;

    @Option(
            names = "--warm-up",
            paramLabel = "N",
            description = "Seconds that each process works before its first round; ${DEFAULT-VALUE} unless told.")
    private double warmUp = 5;

    @Option(names = "--idle", paramLabel = "N", description = "Seconds of scenario e; ${DEFAULT-VALUE} unless told.")
    private double idle = 30;

    @Option(names = "--html", paramLabel = "FILE", description = "Writes the page with plots there too.")
    private @Nullable Path html;

    @Option(
            names = "--jvm",
            paramLabel = "OPTION",
            description = "One more option for the JVMs that are measured, as a profiler has. Can be repeated.")
    private List<String> jvm = List.of();

    private Main() {}

    public static void main(String[] args) {
        System.exit(run(args));
    }

    /** Without ending the JVM. */
    static int run(String... args) {
        CommandLine line = new CommandLine(new Main());
        line.setCaseInsensitiveEnumValuesAllowed(true);
        return line.execute(args);
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        Set<Scenario> chosen = EnumSet.noneOf(Scenario.class);
        for (String letter : scenarios.split("", -1)) {
            chosen.addAll(Arrays.stream(Scenario.values())
                    .filter(scenario -> scenario.letter.equals(letter))
                    .toList());
        }
        if (chosen.isEmpty() || rounds < 1 || !(seconds > 0) || !(warmUp >= 0) || !(idle > 0)) {
            System.err.println("bench: needs a scenario of a, b, c, d, e, a round, and lengths above zero");
            return CommandLine.ExitCode.USAGE;
        }
        Bench.Plan plan =
                new Bench.Plan(tiers, chosen, peers, rounds, length(warmUp), length(seconds), length(idle), jvm);
        Report.Machine before = Report.Machine.now();
        try (Bench bench = new Bench(plan, text -> System.err.println("bench: " + text))) {
            // Ctrl-C leaves no server, no process and no folder behind.
            Thread atExit = new Thread(bench::close);
            Runtime.getRuntime().addShutdownHook(atExit);
            Results results = bench.run();
            if (bench.isClosed()) {
                return CommandLine.ExitCode.SOFTWARE;
            }
            Runtime.getRuntime().removeShutdownHook(atExit);
            Report report = new Report(plan, results, before, Report.Machine.now(), bench.serverVersion());
            PrintWriter out = new PrintWriter(System.out, false, StandardCharsets.UTF_8);
            report.text(out);
            out.flush();
            if (html != null) {
                Files.writeString(html, report.html());
                System.err.println("bench: wrote " + html);
            }
            return results.rows().stream().allMatch(row -> row.failure == null) ? 0 : 1;
        } catch (AssertionError e) {
            // A server that cannot be started, and what to do about it.
            System.err.println("bench: " + e.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
    }

    private static Duration length(double seconds) {
        return Duration.ofNanos((long) (seconds * 1e9));
    }
}
