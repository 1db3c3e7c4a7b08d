package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReportTest {
    private static final String EVIL = "\"><script>alert(1)</script>&'\u202egnp\u0000\u001b[31m";
    private static final String SECRET = "correct-horse";

    @TempDir
    private Path folder;

    /** A run in virtual time on a backend that grants what is held, on a store that knows too much of itself. */
    private static Kit run(Wrong wrong) throws Exception {
        VirtualClock clock = new VirtualClock();
        SketchStore sketch = new SketchStore(clock, wrong, Duration.ofMillis(3));
        Map<String, String> about = new LinkedHashMap<>();
        about.put("store", "a sketch");
        about.put(EVIL, EVIL);
        about.put("url", "sketch://me:" + SECRET + "@host");
        Store store = new Store() {
            @Override
            public LockBackend connect() {
                return sketch.connect();
            }

            @Override
            public void evict(String name) {
                sketch.evict(name);
            }

            @Override
            public Map<String, String> about() {
                return about;
            }

            @Override
            public Optional<String> uri() {
                return Optional.of("sketch://me:" + SECRET + "@host");
            }
        };
        Kit kit = new Kit(store, clock, Delays.DEFAULT, 1, 40);
        for (Rule rule : Rule.values()) {
            boolean real = Directed.has(rule) || FaultRules.has(rule) || Unanswered.has(rule);
            if (rule.scope != Rule.Scope.CLIENT && !real) {
                kit.judge(rule);
            }
        }
        return kit;
    }

    private static Report report(Kit kit) {
        return new Report(kit, "A run of " + EVIL, "mvn test '-D{}'", Instant.EPOCH, Duration.ofMillis(61_500));
    }

    /** Three clients as processes have them: stopped, killed, and through a fault, for some hundreds of calls. */
    private static History manyCalls() {
        History history = new History();
        long ms = 1_000_000;
        long lease = 1200 * ms;
        history.add(Event.of(-1, -1, "server-killed", Op.FAULT, Outcome.DONE, 900 * ms, 2100 * ms));
        history.add(Event.of(1, -1, "", Op.STOP, Outcome.DONE, 300 * ms, 700 * ms));
        history.add(Event.of(2, -1, "", Op.KILL, Outcome.DONE, 2500 * ms, 2501 * ms));
        long at = 0;
        for (int attempt = 0; attempt < 60; attempt++) {
            int client = attempt % 3;
            Outcome outcome = attempt % 5 == 4 ? Outcome.UNKNOWN : attempt % 7 == 6 ? Outcome.REFUSED : Outcome.DONE;
            history.add(Event.of(client, attempt, EVIL, Op.ACQUIRE, outcome, at, at + ms)
                    .granted(outcome == Outcome.DONE ? attempt + 1 : 0, at, lease));
            for (int i = 1; outcome == Outcome.DONE && i < 6; i++) {
                history.add(
                        Event.of(client, attempt, EVIL, Op.RENEW, Outcome.DONE, at + 20L * i * ms, at + 21L * i * ms)
                                .granted(attempt + 1, at + 20L * i * ms, lease));
            }
            Op end = attempt % 4 == 3 ? Op.LOST : Op.RELEASE;
            history.add(Event.of(client, attempt, EVIL, end, Outcome.DONE, at + 150 * ms, at + 151 * ms));
            at += 140 * ms;
        }
        return history;
    }

    /** Whoever opens the page sees all of it, whatever is in it and wherever. */
    @Test
    void pageIsReadInABrowser() throws Exception {
        Path target = Files.createDirectories(Path.of("target", "report-test"));
        try (Kit broken = run(Wrong.NO_CHECK);
                Kit right = run(null);
                Browser browser = new Browser(folder)) {
            broken.shown.add(new Kit.Shown(
                    Fault.SERVER_KILLED,
                    "Two held " + EVIL + " at a time; the tokens told them apart.",
                    true,
                    false,
                    manyCalls()));
            broken.caused.put(Fault.SERVER_KILLED, 3);
            report(broken).write(target, "broken");
            report(right).write(target, "right");
            for (String name : List.of("broken", "right")) {
                Path page = target.resolve(name + ".html");
                for (int width : new int[] {360, 1200}) {
                    for (boolean dark : new boolean[] {false, true}) {
                        browser.open(page, width, dark);
                        look(browser, name, width);
                        browser.picture(target.resolve(name + "-" + width + (dark ? "-dark" : "") + ".png"));
                    }
                }
            }
            assertThat(browser.complaints()).isEmpty();
        }
    }

    private static void look(Browser browser, String name, int width) throws Exception {
        assertThat(browser.ask("window.innerWidth").getAsInt()).isEqualTo(width);
        assertThat(browser.ask("document.documentElement.scrollWidth").getAsInt())
                .as("wide as a window of " + width + ", without scrolling from side to side")
                .isLessThanOrEqualTo(width);
        assertThat(strings(browser.ask("[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll')"
                        + " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 99))")))
                .as("what is cut at the right edge")
                .isEmpty();
        String text = browser.ask("document.body.innerText").getAsString();
        assertThat(text)
                .contains("A run of \"><script>alert(1)</script>&'\\u202egnp\\u0000\\u001b[31m")
                .contains("a sketch", Rule.R1_1.must, "release and expiry", "BEST_EFFORT")
                .doesNotContain(SECRET);
        assertThat(browser.ask("document.scripts.length").getAsInt()).isZero();
        assertThat(browser.ask("document.documentElement.lang").getAsString()).isEqualTo("en");
        assertThat(browser.ask("document.querySelectorAll('table:not(:has(thead th[scope=col]))').length")
                        .getAsInt())
                .as("tables without headers")
                .isZero();
        assertThat(strings(browser.ask("(ids => ids.filter((id, i) => ids.indexOf(id) !== i))"
                        + "([...document.querySelectorAll('[id]')].map(e => e.id))")))
                .as("ids that are there twice")
                .isEmpty();
        assertThat(strings(browser.ask("[...document.querySelectorAll('svg[role=img]')].filter(s => !s.querySelector("
                        + "'title')?.textContent || !s.querySelector('desc')?.textContent).map(s => s.outerHTML)")))
                .as("pictures without a title or description")
                .isEmpty();
        assertThat(strings(browser.ask(CONTRAST)))
                .as("text that is hard to read")
                .isEmpty();
        if (name.equals("broken")) {
            assertThat(text).contains("What is broken", "mortise.tck.replay=", "Known to be unsafe, and shown");
            assertThat(strings(browser.ask("[...document.querySelectorAll('svg.what text')].map(t => t.textContent)")))
                    .contains("token 1", "server killed", "acquire #0", "release #0", "stop", "kill");
            assertThat(strings(browser.ask(OVERLAPS)))
                    .as("words over each other in a picture")
                    .isEmpty();
        } else {
            assertThat(text).doesNotContain("What is broken");
        }
    }

    /** By the formula of WCAG 2, which asks for 4.5. */
    private static final String CONTRAST = """
            (() => {
              const rgb = c => c.match(/[\\d.]+/g).map(Number);
              const light = c => rgb(c).slice(0, 3).map(v => v / 255)
                .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
              const behind = e => { for (; e; e = e.parentElement) {
                const c = getComputedStyle(e).backgroundColor; if (rgb(c)[3] !== 0) return c; } return 'rgb(255,255,255)'; };
              return [...document.querySelectorAll('body *:not(title, desc)')]
                .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
                .filter(e => { const s = getComputedStyle(e);
                  const a = light(e.closest('svg') ? s.fill : s.color), b = light(behind(e));
                  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5; })
                .map(e => e.outerHTML.slice(0, 80));
            })()""";

    private static final String OVERLAPS = """
            [...document.querySelectorAll('svg.what')].flatMap(svg => {
              const all = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
              return all.flatMap(([a, p], i) => all.slice(i + 1)
                .filter(([b, q]) => p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 4 && q.top < p.bottom - 4)
                .map(([b]) => a + ' | ' + b));
            })""";

    private static List<String> strings(JsonElement array) {
        List<String> all = new ArrayList<>();
        array.getAsJsonArray().forEach(each -> all.add(each.getAsString()));
        return all;
    }

    /** The JSON has the shape that docs/report.md describes, in the same order at each run. */
    @Test
    void jsonIsForPrograms() throws Exception {
        try (Kit kit = run(Wrong.NO_CHECK)) {
            String text = report(kit).json();
            assertThat(text).doesNotContain(SECRET);
            JsonObject json = JsonParser.parseString(text).getAsJsonObject();
            assertThat(json.keySet())
                    .containsExactly(
                            "format",
                            "version",
                            "title",
                            "verdict",
                            "passed",
                            "failed",
                            "skipped",
                            "complete",
                            "store",
                            "run",
                            "declared",
                            "events",
                            "chapters",
                            "shown");
            assertThat(json.get("format").getAsString()).isEqualTo("mortise-tck");
            assertThat(json.get("version").getAsInt()).isEqualTo(Report.VERSION);
            assertThat(json.get("verdict").getAsString()).isEqualTo("failed");
            assertThat(json.getAsJsonObject("store").keySet()).startsWith("store");
            JsonObject rule = rule(json, "1.1").orElseThrow();
            assertThat(rule.keySet()).containsExactly("rule", "must", "why", "verdict", "tries", "millis", "failure");
            assertThat(rule.getAsJsonObject("failure").keySet())
                    .contains("seen", "lookAt", "seed", "origin", "scenario", "replay", "leaseMillis", "history");
            String scenario = rule.getAsJsonObject("failure").get("scenario").getAsString();
            assertThat(Scenario.parse("", scenario).text()).isEqualTo(scenario);
        }
    }

    private static Optional<JsonObject> rule(JsonObject json, String number) {
        return StreamSupport.stream(json.getAsJsonArray("chapters").spliterator(), false)
                .flatMap(chapter -> StreamSupport.stream(
                        chapter.getAsJsonObject().getAsJsonArray("rules").spliterator(), false))
                .map(JsonElement::getAsJsonObject)
                .filter(rule -> rule.get("rule").getAsString().equals(number))
                .findFirst();
    }
}
