package dev.mortise.lock.bench;

import static dev.mortise.lock.bench.Measure.*;

import java.util.List;

/** What is done, by how many, and what is told of it. The first measure is the one whose ratio to the floor is told. */
enum Scenario {
    ALONE(
            "a",
            "one thread, one name, nobody else",
            "One thread acquires and releases without a pause.",
            1,
            List.of(P50, P99, RATE, CPU, SERVER_CPU, REQUESTS, OTHERS),
            List.of(P50, P99)),
    DISTINCT(
            "b",
            "32 threads, each with a name of its own",
            "32 threads of one process, each on its own name: what an operation costs in processor time.",
            1,
            List.of(CPU, RATE, P50, P99, SERVER_CPU, REQUESTS, OTHERS),
            List.of(CPU, RATE)),
    ONE_NAME(
            "c",
            "16 threads of one process, one name",
            "16 threads want the same lock and release it at once. A share is what one thread got, of the mean.",
            1,
            List.of(
                    RATE,
                    ACQUIRE_P50,
                    ACQUIRE_P99,
                    SHARE_MIN,
                    SHARE_MAX,
                    SHARE_MEAN,
                    REQUESTS,
                    SCRIPTS,
                    OVERLAPS,
                    OTHERS),
            List.of(RATE, SHARE_MIN)),
    HAND_OFF(
            "d",
            "four processes, one name, held for 2 ms",
            "From the call of release in one process to the return of acquire in another. Holds are recorded by the"
                    + " machine's monotonic clock and put in order afterwards: two that overlap are two holders.",
            4,
            List.of(P50, P90, P99, RATE, MOVED, SHARE_MIN, SHARE_MAX, SHARE_MEAN, REQUESTS, OVERLAPS, OTHERS),
            List.of(P50, RATE)),
    IDLE(
            "e",
            "1,000 leases held, nothing else",
            "One process holds 1,000 leases of 30 s, renewed by its library: what it costs to do nothing.",
            1,
            List.of(COMMAND_RATE, REQUEST_RATE, SCRIPT_RATE, THREADS, ALL_THREADS, CPU_RATE, OTHERS),
            List.of(COMMAND_RATE, THREADS));

    static final int DISTINCT_THREADS = 32;
    static final int ONE_NAME_THREADS = 16;
    static final int IDLE_LEASES = 1000;

    /** As on the command line. */
    final String letter;

    final String title;
    final String method;
    final int processes;

    @SuppressWarnings("ImmutableEnumChecker") // Made by List.of.
    final List<Measure> columns;

    @SuppressWarnings("ImmutableEnumChecker") // Made by List.of.
    final List<Measure> plots;

    Scenario(String letter, String title, String method, int processes, List<Measure> columns, List<Measure> plots) {
        this.letter = letter;
        this.title = title;
        this.method = method;
        this.processes = processes;
        this.columns = columns;
        this.plots = plots;
    }

    Measure lead() {
        return columns.get(0);
    }

    @Override
    public String toString() {
        return "(" + letter + ") " + title;
    }
}
