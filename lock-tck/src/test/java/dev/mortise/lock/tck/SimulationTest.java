package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.World;
import dev.mortise.lock.WrongClient;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import dev.mortise.lock.tck.History.Finding;
import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The engine and the in-memory backend in virtual time: three clients, a network that loses, delays and repeats, processes
 * that stand still, an administrator, hand-overs, and a resource that checks tokens. The rules of chapter C, and of chapter
 * 5, hold in every scenario; each wrong client is found by the rule that it names.
 *
 * <p>{@code -Dmortise.tck.simulations=200000} plays as many. A failure names its scenario, which is shortened; its seed
 * alone makes the same again.
 */
class SimulationTest {
    private static final int SIMULATIONS = Integer.getInteger("mortise.tck.simulations", 5_000);
    private static final int LONGEST = 30;

    /** A wrong client that needs more scenarios than this is not found. */
    private static final int ENOUGH = 2_000;

    private static final long LEASE = 1_000_000_000;

    private static final WrongTable TABLE = new WrongTable("Clients", WrongClient.values());

    // Undone claims that nobody answers for are told in the log, by the thousand here.
    private final Logger log = Logger.getLogger("dev.mortise.lock");

    @BeforeEach
    void quiet() {
        log.setLevel(Level.OFF);
    }

    @AfterEach
    void loud() {
        log.setLevel(null);
    }

    private record Played(List<String> broken, World.Reached reached) {
        boolean breaks(String rule) {
            return broken.stream().anyMatch(b -> b.startsWith(rule + " "));
        }
    }

    private static Played play(WrongClient wrong, Scenario scenario) {
        World world = new World(Scenario.CLIENTS, wrong);
        History history = new History();
        Map<String, Resource> resources = new HashMap<>();
        for (Step step : scenario.steps()) {
            String name = String.valueOf((char) ('a' + step.name()));
            long part = LEASE / 1000 * step.amount();
            switch (step.kind()) {
                case ACQUIRE -> world.acquire(step.client(), name, part);
                case RELEASE -> world.release(step.client(), name);
                case WAIT -> world.advance(part);
                case EDGE -> world.edge(part);
                case FATE -> world.fate(step.client(), step.amount());
                case STOP -> world.stop(step.client(), part);
                case EVICT -> world.evict(name);
                case CANCEL -> world.cancel(step.client());
                case ADOPT -> world.handOver(step.client(), name);
                case READ, WRITE ->
                    world.access(step.client(), name).ifPresent(access -> {
                        Op op = step.kind() == Step.Kind.READ ? Op.READ : Op.WRITE;
                        Resource resource = resources.computeIfAbsent(name, n -> new Resource());
                        Event asked = Event.of(
                                        step.client(),
                                        access.attempt(),
                                        name,
                                        op,
                                        Outcome.REFUSED,
                                        access.now(),
                                        access.now())
                                .granted(access.token(), 0, 0);
                        Event event = op == Op.READ ? resource.read(asked) : resource.write(asked);
                        if (event != null) {
                            history.add(event);
                        }
                    });
                default -> {}
            }
        }
        List<String> broken = new ArrayList<>(world.quiesce());
        for (Finding finding : Checker.check(history, lease -> lease).findings()) {
            broken.add(finding.rule().number() + " " + finding.what());
        }
        return new Played(broken, world.reached());
    }

    /** Clients with the engine keep all rules, in every scenario. */
    @Test
    void noScenarioBreaksARule() {
        long start = System.nanoTime();
        World.Reached reached = new World.Reached(0, 0, 0);
        for (int seed = 1; seed <= SIMULATIONS; seed++) {
            Scenario scenario = Scenario.client(seed, LONGEST);
            Played played = play(null, scenario);
            if (!played.broken.isEmpty()) {
                String rule =
                        played.broken.get(0).substring(0, played.broken.get(0).indexOf(' '));
                Scenario shortest = scenario.shrink(s -> play(null, s).breaks(rule));
                throw new AssertionError("seed " + seed + ", shortened: " + shortest.text() + "\n"
                        + String.join("\n", play(null, shortest).broken));
            }
            reached = reached.plus(played.reached);
        }
        System.out.printf(
                Locale.ROOT,
                "%d simulated scenarios in %.1f s: %d leases, %d losses, %d hand-overs, no rule broken%n",
                SIMULATIONS,
                (System.nanoTime() - start) / 1e9,
                reached.leases(),
                reached.losses(),
                reached.handOvers());
        // They would prove little if they did not reach the rules.
        assertThat(reached.leases()).isGreaterThan(SIMULATIONS);
        assertThat(reached.losses()).isGreaterThan(SIMULATIONS / 10);
        assertThat(reached.handOvers()).isGreaterThan(SIMULATIONS / 100);
    }

    /** A wrong client breaks the rule that names it: no other counts. */
    @ParameterizedTest
    @EnumSource
    void wrongClientIsFound(WrongClient wrong) {
        for (int seed = 1; seed <= ENOUGH; seed++) {
            Scenario scenario = Scenario.client(seed, LONGEST);
            if (play(wrong, scenario).breaks(wrong.rule)) {
                Scenario shortest = scenario.shrink(s -> play(wrong, s).breaks(wrong.rule));
                TABLE.row(wrong, wrong.what, wrong.rule, String.valueOf(seed), "`" + shortest.text() + "`");
                return;
            }
        }
        throw new AssertionError(wrong + " was not found by rule " + wrong.rule + " in " + ENOUGH + " scenarios");
    }

    @AfterAll
    static void table() throws IOException {
        TABLE.end();
    }

    /** There is a wrong client for each rule of the client. */
    @Test
    void everyRuleHasAWrongClient() {
        Set<Rule> rules = EnumSet.allOf(Rule.class);
        rules.removeIf(rule -> rule.scope != Rule.Scope.CLIENT);
        Set<String> named = new HashSet<>();
        for (WrongClient wrong : WrongClient.values()) {
            named.add(wrong.rule);
        }
        assertThat(rules.stream().map(Rule::number).toList()).allMatch(named::contains);
    }
}
