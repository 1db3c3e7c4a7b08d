package dev.mortise.lock.tck;

import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.Checker.Verdict;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import dev.mortise.lock.tck.History.Finding;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Chapter 6: what befalls the store. Each fault that can be caused is begun and ended once, with claims in every state, and
 * what is seen then is judged by all rules at a time: by those of the declared events it must hold, and by the others it
 * must be seen broken.
 */
final class FaultRules {
    /** So often is an event caused that is to be seen breaking what is not declared. */
    private static final int TRIES = 3;

    /** Of these a store or a client needs no help. */
    private static final Set<StoreEvent> CAUSED_BY_THE_KIT =
            EnumSet.of(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH);

    private final Kit kit;
    private final Store store;
    private final Guarantees guarantees;
    private final Map<Rule, Found> found = new EnumMap<>(Rule.class);
    private final Map<Rule, Integer> tries = new EnumMap<>(Rule.class);

    /** The first finding of a rule; what was done, and what happened to the locks that it is about. */
    record Found(String origin, Finding finding, History history) {}

    FaultRules(Kit kit) {
        this.kit = kit;
        store = kit.store;
        guarantees = kit.guarantees();
    }

    static boolean has(Rule rule) {
        return rule.number().startsWith("6.") || rule == Rule.R7_10;
    }

    /**
     * What a rule that was found broken in a history with faults means there.
     *
     * @param befell the events that the history's faults stand for
     * @return null if it may be broken then
     */
    static @Nullable Rule rule(Rule broken, Set<StoreEvent> befell, Guarantees g) {
        boolean exclusion = g.exclusionSurvives().containsAll(befell);
        boolean tokens = g.tokensSurvive().containsAll(befell);
        return switch (broken) {
            case R1_1 -> exclusion ? Rule.R6_2 : null;
            case R5_1, R5_2, R5_4, R5_5 -> tokens ? Rule.R6_3 : null;
            // Where two may hold at a time, the order in which they hold is not one.
            case R5_3 -> exclusion && tokens ? Rule.R6_3 : null;
            case R5_6 -> tokens ? Rule.R6_7 : null;
            case R1_2, R2_4, R3_1, R3_4, R4_4, R7_6, C7_1 -> Rule.R6_4;
            case R3_3 -> Rule.R6_8;
            case R0_4 -> Rule.R6_5;
            default -> has(broken) ? broken : null;
        };
    }

    /** For {@link Checker}: whether a fault, by its name in histories, may make the store forget or know again. */
    static Predicate<String> forgets(Guarantees g) {
        return name -> {
            for (Fault fault : Fault.values()) {
                if (Ordeal.name(fault).equals(name)) {
                    return !g.exclusionSurvives().contains(fault.event());
                }
            }
            return false;
        };
    }

    @Nullable
    Found found(Rule rule) {
        return found.get(rule);
    }

    int tries(Rule rule) {
        return tries.getOrDefault(rule, 0);
    }

    /** Why a rule was not put to the test. */
    String unseen(Rule rule) {
        if (!kit.alone) {
            return "others use this store, and nothing may befall it; not tested: " + kit.notTested.keySet();
        }
        if (rule == Rule.R7_10) {
            return "the Store's Faults cannot cause " + Fault.REQUESTS_LATE;
        }
        return rule == Rule.R6_6
                ? "no event can be caused here that is not declared"
                : "the Store's Faults can cause nothing that is declared";
    }

    private Set<StoreEvent> declared() {
        Set<StoreEvent> declared = EnumSet.noneOf(StoreEvent.class);
        declared.addAll(guarantees.exclusionSurvives());
        declared.addAll(guarantees.tokensSurvive());
        declared.removeAll(CAUSED_BY_THE_KIT);
        return declared;
    }

    /** Causes everything that can be caused. */
    void run() throws Exception {
        if (!kit.alone) {
            declared().forEach(event -> kit.notTested.put(event, "others use this store"));
            return;
        }
        Set<Fault> possible = EnumSet.noneOf(Fault.class);
        store.faults().ifPresent(faults -> {
            possible.addAll(faults.possible());
            kit.notTested.putAll(faults.impossible());
        });
        Set<StoreEvent> events = EnumSet.noneOf(StoreEvent.class);
        possible.forEach(fault -> events.add(fault.event()));
        declarations(events);
        play(null);
        for (Fault fault : possible) {
            play(fault);
        }
        for (StoreEvent event : events) {
            List<Fault> faults =
                    possible.stream().filter(f -> f.event() == event).toList();
            boolean seldom = store.faults().orElseThrow().seldom().contains(event);
            for (int again = 1; again < TRIES && !seldom && !isShown(event); again++) {
                for (Fault fault : faults) {
                    if (!isShown(event)) {
                        play(fault);
                    }
                }
            }
            if (seldom && !isShown(event)) {
                kit.notTested.put(event, "caused, and not seen to do the harm that it does now and then");
            } else {
                unsafe(event, faults);
            }
        }
    }

    // ------------------------------------------------------------------------------------- declared, caused, shown

    private void declarations(Set<StoreEvent> events) {
        for (StoreEvent event : kit.notTested.keySet()) {
            if (events.contains(event)) {
                missing(event + " is in Faults.impossible(), and a fault of it in Faults.possible()");
            }
        }
        tries.merge(Rule.R6_1, CAUSED_BY_THE_KIT.size(), Integer::sum);
        for (StoreEvent event : declared()) {
            tries.merge(Rule.R6_1, 1, Integer::sum);
            if (!events.contains(event) && !kit.notTested.containsKey(event)) {
                List<Fault> own = new ArrayList<>(EnumSet.allOf(Fault.class));
                own.removeIf(fault -> fault.event() != event);
                missing(event + " is declared, and no fault of it can be caused here: "
                        + (store.faults().isEmpty()
                                ? "Store.faults() is empty"
                                : "Faults.possible() has none of " + own)
                        + "; return one of " + own + " there and let Faults.begin() do it, or do not declare " + event);
            }
        }
    }

    private void missing(String what) {
        found.putIfAbsent(Rule.R6_1, new Found("the declaration", new Finding(Rule.R6_1, what), new History()));
    }

    private boolean isShown(StoreEvent event) {
        boolean exclusion = guarantees.exclusionSurvives().contains(event);
        boolean tokens = guarantees.tokensSurvive().contains(event);
        for (Kit.Shown each : kit.shown) {
            if (each.fault().event() == event) {
                exclusion |= each.exclusion();
                tokens |= each.tokens();
            }
        }
        return exclusion && tokens;
    }

    private void unsafe(StoreEvent event, List<Fault> faults) {
        boolean exclusion = guarantees.exclusionSurvives().contains(event);
        boolean tokens = guarantees.tokensSurvive().contains(event);
        if (exclusion && tokens) {
            return;
        }
        tries.merge(Rule.R6_6, 1, Integer::sum);
        if (isShown(event)) {
            return;
        }
        Predicate<Kit.Shown> own = s -> s.fault().event() == event;
        List<String> held = new ArrayList<>();
        if (!exclusion && kit.shown.stream().noneMatch(own.and(Kit.Shown::exclusion))) {
            held.add("exclusionSurvives");
        }
        if (!tokens && kit.shown.stream().noneMatch(own.and(Kit.Shown::tokens))) {
            held.add("tokensSurvive");
        }
        found.putIfAbsent(
                Rule.R6_6,
                new Found(
                        faults.toString(),
                        new Finding(
                                Rule.R6_6,
                                event + " is not in " + String.join(" and ", held) + ", and " + faults
                                        + " did not break " + (held.size() == 1 ? "it" : "either") + " in " + TRIES
                                        + " tries: too little is declared, or the fault does not take away what it should"),
                        new History()));
    }

    // --------------------------------------------------------------------------------------------------- the faults

    private void play(@Nullable Fault fault) throws Exception {
        String name = Ordeal.name(fault);
        kit.progress.accept("  " + name);
        if (fault != null) {
            synchronized (kit.caused) {
                kit.caused.merge(fault, 1, Integer::sum);
            }
        }
        String prefix = kit.prefix + UUID.randomUUID().toString().substring(0, 6) + "-";
        History history = new Ordeal(store, guarantees, kit.delays, fault, prefix).play();
        Set<StoreEvent> befell = Set.of(fault == null ? StoreEvent.CLIENT_CRASH : fault.event());
        List<Event> events = history.events();
        for (Finding finding : history.seen()) {
            // The stream and the load would hide what it is about.
            String about = finding.name();
            take(
                    name,
                    finding,
                    part(
                            events,
                            e -> about.isEmpty()
                                    ? !e.name().matches(".*-(l|t|s\\d+)")
                                    : e.name().equals(about)));
        }
        boolean exclusion = false;
        boolean tokens = false;
        for (String lock : names(events)) {
            History part = part(events, e -> e.name().equals(lock));
            Verdict verdict = Checker.check(
                    part,
                    lease -> guarantees.freedWithin(Duration.ofNanos(lease)).toNanos(),
                    forgets(guarantees),
                    Ordeal.grace(kit.delays));
            count(verdict, befell);
            for (Finding finding : verdict.findings()) {
                Rule rule = rule(finding.rule(), befell, guarantees);
                if (rule != null) {
                    boolean late = rule == Rule.R6_4 && fault == Fault.REQUESTS_LATE && lock.endsWith("-x");
                    take(name, new Finding(late ? Rule.R7_10 : rule, finding.what()), part);
                }
            }
            if (fault != null) {
                boolean two = !exclusion && isBroken(verdict, befell, Rule.R1_1);
                boolean smaller = !tokens && isBroken(verdict, befell, Rule.R5_1, Rule.R5_2);
                if (two || smaller) {
                    show(fault, part, verdict, two, smaller);
                }
                exclusion |= two;
                tokens |= smaller;
            }
        }
        tries.merge(Rule.R6_4, 1, Integer::sum);
        if (fault == Fault.REQUESTS_LATE) {
            tries.merge(Rule.R7_10, 1, Integer::sum);
        }
        if (fault != null) {
            tries.merge(Rule.R6_8, 1, Integer::sum);
            tries.merge(Rule.R6_5, 1, Integer::sum);
        }
    }

    private void count(Verdict verdict, Set<StoreEvent> befell) {
        for (Rule rule : List.of(Rule.R1_1, Rule.R5_2, Rule.R5_6)) {
            Rule means = rule(rule, befell, guarantees);
            int many = verdict.tries().getOrDefault(rule, 0);
            if (means != null && many > 0) {
                tries.merge(means, many, Integer::sum);
            }
        }
    }

    private void take(String origin, Finding finding, History history) {
        found.putIfAbsent(finding.rule(), new Found(origin, finding, history));
    }

    private boolean isBroken(Verdict verdict, Set<StoreEvent> befell, Rule... rules) {
        for (Rule rule : rules) {
            if (verdict.breaks(rule) && rule(rule, befell, guarantees) == null) {
                return true;
            }
        }
        return false;
    }

    private void show(Fault fault, History history, Verdict verdict, boolean exclusion, boolean tokens) {
        StringBuilder what = new StringBuilder();
        for (Finding finding : verdict.findings()) {
            boolean about = (exclusion && finding.rule() == Rule.R1_1)
                    || (tokens && (finding.rule() == Rule.R5_1 || finding.rule() == Rule.R5_2));
            if (about && what.indexOf(finding.what()) < 0) {
                what.append(what.length() == 0 ? "" : "; ").append(finding.what());
            }
        }
        boolean lost = verdict.breaks(Rule.R5_6);
        boolean refused = history.events().stream().anyMatch(e -> e.op() == Op.WRITE && e.outcome() == Outcome.REFUSED);
        what.append(
                lost
                        ? "; an update was lost"
                        : refused ? "; the resource refused the write with the older token, and lost nothing" : "");
        kit.shown.add(new Kit.Shown(fault, what.toString(), exclusion, tokens, history));
    }

    private static Set<String> names(List<Event> events) {
        Set<String> names = new LinkedHashSet<>();
        for (Event event : events) {
            if (event.client() >= 0) {
                names.add(event.name());
            }
        }
        return names;
    }

    private static History part(List<Event> events, Predicate<Event> which) {
        History part = new History();
        for (Event event : events) {
            if (event.op() == Op.FAULT || which.test(event)) {
                part.add(event);
            }
        }
        return part;
    }
}
