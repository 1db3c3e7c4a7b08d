package dev.mortise.lock.tck;

import dev.mortise.lock.tck.Step.Kind;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.function.Predicate;

/**
 * A list of steps, with where it came from: a line of the corpus or a seed.
 *
 * @param origin what makes the same scenario again
 */
record Scenario(String origin, List<Step> steps) {
    static final int CLIENTS = 3;
    static final int NAMES = 3;

    /** Thousandths of a lease. */
    private static final int[] WAITS = {10, 50, 150, 340, 500, 700, 990, 1200, 2500};

    /** Well before a lease's end, and after the store's. */
    private static final int[] HOLDS = {-400, 150, 150};

    /** Around a lease's end: before and after the holder's deadline, and after the store's. */
    private static final int[] EDGES = {-400, -20, -13, -9, -4, 1, 4, 12, 40};

    Scenario {
        steps = List.copyOf(steps);
    }

    /** The fixed scenarios, which run first: what each rule needs to be seen, and what was found once. */
    static List<Scenario> corpus() {
        return fixed("corpus.txt", "corpus, ");
    }

    /** The fixed scenarios for client processes. */
    static List<Scenario> processes() {
        return fixed("processes.txt", "processes, ");
    }

    private static List<Scenario> fixed(String resource, String origin) {
        List<Scenario> all = new ArrayList<>();
        InputStream file = Objects.requireNonNull(Scenario.class.getResourceAsStream(resource));
        try (BufferedReader in = new BufferedReader(new InputStreamReader(file, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (!line.isBlank() && !line.startsWith("#")) {
                    int colon = line.indexOf(':');
                    all.add(parse(origin + line.substring(0, colon), line.substring(colon + 1)));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return all;
    }

    /** Steps between semicolons, as {@link #text} prints them. */
    static Scenario parse(String origin, String text) {
        List<Step> steps = new ArrayList<>();
        for (String step : text.split(";", -1)) {
            if (!step.isBlank()) {
                steps.add(Step.parse(step));
            }
        }
        return new Scenario(origin, steps);
    }

    String text() {
        StringBuilder text = new StringBuilder();
        for (Step step : steps) {
            text.append(text.length() == 0 ? "" : "; ").append(step);
        }
        return text.toString();
    }

    Scenario with(List<Step> other) {
        return new Scenario(origin, other);
    }

    /** For raw calls of a backend: what the store must answer to claims whatever their client thinks of them. */
    static Scenario raw(long seed, int longest) {
        SplittableRandom random = new SplittableRandom(seed);
        List<Step> steps = new ArrayList<>();
        int length = 2 + random.nextInt(longest - 1);
        for (int i = 0; i < length; i++) {
            int dice = random.nextInt(100);
            Kind kind;
            if (dice < 28) {
                kind = Kind.ACQUIRE;
            } else if (dice < 38) {
                kind = Kind.RELEASE;
            } else if (dice < 50) {
                kind = Kind.RENEW;
            } else if (dice < 55) {
                kind = Kind.RENEW_ALL;
            } else if (dice < 60) {
                kind = Kind.AGAIN;
            } else if (dice < 67) {
                kind = Kind.WAIT;
            } else if (dice < 76) {
                kind = Kind.EDGE;
            } else if (dice < 80) {
                kind = Kind.EVICT;
            } else if (dice < 83) {
                kind = Kind.FOREIGN_RELEASE;
            } else if (dice < 86) {
                kind = Kind.FOREIGN_RENEW;
            } else if (dice < 90) {
                kind = List.of(Kind.ADOPT, Kind.ADOPT_AGAIN, Kind.ADOPT_SECOND).get(random.nextInt(3));
            } else if (dice < 92) {
                kind = Kind.RACE;
            } else if (dice < 94) {
                kind = List.of(Kind.SLOW, Kind.LOSE, Kind.HOLD_UP).get(random.nextInt(3));
            } else {
                kind = random.nextBoolean() ? Kind.READ : Kind.WRITE;
            }
            steps.add(step(kind, random));
        }
        return new Scenario("seed " + seed, steps);
    }

    /** For clients with an engine, over a network that breaks. */
    static Scenario client(long seed, int longest) {
        SplittableRandom random = new SplittableRandom(seed);
        List<Step> steps = new ArrayList<>();
        int length = 2 + random.nextInt(longest - 1);
        for (int i = 0; i < length; i++) {
            int dice = random.nextInt(100);
            Kind kind;
            if (dice < 26) {
                kind = Kind.ACQUIRE;
            } else if (dice < 36) {
                kind = Kind.RELEASE;
            } else if (dice < 50) {
                kind = Kind.WAIT;
            } else if (dice < 60) {
                kind = Kind.EDGE;
            } else if (dice < 72) {
                kind = Kind.FATE;
            } else if (dice < 77) {
                kind = Kind.STOP;
            } else if (dice < 81) {
                kind = Kind.EVICT;
            } else if (dice < 84) {
                kind = Kind.CANCEL;
            } else if (dice < 87) {
                kind = Kind.ADOPT;
            } else {
                kind = random.nextBoolean() ? Kind.READ : Kind.WRITE;
            }
            steps.add(step(kind, random));
        }
        return new Scenario("seed " + seed, steps);
    }

    /**
     * For clients in processes of their own, which are stopped and killed, while faults befall their store.
     *
     * @param faults that may be among the steps, at most two
     */
    static Scenario processes(long seed, int longest, List<Fault> faults) {
        SplittableRandom random = new SplittableRandom(seed);
        List<Step> steps = new ArrayList<>();
        int length = 4 + random.nextInt(longest - 3);
        boolean faulty = !faults.isEmpty() && random.nextInt(3) > 0;
        // The second may come while the first lasts.
        int first = faulty ? random.nextInt(length) : -1;
        int second = faulty && random.nextBoolean() ? random.nextInt(length) : -1;
        for (int i = 0; i < length; i++) {
            if (i == first || i == second) {
                Fault fault = faults.get(random.nextInt(faults.size()));
                steps.add(Step.fault(fault, WAITS[random.nextInt(WAITS.length - 1)]));
                continue;
            }
            int dice = random.nextInt(100);
            Kind kind;
            if (dice < 38) {
                kind = Kind.ACQUIRE;
            } else if (dice < 50) {
                kind = Kind.RELEASE;
            } else if (dice < 58) {
                kind = Kind.WAIT;
            } else if (dice < 66) {
                kind = Kind.EDGE;
            } else if (dice < 77) {
                kind = Kind.STOP;
            } else if (dice < 82) {
                kind = Kind.KILL;
            } else if (dice < 86) {
                kind = Kind.EVICT;
            } else if (dice < 89) {
                kind = Kind.ADOPT;
            } else {
                kind = random.nextInt(3) == 0 ? Kind.READ : Kind.WRITE;
            }
            steps.add(step(kind, random));
        }
        return new Scenario("processes, seed " + seed, steps);
    }

    private static Step step(Kind kind, SplittableRandom random) {
        int name = random.nextInt(3) == 0 ? 1 + random.nextInt(NAMES - 1) : 0;
        int amount = switch (kind) {
            case ACQUIRE -> random.nextBoolean() ? 0 : WAITS[random.nextInt(WAITS.length)];
            case WAIT, STOP -> WAITS[random.nextInt(WAITS.length)];
            case EDGE -> EDGES[random.nextInt(EDGES.length)];
            case SLOW -> random.nextInt(3) * 60;
            case HOLD_UP -> HOLDS[random.nextInt(HOLDS.length)];
            case RENEW, RELEASE -> random.nextInt(4) == 0 ? 1 : 0;
            case FATE -> random.nextInt(10);
            default -> 0;
        };
        return new Step(kind, random.nextInt(CLIENTS), name, amount);
    }

    /**
     * The shortest scenario found that still fails: parts are left out, then waits, clients and names are made smaller, as
     * long as that goes on.
     */
    Scenario shrink(Predicate<Scenario> fails) {
        Scenario best = this;
        for (boolean progress = true; progress; ) {
            progress = false;
            for (int size = Math.max(1, best.steps.size() / 2); size >= 1; size /= 2) {
                for (int from = 0; from + size <= best.steps.size(); ) {
                    List<Step> shorter = new ArrayList<>(best.steps);
                    shorter.subList(from, from + size).clear();
                    if (!shorter.isEmpty() && fails.test(best.with(shorter))) {
                        best = best.with(shorter);
                        progress = true;
                    } else {
                        from++;
                    }
                }
            }
            for (int i = 0; i < best.steps.size(); i++) {
                for (Step simpler : simpler(best.steps.get(i))) {
                    List<Step> changed = new ArrayList<>(best.steps);
                    changed.set(i, simpler);
                    if (fails.test(best.with(changed))) {
                        best = best.with(changed);
                        progress = true;
                        break;
                    }
                }
            }
        }
        return best;
    }

    private static List<Step> simpler(Step step) {
        List<Step> all = new ArrayList<>();
        if (step.kind().needs('c') && step.client() > 0) {
            all.add(step.with(step.client() - 1, step.name(), step.amount()));
        }
        if (step.kind().needs('n') && step.name() > 0) {
            all.add(step.with(step.client(), step.name() - 1, step.amount()));
        }
        if (step.kind().needs('a')
                && !List.of(Kind.EDGE, Kind.HOLD_UP, Kind.FATE).contains(step.kind())) {
            if (step.amount() > 0 && step.kind() != Kind.WAIT && step.kind() != Kind.STOP) {
                all.add(step.with(step.client(), step.name(), 0));
            }
            for (int wait : WAITS) {
                if (wait < step.amount()) {
                    all.add(step.with(step.client(), step.name(), wait));
                }
            }
        }
        return all;
    }
}
