package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * One of the tables of {@code docs/wrong-backends.md}: what the tests see must be what it says. {@code
 * -Dmortise.tck.table=true} writes what they see.
 */
final class WrongTable {
    private static final Path PAGE = Path.of("..", "docs", "wrong-backends.md");
    private static final boolean WRITE = Boolean.getBoolean("mortise.tck.table");

    private final String title;
    private final List<Enum<?>> all;
    private final Map<Integer, String> rows = new TreeMap<>();

    /**
     * A table.
     *
     * @param title of the chapter that it is in
     * @param all in the order of its rows
     */
    WrongTable(String title, Enum<?>... all) {
        this.title = title;
        this.all = List.of(all);
    }

    /** A mistake, and what has found it. */
    @SuppressWarnings("EnumOrdinal") // The table has them in the order in which they are declared.
    void row(Enum<?> mistake, String what, String rule, String needed, String shortest) {
        String row = String.format(
                Locale.ROOT,
                "| %s | %s | %s | %s | %s |",
                mistake.name().toLowerCase(Locale.ROOT).replace('_', ' '),
                what,
                rule,
                needed,
                shortest);
        rows.put(all.indexOf(mistake), row);
        if (!WRITE) {
            assertThat(table())
                    .as(PAGE + ", chapter " + title + "; -Dmortise.tck.table=true writes what was seen")
                    .contains(row);
        }
    }

    /** After all: the table has no row but those of the mistakes that there are. */
    void end() throws IOException {
        if (WRITE && rows.size() == all.size()) {
            String page = Files.readString(PAGE, StandardCharsets.UTF_8);
            int from = page.indexOf(String.join("\n", table()), page.indexOf("## " + title + "\n"));
            int to = page.indexOf("\n\n", from) < 0 ? page.length() - 1 : page.indexOf("\n\n", from);
            Files.writeString(
                    PAGE,
                    page.substring(0, from) + String.join("\n", rows.values()) + page.substring(to),
                    StandardCharsets.UTF_8);
        }
        assertThat(table()).as(PAGE + ", chapter " + title).hasSize(all.size());
    }

    /** The rows as they are on the page. */
    private List<String> table() {
        try {
            String page = Files.readString(PAGE, StandardCharsets.UTF_8);
            String chapter = page.substring(page.indexOf("## " + title + "\n"));
            int end = chapter.indexOf("\n## ");
            return Arrays.stream((end < 0 ? chapter : chapter.substring(0, end)).split("\n", -1))
                    .filter(line -> line.startsWith("| "))
                    .skip(1)
                    .toList();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }
}
