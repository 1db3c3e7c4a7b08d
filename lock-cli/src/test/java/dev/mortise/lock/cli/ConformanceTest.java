package dev.mortise.lock.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/**
 * README's table of stores and chapters, from the reports of the kit's runs on all stores, which have run before the tests of
 * this module do. Of a module that was not tested this time there are none, and its rows stay as they are.
 */
class ConformanceTest {
    private static final Path ROOT = Path.of("..");
    private static final String BEGIN = "<!-- conformance: made by ConformanceTest from the kit's reports -->\n";
    private static final String END = "<!-- /conformance -->\n";

    /** In the order in which the README names them. */
    private static final List<String> MODULES =
            List.of("lock-redis", "lock-redlock", "lock-jdbc", "lock-etcd", "lock-zookeeper");

    /** Failed, passed and skipped rules of one chapter, and why those were skipped. */
    private record Cell(int failed, int passed, int skipped, Set<String> reasons) {
        String text(List<String> notes) {
            StringBuilder text = new StringBuilder();
            if (failed > 0) {
                text.append("**").append(failed).append(" broken**, ");
            }
            text.append(passed);
            if (skipped > 0) {
                text.append(" + ").append(skipped).append(" not tested");
                for (String reason : reasons) {
                    if (!notes.contains(reason)) {
                        notes.add(reason);
                    }
                    text.append(" (").append(notes.indexOf(reason) + 1).append(')');
                }
            }
            return text.toString();
        }
    }

    private record Row(String module, String store, Map<String, Cell> cells) {}

    /** The README shows what the runs have found: the same stores and chapters, as many rules in each, the same broken. */
    @Test
    void readmeShowsWhatTheRunsFound() throws IOException {
        List<Row> rows = rows();
        assumeFalse(rows.isEmpty(), "no module with a store was tested before this one");
        String readme = Files.readString(ROOT.resolve("README.md"));
        int from = readme.indexOf(BEGIN);
        int to = readme.indexOf(END);
        assertThat(from).as("the begin of the table in README.md").isPositive();
        assertThat(to).as("the end of the table in README.md").isGreaterThan(from);
        List<String> written =
                readme.substring(from + BEGIN.length(), to).lines().toList();
        List<String> made = table(rows, written);
        List<String> differences = new ArrayList<>();
        for (String line : made) {
            if (line.startsWith("|") && !shapes(written).contains(shape(line))) {
                differences.add(line);
            }
        }
        for (String line : written) {
            if (line.startsWith("|") && !shapes(made).contains(shape(line))) {
                differences.add("not any more: " + line);
            }
        }
        Path proposal = Path.of("target", "README.md");
        Files.writeString(
                proposal,
                readme.substring(0, from + BEGIN.length()) + String.join("\n", made) + "\n" + readme.substring(to));
        assertThat(differences)
                .as("the table of README.md differs from what the runs found. If that is right:"
                        + " cp lock-cli/target/README.md README.md")
                .isEmpty();
    }

    private static List<String> shapes(List<String> lines) {
        return lines.stream().map(ConformanceTest::shape).toList();
    }

    /**
     * A row without what may differ from run to run: a rule that was not tested on a busy machine counts as one that was.
     * What is left is how many rules there are, and how many are broken.
     */
    private static String shape(String line) {
        List<String> cells = new ArrayList<>();
        for (String cell : cells(line)) {
            String open = cell.replaceAll(" \\(\\d+\\)", "").replace(" not tested", "");
            String[] parts = open.split(" \\+ ", -1);
            cells.add(
                    parts.length == 2 && parts[0].matches(".*\\d") && parts[1].matches("\\d+")
                            ? parts[0].replaceAll("\\d+$", "") + (last(parts[0]) + Integer.parseInt(parts[1]))
                            : open);
        }
        return String.join("|", cells);
    }

    private static int last(String text) {
        return Integer.parseInt(text.replaceAll(".*?(\\d+)$", "$1"));
    }

    private static List<String> cells(String line) {
        return Arrays.stream(line.split("\\|", -1)).map(String::trim).toList();
    }

    private static List<String> table(List<Row> rows, List<String> written) {
        Set<String> chapters = new TreeSet<>();
        rows.forEach(row -> chapters.addAll(row.cells.keySet()));
        List<String> lines = new ArrayList<>();
        lines.add("| store | module | " + String.join(" | ", chapters) + " |");
        lines.add("|---|---|" + "---|".repeat(chapters.size()));
        List<String> notes = new ArrayList<>();
        if (!MODULES.stream().allMatch(module -> rows.stream().anyMatch(row -> row.module.equals(module)))) {
            // Those of the rows that stay.
            written.stream()
                    .filter(line -> line.startsWith("- ("))
                    .forEach(line -> notes.add(line.substring(line.indexOf(") ") + 2, line.length() - 1)));
        }
        for (String module : MODULES) {
            List<Row> here =
                    rows.stream().filter(row -> row.module.equals(module)).toList();
            if (here.isEmpty()) {
                written.stream()
                        .filter(line ->
                                line.startsWith("|") && cells(line).get(2).equals("`" + module + "`"))
                        .forEach(lines::add);
            }
            for (Row row : here) {
                StringBuilder line = new StringBuilder("| " + row.store.replace('|', '/') + " | `" + module + "` |");
                for (String chapter : chapters) {
                    Cell cell = row.cells.get(chapter);
                    line.append(' ')
                            .append(cell == null ? "" : cell.text(notes))
                            .append(" |");
                }
                lines.add(line.toString());
            }
        }
        if (!notes.isEmpty()) {
            lines.add("");
            for (String note : notes) {
                lines.add("- (" + (notes.indexOf(note) + 1) + ") " + note + ".");
            }
        }
        return lines;
    }

    private static List<Row> rows() throws IOException {
        List<Row> rows = new ArrayList<>();
        for (String module : MODULES) {
            Path folder = ROOT.resolve(module).resolve("target").resolve("lock-tck");
            Map<String, Path> reports = new TreeMap<>();
            if (Files.isDirectory(folder)) {
                try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "*.json")) {
                    files.forEach(file -> reports.put(file.getFileName().toString(), file));
                }
            }
            for (Path report : reports.values()) {
                JsonObject json =
                        JsonParser.parseString(Files.readString(report)).getAsJsonObject();
                assertThat(json.get("version").getAsInt()).as(report.toString()).isEqualTo(1);
                if (json.get("complete").getAsBoolean()) {
                    rows.add(row(module, json));
                }
            }
        }
        return rows;
    }

    private static Row row(String module, JsonObject json) {
        JsonElement store = json.getAsJsonObject("store").get("store");
        Map<String, Cell> cells = new LinkedHashMap<>();
        for (JsonElement each : json.getAsJsonArray("chapters")) {
            JsonObject chapter = each.getAsJsonObject();
            Set<String> reasons = new TreeSet<>();
            for (JsonElement rule : chapter.getAsJsonArray("rules")) {
                JsonElement reason = rule.getAsJsonObject().get("reason");
                if (reason != null) {
                    reasons.add(reason.getAsString());
                }
            }
            cells.put(
                    chapter.get("chapter").getAsString(),
                    new Cell(
                            chapter.get("failed").getAsInt(),
                            chapter.get("passed").getAsInt(),
                            chapter.get("skipped").getAsInt(),
                            reasons));
        }
        return new Row(
                module, Objects.requireNonNullElse(store, json.get("title")).getAsString(), cells);
    }
}
