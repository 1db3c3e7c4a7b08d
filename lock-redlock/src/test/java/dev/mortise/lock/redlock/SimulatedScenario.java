package dev.mortise.lock.redlock;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;

/**
 * What happens in one simulation, as text {@code N3 T150 SILENT: ACQ(c0,x,1000) WAIT(10) FLUSH(n2)}.
 *
 * @param servers N
 * @param timeout the node timeout, in milliseconds
 * @param silent whether a call whose message is lost never ends; else it fails after a while
 * @param fresh whether the servers are new ones; else a deployment in use
 */
record SimulatedScenario(int servers, int timeout, boolean silent, boolean fresh, List<Step> steps) {
    static final int CLIENTS = 3;

    /** The letters say what a step's three numbers are: c client, k name, m some servers, n server, t milliseconds. */
    enum Kind {
        /** Acquires a name, for a lease of t. */
        ACQ("ckt"),
        /** Acquires once more for the owner of the claim. */
        AGAIN("ck"),
        /** Gives up an attempt that is under way. */
        ABANDON("ck"),
        REL("ck"),
        /** Renews all claims. */
        RENEW("c"),
        WAIT("t"),
        /** Waits until so long before the first claim ends. */
        EDGE("t"),
        /** Reads and, after t, writes a resource that is guarded by the first name's token. */
        WRITE("ct"),
        PAUSE("ct"),
        /** The client's process ends, and a new one begins. */
        CRASH("c"),
        /** The client's wall clock is so far ahead from now on. */
        SKEW("ct"),
        /** The next request to each of these servers takes longer by t. */
        SLOWQ("cmt"),
        /** The next reply. */
        SLOWP("cmt"),
        /** The next request is lost. */
        DROPQ("cm"),
        DROPP("cm"),
        /** The next request comes a second time, after t. */
        DUP("cmt"),
        /** The server's clock jumps. */
        JUMP("nt"),
        /** The server cannot be reached for a time. */
        DOWN("nt"),
        /** The server's data are gone. */
        FLUSH("n"),
        /** The server's process starts anew, with its data. */
        RESTART("n"),
        SNAP("n"),
        /** The server's process starts anew, with the data of the last snapshot, or none. */
        ROLL("n"),
        /** The client looks at the deployment, and initialises it if it is new. */
        START("c"),
        /** An operator's command. */
        REPAIR("c");

        final String numbers;

        Kind(String numbers) {
            this.numbers = numbers;
        }

        boolean has(char letter) {
            return numbers.indexOf(letter) >= 0;
        }
    }

    /** One step: c is a client, a a name, server or mask of servers, t milliseconds. */
    record Step(Kind kind, int c, int a, long t) {
        @Override
        public String toString() {
            StringBuilder text = new StringBuilder(kind.name());
            char before = '(';
            for (char each : kind.numbers.toCharArray()) {
                text.append(before);
                before = ',';
                switch (each) {
                    case 'c' -> text.append('c').append(c);
                    case 'k' -> text.append(a == 0 ? 'x' : 'y');
                    case 'n' -> text.append('n').append(a);
                    case 'm' -> {
                        for (int i = 0; i < 9; i++) {
                            if ((a >> i & 1) != 0) {
                                text.append('n').append(i);
                            }
                        }
                    }
                    default -> text.append(t);
                }
            }
            return text.append(')').toString();
        }
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("N" + servers + " T" + timeout);
        text.append(silent ? " SILENT" : "").append(fresh ? " FRESH" : "").append(':');
        steps.forEach(step -> text.append(' ').append(step));
        return text.toString();
    }

    static SimulatedScenario parse(String text) {
        int colon = text.indexOf(':');
        String head = text.substring(0, colon);
        List<Step> steps = new ArrayList<>();
        for (String word : text.substring(colon + 1).trim().split("\\s+", -1)) {
            if (word.isEmpty()) {
                continue; // No steps at all.
            }
            int open = word.indexOf('(');
            Kind kind = Kind.valueOf(word.substring(0, open));
            String[] values = word.substring(open + 1, word.length() - 1).split(",", -1);
            int c = 0;
            int a = 0;
            long t = 0;
            for (int i = 0; i < kind.numbers.length(); i++) {
                String value = values[i];
                switch (kind.numbers.charAt(i)) {
                    case 'c' -> c = Integer.parseInt(value.substring(1));
                    case 'k' -> a = value.equals("x") ? 0 : 1;
                    case 'n' -> a = Integer.parseInt(value.substring(1));
                    case 'm' -> {
                        for (String node : value.substring(1).split("n", -1)) {
                            a |= 1 << Integer.parseInt(node);
                        }
                    }
                    default -> t = Long.parseLong(value);
                }
            }
            steps.add(new Step(kind, c, a, t));
        }
        return new SimulatedScenario(
                head.charAt(1) - '0',
                Integer.parseInt(head.substring(4).split(" ", -1)[0]),
                head.contains("SILENT"),
                head.contains("FRESH"),
                steps);
    }

    boolean has(Set<Kind> kinds) {
        return steps.stream().anyMatch(step -> kinds.contains(step.kind));
    }

    SimulatedScenario with(List<Step> others) {
        return new SimulatedScenario(servers, timeout, silent, fresh, others);
    }

    // ------------------------------------------------------------------------------------------------- generator

    /** Which faults may happen. */
    enum Faults {
        NET(false),
        JUMPS(false, Kind.JUMP, Kind.JUMP, Kind.JUMP),
        LOSS(false, Kind.FLUSH, Kind.FLUSH, Kind.RESTART),
        LOSS_JUMPS(false, Kind.FLUSH, Kind.FLUSH, Kind.RESTART, Kind.JUMP, Kind.JUMP),
        ROLL(false, Kind.SNAP, Kind.SNAP, Kind.ROLL, Kind.ROLL),
        FOCUS(true, Kind.FLUSH, Kind.FLUSH, Kind.RESTART),
        ALL(
                false,
                Kind.FLUSH,
                Kind.FLUSH,
                Kind.RESTART,
                Kind.JUMP,
                Kind.JUMP,
                Kind.SNAP,
                Kind.ROLL,
                Kind.START,
                Kind.REPAIR);

        @SuppressWarnings("ImmutableEnumChecker") // Never changed after the constructor.
        private final List<Kind> kinds = new ArrayList<>();

        Faults(boolean few, Kind... more) {
            kinds.addAll(
                    few
                            ? List.of(Kind.SKEW, Kind.SLOWQ, Kind.SLOWQ, Kind.DROPQ, Kind.DROPQ)
                            : List.of(
                                    Kind.PAUSE,
                                    Kind.CRASH,
                                    Kind.SKEW,
                                    Kind.SKEW,
                                    Kind.SLOWQ,
                                    Kind.SLOWQ,
                                    Kind.SLOWP,
                                    Kind.DROPQ,
                                    Kind.DROPQ,
                                    Kind.DROPP,
                                    Kind.DUP,
                                    Kind.DOWN));
            kinds.addAll(List.of(more));
        }

        boolean allows(SimulatedScenario scenario) {
            Set<Kind> special =
                    EnumSet.of(Kind.JUMP, Kind.FLUSH, Kind.RESTART, Kind.SNAP, Kind.ROLL, Kind.REPAIR, Kind.START);
            return scenario.steps.stream().allMatch(s -> !special.contains(s.kind) || kinds.contains(s.kind));
        }
    }

    private static final long[] TIMES = {1, 3, 10, 50, 150, 340, 420, 700, 990, 1200, 2500};
    private static final long[] SKEWS = {
        -600_000, -60_000, -2500, -500, -20, -5, 0, 5, 20, 500, 60_000, 600_000, 90_000_000, 315_000_000_000L
    };
    private static final long[] JUMPS = {-60_000, -1200, -500, -50, 50, 500, 990, 1200, 60_000, 600_000};
    private static final long[] EDGES = {-20, -10, -2, 0, 2, 6, 15};

    private static long one(SplittableRandom random, long... of) {
        return of[random.nextInt(of.length)];
    }

    private static Step step(SplittableRandom random, Faults faults, int servers) {
        int z = random.nextInt(100);
        Kind kind = z < 27
                ? Kind.ACQ
                : z < 35
                        ? Kind.REL
                        : z < 39
                                ? Kind.RENEW
                                : z < 55
                                        ? Kind.WAIT
                                        : z < 59
                                                ? Kind.WRITE
                                                : z < 62
                                                        ? Kind.EDGE
                                                        : z < 63
                                                                ? Kind.AGAIN
                                                                : z < 64
                                                                        ? Kind.ABANDON
                                                                        : faults.kinds.get(
                                                                                random.nextInt(faults.kinds.size()));
        int a = kind.has('m')
                ? 1 + random.nextInt((1 << servers) - 1)
                : kind.has('n') ? random.nextInt(servers) : kind.has('k') && random.nextInt(10) == 0 ? 1 : 0;
        return new Step(kind, random.nextInt(CLIENTS), a, time(random, kind));
    }

    private static long time(SplittableRandom random, Kind kind) {
        return switch (kind) {
            case ACQ -> random.nextInt(8) == 0 ? 400 : 1000;
            case SKEW -> one(random, SKEWS);
            case JUMP -> one(random, JUMPS);
            case EDGE -> one(random, EDGES);
            default -> one(random, TIMES);
        };
    }

    private static List<Step> steps(SplittableRandom random, int most, Faults faults, int servers) {
        int length = 2 + random.nextInt(most);
        List<Step> steps = new ArrayList<>(length);
        for (int i = 0; i < length; i++) {
            steps.add(step(random, faults, servers));
        }
        return steps;
    }

    private static List<Step> mutated(SplittableRandom random, List<Step> from, Faults faults, int servers) {
        List<Step> steps = new ArrayList<>(from);
        int changes = random.nextInt(9);
        for (int i = 0; i < changes; i++) {
            int z = random.nextInt(10);
            if (z < 4 || steps.isEmpty()) {
                steps.add(random.nextInt(steps.size() + 1), step(random, faults, servers));
            } else if (z < 6) {
                steps.remove(random.nextInt(steps.size()));
            } else if (z < 9) {
                int at = random.nextInt(steps.size());
                Step s = steps.get(at);
                int what = random.nextInt(3);
                int a = s.kind.has('m')
                        ? 1 + random.nextInt((1 << servers) - 1)
                        : s.kind.has('n') ? random.nextInt(servers) : s.a;
                steps.set(
                        at,
                        new Step(
                                s.kind,
                                what == 0 ? random.nextInt(CLIENTS) : s.c,
                                what == 1 ? a : s.a,
                                what == 2 ? time(random, s.kind) : s.t));
            } else {
                steps.add(random.nextInt(steps.size() + 1), steps.get(random.nextInt(steps.size())));
            }
        }
        return steps;
    }

    /** The scenario of this seed: a mutation of one or two of these, or random. */
    static SimulatedScenario of(long seed, Faults faults, int servers, List<SimulatedScenario> near) {
        SplittableRandom random = new SplittableRandom(seed);
        List<SimulatedScenario> fit = near.stream()
                .filter(s -> s.servers == servers && faults.allows(s))
                .toList();
        boolean fresh = random.nextInt(16) == 0;
        List<Step> steps;
        if (fit.isEmpty() || random.nextInt(4) == 0) {
            steps = steps(random, 30, faults, servers);
        } else {
            SimulatedScenario from = fit.get(random.nextInt(fit.size()));
            fresh = fresh || from.fresh;
            steps = mutated(random, from.steps, faults, servers);
        }
        if (!fit.isEmpty() && random.nextInt(4) == 0) {
            steps.addAll(mutated(random, fit.get(random.nextInt(fit.size())).steps, faults, servers));
        }
        if (fresh) {
            steps.add(0, new Step(Kind.START, random.nextInt(CLIENTS), 0, 0));
            steps.add(1, new Step(Kind.WAIT, 0, 0, one(random, 10, 990, 1200, 2500)));
        }
        return new SimulatedScenario(servers, random.nextBoolean() ? 150 : 1500, random.nextBoolean(), fresh, steps);
    }

    /** Smaller ones, each by one change. */
    List<SimulatedScenario> smaller() {
        List<SimulatedScenario> all = new ArrayList<>();
        for (int size = Math.max(1, steps.size() / 2); size >= 1; size /= 2) {
            for (int i = 0; i + size <= steps.size(); i += size) {
                List<Step> less = new ArrayList<>(steps);
                less.subList(i, i + size).clear();
                all.add(with(less));
            }
        }
        if (silent) {
            all.add(new SimulatedScenario(servers, timeout, false, fresh, steps));
        }
        if (fresh) {
            all.add(new SimulatedScenario(servers, timeout, silent, false, steps));
        }
        for (int i = 0; i < steps.size(); i++) {
            Step s = steps.get(i);
            if (s.kind.has('c') && s.c > 0) {
                change(all, i, new Step(s.kind, s.c - 1, s.a, s.t));
            }
            if (s.kind == Kind.ACQ && s.t < 1000) {
                change(all, i, new Step(s.kind, s.c, s.a, 1000));
            }
            if (s.kind.has('t') && s.kind != Kind.ACQ) {
                for (long less : TIMES) {
                    if (less < Math.abs(s.t)) {
                        change(all, i, new Step(s.kind, s.c, s.a, s.t < 0 ? -less : less));
                    }
                }
            }
            if (s.kind.has('m')) {
                for (int j = 0; j < servers; j++) {
                    if ((s.a >> j & 1) != 0 && s.a != 1 << j) {
                        change(all, i, new Step(s.kind, s.c, s.a & ~(1 << j), s.t));
                    }
                }
            }
            if (s.kind.has('k') && s.a > 0) {
                change(all, i, new Step(s.kind, s.c, 0, s.t));
            }
        }
        return all;
    }

    private void change(List<SimulatedScenario> all, int at, Step step) {
        List<Step> changed = new ArrayList<>(steps);
        changed.set(at, step);
        all.add(with(changed));
    }
}
