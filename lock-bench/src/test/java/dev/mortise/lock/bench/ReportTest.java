package dev.mortise.lock.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.bench.Goals.Goal;
import dev.mortise.lock.bench.Goals.Outcome;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** From what was measured to what is told. */
final class ReportTest {
    private final Results results = new Results();

    private void add(Scenario scenario, Peer peer, Measure measure, double... rounds) {
        for (double value : rounds) {
            results.row(scenario, peer)
                    .rounds
                    .add(new Sample(new EnumMap<>(Map.of(measure, value)), Map.of("evalsha", 2.0)));
        }
    }

    private Goal goal(String begin) {
        return Goals.of(results).stream()
                .filter(goal -> goal.text().startsWith(begin))
                .findFirst()
                .orElseThrow();
    }

    /** A noisy round is noisy for both: the ratio is taken within the round, and the median counts. */
    @Test
    void goals_compare_within_a_round() {
        add(Scenario.ALONE, Peer.BARE_PAIR, Measure.P50, 100, 300, 100);
        add(Scenario.ALONE, Peer.MORTISE_REDIS, Measure.P50, 110, 330, 300);
        assertThat(goal("lock-redis (a)").outcome()).isEqualTo(Outcome.MET);
        assertThat(goal("lock-redis (a)").measured()).isEqualTo("0.91 (0.33 to 0.91; the best by the best: 0.91)");
    }

    /** One that is just missed is missed. */
    @Test
    void a_goal_can_be_missed() {
        add(Scenario.ALONE, Peer.BARE_PAIR, Measure.P50, 84);
        add(Scenario.ALONE, Peer.MORTISE_REDIS, Measure.P50, 100);
        assertThat(goal("lock-redis (a)").outcome()).isEqualTo(Outcome.NOT_MET);
        add(Scenario.IDLE, Peer.MORTISE_REDIS, Measure.THREADS, 10);
        assertThat(goal("lock-redis (e): at most 10").outcome()).isEqualTo(Outcome.MET);
        add(Scenario.IDLE, Peer.MORTISE_REDLOCK, Measure.THREADS, 21);
        assertThat(goal("lock-redlock (e)").outcome()).isEqualTo(Outcome.NOT_MET);
        add(Scenario.ONE_NAME, Peer.JETCD_LOCK, Measure.RATE, 100);
        add(Scenario.ONE_NAME, Peer.MORTISE_ETCD, Measure.RATE, 249);
        assertThat(goal("lock-etcd (c)").outcome()).isEqualTo(Outcome.NOT_MET);
    }

    /** What was not measured is neither met nor missed. */
    @Test
    void nothing_is_not_a_success() {
        assertThat(Goals.of(results)).isNotEmpty().allMatch(goal -> goal.outcome() == Outcome.NOT_MEASURED);
        add(Scenario.HAND_OFF, Peer.BARE_LIST, Measure.P50, 400);
        add(Scenario.HAND_OFF, Peer.MORTISE_REDIS, Measure.P50, Double.NaN);
        assertThat(goal("lock-redis (d)").outcome()).isEqualTo(Outcome.NOT_MEASURED);
    }

    /** The order of the peers tells. */
    @Test
    void every_peer_has_its_tier() {
        assertThat(Peer.RLOCK.tier()).isEqualTo(Tier.REDIS);
        assertThat(Peer.BARE_SCATTER.tier()).isEqualTo(Tier.REDLOCK);
        assertThat(Peer.RED_LOCK.tier()).isEqualTo(Tier.REDLOCK);
        assertThat(Peer.BARE_TXNS.tier()).isEqualTo(Tier.ETCD);
        assertThat(Peer.JETCD_LOCK.tier()).isEqualTo(Tier.ETCD);
        assertThat(Peer.MUTEX.tier()).isEqualTo(Tier.ZOOKEEPER);
        assertThat(Peer.SPRING_POSTGRES.tier()).isEqualTo(Tier.POSTGRES);
        assertThat(Peer.SPRING_MARIADB.tier()).isEqualTo(Tier.MARIADB);
    }

    /** A failure is told in its row, whatever is in it, and takes nothing from the others. */
    @Test
    void failures_are_told() {
        add(Scenario.ALONE, Peer.BARE_PAIR, Measure.P50, 100);
        results.row(Scenario.ALONE, Peer.RLOCK).failure = "<no> \"answer\" & more";
        Report report = report();
        StringWriter text = new StringWriter();
        report.text(new PrintWriter(text));
        assertThat(text.toString()).contains("FAILED Redisson RLock: <no> \"answer\" & more");
        String page = report.html();
        Pages.parse(page);
        assertThat(page)
                .contains("failed: &lt;no&gt; &quot;answer&quot; &amp; more")
                .contains("bare: two scripts");
    }

    private Report report() {
        Bench.Plan plan = new Bench.Plan(
                EnumSet.of(Tier.REDIS),
                EnumSet.of(Scenario.ALONE),
                EnumSet.allOf(Peer.class),
                1,
                Duration.ofSeconds(1),
                Duration.ofSeconds(1),
                Duration.ofSeconds(1),
                List.of());
        return new Report(plan, results, Report.Machine.now(), Report.Machine.now(), "redis-server 7");
    }
}
