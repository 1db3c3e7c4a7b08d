package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class SpecTest {
    private static final Path SPEC = Path.of("..", "docs", "spec.md");

    private static final Map<Character, String> CHAPTERS = new TreeMap<>(Map.of(
            '0', "Declaration and connection",
            '1', "Exclusion",
            '2', "Ownership",
            '3', "Leases",
            '4', "Waiting",
            '5', "Tokens",
            '6', "What befalls the store",
            '7', "Unknown outcomes and hand-over",
            'C', "The client"));

    /** spec.md and the rules that are tested say the same, word for word. */
    @Test
    void specSaysWhatIsTested() throws IOException {
        String expected = rules();
        String spec = Files.readString(SPEC, StandardCharsets.UTF_8);
        assertThat(spec).startsWith("# The rules");
        int from = spec.indexOf("## 0 ") < 0 ? spec.length() : spec.indexOf("## 0 ");
        if (!spec.substring(from).equals(expected)) {
            Path proposal = Path.of("target", "spec.md");
            Files.writeString(proposal, spec.substring(0, from) + expected, StandardCharsets.UTF_8);
            throw new AssertionError(
                    "docs/spec.md differs from Rule.java from its first chapter on. If the change of the"
                            + " rules is meant: cp lock-tck/target/spec.md docs/spec.md");
        }
    }

    /** The README tells authors what to look at, for each rule. */
    @Test
    void readmeHelpsWithEachRule() throws IOException {
        String readme = Files.readString(Path.of("README.md"), StandardCharsets.UTF_8);
        for (Rule rule : Rule.values()) {
            if (rule.scope != Rule.Scope.CLIENT) {
                assertThat(readme)
                        .as("lock-tck/README.md")
                        .contains("| " + rule.number() + " | " + rule.must + " | " + rule.check + " |");
            }
        }
    }

    /** Each rule of backends is one test of the kit, whose name begins with its number. */
    @Test
    void everyRuleIsATest() {
        for (Rule rule : Rule.values()) {
            if (rule.scope != Rule.Scope.CLIENT) {
                assertThat(tests(rule)).as(rule.toString()).hasSize(1);
            }
        }
    }

    private static List<String> tests(Rule rule) {
        String start = "rule_" + rule.number().replace('.', '_') + "_";
        return Stream.of(LockTck.class.getDeclaredMethods())
                .map(Method::getName)
                .filter(name -> name.startsWith(start))
                .toList();
    }

    private static String rules() {
        StringBuilder text = new StringBuilder();
        char chapter = ' ';
        for (Rule rule : Rule.values()) {
            char first = rule.number().charAt(0);
            if (first != chapter) {
                chapter = first;
                text.append(String.format(
                        Locale.ROOT, "%s## %s %s%n%n", text.length() == 0 ? "" : "\n", first, CHAPTERS.get(first)));
            }
            text.append(String.format(Locale.ROOT, "- **%s** %s%n", rule.number(), rule.must));
            text.append(String.format(Locale.ROOT, "  *%s*%n", rule.intent));
            text.append(String.format(
                    Locale.ROOT,
                    "  Holds: %s. Test: `%s`%n",
                    rule.scope.text,
                    rule.scope == Rule.Scope.CLIENT
                            ? "SimulationTest"
                            : tests(rule).get(0)));
        }
        return text.toString();
    }
}
