package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.zookeeper.Taker.Answer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Three servers, each a process, under clients that take, renew and release without a pause, while servers and networks
 * fail in every way. In every history: nobody holds beside another by the holders' own deadlines, tokens are unique and in
 * the order of holding, nothing is granted on a minority's side, and all clients are served again when it is over.
 */
class ZooKeeperFaultTest {
    private static final Duration LEASE = Duration.ofSeconds(1);

    /** Longer than an election, also one that goes wrong first, and than {@link #BACK}. */
    private static final Duration LONG_LEASE = Duration.ofSeconds(25);

    /** Everybody is served again so long after the heal at the latest: an election, and a new session for all. */
    private static final Duration BACK = Duration.ofSeconds(20);

    private static final int TICK = 100;

    /** A server that hears nothing of its leader for so long leaves it: longer than the shortest sessions here. */
    private static final int SYNC_LIMIT = 20;

    /**
     * A member can win an election that the others have gone on from. It leads nobody then, and waits for so many ticks before it
     * looks again: ZooKeeper's own doing, seen here in one of eight elections.
     */
    private static final int INIT_LIMIT = 30;

    private static final List<String> NAMES = List.of("a", "b");

    private static ZooKeeperCluster three;

    private final Holds holds = new Holds();
    private final List<Taker> takers = new ArrayList<>();

    @BeforeAll
    static void open() {
        three = new ZooKeeperCluster(
                3,
                "tickTime=" + TICK,
                "initLimit=" + INIT_LIMIT,
                "syncLimit=" + SYNC_LIMIT,
                "minSessionTimeout=" + 2 * TICK,
                "maxSessionTimeout=60000");
    }

    @AfterAll
    static void close() {
        three.close();
    }

    @BeforeEach
    void start() {
        three.leader();
    }

    /** At the end everybody is served, and nothing that was done breaks a rule or is left in the store. */
    @AfterEach
    void heal() throws Exception {
        try {
            long healed = System.nanoTime();
            takers.forEach(Taker::heal);
            awaitAllServed(healed);
            for (Taker taker : takers) {
                taker.rest();
            }
            holds.judge(false);
            assertThat(holds.size()).as("grants in all").isGreaterThan(2 * takers.size());
            nothingIsLeft();
        } finally {
            takers.forEach(Taker::close);
        }
    }

    private Taker idle() {
        Taker taker = new Taker(takers.size(), holds, three.ports(), Map.of());
        takers.add(taker);
        return taker;
    }

    private void load(int count) {
        for (int i = 0; i < count; i++) {
            idle().work(NAMES, LEASE);
        }
        awaitAllServed(System.nanoTime());
    }

    /** All that work, but these. */
    private void awaitAllServed(long since, Taker... without) {
        List<Taker> all = new ArrayList<>(takers);
        all.removeIf(taker -> !taker.works());
        all.removeAll(List.of(without));
        await().atMost(BACK)
                .pollInterval(Duration.ofMillis(10))
                .until(() -> all.stream().allMatch(taker -> taker.grantedSince(since)));
    }

    /** Claims that were given up are gone, by the acknowledged release or with their own end. */
    private void nothingIsLeft() throws Exception {
        try (ZooKeeper eye = Eye.open(three.connectString())) {
            await().atMost(BACK).until(() -> Eye.ofAll(eye).isEmpty());
        }
    }

    private static void during(Duration time) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(Math.max(0, time.toNanos()));
    }

    /**
     * As an upgrade does it: each in turn ends and is started again, which is a restart of all as well. A lease longer than an
     * election is renewed all the time, and never lost.
     */
    @Test
    void serversAreRestartedInTurn() throws Exception {
        load(3);
        Taker patient = idle();
        Hold lasting = patient.sure("lasting", LONG_LEASE);
        Keeper keeper = new Keeper(patient, lasting);
        try {
            for (int i = 0; i < 3; i++) {
                three.server(i).stop();
                awaitAllServed(System.nanoTime());
                three.server(i).start();
                three.awaitMember(i);
            }
            awaitAllServed(System.nanoTime());
        } finally {
            keeper.stop();
        }
        assertThat(keeper.ended)
                .as("%s, told of its end %s ns before its deadline", lasting, keeper.early)
                .isFalse();
        assertThat(Taker.held(lasting))
                .as("a lease of " + LONG_LEASE + " through all of it")
                .isTrue();
        assertThat(patient.release(lasting)).isTrue();
    }

    @Test
    void aFollowerIsCutFromItsPeers() throws Exception {
        int leader = three.leader();
        cutFromPeers((leader + 1) % 3);
    }

    @Test
    void theLeaderIsCutFromItsPeers() throws Exception {
        cutFromPeers(three.leader());
    }

    /** Its clients still reach it: they get nothing and renew nothing there, and their locks go to others in time. */
    private void cutFromPeers(int server) throws Exception {
        load(2);
        Taker lonely = idle();
        lonely.only(server);
        Taker lonelyWorker = idle();
        lonelyWorker.only(server);
        lonelyWorker.work(NAMES, LEASE);
        awaitAllServed(System.nanoTime());
        Hold held = lonely.sure("lonely", LEASE);
        Keeper keeper = new Keeper(lonely, held);
        Taker heir = idle();
        heir.refuse(server);
        assertThat(heir.take("lonely", LEASE, Duration.ZERO)).isEmpty();
        three.cutFromPeers(server);
        long cut = System.nanoTime();
        try {
            Hold next = heir.sure("lonely", LEASE);
            assertThat(next.token).isGreaterThan(held.token);
            awaitAllServed(cut, lonelyWorker);
            // For as long as a server can take to notice, and longer.
            during(Duration.ofMillis((SYNC_LIMIT + 5) * TICK).minusNanos(System.nanoTime() - cut));
            assertThat(Taker.held(held)).isFalse();
            assertThat(lonelyWorker.grantedSince(cut))
                    .as("granted on the minority's side")
                    .isFalse();
            assertThat(keeper.renewed - cut)
                    .as("renewed on the minority's side")
                    .isNegative();
            holds.judge(false);
        } finally {
            three.healPeers();
            keeper.stop();
        }
        three.awaitMember(server);
        lonely.heal();
        lonelyWorker.heal();
    }

    /** From the leader, and then from a majority: another server will do, and nobody notices. */
    @Test
    void aClientIsCutFromSomeServers() throws Exception {
        load(3);
        int leader = three.leader();
        takers.get(0).blackHole(leader);
        takers.get(1).blackHole((leader + 1) % 3);
        takers.get(1).blackHole((leader + 2) % 3);
        takers.get(2).refuse(leader);
        takers.get(2).refuse((leader + 1) % 3);
        awaitAllServed(System.nanoTime());
        awaitAllServed(System.nanoTime());
    }

    /** It holds nothing any more when the next one does, whatever it is told; and it is told that it lost it. */
    @Test
    void aClientIsCutFromAll() throws Exception {
        load(2);
        Taker cutOff = idle();
        Hold held = cutOff.sure("lonely", LEASE);
        Keeper keeper = new Keeper(cutOff, held);
        Taker heir = idle();
        for (int i = 0; i < 3; i++) {
            cutOff.blackHole(i);
        }
        long cut = System.nanoTime();
        Hold next = heir.sure("lonely", LEASE);
        assertThat(Taker.held(held)).isFalse();
        assertThat(next.token).isGreaterThan(held.token);
        awaitAllServed(cut);
        assertThat(heir.release(next)).isTrue();
        keeper.stop();
        cutOff.heal();
        await().atMost(BACK).until(() -> cutOff.renew(List.of(held)).contains(Answer.ENDED));
        await().atMost(BACK).until(() -> cutOff.undo(held.claim));
        Hold again = cutOff.sure("lonely", LEASE);
        assertThat(again.token).isGreaterThan(next.token);
        assertThat(cutOff.release(again)).isTrue();
    }

    /** Renews one hold at a third of its lease, and in between when it had no answer, as the engine does. */
    private static final class Keeper {
        volatile boolean ended;
        /** How long before the deadline that was told; zero or less if the lease had run out. */
        volatile long early;
        /** The call of the last renewal that came back live. */
        volatile long renewed = System.nanoTime();

        private final Thread thread;
        private volatile boolean stop;

        Keeper(Taker taker, Hold hold) {
            thread = new Thread(() -> {
                while (!stop && Taker.held(hold)) {
                    long asked = System.nanoTime();
                    long deadline = hold.until;
                    Answer answer = taker.renew(hold);
                    if (answer == Answer.LIVE) {
                        renewed = asked;
                    } else if (answer == Answer.ENDED) {
                        early = deadline - System.nanoTime();
                        ended = true;
                        return;
                    }
                    try {
                        TimeUnit.NANOSECONDS.sleep(
                                answer == Answer.LIVE ? hold.claim.lease().toNanos() / 3 : 20_000_000);
                    } catch (InterruptedException e) {
                        return;
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        void stop() throws InterruptedException {
            stop = true;
            thread.join();
        }
    }
}
