package dev.mortise.lock.tck;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.samskivert.mustache.Mustache;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.Kit.Evidence;
import dev.mortise.lock.tck.Kit.Result;
import dev.mortise.lock.tck.Kit.Shown;
import dev.mortise.lock.tck.Kit.Status;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * What one run found: a page for people that needs nothing beside itself, and the same as JSON for programs, whose shape is
 * described in docs/report.md.
 */
final class Report {
    /** Of the JSON. It grows when a program that reads the one before would go wrong. */
    static final int VERSION = 1;

    static final Map<Character, String> CHAPTERS = new TreeMap<>(Map.of(
            '0', "Declaration and connection",
            '1', "Exclusion",
            '2', "Ownership",
            '3', "Leases",
            '4', "Waiting",
            '5', "Tokens",
            '6', "Faults of the store",
            '7', "Unknown outcomes and hand-over"));

    private static final Gson GSON =
            new GsonBuilder().setPrettyPrinting().disableHtmlEscaping().create();

    private final Kit kit;
    private final String title;
    private final String replay;
    private final Instant started;
    private final Duration took;
    private final List<Result> results;
    private final @Nullable String secret;

    /**
     * Of a run that is over.
     *
     * @param title what was run, in a few words
     * @param replay the command that does the same again; a seed or a script is added to it
     */
    Report(Kit kit, String title, String replay, Instant started, Duration took) {
        this.kit = kit;
        this.title = title;
        this.replay = replay;
        this.started = started;
        this.took = took;
        results = List.copyOf(kit.results().values());
        secret = kit.store
                .uri()
                .flatMap(uri -> StoreUri.parse(uri, kit.store.options()).password())
                .filter(password -> password.length() >= 4)
                .orElse(null);
    }

    /** Both files, {@code name.html} and {@code name.json}, in a folder that is made if need be. */
    void write(Path folder, String name) throws IOException {
        Files.createDirectories(folder.resolve(name).toAbsolutePath().getParent());
        Files.writeString(folder.resolve(name + ".json"), json(), StandardCharsets.UTF_8);
        Files.writeString(folder.resolve(name + ".html"), html(), StandardCharsets.UTF_8);
    }

    String json() {
        return GSON.toJson(clean(tree(false))) + "\n";
    }

    String html() {
        try (Reader template = template("report")) {
            return Mustache.compiler()
                    .defaultValue("")
                    .emptyStringIsFalse(true)
                    .withLoader(Report::template)
                    .compile(template)
                    .execute(clean(tree(true)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Reader template(String name) {
        return new InputStreamReader(
                Objects.requireNonNull(Report.class.getResourceAsStream(name + ".html"), name), StandardCharsets.UTF_8);
    }

    // -------------------------------------------------------------------------------------------------------- tree

    /** All that there is to say, in the order in which it is written; with what only the page has, or without. */
    private Map<String, Object> tree(boolean page) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("format", "mortise-tck");
        all.put("version", VERSION);
        all.put("title", title);
        all.put("verdict", many(results, Status.FAILED) > 0 ? "failed" : "passed");
        all.putAll(counts(results));
        all.put(
                "complete",
                Stream.of(Rule.values())
                        .filter(rule -> rule.scope != Rule.Scope.CLIENT)
                        .allMatch(kit.results()::containsKey));
        all.put("store", page ? entries(kit.store.about()) : kit.store.about());
        all.put("run", page ? entries(run(true)) : run(false));
        all.put("declared", page ? Map.of("entries", entries(declared(true))) : declared(false));
        all.put(
                "events",
                Stream.of(StoreEvent.values()).map(event -> event(event, page)).toList());
        all.put("chapters", chapters(page));
        all.put("shown", shown(page));
        if (page) {
            all.put("failed", many(results, Status.FAILED) > 0);
            all.put(
                    "failures",
                    results.stream()
                            .filter(r -> r.status() == Status.FAILED)
                            .map(r -> rule(r, true))
                            .toList());
            all.put("unsafe", !kit.shown.isEmpty());
            all.put(
                    "pictures",
                    !kit.shown.isEmpty()
                            || results.stream().map(Result::evidence).anyMatch(e -> e != null && e.history() != null));
            all.put("summary", summary());
            all.put(
                    "started",
                    started.truncatedTo(ChronoUnit.MINUTES)
                            .toString()
                            .replace('T', ' ')
                            .replace(":00Z", " UTC"));
        }
        return all;
    }

    private String summary() {
        long passed = many(results, Status.PASSED);
        long failed = many(results, Status.FAILED);
        long skipped = many(results, Status.SKIPPED);
        return passed
                + (passed == 1 ? " rule holds" : " rules hold")
                + (failed == 0 ? "" : ", " + failed + " broken")
                + (skipped == 0 ? "" : ", " + skipped + " not tested");
    }

    private static long many(Collection<Result> results, Status status) {
        return results.stream().filter(result -> result.status() == status).count();
    }

    private static Map<String, Object> counts(Collection<Result> results) {
        Map<String, Object> counts = new LinkedHashMap<>();
        for (Status status : Status.values()) {
            counts.put(word(status), many(results, status));
        }
        return counts;
    }

    private static String word(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }

    private static String said(Enum<?> value) {
        return word(value).replace('_', ' ');
    }

    /** As Mustache can walk through it. */
    private static List<Map<String, Object>> entries(Map<String, ?> map) {
        return map.entrySet().stream()
                .map(each -> Map.<String, Object>of("key", each.getKey(), "value", each.getValue()))
                .toList();
    }

    private Map<String, Object> run(boolean page) {
        Duration lease = kit.delays.shortLease(kit.guarantees(), 1);
        String machine = Runtime.getRuntime().availableProcessors() + " processors, " + System.getProperty("os.name")
                + " " + System.getProperty("os.arch");
        Map<String, Object> run = new LinkedHashMap<>();
        if (page) {
            run.put("time", text(took));
            run.put(
                    "of which",
                    kit.phaseTimes().entrySet().stream()
                            .filter(each -> each.getValue().toMillis() >= 10)
                            .map(each -> text(each.getValue()) + " " + each.getKey())
                            .collect(Collectors.joining(", ")));
            run.put("scenarios", kit.playedScenarios() + ", with leases of " + text(lease) + " at least");
            run.put("seed", kit.seed);
            run.put("processes", kit.processes());
            run.put("machine", machine + ", Java " + Runtime.version());
            return run;
        }
        run.put("started", started.truncatedTo(ChronoUnit.SECONDS).toString());
        run.put("millis", took.toMillis());
        List<Map<String, Object>> phases = new ArrayList<>();
        kit.phaseTimes().forEach((phase, time) -> {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("phase", phase);
            one.put("millis", time.toMillis());
            phases.add(one);
        });
        run.put("phases", phases);
        run.put("scenarios", kit.playedScenarios());
        run.put("leaseMillis", lease.toMillis());
        run.put("seed", kit.seed);
        run.put("processes", kit.processes());
        run.put("machine", machine);
        run.put("java", Runtime.version().toString());
        return run;
    }

    private Map<String, Object> declared(boolean page) {
        Guarantees g = kit.guarantees();
        Map<String, Object> declared = new LinkedHashMap<>();
        declared.put("consistency", g.consistency().name());
        if (page) {
            declared.put(
                    "leases",
                    text(g.shortestLease()) + " to " + text(g.longestLease()) + ", in steps of "
                            + text(g.granularity()));
        } else {
            declared.put(
                    "exclusionSurvives",
                    g.exclusionSurvives().stream().map(Enum::name).toList());
            declared.put(
                    "tokensSurvive", g.tokensSurvive().stream().map(Enum::name).toList());
            declared.put("shortestLeaseMillis", g.shortestLease().toMillis());
            declared.put("longestLeaseMillis", g.longestLease().toMillis());
            declared.put("granularityMillis", g.granularity().toNanos() / 1e6);
        }
        Set<Duration> leases = new TreeSet<>(
                List.of(kit.delays.shortLease(g, 1), fit(Duration.ofSeconds(10), g), fit(Duration.ofSeconds(30), g)));
        if (page) {
            declared.put(
                    "freed within",
                    leases.stream()
                            .map(lease -> text(g.freedWithin(lease)) + " (lease of " + text(lease) + ")")
                            .collect(Collectors.joining(", ")));
        } else {
            List<Map<String, Object>> freed = new ArrayList<>();
            for (Duration lease : leases) {
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("leaseMillis", lease.toMillis());
                one.put("withinMillis", g.freedWithin(lease).toMillis());
                freed.add(one);
            }
            declared.put("freed", freed);
        }
        if (page) {
            declared.put("fair", g.fair() ? "yes" : "no");
            declared.put("outlives its client", g.outlivesClient() ? "yes" : "no");
        } else {
            declared.put("fair", g.fair());
            declared.put("outlivesClient", g.outlivesClient());
        }
        return declared;
    }

    private static Duration fit(Duration lease, Guarantees g) {
        Duration least = lease.compareTo(g.shortestLease()) < 0 ? g.shortestLease() : lease;
        return least.compareTo(g.longestLease()) > 0 ? g.longestLease() : least;
    }

    private Map<String, Object> event(StoreEvent event, boolean page) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("event", event.name());
        row.put("exclusionSurvives", kit.guarantees().exclusionSurvives().contains(event));
        row.put("tokensSurvive", kit.guarantees().tokensSurvive().contains(event));
        List<Map<String, Object>> faults = new ArrayList<>();
        List<String> said = new ArrayList<>();
        kit.caused.forEach((fault, times) -> {
            if (fault.event() == event) {
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("fault", fault.name());
                one.put("times", times);
                faults.add(one);
                said.add(said(fault) + " \u00d7 " + times);
            }
        });
        row.put("caused", faults);
        String otherwise = switch (event) {
            case RELEASE_AND_EXPIRY -> "in all scenarios";
            case CLIENT_CRASH -> "clients in processes: " + kit.processes();
            default ->
                kit.store
                        .faults()
                        .map(f -> f.impossible().getOrDefault(event, "no fault of this kind can be caused here"))
                        .orElse("the Store has no Faults");
        };
        if (page) {
            row.put("name", said(event));
            row.put("faults", said.isEmpty() ? otherwise : String.join(", ", said));
        } else if (faults.isEmpty()) {
            row.put("note", otherwise);
        }
        return row;
    }

    private List<Map<String, Object>> chapters(boolean page) {
        List<Map<String, Object>> chapters = new ArrayList<>();
        CHAPTERS.forEach((number, name) -> {
            List<Result> here = results.stream()
                    .filter(result -> result.rule().number().charAt(0) == number)
                    .toList();
            if (!here.isEmpty()) {
                Map<String, Object> chapter = new LinkedHashMap<>();
                chapter.put("chapter", number.toString());
                chapter.put("title", name);
                chapter.putAll(counts(here));
                chapter.put(
                        "rules", here.stream().map(result -> rule(result, page)).toList());
                chapters.add(chapter);
            }
        });
        return chapters;
    }

    private Map<String, Object> rule(Result result, boolean page) {
        Map<String, Object> rule = new LinkedHashMap<>();
        rule.put("rule", result.rule().number());
        rule.put("must", result.rule().must);
        rule.put("why", result.rule().intent);
        rule.put("verdict", word(result.status()));
        rule.put("tries", result.tries());
        rule.put("millis", result.took().toMillis());
        if (result.status() == Status.SKIPPED) {
            rule.put("reason", result.message());
        }
        Evidence evidence = result.evidence();
        if (evidence != null) {
            Map<String, Object> failure = failure(result.rule(), evidence, page);
            if (page) {
                rule.putAll(failure);
            } else {
                rule.put("failure", failure);
            }
        }
        if (page) {
            rule.put(
                    "mark",
                    switch (result.status()) {
                        case PASSED -> "\u2713 holds";
                        case FAILED -> "\u2717 broken";
                        case SKIPPED -> "\u2013 not tested";
                    });
            String time = result.took().toMillis() < 50 ? "" : text(result.took());
            rule.put("time", time);
            rule.put(
                    "tried",
                    result.tries() == 0
                            ? ""
                            : result.tries()
                                    + (result.tries() == 1 ? " try" : " tries")
                                    + (time.isEmpty() ? "" : ", " + time));
        }
        return rule;
    }

    private Map<String, Object> failure(Rule rule, Evidence evidence, boolean page) {
        Map<String, Object> failure = new LinkedHashMap<>();
        failure.put("seen", evidence.seen());
        failure.put("lookAt", rule.check);
        failure.put("seed", kit.seed);
        Scenario scenario = evidence.scenario();
        Scenario foundAs = evidence.foundAs();
        if (scenario != null && foundAs != null) {
            failure.put("origin", foundAs.origin());
            failure.put("scenario", scenario.text());
            if (foundAs.steps().size() > scenario.steps().size()) {
                failure.put("foundAs", foundAs.text());
            }
        }
        failure.put("replay", replay(scenario));
        Duration lease = evidence.lease();
        if (lease != null) {
            failure.put("leaseMillis", lease.toMillis());
        }
        History history = evidence.history();
        if (history != null) {
            history(failure, history, "rule-" + rule.number(), "Rule " + rule.number() + " broken", page);
        }
        return failure;
    }

    private String replay(@Nullable Scenario scenario) {
        return scenario == null || scenario.steps().isEmpty()
                ? replay.replace("{}", "mortise.tck.seed=" + kit.seed)
                : replay.replace("{}", "mortise.tck.replay=" + scenario.text());
    }

    private static void history(Map<String, Object> to, History history, String id, String title, boolean page) {
        if (page) {
            to.put("picture", new Raw(Picture.of(history, id.replace('.', '-'), title)));
            to.put("timeline", history.timeline());
        } else {
            to.put("history", events(history));
        }
    }

    private static List<Map<String, Object>> events(History history) {
        List<Event> events = history.events();
        long start = events.isEmpty() ? 0 : events.get(0).invoked();
        List<Map<String, Object>> all = new ArrayList<>();
        for (Event e : events) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("op", word(e.op()));
            if (e.client() >= 0) {
                one.put("client", e.client());
            }
            if (e.attempt() >= 0) {
                one.put("attempt", e.attempt());
            }
            if (e.other() >= 0) {
                one.put("after", e.other());
            }
            one.put("name", e.name());
            one.put("outcome", word(e.outcome()));
            one.put("calledMillis", (e.invoked() - start) / 1e6);
            if (e.returned() != Long.MAX_VALUE) {
                one.put("answeredMillis", (e.returned() - start) / 1e6);
            }
            if (e.token() > 0) {
                one.put("token", e.token());
            }
            if (e.token() > 0 && e.lease() > 0 && e.outcome() == Event.Outcome.DONE) {
                one.put("sinceMillis", (e.since() - start) / 1e6);
                one.put("leaseMillis", e.lease() / 1e6);
            }
            all.add(one);
        }
        return all;
    }

    private List<Map<String, Object>> shown(boolean page) {
        List<Map<String, Object>> all = new ArrayList<>();
        for (Shown each : kit.shown) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("fault", each.fault().name());
            one.put("event", each.fault().event().name());
            one.put("what", each.what());
            one.put("exclusionBroken", each.exclusion());
            one.put("tokensBroken", each.tokens());
            String id = "shown-" + all.size() + "-" + word(each.fault());
            history(one, each.history(), id, "What happened through: " + said(each.fault()), page);
            if (page) {
                one.put("fault", said(each.fault()));
                one.put("event", said(each.fault().event()));
            }
            all.add(one);
        }
        return all;
    }

    // -------------------------------------------------------------------------------------------------------- text

    /** A part of the page that is no text. */
    private record Raw(String html) {
        @Override
        public String toString() {
            return html;
        }
    }

    /** As people say it. */
    static String text(Duration duration) {
        long millis = duration.toMillis();
        if (duration.compareTo(Duration.ofMillis(10)) < 0) {
            double fine = duration.toNanos() / 1e6;
            return (fine == Math.rint(fine) ? String.valueOf((long) fine) : String.format(Locale.ROOT, "%.3f", fine))
                    + " ms";
        }
        if (millis < 1000) {
            return millis + " ms";
        }
        if (millis < 120_000) {
            return millis % 1000 == 0 ? millis / 1000 + " s" : String.format(Locale.ROOT, "%.1f s", millis / 1e3);
        }
        if (millis < 7_200_000) {
            return duration.toMinutes() + " min"
                    + (duration.toSecondsPart() == 0 ? "" : " " + duration.toSecondsPart() + " s");
        }
        return duration.toHours() < 48 ? duration.toHours() + " h" : duration.toDays() + " days";
    }

    /** Nothing in it steers a terminal or the order of letters, and no password is in it. */
    private @Nullable Object clean(@Nullable Object value) {
        if (value instanceof String text) {
            String open = secret == null ? text : text.replace(secret, "***");
            return open.lines().map(Claim::printable).collect(Collectors.joining("\n"));
        }
        if (value instanceof Raw raw) {
            return secret == null ? raw.html : raw.html.replace(Picture.escape(secret), "***");
        }
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> cleaned = new LinkedHashMap<>();
            map.forEach((key, each) -> cleaned.put(key.toString(), clean(each)));
            return cleaned;
        }
        return value instanceof List<?> list ? list.stream().map(this::clean).toList() : value;
    }
}
