package dev.mortise.lock.bench;

import static dev.mortise.lock.bench.Measure.*;
import static dev.mortise.lock.bench.Peer.*;
import static dev.mortise.lock.bench.Scenario.*;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import java.util.stream.DoubleStream;

/** What Mortise is to reach, beside what it reached. Ratios are taken within a round; the median of the rounds counts. */
final class Goals {
    /** What came of one. */
    enum Outcome {
        MET("met"),
        NOT_MET("not met"),
        NOT_MEASURED("not measured");

        final String text;

        Outcome(String text) {
            this.text = text;
        }
    }

    record Goal(String text, String measured, Outcome outcome) {}

    private final Results results;
    private final List<Goal> goals = new ArrayList<>();

    private Goals(Results results) {
        this.results = results;
    }

    static List<Goal> of(Results results) {
        Goals all = new Goals(results);
        all.ratio(
                        "lock-redis (a): at least 85 % of the speed of the two bare scripts",
                        ALONE, P50, BARE_PAIR, MORTISE_REDIS)
                .atLeast(0.85);
        all.ratio("lock-redis (c): more than Spring Integration", ONE_NAME, RATE, MORTISE_REDIS, SPRING)
                .atLeast(1);
        all.ratio("lock-redis (c): at least 5 times RLock", ONE_NAME, RATE, MORTISE_REDIS, RLOCK)
                .atLeast(5);
        all.evenShares("lock-redis ", MORTISE_REDIS);
        all.ratio(
                        "lock-redis (d): hand-off p50 at most 3 times LPUSH and BLPOP",
                        HAND_OFF,
                        P50,
                        MORTISE_REDIS,
                        BARE_LIST)
                .atMost(3);
        all.value(
                        "lock-redis (e): at most one renewal call a second for 1,000 leases",
                        IDLE,
                        MORTISE_REDIS,
                        round -> round.get(SCRIPT_RATE))
                .atMost(1);
        all.value("lock-redis (e): at most 10 client threads", IDLE, MORTISE_REDIS, round -> round.get(THREADS))
                .atMost(10);
        all.ratio(
                        "lock-redlock (a): at least 4 times the speed of RedissonRedLock",
                        ALONE,
                        P50,
                        RED_LOCK,
                        MORTISE_REDLOCK)
                .atLeast(4);
        all.ratio("lock-redlock (c): at least 4 times RedissonRedLock", ONE_NAME, RATE, MORTISE_REDLOCK, RED_LOCK)
                .atLeast(4);
        all.value(
                        "lock-redlock (c): at most 10 commands a node for an acquisition",
                        ONE_NAME,
                        MORTISE_REDLOCK,
                        round -> round.get(SCRIPTS) / Tier.REDLOCK.servers)
                .atMost(10);
        all.value("lock-redlock (e): at most 20 client threads", IDLE, MORTISE_REDLOCK, round -> round.get(THREADS))
                .atMost(20);
        all.ratio(
                        "lock-etcd (a): at least 85 % of the speed of two bare transactions",
                        ALONE, P50, BARE_TXNS, MORTISE_ETCD)
                .atLeast(0.85);
        all.ratio("lock-etcd (c): at least 2.5 times jetcd's Lock", ONE_NAME, RATE, MORTISE_ETCD, JETCD_LOCK)
                .atLeast(2.5);
        all.ratio(
                        "lock-etcd (c): at least 2.5 times jetcd's Lock with leases kept",
                        ONE_NAME,
                        RATE,
                        MORTISE_ETCD,
                        JETCD_LOCK_KEPT)
                .atLeast(2.5);
        all.ratio(
                        "lock-etcd (d): at least 2.5 times as many hand-offs as jetcd's Lock",
                        HAND_OFF,
                        RATE,
                        MORTISE_ETCD,
                        JETCD_LOCK)
                .atLeast(2.5);
        all.ratio(
                        "lock-etcd (d): at least 2.5 times as many hand-offs as jetcd's Lock with leases kept",
                        HAND_OFF,
                        RATE,
                        MORTISE_ETCD,
                        JETCD_LOCK_KEPT)
                .atLeast(2.5);
        all.value(
                        "lock-etcd (e): at most 100 messages a second for 1,000 leases, beside 1 read in 100",
                        IDLE,
                        MORTISE_ETCD,
                        round -> round.commands().getOrDefault("LeaseKeepAlive", 0.0))
                .atMost(100);
        all.ratio(
                        "lock-zookeeper (a): at least 85 % of the speed of a bare create and delete",
                        ALONE, P50, BARE_NODE, MORTISE_ZOOKEEPER)
                .atLeast(0.85);
        all.ratio("lock-zookeeper (c): at least twice InterProcessMutex", ONE_NAME, RATE, MORTISE_ZOOKEEPER, MUTEX)
                .atLeast(2);
        all.ratio(
                        "lock-zookeeper (d): hand-off p50 not slower than InterProcessMutex",
                        HAND_OFF,
                        P50,
                        MUTEX,
                        MORTISE_ZOOKEEPER)
                .atLeast(1);
        all.value(
                        "lock-zookeeper (e): at most one write a second for 1,000 leases, with reads behind it",
                        IDLE,
                        MORTISE_ZOOKEEPER,
                        round -> round.commands().getOrDefault("writes", 0.0))
                .atMost(1);
        all.value("lock-zookeeper (e): at most 10 client threads", IDLE, MORTISE_ZOOKEEPER, round -> round.get(THREADS))
                .atMost(10);
        all.database(
                "PostgreSQL",
                BARE_ADVISORY,
                BARE_ROW,
                MORTISE_ADVISORY,
                MORTISE_TABLE,
                SHEDLOCK_POSTGRES,
                SPRING_POSTGRES);
        all.database(
                "MariaDB",
                BARE_GET_LOCK,
                BARE_ROW_MARIADB,
                MORTISE_ADVISORY_MARIADB,
                MORTISE_TABLE_MARIADB,
                SHEDLOCK_MARIADB,
                SPRING_MARIADB);
        return all.goals;
    }

    /** The same for each database that has both strategies. */
    private void database(
            String name, Peer bareLock, Peer bareRow, Peer advisory, Peer table, Peer shedLock, Peer spring) {
        String who = "lock-jdbc, " + name + ", advisory ";
        ratio(who + "(a): at least 85 % of the speed of the bare statements", ALONE, P50, bareLock, advisory)
                .atLeast(0.85);
        ratio(who + "(d): hand-off p50 at most twice the bare lock and token", HAND_OFF, P50, advisory, bareLock)
                .atMost(2);
        beats(who, advisory, shedLock, "ShedLock");
        beats(who, advisory, spring, "Spring Integration");
        evenShares(who, advisory);
        who = "lock-jdbc, " + name + ", table ";
        ratio(who + "(a): at least 90 % of the speed of the two bare statements", ALONE, P50, bareRow, table)
                .atLeast(0.9);
        beats(who, table, shedLock, "ShedLock");
        beats(who, table, spring, "Spring Integration");
        evenShares(who, table);
        value(
                        who + "(e): at most one statement a second for 1,000 leases",
                        IDLE,
                        table,
                        round -> round.get(COMMAND_RATE))
                .atMost(1);
    }

    private void beats(String who, Peer mine, Peer other, String than) {
        ratio(who + "(a): faster than " + than, ALONE, P50, other, mine).atLeast(1);
        ratio(who + "(b): less client CPU than " + than, DISTINCT, CPU, other, mine)
                .atLeast(1);
        ratio(who + "(b): more than " + than, DISTINCT, RATE, mine, other).atLeast(1);
        ratio(who + "(c): at least twice " + than, ONE_NAME, RATE, mine, other).atLeast(2);
        ratio(who + "(d): faster hand-off than " + than, HAND_OFF, P50, other, mine)
                .atLeast(1);
        ratio(who + "(d): more than " + than, HAND_OFF, RATE, mine, other).atLeast(1);
    }

    private void evenShares(String who, Peer mine) {
        value(
                        who + "(c): each share within 10 % of the mean; the furthest, in %",
                        ONE_NAME,
                        mine,
                        round -> Math.max(100 - round.get(SHARE_MIN), round.get(SHARE_MAX) - 100))
                .atMost(10);
    }

    /** What a goal is about, each round of it. */
    private final class Measured {
        private final String text;
        private final double[] values;
        private final String more;

        Measured(String text, double[] values, String more) {
            this.text = text;
            this.values = values;
            this.more = more;
        }

        void atLeast(double limit) {
            add(Results.median(values) >= limit);
        }

        void atMost(double limit) {
            add(Results.median(values) <= limit);
        }

        private void add(boolean met) {
            if (values.length == 0) {
                goals.add(new Goal(text, "", Outcome.NOT_MEASURED));
                return;
            }
            String measured = number(Results.median(values));
            if (values.length > 1) {
                measured += " (" + number(DoubleStream.of(values).min().orElseThrow()) + " to "
                        + number(DoubleStream.of(values).max().orElseThrow()) + more + ")";
            }
            goals.add(new Goal(text, measured, met ? Outcome.MET : Outcome.NOT_MET));
        }
    }

    /** On a busy machine the best rounds of both tell more than most rounds, so they are told too. */
    private Measured ratio(String text, Scenario scenario, Measure measure, Peer first, Peer second) {
        double best = results.best(scenario, measure, first) / results.best(scenario, measure, second);
        return new Measured(
                text,
                results.ratios(scenario, measure, first, second),
                Double.isFinite(best) ? "; the best by the best: " + number(best) : "");
    }

    private Measured value(String text, Scenario scenario, Peer peer, ToDoubleFunction<Sample> value) {
        return new Measured(
                text,
                results.rounds(scenario, peer).stream()
                        .mapToDouble(value)
                        .filter(Double::isFinite)
                        .toArray(),
                "");
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.2f", value);
    }
}
