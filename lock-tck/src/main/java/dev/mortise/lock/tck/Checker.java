package dev.mortise.lock.tck;

import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import dev.mortise.lock.tck.History.Finding;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.LongUnaryOperator;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Judges histories: a pure function of the recorded times and answers. The tokens are the order, and a lease bounds how
 * long an unknown outcome matters, so that nothing has to be searched, as a general checker of histories would.
 *
 * <p>For each attempt there are two intervals. Its <em>claim</em> is when its holder counted on it: from the answer to the
 * acquire, to the deadline, the call of its release, its loss. It is recorded short, so that an overlap is never a mistake
 * of the recording. What is <em>possible</em> is when it may have been live in the store: from the call of the acquire, to
 * the answer to its release, or the latest end that the store declares. It is recorded long, and excuses refusals.
 */
final class Checker {
    private static final Set<Op> CHANGES = EnumSet.of(Op.ACQUIRE, Op.AGAIN, Op.RENEW, Op.RELEASE, Op.ADOPT);

    private final List<Event> events;
    private final LongUnaryOperator freedWithin;
    private final Map<Integer, Life> lives = new LinkedHashMap<>();
    private final Map<String, List<Life>> byName = new LinkedHashMap<>();
    private final List<Event> holds;
    private final List<Event> faults;
    private final Predicate<String> forgets;
    private final long grace;
    private final List<Finding> findings = new ArrayList<>();
    private final Map<Rule, Integer> tries = new EnumMap<>(Rule.class);

    /** How an attempt ended, as far as was told. */
    private enum End {
        LEASE,
        RELEASED,
        EVICTED,
        ADOPTED,
        REFUSED,
        UNKNOWN,
        ENDED
    }

    /** An attempt, put together from its events. */
    private static final class Life {
        final Event first;
        long token;
        long claimStart;
        long claimEnd;
        long firstDeadline;
        long possibleEnd;
        boolean granted;
        boolean unanswered;
        long answered;
        boolean renewed;
        End end = End.LEASE;
        /** When a call came back that ended it for good; what says that it is live after that is wrong. */
        long over = Long.MAX_VALUE;

        Life(Event first) {
            this.first = first;
        }

        boolean counted() {
            return granted && claimStart < claimEnd;
        }

        void endsBy(End how, long claim, long possible) {
            claimEnd = Math.min(claimEnd, claim);
            possibleEnd = Math.min(possibleEnd, possible);
            if (over == Long.MAX_VALUE) {
                over = possible;
                end = how;
            }
        }

        @Override
        public String toString() {
            return "#" + first.attempt() + " of client " + first.client() + " (token " + token + ")";
        }
    }

    private Checker(List<Event> events, LongUnaryOperator freedWithin, Predicate<String> forgets, long grace) {
        this.events = events;
        this.holds = events.stream().filter(e -> e.op() == Op.HOLD_UP).toList();
        this.faults = events.stream().filter(e -> e.op() == Op.FAULT).toList();
        this.forgets = forgets;
        this.grace = grace;
        // As clocks of different speed see it.
        this.freedWithin = lease -> {
            long freed = freedWithin.applyAsLong(lease);
            return freed + Event.margin(freed);
        };
    }

    /** What a history shows: the rules broken, and how often each was put to the test. */
    record Verdict(List<Finding> findings, Map<Rule, Integer> tries) {
        boolean breaks(Rule rule) {
            return findings.stream().anyMatch(f -> f.rule() == rule);
        }
    }

    /**
     * Judges a history.
     *
     * @param freedWithin as declared, in nanoseconds
     */
    static Verdict check(History history, LongUnaryOperator freedWithin) {
        return check(history, freedWithin, fault -> false, Duration.ZERO);
    }

    /**
     * Judges a history with faults: what a fault touched may end as late as a lease that begins at the end of the fault, and
     * a refusal while one lasts needs no excuse.
     *
     * @param forgets whether the store may know again what had ended before this fault, or no more what it granted
     * @param grace how much later may be carried out what was on its way at the end of the fault
     */
    static Verdict check(History history, LongUnaryOperator freedWithin, Predicate<String> forgets, Duration grace) {
        Checker checker = new Checker(history.events(), freedWithin, forgets, grace.toNanos());
        checker.check();
        for (String failure : history.failures()) {
            checker.find(Rule.R0_4, failure);
        }
        checker.findings.addAll(history.seen());
        history.tries().forEach((rule, many) -> checker.tries.merge(rule, many, Integer::sum));
        return new Verdict(checker.findings, checker.tries);
    }

    private void find(Rule rule, String what) {
        findings.add(new Finding(rule, what));
    }

    private void tried(Rule... rules) {
        for (Rule rule : rules) {
            tries.merge(rule, 1, Integer::sum);
        }
    }

    private void check() {
        for (Event e : events) {
            if (e.op() == Op.FAULT) {
                continue;
            }
            tried(Rule.R0_4);
            through(e);
            switch (e.op()) {
                case ACQUIRE -> acquired(e);
                case AGAIN -> again(e);
                case RENEW -> renewed(e);
                case RELEASE -> released(e);
                case FOREIGN_RELEASE -> {
                    tried(Rule.R2_1);
                    if (e.outcome() == Outcome.DONE) {
                        find(Rule.R2_1, "a release by an owner that never acquired answered true");
                    }
                }
                case FOREIGN_RENEW -> {
                    tried(Rule.R2_2);
                    if (e.outcome() == Outcome.DONE) {
                        find(Rule.R2_2, "a renewal by an owner that never acquired came back live");
                    }
                }
                case ADOPT -> adopted(e);
                case EVICT -> evicted(e);
                case LOST -> {
                    Life life = lives.get(e.attempt());
                    if (life != null) {
                        life.claimEnd = Math.min(life.claimEnd, e.invoked());
                    }
                }
                default -> {}
            }
        }
        byName.values().forEach(this::exclusion);
        byName.values().forEach(this::tokens);
        faults.forEach(this::touched);
        refusals();
        resource();
    }

    private static Predicate<Event> on(Life life, Op... ops) {
        return e -> e.name().equals(life.first.name()) && List.of(ops).contains(e.op());
    }

    private boolean anyBetween(long from, long to, Predicate<Event> which) {
        for (Event e : events) {
            if (e.invoked() >= from && e.invoked() <= to && which.test(e)) {
                return true;
            }
        }
        return false;
    }

    /** The earliest time at which a call can have been carried out: its own, or the end of a hold that it came into. */
    private long carriedOut(Event e) {
        long earliest = e.invoked();
        for (Event hold : holds) {
            boolean waited = e.invoked() >= hold.invoked() && e.returned() >= hold.returned();
            if (waited && hold.name().equals(e.name())) {
                earliest = Math.max(earliest, hold.returned());
            }
        }
        return earliest;
    }

    /** What has changed the store while nothing was to get through: the hold is not one, and shows nothing. */
    private void through(Event e) {
        if (e.outcome() != Outcome.DONE || !CHANGES.contains(e.op())) {
            return;
        }
        for (Event hold : holds) {
            if (e.invoked() >= hold.invoked()
                    && e.returned() < hold.returned()
                    && hold.name().equals(e.name())) {
                find(
                        Rule.R3_8,
                        e.op() + " was done and answered " + ms(hold.returned() - e.returned())
                                + " before the end of Faults.holdUp, which has not held it up: the Store of this test is"
                                + " wrong, not the backend");
            }
        }
    }

    /** Whether it can have been live when the call was made, and not when it was carried out. */
    private boolean endedMeanwhile(Life life, Event e) {
        return life.possibleEnd >= e.invoked() && life.possibleEnd < carriedOut(e);
    }

    /** It shows only where the request came before the end, and was carried out after it. */
    private void triedToWait(Life life, Event e) {
        if (e.invoked() < life.claimEnd && e.outcome() != Outcome.UNKNOWN) {
            tried(Rule.R3_8);
        }
    }

    private String whileItWaited(Life life, Event e) {
        return "at least " + ms(carriedOut(e) - life.possibleEnd)
                + " after the latest end of its lease, which came while the request waited in the store";
    }

    private long freed(Event e) {
        return e.returned() == Long.MAX_VALUE
                ? Long.MAX_VALUE
                : e.returned() + freedWithin.applyAsLong(Math.max(0, e.lease()));
    }

    // ------------------------------------------------------------------------------------------ one attempt's life

    private void acquired(Event e) {
        Life life = new Life(e);
        lives.put(e.attempt(), life);
        byName.computeIfAbsent(e.name(), n -> new ArrayList<>()).add(life);
        switch (e.outcome()) {
            case DONE -> grant(life, e);
            case REFUSED -> {
                life.possibleEnd = e.returned();
                life.end = End.REFUSED;
            }
            case UNKNOWN -> {
                life.possibleEnd = freed(e);
                life.end = End.UNKNOWN;
                life.unanswered = true;
            }
        }
    }

    private void grant(Life life, Event e) {
        life.granted = true;
        life.answered = e.returned();
        if (life.unanswered) {
            // It took effect, or does now, whatever has befallen the name meanwhile.
            life.end = End.LEASE;
            life.over = Long.MAX_VALUE;
        }
        life.token = e.token();
        life.claimStart = e.returned();
        life.claimEnd = e.deadline();
        life.firstDeadline = e.deadline();
        life.possibleEnd = freed(e);
        since(e);
    }

    private void since(Event e) {
        if (e.late() > 0) {
            tried(Rule.R3_3);
            if (e.since() > e.returned() - e.late()) {
                find(
                        Rule.R3_3,
                        e.op() + ": the answer came " + ms(e.late()) + " late, and since lies only "
                                + ms(e.returned() - e.since()) + " before its arrival");
            }
        }
        if (e.since() > e.returned()) {
            find(Rule.R3_3, e.op() + ": since lies in the future by " + ms(e.since() - e.returned()));
        }
    }

    private void extend(Life life, Event e) {
        life.possibleEnd = Math.max(life.possibleEnd, freed(e));
        if (e.returned() < life.claimEnd) {
            life.claimEnd = Math.max(life.claimEnd, e.deadline());
            life.renewed = true;
        }
        since(e);
    }

    private void again(Event e) {
        Life life = lives.get(e.attempt());
        if (life == null && e.outcome() == Outcome.DONE) {
            acquired(e); // The attempt had ended, and what it asked for again is another claim.
            return;
        }
        if (life != null && life.unanswered && (!life.granted || life.end == End.UNKNOWN)) {
            tried(Rule.R1_5);
            if (e.outcome() == Outcome.DONE) {
                long possible = life.possibleEnd;
                grant(life, e);
                life.possibleEnd = Math.max(possible, life.possibleEnd);
            }
            return;
        }
        if (life == null || !life.granted) {
            return;
        }
        boolean live = e.returned() < life.claimEnd;
        if (live && life.over == Long.MAX_VALUE) {
            tried(Rule.R1_5);
        }
        if (e.outcome() == Outcome.DONE && e.token() == life.token) {
            extend(life, e);
        } else if (e.outcome() == Outcome.DONE) {
            if (live) {
                find(Rule.R1_5, life + " asked again while live, and got token " + e.token());
            }
            life.endsBy(End.ENDED, e.invoked(), e.returned());
        } else if (e.outcome() == Outcome.REFUSED) {
            if (live) {
                find(Rule.R1_5, life + " asked again while live, and was refused");
            }
            life.endsBy(End.ENDED, e.invoked(), e.returned());
        } else {
            if (!live || life.over != Long.MAX_VALUE) {
                // It had ended, and may have been made anew, for the same owner.
                life.over = Long.MAX_VALUE;
                life.end = End.UNKNOWN;
                life.unanswered = true;
            }
            life.possibleEnd = Math.max(life.possibleEnd, freed(e));
        }
    }

    private void renewed(Event e) {
        Life life = lives.get(e.attempt());
        if (life == null || !life.granted) {
            return;
        }
        boolean live = life.over == Long.MAX_VALUE && e.returned() < life.claimEnd;
        if (live) {
            tried(Rule.R3_2, Rule.R3_7, Rule.R5_4);
            if (e.batch() > 1) {
                tried(Rule.R3_6);
            }
            if (hasOlder(life)) {
                tried(Rule.R3_5);
            }
        }
        late(life, e);
        switch (e.outcome()) {
            case DONE -> {
                if (e.token() != life.token) {
                    find(Rule.R5_4, "the renewal of " + life + " has token " + e.token());
                }
                extend(life, e);
            }
            case REFUSED -> {
                if (live) {
                    early(
                            life,
                            e,
                            "a renewal came back as ended " + ms(life.claimEnd - e.returned())
                                    + " before the deadline of " + life);
                }
                life.endsBy(End.ENDED, e.invoked(), e.returned());
            }
            case UNKNOWN -> life.possibleEnd = Math.max(life.possibleEnd, freed(e));
        }
    }

    /** The renewal of a claim that was over before it was sent. */
    private void late(Life life, Event e) {
        for (Life later : byName.getOrDefault(e.name(), List.of())) {
            if (later != life
                    && later.granted
                    && later.first.op() == Op.ACQUIRE
                    && later.first.invoked() >= life.first.returned()
                    && later.first.returned() <= e.invoked()) {
                lateAnswer(Rule.R2_3, life, e, "after " + later + " was granted");
                return;
            }
        }
        if (life.over <= e.invoked()) {
            lateAnswer(
                    life.end == End.ADOPTED ? Rule.R7_4 : Rule.R2_6,
                    life,
                    e,
                    ms(e.invoked() - life.over) + " after it was over: "
                            + life.end.name().toLowerCase(Locale.ROOT));
        } else if (life.possibleEnd < e.invoked()) {
            lateAnswer(Rule.R2_6, life, e, ms(e.invoked() - life.possibleEnd) + " after the latest end of its lease");
        } else if (endedMeanwhile(life, e)) {
            triedToWait(life, e);
            if (e.outcome() == Outcome.DONE) {
                find(Rule.R3_8, "a renewal of " + life + " came back live " + whileItWaited(life, e));
            }
        }
    }

    private void lateAnswer(Rule rule, Life life, Event e, String when) {
        tried(rule);
        if (e.outcome() == Outcome.DONE) {
            find(rule, "a renewal of " + life + " came back live " + when);
        }
    }

    private void released(Event e) {
        Life life = lives.get(e.attempt());
        if (life == null) {
            return;
        }
        boolean over = life.over <= e.invoked() || life.possibleEnd < e.invoked() || life.end == End.REFUSED;
        if (over) {
            tried(life.end == End.ADOPTED ? Rule.R7_4 : Rule.R2_5);
        }
        if (e.outcome() == Outcome.DONE && over) {
            find(
                    life.end == End.ADOPTED ? Rule.R7_4 : Rule.R2_5,
                    "a release of " + life + " answered true, which was over before"
                            + (life.end == End.REFUSED ? ": it had been refused" : ""));
        }
        if (!over && endedMeanwhile(life, e)) {
            triedToWait(life, e);
            if (e.outcome() == Outcome.DONE) {
                find(Rule.R3_8, "a release of " + life + " answered true " + whileItWaited(life, e));
            }
        }
        boolean live = life.granted && life.over == Long.MAX_VALUE && e.returned() < life.claimEnd;
        if (live) {
            tried(Rule.R3_2, Rule.R2_4);
            if (e.outcome() == Outcome.REFUSED) {
                early(
                        life,
                        e,
                        "a release answered false " + ms(life.claimEnd - e.returned()) + " before the deadline of "
                                + life);
            }
        }
        if (e.outcome() == Outcome.UNKNOWN) {
            life.claimEnd = Math.min(life.claimEnd, e.invoked());
        } else {
            if (life.end == End.LEASE || life.end == End.UNKNOWN) {
                life.endsBy(End.RELEASED, e.invoked(), e.returned());
            } else {
                life.possibleEnd = Math.min(life.possibleEnd, e.returned());
            }
        }
    }

    private void evicted(Event e) {
        for (Life life : byName.getOrDefault(e.name(), List.of())) {
            if (life.first.returned() <= e.invoked()) {
                if (life.possibleEnd > e.invoked()) {
                    life.endsBy(End.EVICTED, e.invoked(), e.returned());
                }
            } else if (life.first.invoked() <= e.returned()) {
                life.claimEnd = Math.min(life.claimEnd, e.invoked()); // granted before it or after: not known
            }
        }
    }

    private void adopted(Event e) {
        Life former = lives.get(e.other());
        Life known = lives.get(e.attempt());
        if (former == null) {
            return;
        }
        if (known != null && known.granted) {
            adoptedAgain(known, e);
            return;
        }
        boolean live = former.over == Long.MAX_VALUE && e.returned() < former.claimEnd;
        boolean over = former.over <= e.invoked() || former.possibleEnd < e.invoked();
        boolean endedMeanwhile = !over && endedMeanwhile(former, e);
        Life heir = known != null ? known : new Life(e);
        if (known == null) {
            lives.put(e.attempt(), heir);
            byName.computeIfAbsent(e.name(), n -> new ArrayList<>()).add(heir);
        }
        switch (e.outcome()) {
            case DONE -> {
                if (former.end == End.ADOPTED && over) {
                    tried(Rule.R7_3);
                    find(Rule.R7_3, "a second heir, " + heir + ", took over " + former);
                } else if (over) {
                    tried(Rule.R7_5);
                    find(Rule.R7_5, "an heir took over " + former + ", which was over");
                } else if (endedMeanwhile) {
                    triedToWait(former, e);
                    find(Rule.R3_8, "an heir took over " + former + " " + whileItWaited(former, e));
                } else {
                    tried(Rule.R7_1);
                    if (e.token() <= former.token) {
                        find(Rule.R7_1, "the heir of " + former + " got token " + e.token());
                    }
                }
                grant(heir, e);
                former.over = Long.MAX_VALUE;
                former.endsBy(End.ADOPTED, e.invoked(), e.returned());
            }
            case REFUSED -> {
                if (live) {
                    tried(Rule.R7_1);
                    find(Rule.R7_1, "the heir of " + former + " got nothing while it was live");
                } else if (over) {
                    tried(former.end == End.ADOPTED ? Rule.R7_3 : Rule.R7_5);
                } else if (endedMeanwhile) {
                    triedToWait(former, e);
                }
                heir.end = End.REFUSED;
                heir.possibleEnd = e.returned();
            }
            case UNKNOWN -> {
                former.claimEnd = Math.min(former.claimEnd, e.invoked());
                heir.end = End.UNKNOWN;
                heir.possibleEnd = freed(e);
            }
        }
    }

    private void adoptedAgain(Life heir, Event e) {
        boolean live = heir.over == Long.MAX_VALUE && e.returned() < heir.claimEnd;
        if (live) {
            tried(Rule.R7_2);
        }
        if (e.outcome() == Outcome.DONE) {
            if (e.token() != heir.token) {
                find(Rule.R7_2, "the heir " + heir + " asked again and got token " + e.token());
            }
            extend(heir, e);
        } else if (live && e.outcome() == Outcome.REFUSED) {
            find(Rule.R7_2, "the heir " + heir + " asked again while live and got nothing");
        }
    }

    /** A live claim was found to be gone. What was done to it tells which rule that breaks. */
    private void early(Life life, Event seen, String what) {
        if (!faults.isEmpty()) {
            return; // It may have been the fault. Whoever is told so counts on nothing any more.
        }
        List<Life> all = byName.getOrDefault(life.first.name(), List.of());
        for (Life other : all) {
            if (other != life
                    && other.granted
                    && other.first.returned() >= life.claimStart
                    && other.first.returned() <= seen.returned()) {
                return; // It was given to another: that is told as such.
            }
        }
        find(cause(life, seen.invoked(), seen.batch() > 1), what);
    }

    private Rule cause(Life life, long at, boolean inBatch) {
        long from = life.claimStart;
        int self = life.first.attempt();
        Predicate<Event> done = e -> e.returned() <= at;
        if (anyBetween(from, at, done.and(on(life, Op.FOREIGN_RELEASE)))
                || anyBetween(from, at, done.and(on(life, Op.RELEASE)).and(e -> e.attempt() != self))) {
            return Rule.R2_1;
        }
        if (anyBetween(
                from,
                at,
                done.and(e -> !e.name().equals(life.first.name())
                        && (e.op() == Op.RELEASE || e.op() == Op.FOREIGN_RELEASE)))) {
            return Rule.R1_3;
        }
        if (anyBetween(from, at, done.and(on(life, Op.ADOPT)).and(e -> e.outcome() == Outcome.REFUSED))) {
            return Rule.R7_3;
        }
        if (inBatch) {
            return Rule.R3_6;
        }
        if (life.renewed && at > life.firstDeadline) {
            return Rule.R3_7;
        }
        return hasOlder(life) ? Rule.R3_5 : Rule.R3_2;
    }

    /** Whether its client had another claim when it was granted. */
    private boolean hasOlder(Life life) {
        for (Life other : lives.values()) {
            if (other != life
                    && other.granted
                    && other.first.client() == life.first.client()
                    && !other.first.name().equals(life.first.name())
                    && other.first.returned() < life.first.invoked()
                    && other.possibleEnd > life.first.invoked()) {
                return true;
            }
        }
        return false;
    }

    // -------------------------------------------------------------------------------------------- all of one name

    private void exclusion(List<Life> all) {
        List<Life> held = all.stream()
                .filter(Life::counted)
                .sorted(Comparator.comparingLong((Life l) -> l.claimStart))
                .toList();
        Life last = null;
        for (Life life : held) {
            if (last != null) {
                tried(Rule.R1_1, Rule.R5_3);
                if (life.claimStart < last.claimEnd) {
                    find(
                            Rule.R1_1,
                            life + " was granted " + ms(last.claimEnd - life.claimStart) + " before the deadline of "
                                    + last);
                    Rule cause = cause(last, life.first.invoked(), false);
                    // Not what was asked of the lock, but what was done to the one before.
                    if (cause != Rule.R3_2 && faults.isEmpty()) {
                        find(cause, life + " was granted while " + last + " was live");
                    }
                }
                if (life.token <= last.token) {
                    find(Rule.R5_3, life + " held after " + last);
                }
            }
            if (last == null || life.claimEnd > last.claimEnd) {
                last = life;
            }
        }
    }

    private void tokens(List<Life> all) {
        List<Life> granted = all.stream().filter(l -> l.granted).toList();
        Map<Long, Life> owners = new HashMap<>();
        for (Life life : granted) {
            tried(Rule.R5_1);
            Life other = owners.put(life.token, life);
            if (other != null) {
                find(Rule.R5_1, life + " and " + other + " have one token");
                free(other, life);
            }
        }
        List<Life> byCall = new ArrayList<>(granted);
        byCall.sort(Comparator.comparingLong(l -> l.first.invoked()));
        List<Life> byAnswer = new ArrayList<>(granted);
        byAnswer.sort(Comparator.comparingLong(l -> l.answered));
        Life largest = null;
        int next = 0;
        for (Life life : byCall) {
            while (next < byAnswer.size() && byAnswer.get(next).answered < life.first.invoked()) {
                Life answered = byAnswer.get(next++);
                if (largest == null || answered.token > largest.token) {
                    largest = answered;
                }
            }
            if (largest != null) {
                tried(Rule.R5_2);
                if (largest.possibleEnd < life.first.invoked()) {
                    tried(Rule.R5_5);
                }
                if (life.token <= largest.token) {
                    find(Rule.R5_2, life + " was asked for after " + largest + " had been answered");
                    free(largest, life);
                }
            }
        }
    }

    private void free(Life before, Life after) {
        if (before.possibleEnd < after.first.invoked()) {
            find(Rule.R5_5, after + " came when the lock was free after " + before);
        }
    }

    /** What may have been live in the store when the fault began, or was asked for while it lasted, may end later. */
    private void touched(Event fault) {
        boolean forgets = this.forgets.test(fault.name());
        for (Life life : lives.values()) {
            boolean before = life.possibleEnd < fault.invoked();
            if (life.first.invoked() >= fault.returned() || (before && !forgets)) {
                continue;
            }
            // Of one whose answer was lost the request itself may come later than its undoing.
            boolean onItsWay = life.first.outcome() == Outcome.UNKNOWN && life.first.returned() >= fault.invoked();
            long settled = settled(life, fault.returned());
            life.possibleEnd = Math.max(
                    life.possibleEnd,
                    onItsWay || settled == Long.MAX_VALUE
                            ? fault.returned() + freedWithin.applyAsLong(life.first.lease()) + grace
                            : settled);
        }
    }

    /** When it was over for certain, by an answer to what was asked after this time. */
    private long settled(Life life, long after) {
        for (Event e : events) {
            if (e.attempt() == life.first.attempt() && e.invoked() >= after && e.outcome() != Outcome.UNKNOWN) {
                if (e.op() == Op.RELEASE || (e.op() == Op.RENEW && e.outcome() == Outcome.REFUSED)) {
                    return e.returned();
                }
            }
        }
        return Long.MAX_VALUE;
    }

    private boolean duringFault(Event e) {
        return faults.stream().anyMatch(f -> e.invoked() <= f.returned() && e.returned() >= f.invoked());
    }

    /** A refusal needs somebody who may hold the lock. */
    private void refusals() {
        for (Event e : events) {
            if (e.op() != Op.ACQUIRE || e.outcome() != Outcome.REFUSED) {
                if (e.op() == Op.ACQUIRE && e.outcome() == Outcome.DONE) {
                    freed(e, byName.getOrDefault(e.name(), List.of()));
                }
                continue;
            }
            if (duringFault(e)) {
                continue;
            }
            @Nullable Life excuse = null;
            @Nullable Life endedMeanwhile = null;
            Life latest = null;
            for (Life life : byName.getOrDefault(e.name(), List.of())) {
                if (life.first.attempt() == e.attempt() || life.first.invoked() > e.returned()) {
                    continue;
                }
                if (endedMeanwhile(life, e)) {
                    endedMeanwhile = life;
                } else if (life.possibleEnd >= e.invoked()) {
                    excuse = life;
                } else if (latest == null
                        || (life.end != End.REFUSED && life.possibleEnd > latest.possibleEnd)
                        || latest.end == End.REFUSED) {
                    latest = life;
                }
            }
            tried(Rule.R1_2);
            if (excuse == null && endedMeanwhile != null) {
                triedToWait(endedMeanwhile, e);
                find(
                        Rule.R3_8,
                        refused(e) + ": " + endedMeanwhile + " was over, and the request was carried out "
                                + whileItWaited(endedMeanwhile, e));
            } else if (excuse == null) {
                refusedForNothing(e, latest);
            }
        }
        for (Event e : events) {
            if (e.op() == Op.ACQUIRE && e.outcome() == Outcome.REFUSED && e.value() >= 0) {
                tried(Rule.R4_7);
                long longest = 0;
                for (Life life : byName.getOrDefault(e.name(), List.of())) {
                    if (life.first.attempt() != e.attempt()) {
                        longest = Math.max(longest, freedWithin.applyAsLong(life.first.lease()));
                    }
                }
                if (longest > 0 && e.value() > longest) {
                    find(
                            Rule.R4_7,
                            "a refusal named a rest of " + ms(e.value()) + ", and no lease is longer than "
                                    + ms(longest));
                }
            }
        }
    }

    /** That a lock was got shows that it had been given up as it should. */
    private void freed(Event e, List<Life> all) {
        for (Life life : all) {
            if (life.first.attempt() == e.attempt() || life.possibleEnd > e.invoked()) {
                if (life.first.attempt() != e.attempt() && endedMeanwhile(life, e)) {
                    triedToWait(life, e);
                }
                continue;
            }
            switch (life.end) {
                case LEASE -> {
                    tried(Rule.R3_1);
                    if (renewedOther(life)) {
                        tried(Rule.R3_4);
                    }
                }
                case RELEASED -> tried(life.unanswered ? Rule.R7_6 : Rule.R2_4);
                case REFUSED -> tried(Rule.R4_4);
                default -> {}
            }
        }
    }

    private boolean renewedOther(Life life) {
        return anyBetween(
                life.claimStart,
                life.possibleEnd,
                e -> e.op() == Op.RENEW
                        && e.outcome() == Outcome.DONE
                        && e.client() == life.first.client()
                        && e.attempt() != life.first.attempt());
    }

    private static String refused(Event e) {
        return "attempt #" + e.attempt() + " of client " + e.client()
                + " was refused, though nobody could hold the lock";
    }

    private void refusedForNothing(Event e, @Nullable Life before) {
        String what = refused(e);
        if (before == null) {
            boolean other = byName.size() > 1;
            find(other ? Rule.R1_3 : Rule.R1_2, what + ": nobody had asked for it before");
            return;
        }
        switch (before.end) {
            case LEASE -> {
                what += ": " + before + " had ended " + ms(e.invoked() - before.possibleEnd) + " before";
                boolean foreign = anyBetween(
                        before.claimStart,
                        e.invoked(),
                        on(before, Op.FOREIGN_RENEW).and(r -> r.returned() <= e.invoked()));
                find(foreign ? Rule.R2_2 : renewedOther(before) ? Rule.R3_4 : Rule.R3_1, what);
            }
            case RELEASED -> {
                if (before.unanswered) {
                    find(Rule.R7_6, what + ": " + before + " had no answer, and was released");
                    return;
                }
                what += ": " + before + " was released " + ms(e.invoked() - before.possibleEnd) + " before";
                boolean waited = refusedMeanwhile(before);
                find(waited ? Rule.R4_4 : Rule.R2_4, what + (waited ? ", and others had been refused meanwhile" : ""));
                find(Rule.R1_2, what);
            }
            case ENDED ->
                find(
                        refusedMeanwhile(before) ? Rule.R4_4 : Rule.R3_1,
                        what + ": " + before + " had ended, by its renewal");
            case REFUSED -> find(Rule.R4_4, what + ": " + before + " had been refused");
            case UNKNOWN -> find(Rule.C7_1, what + ": " + before + " has no answer");
            case EVICTED, ADOPTED -> find(Rule.R1_2, what + ": " + before + " was over");
        }
    }

    private boolean refusedMeanwhile(Life life) {
        return anyBetween(
                life.claimStart,
                life.possibleEnd,
                e -> e.op() == Op.ACQUIRE
                        && e.outcome() == Outcome.REFUSED
                        && e.name().equals(life.first.name()));
    }

    // --------------------------------------------------------------------------------------------------- resource

    /**
     * Every number is written once, so that what was written after what is a chain: a number from which two others were
     * made, or which was read when another had taken its place, is an update that was lost. A write without answer was done
     * if its number was read.
     */
    private void resource() {
        Set<String> read = new HashSet<>();
        for (Event e : events) {
            if (e.op() == Op.READ && e.outcome() == Outcome.DONE) {
                read.add(e.name() + " " + e.value());
            }
        }
        Map<String, Event> madeOf = new HashMap<>();
        Set<String> seen = new HashSet<>();
        for (Event e : events) {
            boolean done = e.outcome() == Outcome.DONE
                    || (e.outcome() == Outcome.UNKNOWN && read.contains(e.name() + " " + e.value()));
            if (e.op() == Op.WRITE && done) {
                tried(Rule.R5_6);
                Event other = madeOf.putIfAbsent(e.name() + " " + e.since(), e);
                if (other != null && seen.add(e.name())) {
                    find(
                            Rule.R5_6,
                            "the write with token " + e.token() + " was made of version " + e.since()
                                    + ", and so was version " + other.value() + " of token " + other.token()
                                    + ": one of them is lost");
                }
            }
        }
        for (Event e : events) {
            if (e.op() == Op.READ && e.outcome() == Outcome.DONE) {
                Event next = madeOf.get(e.name() + " " + e.value());
                if (next != null && next.outcome() == Outcome.DONE) {
                    tried(Rule.R5_6);
                    if (next.returned() < e.invoked() && seen.add(e.name())) {
                        find(
                                Rule.R5_6,
                                "the read with token " + e.token() + " gave version " + e.value() + ", "
                                        + ms(e.invoked() - next.returned()) + " after version " + next.value()
                                        + " of token " + next.token() + " had been written");
                    }
                }
            }
        }
    }

    private static String ms(long nanos) {
        return String.format(Locale.ROOT, "%.3f ms", nanos / 1e6);
    }
}
