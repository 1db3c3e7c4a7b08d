package dev.mortise.lock.tck;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * A history as a picture: a row for each client, time from left to right, in SVG that report.html has the styles of.
 *
 * <p>Between a call to a server and the end of a lease lie five powers of ten, so time is not to scale: a gap is drawn as
 * wide as its logarithm, and wider where a word needs the room. The order of things is exact, and the axis has the times.
 */
final class Picture {
    private static final int TEXT = 12;
    private static final double LETTER = 6.6;
    private static final int CALL = 8;
    private static final int BAR = 18;
    private static final int LEFT = 10;
    private static final int TOP = 8;

    /** More calls than this are drawn without their words, or nobody can see the holders. */
    private static final int MANY = 60;

    private final List<Event> events;
    private final String id;
    private final long start;
    private final Map<Integer, Row> rows = new TreeMap<>();
    private final Map<Integer, Hold> holds = new LinkedHashMap<>();
    private final List<Event> bands = new ArrayList<>();
    private final boolean manyNames;
    private final StringBuilder out = new StringBuilder();

    private long[] times = {};
    private double[] places = {};

    /** A client, or what befalls the store: -1. Its holds lie in as many lanes as overlap. */
    private static final class Row {
        final List<Event> calls = new ArrayList<>();
        /** By the time of the call; a renewal of several grants is one. */
        final Map<Long, String> words = new LinkedHashMap<>();

        final List<List<Hold>> lanes = new ArrayList<>();
        int top;
        int height;

        int callTop() {
            return top + TEXT + 4;
        }

        int laneTop(int lane) {
            return callTop() + CALL + 3 + lane * (BAR + 3);
        }
    }

    /** From the answer to the acquire to when its holder stops to count on it, as the kit judges it. */
    private static final class Hold {
        final Event grant;
        long end;
        String ending = "deadline";
        /** The end of the lease in the store, if nothing ended it before. */
        long lease;

        Hold(Event grant) {
            this.grant = grant;
            this.end = grant.deadline();
            this.lease = grant.since() + grant.lease();
        }

        long from() {
            return grant.returned();
        }

        void endsBy(long at, String how) {
            if (at < end) {
                end = Math.max(at, from());
                ending = how;
                lease = end;
            }
        }
    }

    private Picture(History history, String id) {
        this.id = id;
        events = history.events();
        start = events.isEmpty() ? 0 : events.get(0).invoked();
        manyNames = events.stream()
                        .filter(e -> e.attempt() >= 0)
                        .map(Event::name)
                        .distinct()
                        .count()
                > 1;
        for (Event e : events) {
            if (e.client() < 0 && (e.op() == Op.FAULT || e.op() == Op.HOLD_UP)) {
                bands.add(e);
            } else {
                Row row = rows.computeIfAbsent(Math.max(-1, e.client()), c -> new Row());
                row.calls.add(e);
                if (!label(e).isEmpty()) {
                    row.words.merge(e.invoked(), label(e), (one, other) -> one + ", " + other);
                }
            }
            hold(e);
        }
        holds.values().stream().filter(h -> h.end > h.from()).forEach(this::addToLane);
    }

    /** A figure's inside: the names of the rows, which stay when the rest is scrolled, and the picture itself. */
    static String of(History history, String id, String title) {
        Picture picture = new Picture(history, id);
        return picture.events.isEmpty() ? "" : picture.draw(title);
    }

    private void hold(Event e) {
        Hold hold = holds.get(e.attempt());
        boolean done = e.outcome() == Outcome.DONE;
        switch (e.op()) {
            case ACQUIRE, ADOPT, AGAIN -> {
                if (done && e.lease() > 0 && e.token() > 0) {
                    if (hold == null) {
                        holds.put(e.attempt(), new Hold(e));
                    } else {
                        extend(hold, e);
                    }
                    Hold former = holds.get(e.other());
                    if (e.op() == Op.ADOPT && former != null) {
                        former.endsBy(e.invoked(), "taken over");
                    }
                } else if (hold != null && e.outcome() == Outcome.REFUSED) {
                    hold.endsBy(e.invoked(), "ended");
                }
            }
            case RENEW -> {
                if (hold != null && done) {
                    extend(hold, e);
                } else if (hold != null && e.outcome() == Outcome.REFUSED) {
                    hold.endsBy(e.invoked(), "ended");
                }
            }
            case RELEASE -> {
                if (hold != null) {
                    hold.endsBy(e.invoked(), "released");
                }
            }
            case LOST -> {
                if (hold != null) {
                    hold.endsBy(e.invoked(), "lost");
                }
            }
            default -> {}
        }
    }

    private static void extend(Hold hold, Event e) {
        if (e.lease() > 0 && e.returned() < hold.end && e.deadline() > hold.end) {
            hold.end = e.deadline();
            hold.lease = e.since() + e.lease();
        }
    }

    private void addToLane(Hold hold) {
        Row row = rows.get(Math.max(-1, hold.grant.client()));
        if (row == null) {
            return;
        }
        for (List<Hold> lane : row.lanes) {
            if (lane.get(lane.size() - 1).lease <= hold.from()) {
                lane.add(hold);
                return;
            }
        }
        row.lanes.add(new ArrayList<>(List.of(hold)));
    }

    // ------------------------------------------------------------------------------------------------------ places

    private static long returned(Event e) {
        return e.returned() == Long.MAX_VALUE ? e.invoked() : e.returned();
    }

    /** From left to right, no two words of a row over each other; {@code unit} is the width of a power of ten. */
    private void place(int unit) {
        TreeSet<Long> all = new TreeSet<>();
        events.forEach(e -> {
            all.add(e.invoked());
            all.add(returned(e));
        });
        for (Hold hold : holds.values()) {
            if (hold.end > hold.from()) {
                all.add(hold.end);
                all.add(hold.lease);
            }
        }
        times = all.stream().mapToLong(Long::longValue).toArray();
        places = new double[times.length];
        // From a word's place to where the next thing in its line may be.
        Map<String, Double> free = new HashMap<>();
        Map<Long, List<String>> lines = new HashMap<>();
        Map<String, Double> widths = new HashMap<>();
        rows.forEach((client, row) -> row.words.forEach((at, word) -> word(lines, widths, "r" + client, at, word)));
        for (Hold hold : holds.values()) {
            word(lines, widths, "h" + hold.grant.attempt(), hold.from(), label(hold) + "    ");
            lines.computeIfAbsent(hold.end, t -> new ArrayList<>()).add("h" + hold.grant.attempt());
        }
        bands.forEach(e -> word(lines, widths, "b", e.invoked(), label(e)));
        double x = LEFT;
        for (int i = 0; i < times.length; i++) {
            if (i > 0) {
                x += 4 + unit * Math.log10(1 + (times[i] - times[i - 1]) / 20_000.0);
            }
            List<String> here = lines.getOrDefault(times[i], List.of());
            for (String line : here) {
                x = Math.max(x, free.getOrDefault(line, 0.0));
            }
            for (String line : here) {
                Double width = widths.get(line + "@" + times[i]);
                if (width != null) {
                    free.put(line, x + width);
                }
            }
            places[i] = x;
        }
    }

    private static void word(
            Map<Long, List<String>> lines, Map<String, Double> widths, String line, long at, String label) {
        lines.computeIfAbsent(at, t -> new ArrayList<>()).add(line);
        widths.merge(line + "@" + at, width(label) + 10, Math::max);
    }

    private static double width(String label) {
        // East Asian letters and pictures are wider.
        return label.codePoints().mapToDouble(c -> c < 0x1100 ? LETTER : 13).sum();
    }

    private double x(long time) {
        int at = Arrays.binarySearch(times, time);
        return places[at >= 0 ? at : Math.min(-at - 1, places.length - 1)];
    }

    // ------------------------------------------------------------------------------------------------------- words

    private String label(Event e) {
        if (events.size() > MANY && (e.op() == Op.RENEW || e.outcome() == Outcome.REFUSED) && e.client() >= 0) {
            return "";
        }
        String number = e.attempt() >= 0 && e.op() != Op.READ && e.op() != Op.WRITE ? " #" + e.attempt() : "";
        return words(e)
                + (manyNames && e.op() != Op.FAULT && !e.name().isEmpty() ? " " + letter(e) : "")
                + number
                + mark(e);
    }

    private static String letter(Event e) {
        return Claim.printable(History.letter(e.name()));
    }

    private static String words(Event e) {
        String word = e.op() == Op.FAULT ? Claim.printable(e.name()) : e.op().name();
        return word.toLowerCase(Locale.ROOT).replace('_', ' ').replace('-', ' ');
    }

    private static String mark(Event e) {
        return switch (e.outcome()) {
            case DONE -> "";
            case REFUSED -> ": no";
            case UNKNOWN -> ": ?";
        };
    }

    private static String label(Hold hold) {
        // Some are clocks or positions in a log, of which the last digits differ; the text has all.
        String token = String.valueOf(hold.grant.token());
        return "token " + (token.length() > 9 ? "\u2026" + token.substring(token.length() - 6) : token);
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.1f", value);
    }

    /** Milliseconds from the first call. */
    private String ms(long time) {
        double ms = (time - start) / 1e6;
        return String.format(Locale.ROOT, ms < 10 ? "%.3f" : ms < 1000 ? "%.1f" : "%.0f", ms);
    }

    // ----------------------------------------------------------------------------------------------------- drawing

    private String draw(String title) {
        place(14);
        if (places[places.length - 1] < 400) {
            place(40);
        }
        int top = TOP + (bands.isEmpty() ? 0 : TEXT + 8);
        for (Row row : rows.values()) {
            row.top = top;
            row.height = row.laneTop(row.lanes.size()) - top + 4;
            top += row.height + 8;
        }
        int bottom = top;
        int height = bottom + TEXT + 14;
        double right = places[places.length - 1] + 8;
        for (Row row : rows.values()) {
            for (Map.Entry<Long, String> word : row.words.entrySet()) {
                right = Math.max(right, x(word.getKey()) + width(word.getValue()) + 8);
            }
        }
        for (Event e : bands) {
            right = Math.max(right, x(e.invoked()) + width(label(e)) + 8);
        }
        StringBuilder who = new StringBuilder();
        who.append(svg("who", 72, height, "aria-hidden=\"true\""));
        rows.forEach((client, row) -> who.append(text(4, row.callTop() + CALL, "name", row(client))));
        who.append(text(4, bottom + TEXT, "quiet", "ms")).append("</svg>");

        out.append(svg("what", right, height, "role=\"img\" aria-labelledby=\"" + id + "-title " + id + "-desc\""));
        out.append("<title id=\"")
                .append(id)
                .append("-title\">")
                .append(escape(title))
                .append("</title>");
        out.append("<desc id=\"")
                .append(id)
                .append("-desc\">")
                .append(escape(description()))
                .append("</desc>");
        patterns();
        for (Row row : rows.values()) {
            out.append(line(0, row.top + row.height + 4, right, row.top + row.height + 4, "rule"));
        }
        bands.forEach(e -> band(e, bottom));
        overlaps();
        rows.values().forEach(this::row);
        axis(bottom, right);
        out.append("</svg>");
        return who.append(out).toString();
    }

    private static String row(int client) {
        return client < 0 ? "the store" : "client " + client;
    }

    private static String svg(String style, double width, int height, String more) {
        return "<svg class=\"" + style + "\" width=\"" + number(width) + "\" height=\"" + height + "\" viewBox=\"0 0 "
                + number(width) + " " + height + "\" " + more + ">";
    }

    private void patterns() {
        out.append("<defs>")
                .append(pattern("wait", 6, "<path d=\"M0 6L6 0\"/>"))
                .append(pattern("two", 5, "<path d=\"M0 0L5 5M0 5L5 0\"/>"))
                .append(pattern("fault", 6, "<circle cx=\"2\" cy=\"2\" r=\"1\"/>"))
                .append("</defs>");
    }

    private String pattern(String name, int size, String inside) {
        return "<pattern id=\"" + id + "-" + name + "\" class=\"" + name + "\" width=\"" + size + "\" height=\"" + size
                + "\" patternUnits=\"userSpaceOnUse\">" + inside + "</pattern>";
    }

    private String fill(String pattern) {
        // Over the style sheet's.
        return " style=\"fill: url(#" + id + "-" + pattern + ")\"";
    }

    private void band(Event e, int bottom) {
        double from = x(e.invoked());
        double to = Math.max(from + 3, x(returned(e)));
        out.append(rect(from, TOP + TEXT + 4, to - from, bottom - TOP - TEXT - 6, "fault", fill("fault")));
        out.append(text(from, TOP + TEXT - 2, "fault", label(e)));
    }

    /** Where two hold at a time, from row to row. */
    private void overlaps() {
        List<Hold> all = new ArrayList<>(holds.values());
        for (int i = 0; i < all.size(); i++) {
            for (int j = i + 1; j < all.size(); j++) {
                Hold one = all.get(i);
                Hold other = all.get(j);
                long from = Math.max(one.from(), other.from());
                long to = Math.min(one.end, other.end);
                Row first = rows.get(one.grant.client());
                Row second = rows.get(other.grant.client());
                if (from < to && one.grant.name().equals(other.grant.name()) && first != null && second != null) {
                    int top = Math.min(laneOf(first, one), laneOf(second, other)) - 3;
                    int bottom = Math.max(laneOf(first, one), laneOf(second, other)) + BAR + 3;
                    out.append(rect(x(from), top, Math.max(3, x(to) - x(from)), bottom - top, "two", fill("two")));
                }
            }
        }
    }

    private static int laneOf(Row row, Hold hold) {
        for (int lane = 0; lane < row.lanes.size(); lane++) {
            if (row.lanes.get(lane).contains(hold)) {
                return row.laneTop(lane);
            }
        }
        return row.top;
    }

    private void row(Row row) {
        for (int lane = 0; lane < row.lanes.size(); lane++) {
            for (Hold hold : row.lanes.get(lane)) {
                hold(hold, row.laneTop(lane));
            }
        }
        for (Event e : row.calls) {
            double from = x(e.invoked());
            double width = Math.max(3, x(returned(e)) - from);
            if (e.op() == Op.STOP || e.op() == Op.KILL) {
                out.append(rect(from, row.top, width, row.height, "stopped", fill("fault")));
                continue;
            }
            boolean waits = e.op() == Op.ACQUIRE || e.op() == Op.AGAIN || e.op() == Op.ADOPT;
            String style = e.op() == Op.LOST ? "lost" : e.outcome() == Outcome.UNKNOWN ? "call unknown" : "call";
            out.append(rect(from, row.callTop(), width, CALL, style, waits ? fill("wait") : ""));
        }
        row.words.forEach((at, word) -> out.append(text(x(at), row.callTop() - 3, "", word)));
    }

    private void hold(Hold hold, int top) {
        double from = x(hold.from());
        double to = x(hold.end);
        out.append(rect(from, top, to - from, BAR, "hold", ""));
        out.append(text(from + 5, top + BAR - 5, "token", label(hold)));
        if (hold.ending.equals("deadline")) {
            out.append(line(to, top - 2, to, top + BAR + 2, "deadline"));
        }
        if (hold.lease > hold.end) {
            out.append(line(to, top + BAR / 2.0, x(hold.lease), top + BAR / 2.0, "rest"));
        }
    }

    private void axis(int bottom, double right) {
        out.append(line(0, bottom, right, bottom, "axis"));
        double free = 0;
        for (int i = 0; i < times.length; i++) {
            String label = ms(times[i]);
            if (places[i] >= free && places[i] + width(label) <= right + 4) {
                out.append(line(places[i], bottom, places[i], bottom + 4, "axis"));
                out.append(text(places[i], bottom + TEXT + 4, "quiet", label));
                free = places[i] + width(label) + 10;
            }
        }
    }

    private static String rect(double x, double y, double width, double height, String style, String more) {
        return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) + "\" height=\""
                + number(height) + "\" class=\"" + style + "\"" + more + "/>";
    }

    private static String line(double x1, double y1, double x2, double y2, String style) {
        return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2)
                + "\" class=\"" + style + "\"/>";
    }

    private static String text(double x, double y, String style, String text) {
        return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" class=\"" + style + "\">" + escape(text)
                + "</text>";
    }

    static String escape(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }

    /** What the eye sees, for those who listen. */
    private String description() {
        List<String> said = new ArrayList<>();
        for (Event e : bands) {
            said.add(words(e) + " from " + ms(e.invoked()) + " to " + ms(returned(e)) + " ms.");
        }
        for (Hold hold : holds.values()) {
            if (hold.end > hold.from()) {
                said.add("Client " + hold.grant.client() + " holds " + letter(hold.grant) + " with token "
                        + hold.grant.token() + " from " + ms(hold.from()) + " to " + ms(hold.end) + " ms ("
                        + hold.ending + ").");
            }
        }
        for (Event e : events) {
            if (e.op() == Op.LOST || e.op() == Op.EVICT || e.op() == Op.STOP || e.op() == Op.KILL) {
                said.add((e.client() < 0 ? "" : "Client " + e.client() + ": ") + words(e)
                        + (e.name().isEmpty() ? "" : " " + letter(e)) + " at " + ms(e.invoked()) + " ms.");
            }
        }
        return String.join(" ", said.size() > MANY ? said.subList(0, MANY) : said);
    }
}
