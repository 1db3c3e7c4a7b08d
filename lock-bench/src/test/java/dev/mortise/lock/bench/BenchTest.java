package dev.mortise.lock.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

/** Every scenario on real servers, too short to say anything about speed: what is counted, and what is told of it. */
final class BenchTest {
    private static final int ROUNDS = 2;

    private static Bench.Plan plan(Tier tier, Set<Scenario> scenarios, Set<Peer> peers) {
        Duration round = Duration.ofMillis(300);
        return new Bench.Plan(
                EnumSet.of(tier),
                scenarios,
                peers,
                ROUNDS,
                Duration.ofMillis(200),
                round,
                Duration.ofSeconds(1),
                List.of("-XX:TieredStopAtLevel=1"));
    }

    /** Runs it, and checks what holds whatever was run. */
    private static Results run(Bench.Plan plan) throws Exception {
        List<String> progress = new ArrayList<>();
        Report.Machine before = Report.Machine.now();
        Results results;
        String version;
        try (Bench bench = new Bench(plan, progress::add)) {
            results = bench.run();
            version = bench.serverVersion();
        }
        for (Scenario scenario : plan.scenarios()) {
            for (Peer peer : plan.peers()) {
                if (peer.scenarios.contains(scenario) && plan.tiers().contains(peer.tier())) {
                    check(results.row(scenario, peer), plan);
                }
            }
        }
        check(new Report(plan, results, before, Report.Machine.now(), version), results);
        return results;
    }

    private static void check(Results.Row row, Bench.Plan plan) {
        String what = row.scenario + ", " + row.peer.title;
        assertThat(row.failure).as(what).isNull();
        assertThat(row.rounds).as(what).hasSize(row.scenario == Scenario.IDLE ? 1 : ROUNDS);
        for (Sample round : row.rounds) {
            for (Measure measure : row.scenario.columns) {
                // A lock that never changed hands in so short a time has no time of doing so.
                boolean canBeNone = row.scenario == Scenario.HAND_OFF && measure.unit.equals("us");
                if (!canBeNone) {
                    assertThat(round.get(measure))
                            .as(what + ": " + measure)
                            .isFinite()
                            .isNotNegative();
                }
            }
            if (row.scenario == Scenario.ONE_NAME || row.scenario == Scenario.HAND_OFF) {
                assertThat(round.get(Measure.OVERLAPS)).as(what).isZero();
                assertThat(round.get(Measure.SHARE_MIN)).as(what).isLessThanOrEqualTo(100);
                assertThat(round.get(Measure.SHARE_MAX)).as(what).isGreaterThanOrEqualTo(100);
                int takers = row.scenario == Scenario.ONE_NAME ? Scenario.ONE_NAME_THREADS : 4;
                assertThat(round.get(Measure.SHARE_MEAN) * takers)
                        .as(what)
                        .isCloseTo(round.get(Measure.RATE) * plan.round().toMillis() / 1e3, within(0.001));
            }
        }
    }

    private static void check(Report report, Results results) {
        StringWriter text = new StringWriter();
        report.text(new PrintWriter(text));
        Document page = Pages.parse(report.html());
        List<String> rows = texts(page, "tr");
        List<String> labels = texts(page, "text");
        for (Results.Row row : results.rows()) {
            String best = Report.number(row.best(row.scenario.lead()));
            assertThat(text.toString()).contains(row.peer.title, row.scenario.title);
            assertThat(rows).anyMatch(each -> each.contains(row.peer.title) && each.contains(best));
            assertThat(labels).contains(row.peer.title, best);
        }
        for (Goals.Goal goal : Goals.of(results)) {
            assertThat(text.toString()).contains(goal.text());
            assertThat(rows).anyMatch(each -> each.contains(goal.text()) && each.contains(goal.outcome().text));
        }
        // It needs nothing from elsewhere.
        assertThat(page.getElementsByTagName("script").getLength()).isZero();
        assertThat(page.getElementsByTagName("link").getLength()).isZero();
        assertThat(page.getElementsByTagName("img").getLength()).isZero();
    }

    private static List<String> texts(Document page, String tag) {
        NodeList nodes = page.getElementsByTagName(tag);
        List<String> texts = new ArrayList<>();
        for (int i = 0; i < nodes.getLength(); i++) {
            texts.add(((Element) nodes.item(i)).getTextContent());
        }
        return texts;
    }

    private static Set<Peer> peers(Tier tier, Peer... without) {
        Set<Peer> peers = EnumSet.allOf(Peer.class);
        peers.removeIf(peer -> peer.tier() != tier);
        peers.removeAll(Arrays.asList(without));
        return peers;
    }

    /** What one acquire and release ask of the server is exact, where one thread does nothing else. */
    @Test
    void commands_of_one_operation() throws Exception {
        Results results = run(plan(Tier.REDIS, EnumSet.of(Scenario.ALONE), peers(Tier.REDIS, Peer.FENCED_LOCK)));
        for (Sample round : results.row(Scenario.ALONE, Peer.BARE_PAIR).rounds) {
            assertThat(round.commands())
                    .containsEntry("evalsha", 2.0)
                    .containsEntry("set", 1.0)
                    .containsEntry("incr", 1.0)
                    .containsEntry("get", 1.0)
                    .containsEntry("del", 1.0);
            // Or more: another peer's connection may ask to stay open.
            assertThat(round.get(Measure.REQUESTS)).isGreaterThanOrEqualTo(2);
            assertThat(round.get(Measure.SCRIPTS)).isEqualTo(2);
        }
        for (Sample round : results.row(Scenario.ALONE, Peer.RLOCK).rounds) {
            assertThat(round.commands()).containsEntry("evalsha", 2.0).containsEntry("del", 2.0);
            assertThat(round.get(Measure.REQUESTS)).isGreaterThanOrEqualTo(3);
        }
        for (Sample round : results.row(Scenario.ALONE, Peer.SPRING).rounds) {
            assertThat(round.commands()).containsEntry("evalsha", 2.0).containsEntry("publish", 1.0);
        }
        for (Sample round : results.row(Scenario.ALONE, Peer.SHEDLOCK).rounds) {
            assertThat(round.commands()).containsEntry("set", 1.0);
        }
    }

    /** 16 threads share one name, and each acquisition is counted once. */
    @Test
    void one_name() throws Exception {
        Results results = run(plan(Tier.REDIS, EnumSet.of(Scenario.ONE_NAME), peers(Tier.REDIS, Peer.RLOCK)));
        for (Sample round : results.row(Scenario.ONE_NAME, Peer.BARE_LIST).rounds) {
            assertThat(round.commands()).containsEntry("blpop", 1.0).containsEntry("lpush", 1.0);
        }
    }

    @Test
    void distinct_names() throws Exception {
        Results results = run(plan(Tier.REDIS, EnumSet.of(Scenario.DISTINCT), EnumSet.of(Peer.BARE_PAIR, Peer.SPRING)));
        for (Sample round : results.row(Scenario.DISTINCT, Peer.BARE_PAIR).rounds) {
            assertThat(round.commands()).containsEntry("evalsha", 2.0);
        }
    }

    @Test
    void hand_off() throws Exception {
        Results results = run(plan(
                Tier.REDIS,
                EnumSet.of(Scenario.HAND_OFF),
                peers(Tier.REDIS, Peer.BARE_PAIR, Peer.FENCED_LOCK, Peer.SPRING, Peer.SHEDLOCK)));
        for (Sample round : results.row(Scenario.HAND_OFF, Peer.BARE_LIST).rounds) {
            assertThat(round.commands()).containsEntry("blpop", 1.0).containsEntry("lpush", 1.0);
        }
    }

    /** Each has servers of its own, so that a command has one author. */
    @Test
    void idle() throws Exception {
        Results results = run(plan(Tier.REDIS, EnumSet.of(Scenario.IDLE), peers(Tier.REDIS, Peer.FENCED_LOCK)));
        assertThat(results.row(Scenario.IDLE, Peer.RLOCK).best(Measure.THREADS)).isGreaterThan(20);
        assertThat(results.row(Scenario.IDLE, Peer.SPRING).best(Measure.THREADS))
                .isBetween(1.0, 20.0);
    }

    @Test
    void redlock() throws Exception {
        Results results = run(plan(Tier.REDLOCK, EnumSet.of(Scenario.ALONE, Scenario.ONE_NAME), peers(Tier.REDLOCK)));
        for (Sample round : results.row(Scenario.ALONE, Peer.BARE_SCATTER).rounds) {
            assertThat(round.commands())
                    .containsEntry("set", 5.0)
                    .containsEntry("evalsha", 5.0)
                    .containsEntry("del", 5.0);
        }
    }

    /** One thread's requests are exact; who renews meanwhile adds a few messages. */
    @Test
    void etcd() throws Exception {
        Results results = run(plan(Tier.ETCD, EnumSet.of(Scenario.ALONE), peers(Tier.ETCD)));
        for (Sample round : results.row(Scenario.ALONE, Peer.BARE_TXNS).rounds) {
            assertThat(round.commands()).containsEntry("Txn", 2.0);
        }
        for (Sample round : results.row(Scenario.ALONE, Peer.JETCD_LOCK).rounds) {
            assertThat(round.commands())
                    .containsEntry("LeaseGrant", 1.0)
                    .containsEntry("Lock", 1.0)
                    .containsEntry("Unlock", 1.0)
                    .containsEntry("LeaseRevoke", 1.0);
        }
        for (Sample round : results.row(Scenario.ALONE, Peer.JETCD_LOCK_KEPT).rounds) {
            assertThat(round.commands())
                    .containsEntry("Lock", 1.0)
                    .containsEntry("Unlock", 1.0)
                    .doesNotContainKey("LeaseGrant");
        }
    }

    @Test
    void etcd_many() throws Exception {
        Set<Scenario> scenarios = EnumSet.of(Scenario.DISTINCT, Scenario.ONE_NAME, Scenario.HAND_OFF);
        run(plan(Tier.ETCD, scenarios, peers(Tier.ETCD, Peer.JETCD_LOCK_KEPT)));
    }

    @Test
    void etcd_idle() throws Exception {
        Results results = run(plan(Tier.ETCD, EnumSet.of(Scenario.IDLE), peers(Tier.ETCD, Peer.JETCD_LOCK)));
        // A few messages, whatever is held: none of these is asked for once a tick each.
        assertThat(results.row(Scenario.IDLE, Peer.MORTISE_ETCD).best(Measure.THREADS))
                .isBetween(1.0, 30.0);
    }

    /** Two transactions, each through the log: for us as for the floor. */
    @Test
    void zookeeper() throws Exception {
        for (Peer peer : List.of(Peer.BARE_NODE, Peer.MORTISE_ZOOKEEPER)) {
            Results results = run(plan(Tier.ZOOKEEPER, EnumSet.of(Scenario.ALONE), EnumSet.of(peer)));
            for (Sample round : results.row(Scenario.ALONE, peer).rounds) {
                assertThat(round.commands().get("writes")).as(peer.title).isCloseTo(2, within(0.1));
                assertThat(round.get(Measure.REQUESTS)).as(peer.title).isGreaterThanOrEqualTo(2);
            }
        }
        run(plan(Tier.ZOOKEEPER, EnumSet.of(Scenario.ONE_NAME), peers(Tier.ZOOKEEPER)));
        run(plan(Tier.ZOOKEEPER, EnumSet.of(Scenario.HAND_OFF), EnumSet.of(Peer.MORTISE_ZOOKEEPER, Peer.MUTEX)));
    }

    /** Statements, BEGIN included, COMMIT not; of one thread they are exact. */
    @Test
    void postgres() throws Exception {
        Results results = run(plan(Tier.POSTGRES, EnumSet.of(Scenario.ALONE), peers(Tier.POSTGRES)));
        for (Sample round : results.row(Scenario.ALONE, Peer.BARE_ADVISORY).rounds) {
            assertThat(round.commands())
                    .containsEntry("SELECT", 2.0)
                    .containsEntry("UPDATE", 1.0)
                    .containsEntry("WITH", 1.0);
        }
        for (Sample round : results.row(Scenario.ALONE, Peer.BARE_ROW).rounds) {
            assertThat(round.commands()).containsEntry("INSERT", 1.0).containsEntry("UPDATE", 1.0);
        }
        for (Sample round : results.row(Scenario.ALONE, Peer.MORTISE_TABLE).rounds) {
            assertThat(round.commands()).containsEntry("INSERT", 1.0).containsEntry("UPDATE", 1.0);
        }
        for (Sample round : results.row(Scenario.ALONE, Peer.SHEDLOCK_POSTGRES).rounds) {
            assertThat(round.commands()).containsEntry("BEGIN", 2.0);
        }
        run(plan(
                Tier.POSTGRES,
                EnumSet.of(Scenario.ONE_NAME),
                EnumSet.of(Peer.MORTISE_ADVISORY, Peer.MORTISE_TABLE, Peer.SPRING_POSTGRES)));
        run(plan(
                Tier.POSTGRES,
                EnumSet.of(Scenario.HAND_OFF),
                EnumSet.of(Peer.BARE_ADVISORY, Peer.MORTISE_ADVISORY, Peer.MORTISE_TABLE)));
    }

    /** By kind of statement. */
    @Test
    void mariaDb() throws Exception {
        Results results = run(plan(Tier.MARIADB, EnumSet.of(Scenario.ALONE), peers(Tier.MARIADB)));
        for (Sample round : results.row(Scenario.ALONE, Peer.BARE_GET_LOCK).rounds) {
            assertThat(round.commands().get("select")).isCloseTo(2, within(0.1));
            assertThat(round.commands().get("insert")).isEqualTo(1);
            assertThat(round.commands().get("update")).isEqualTo(1);
        }
        run(plan(
                Tier.MARIADB,
                EnumSet.of(Scenario.HAND_OFF),
                EnumSet.of(Peer.BARE_GET_LOCK, Peer.MORTISE_ADVISORY_MARIADB)));
    }

    /** A process that does not come up is told, with what it ended with, and the rest goes on. */
    @Test
    void a_peer_that_fails() throws Exception {
        Bench.Plan sound = plan(Tier.REDIS, EnumSet.of(Scenario.ALONE), EnumSet.of(Peer.BARE_PAIR));
        Bench.Plan plan = new Bench.Plan(
                sound.tiers(),
                sound.scenarios(),
                sound.peers(),
                1,
                sound.warmUp(),
                sound.round(),
                sound.idle(),
                List.of("-XX:NoSuchOption"));
        List<String> progress = new ArrayList<>();
        try (Bench bench = new Bench(plan, progress::add)) {
            Results.Row row = bench.run().row(Scenario.ALONE, Peer.BARE_PAIR);
            assertThat(row.failure).isEqualTo("its process ended, with status 1");
            assertThat(row.rounds).isEmpty();
            assertThat(progress).anyMatch(line -> line.contains("with status 1"));
        }
    }
}
