package dev.mortise.lock.bench;

import com.samskivert.mustache.Mustache;
import com.samskivert.mustache.Template;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The results for people: as text, and as one page that needs nothing beside itself. */
final class Report {
    private static final double PLOT_WIDTH = 400;

    /** The state of the machine at one moment. */
    record Machine(Instant time, double load) {
        static Machine now() {
            return new Machine(
                    Instant.now(), ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage());
        }
    }

    private final Bench.Plan plan;
    private final Results results;
    private final Machine before;
    private final Machine after;
    private final String serverVersion;

    Report(Bench.Plan plan, Results results, Machine before, Machine after, String serverVersion) {
        this.plan = plan;
        this.results = results;
        this.before = before;
        this.after = after;
        this.serverVersion = serverVersion;
    }

    private List<String> head() {
        return List.of(
                "When: "
                        + DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm", Locale.ROOT)
                                .withZone(ZoneOffset.UTC)
                                .format(before.time)
                        + " UTC, for " + (after.time.getEpochSecond() - before.time.getEpochSecond()) + " s; load "
                        + number(before.load) + " at the begin, " + number(after.load)
                        + " at the end, of which the bench itself makes a part (column \"others\")",
                "Machine: " + Runtime.getRuntime().availableProcessors() + " x " + processor() + ", "
                        + System.getProperty("os.name") + " " + System.getProperty("os.version")
                        + "; servers and clients on it, over the loopback",
                "Java " + System.getProperty("java.runtime.version") + " (" + System.getProperty("java.vm.name") + "), "
                        + serverVersion,
                "Plan: " + plan.rounds() + " rounds of " + seconds(plan.round()) + " after a warm-up of "
                        + seconds(plan.warmUp()) + "; (e) once, for " + seconds(plan.idle()),
                "Numbers: the best of the rounds .. the worst. \"x floor\": how many times worse than the bare floor in the"
                        + " first column, within a round; the median of the rounds");
    }

    private static String seconds(Duration duration) {
        return number(duration.toMillis() / 1e3) + " s";
    }

    private static String processor() {
        try (Stream<String> lines = Files.lines(Path.of("/proc/cpuinfo"))) {
            return lines.filter(line -> line.startsWith("model name"))
                    .map(line -> line.substring(line.indexOf(':') + 1).trim())
                    .findFirst()
                    .orElse(System.getProperty("os.arch"));
        } catch (IOException e) {
            return System.getProperty("os.arch");
        }
    }

    /** Three digits that count. */
    static String number(double value) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            return "-";
        }
        double size = Math.abs(value);
        int digits = size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : 2;
        return String.format(Locale.ROOT, "%,." + digits + "f", value);
    }

    private static String range(Results.Row row, Measure measure) {
        String best = number(row.best(measure));
        String worst = number(row.worst(measure));
        return best.equals(worst) ? best : best + " .. " + worst;
    }

    /** How many times worse than the floor; "-" if there is nothing to compare. */
    private String timesFloor(Results.Row row) {
        Peer floor = row.peer.tier().floor(row.scenario);
        if (floor == null) {
            return "-";
        }
        Measure lead = row.scenario.lead();
        double[] ratios = lead.lowerIsBetter
                ? results.ratios(row.scenario, lead, row.peer, floor)
                : results.ratios(row.scenario, lead, floor, row.peer);
        return number(Results.median(ratios));
    }

    /** What its servers did in the best round. */
    private static String commands(Results.Row row) {
        Measure lead = row.scenario.lead();
        return row.rounds.stream()
                .filter(round -> round.get(lead) == row.best(lead))
                .findFirst()
                .map(round -> round.commands().entrySet().stream()
                        .filter(each -> each.getValue() >= 0.01)
                        .map(each -> each.getKey() + "=" + number(each.getValue()))
                        .collect(Collectors.joining(" ")))
                .orElse("");
    }

    private static List<String> headings(Scenario scenario) {
        List<String> all = new ArrayList<>(List.of("", scenario.lead().heading()));
        if (scenario != Scenario.IDLE) {
            all.add("x floor");
        }
        scenario.columns.stream().skip(1).map(Measure::heading).forEach(all::add);
        return all;
    }

    private List<String> cells(Results.Row row) {
        List<String> all = new ArrayList<>(List.of(row.peer.title, range(row, row.scenario.lead())));
        if (row.scenario != Scenario.IDLE) {
            all.add(timesFloor(row));
        }
        row.scenario.columns.stream()
                .skip(1)
                .map(measure -> range(row, measure))
                .forEach(all::add);
        return all;
    }

    private List<Tier> tiers() {
        return Arrays.stream(Tier.values()).filter(plan.tiers()::contains).toList();
    }

    private List<Scenario> scenarios() {
        return Arrays.stream(Scenario.values())
                .filter(plan.scenarios()::contains)
                .toList();
    }

    void text(PrintWriter out) {
        out.println("Mortise beside the bare floor and its peers");
        head().forEach(line -> out.println("  " + line));
        for (Tier tier : tiers()) {
            for (Scenario scenario : scenarios()) {
                out.println();
                out.println(tier.title + ": " + scenario);
                List<List<String>> table = new ArrayList<>(List.of(headings(scenario)));
                results.rows(scenario, tier).forEach(row -> table.add(cells(row)));
                aligned(table).forEach(out::println);
                String unit = scenario == Scenario.IDLE ? "a second" : "an operation";
                for (Results.Row row : results.rows(scenario, tier)) {
                    if (row.failure != null) {
                        out.println("  FAILED " + row.peer.title + ": " + row.failure);
                    } else {
                        out.println("  servers, " + unit + ", " + row.peer.title + ": " + commands(row));
                    }
                }
            }
        }
        out.println();
        out.println("Goals");
        aligned(Goals.of(results).stream()
                        .map(goal -> List.of(goal.outcome().text, goal.text(), goal.measured()))
                        .toList())
                .forEach(out::println);
    }

    private static List<String> aligned(List<List<String>> table) {
        int columns = table.stream().mapToInt(List::size).max().orElse(0);
        int[] widths = new int[columns];
        for (List<String> row : table) {
            for (int i = 0; i < row.size(); i++) {
                widths[i] = Math.max(widths[i], row.get(i).length());
            }
        }
        List<String> lines = new ArrayList<>();
        for (List<String> row : table) {
            StringBuilder line = new StringBuilder();
            for (int i = 0; i < row.size(); i++) {
                line.append("  ")
                        .append(row.get(i))
                        .append(" ".repeat(widths[i] - row.get(i).length()));
            }
            lines.add(line.toString().stripTrailing());
        }
        return lines;
    }

    /** Well-formed XML too. */
    String html() {
        try (Reader template = new InputStreamReader(
                Objects.requireNonNull(Report.class.getResourceAsStream("report.html")), StandardCharsets.UTF_8)) {
            Template compiled = Mustache.compiler().compile(template);
            return compiled.execute(Map.of(
                    "head", head(),
                    "goals", Goals.of(results).stream().map(Report::goal).toList(),
                    "sections", sections(),
                    "peers",
                            results.rows().stream()
                                    .map(row -> row.peer)
                                    .distinct()
                                    .sorted()
                                    .map(peer -> Map.of(
                                            "title", peer.title, "method", peer.method, "version", peer.version()))
                                    .toList(),
                    "measures",
                            scenarios().stream()
                                    .flatMap(scenario -> scenario.columns.stream())
                                    .distinct()
                                    .sorted()
                                    .map(measure -> Map.of("heading", measure.heading(), "meaning", measure.meaning))
                                    .toList()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Map<String, Object> goal(Goals.Goal goal) {
        return Map.of(
                "text", goal.text(),
                "measured", goal.measured(),
                "outcome", goal.outcome().text,
                "style", goal.outcome().name().toLowerCase(Locale.ROOT));
    }

    private List<Map<String, Object>> sections() {
        List<Map<String, Object>> all = new ArrayList<>();
        for (Tier tier : tiers()) {
            for (Scenario scenario : scenarios()) {
                List<Results.Row> rows = results.rows(scenario, tier);
                all.add(Map.of(
                        "title",
                        tier.title + ": " + scenario,
                        "method",
                        scenario.method,
                        "headings",
                        headings(scenario),
                        "rows",
                        rows.stream()
                                .map(row -> Map.of(
                                        "kind", row.peer.kind.name().toLowerCase(Locale.ROOT),
                                        "cells", cells(row),
                                        "failure", row.failure == null ? "" : "failed: " + row.failure,
                                        "commands", commands(row)))
                                .toList(),
                        "unit",
                        scenario == Scenario.IDLE ? "a second" : "an operation",
                        "plots",
                        scenario.plots.stream()
                                .map(measure -> plot(rows, measure))
                                .toList()));
            }
        }
        return all;
    }

    /** Bars to the best round, each with a line from there to the worst. */
    private static Map<String, Object> plot(List<Results.Row> rows, Measure measure) {
        double most = rows.stream()
                .flatMap(row -> row.values(measure).boxed())
                .max(Double::compare)
                .orElse(1.0);
        double scale = most == 0 ? 0 : PLOT_WIDTH / most;
        List<Map<String, Object>> bars = new ArrayList<>();
        for (Results.Row row : rows) {
            int top = 26 * bars.size();
            boolean measured = row.values(measure).findAny().isPresent();
            double best = measured ? row.best(measure) * scale : 0;
            double worst = measured ? row.worst(measure) * scale : 0;
            bars.add(Map.of(
                    "kind",
                    row.peer.kind.name().toLowerCase(Locale.ROOT),
                    "label",
                    row.peer.title,
                    "top",
                    top,
                    "middle",
                    top + 10,
                    "baseline",
                    top + 15,
                    "width",
                    coordinate(best),
                    "from",
                    coordinate(Math.min(best, worst)),
                    "to",
                    coordinate(Math.max(best, worst)),
                    "after",
                    coordinate(Math.max(best, worst) + 6),
                    "value",
                    measured ? number(row.best(measure)) : "-"));
        }
        return Map.of(
                "title",
                measure.heading() + (measure.lowerIsBetter ? ", less is better" : ", more is better"),
                "height",
                26 * bars.size(),
                "bars",
                bars);
    }

    private static String coordinate(double value) {
        return String.format(Locale.ROOT, "%.1f", value);
    }
}
