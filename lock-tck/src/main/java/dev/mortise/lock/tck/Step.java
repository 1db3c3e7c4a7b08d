package dev.mortise.lock.tck;

import java.util.List;
import java.util.Locale;

/**
 * One step of a scenario, as plain data. A step that makes no sense where it stands (a release by one who holds nothing)
 * does nothing, so that every part of a scenario is a scenario. As text: {@code kind client name amount}, with only
 * what the kind needs.
 *
 * @param client 0 to 2
 * @param name 0 to 2, written a to c; names of locks of their own. Or the fault
 * @param amount thousandths of the lease, or as the kind says
 */
record Step(Kind kind, int client, int name, int amount) {
    enum Kind {
        /** A new attempt, with a new owner; {@code amount} is the patience. */
        ACQUIRE("cna"),
        /** The same attempt, sent again. */
        AGAIN("cn"),
        /** Of the client's latest grant of the name, or one so many grants before: also one that is over. */
        RENEW("cna"),
        /** Of the latest grants of all names, in one call. */
        RENEW_ALL("c"),
        /** Of the client's latest attempt, or one so many before. */
        RELEASE("cna"),
        /** By an owner that never acquired. */
        FOREIGN_RELEASE("cn"),
        /** By an owner that never acquired, with the token of the latest grant. */
        FOREIGN_RENEW("cn"),
        /** The client takes over the latest grant of the name, by a new heir. */
        ADOPT("cn"),
        /** The latest heir asks again. */
        ADOPT_AGAIN("cn"),
        /** A second heir comes with what the latest one took over. */
        ADOPT_SECOND("cn"),
        /** All clients acquire at the same time. */
        RACE("n"),
        /** An administrator ends the claim. */
        EVICT("n"),
        WAIT("a"),
        /** To so much before the end of the lease that ends first, or after the latest end that is declared for it. */
        EDGE("a"),
        /** From now on answers come so much later; zero ends it. */
        SLOW("a"),
        /** The answer to the next call is lost. */
        LOSE(""),
        /**
         * From now on requests for the name wait in the store, until the edge of its lease that ends first, as in {@link
         * #EDGE}, or for so long where it has none. Another hold ends.
         */
        HOLD_UP("na"),
        /** The holder reads the resource, which checks its token. */
        READ("cn"),
        /** The holder writes what it has made of its latest read. */
        WRITE("cn"),

        // Only where there are clients with an engine.
        /** The client's process is killed, and another takes its place. */
        KILL("c"),
        /**
         * The fault, {@code name} being its number in {@link Fault}, begins, and ends so long after it has begun. One that
         * comes before the end of another waits for that, and the steps go on meanwhile.
         */
        FAULT("fa"),
        /** What becomes of the client's next call: {@code amount} is the place in the list of fates. */
        FATE("ca"),
        /** The client's process stands still for so long. */
        STOP("ca"),
        /** The client's waiters give up. */
        CANCEL("c");

        private final String needs;

        Kind(String needs) {
            this.needs = needs;
        }

        boolean needs(char what) {
            return needs.indexOf(what) >= 0;
        }
    }

    /** By their numbers in scripts as data. */
    private static final List<Fault> FAULTS = List.of(Fault.values());

    Step {
        client = kind.needs('c') ? client : 0;
        name = kind.needs('n') || kind.needs('f') ? name : 0;
        amount = kind.needs('a') ? amount : 0;
    }

    static Step parse(String line) {
        String[] words = line.trim().split("\\s+", -1);
        Kind kind = Kind.valueOf(words[0].toUpperCase(Locale.ROOT).replace('-', '_'));
        int next = 1;
        int client = kind.needs('c') ? Integer.parseInt(words[next++]) : 0;
        int name = 0;
        if (kind.needs('n')) {
            name = words[next++].charAt(0) - 'a';
        } else if (kind.needs('f')) {
            name = FAULTS.indexOf(
                    Fault.valueOf(words[next++].toUpperCase(Locale.ROOT).replace('-', '_')));
        }
        int amount = kind.needs('a') && next < words.length ? Integer.parseInt(words[next]) : 0;
        return new Step(kind, client, name, amount);
    }

    /** Lasts so many thousandths of a lease. */
    static Step fault(Fault fault, int amount) {
        return new Step(Kind.FAULT, 0, FAULTS.indexOf(fault), amount);
    }

    Fault fault() {
        return FAULTS.get(name);
    }

    /** As it is written in a script. */
    static String word(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    Step with(int client, int name, int amount) {
        return new Step(kind, client, name, amount);
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(word(kind));
        if (kind.needs('c')) {
            text.append(' ').append(client);
        }
        if (kind.needs('n')) {
            text.append(' ').append((char) ('a' + name));
        }
        if (kind.needs('f')) {
            text.append(' ').append(word(fault()));
        }
        if (kind.needs('a') && (amount != 0 || !kind.needs('n'))) {
            text.append(' ').append(amount);
        }
        return text.toString();
    }
}
