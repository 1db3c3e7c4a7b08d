package dev.mortise.lock.tck;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** What happened in one scenario: calls with their times, and what should never be thrown. For any thread. */
final class History {
    private final List<Event> events = new ArrayList<>();
    private final List<String> failures = new ArrayList<>();
    private final Map<Event.Op, String> unanswered = new EnumMap<>(Event.Op.class);
    private final List<Finding> seen = new ArrayList<>();
    private final Map<Rule, Integer> tries = new EnumMap<>(Rule.class);

    synchronized void add(Event event) {
        events.add(event);
    }

    /** What a call threw that no call may throw. */
    synchronized void failed(String what) {
        failures.add(what);
    }

    /** What a call threw that had no answer; the last of each kind. */
    synchronized void unanswered(Event.Op op, String what) {
        unanswered.put(op, what);
    }

    synchronized Map<Event.Op, String> unanswered() {
        return Map.copyOf(unanswered);
    }

    /** A rule seen broken while it happened, which the events do not show. */
    synchronized void broken(Finding finding) {
        seen.add(finding);
    }

    /** A rule was put to the test in a way that the events do not show. */
    synchronized void tried(Rule rule) {
        tries.merge(rule, 1, Integer::sum);
    }

    synchronized Map<Rule, Integer> tries() {
        return Map.copyOf(tries);
    }

    synchronized List<Event> events() {
        List<Event> sorted = new ArrayList<>(events);
        sorted.sort(Comparator.comparingLong(Event::invoked).thenComparingLong(Event::returned));
        return sorted;
    }

    synchronized List<String> failures() {
        return List.copyOf(failures);
    }

    synchronized List<Finding> seen() {
        return List.copyOf(seen);
    }

    /**
     * A rule that was broken, and how it was seen.
     *
     * @param name of the lock that it is about; empty if not of one
     */
    record Finding(Rule rule, String what, String name) {
        Finding(Rule rule, String what) {
            this(rule, what, "");
        }
    }

    /** The calls in the order of time, in milliseconds from the first, a column for each client. */
    String timeline() {
        List<Event> sorted = events();
        StringBuilder text = new StringBuilder();
        long start = sorted.isEmpty() ? 0 : sorted.get(0).invoked();
        for (Event e : sorted) {
            StringBuilder what = new StringBuilder();
            what.append(e.op().name().toLowerCase(Locale.ROOT).replace('_', '-'));
            what.append(' ').append(e.op() == Event.Op.FAULT ? e.name() : letter(e.name()));
            if (e.attempt() >= 0) {
                what.append(" #").append(e.attempt());
            }
            if (e.other() >= 0) {
                what.append(" after #").append(e.other());
            }
            what.append(' ').append(outcome(e));
            boolean grant = e.outcome() == Event.Outcome.DONE && e.token() > 0 && e.lease() > 0;
            text.append(String.format(
                    Locale.ROOT,
                    "  %9.3f %9s  %s%s%n",
                    (e.invoked() - start) / 1e6,
                    e.returned() == Long.MAX_VALUE
                            ? "?"
                            : String.format(Locale.ROOT, "%.3f", (e.returned() - start) / 1e6),
                    " ".repeat(Math.max(0, e.client()) * 28),
                    what
                            + (grant
                                    ? String.format(
                                            Locale.ROOT,
                                            ": token %d, from %.3f to %.3f",
                                            e.token(),
                                            (e.since() - start) / 1e6,
                                            (e.since() + e.lease() - start) / 1e6)
                                    : "")));
        }
        return text.toString();
    }

    static String letter(String name) {
        return name.length() > 12 ? name.substring(name.length() - 1) : name;
    }

    private static String outcome(Event e) {
        return switch (e.outcome()) {
            case DONE -> "yes";
            case REFUSED -> "no";
            case UNKNOWN -> "?";
        };
    }
}
