package dev.mortise.lock.etcd;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.Lease;
import dev.mortise.lock.Load;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * What befalls three members, or one client's way to them, and not the whole store, which the kit's faults do; under load.
 * Whatever happens, no holder counts on a lock that another one was granted, tokens are unique and in the order of holding, no lease ends before its time, and calls end in time. What is stated of
 * service is in {@link #SERVICE}.
 */
class EtcdFaultTest {
    private static final Duration LEASE = Duration.ofSeconds(2);
    private static final Duration CALL_TIMEOUT = LEASE.dividedBy(4);
    private static final List<String> NAMES = List.of("fault/1", "fault/2", "fault/3", "fault/4");

    /**
     * After a fault that leaves a majority, and after a heal, every client is granted locks again within this: the election,
     * what is left of leases that nobody renews, which a new leader lengthens to their full length, and a busy machine.
     */
    private static final Duration SERVICE = LEASE.multipliedBy(2).plusSeconds(14);

    /** How long an election takes at most, with what {@link EtcdServer} sets, if nobody else stands. */
    private static final Duration ELECTION = Duration.ofSeconds(1);

    /** Each as often as it was when it was written. */
    private static final boolean THOROUGH = Boolean.getBoolean("mortise.thorough");

    private static EtcdCluster cluster;

    private final Holds holds = new Holds();
    private final List<Ways> ways = new ArrayList<>();
    private final List<LockBackend> clients = new ArrayList<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private Load load;

    private boolean leasesMayEndEarly;

    @BeforeAll
    static void start() {
        cluster = new EtcdCluster(3);
    }

    @AfterAll
    static void stop() {
        cluster.close();
    }

    @BeforeEach
    void connect() {
        cluster.leader();
        for (int i = 0; i < 3; i++) {
            client(new Ways(cluster.members()));
        }
    }

    private void client(Ways own) {
        ways.add(own);
        clients.add(own.connect(CALL_TIMEOUT));
    }

    /** By clients that may be cut off one by one. */
    private void load() {
        load = new Load(holds, clients, NAMES, LEASE, CALL_TIMEOUT, leasesMayEndEarly);
        load.awaitService(SERVICE);
    }

    @AfterEach
    void judge() {
        ways.forEach(Ways::mend);
        try {
            if (load != null) {
                load.close();
            }
            holds.judge(leasesMayEndEarly);
            if (load != null && leasesMayEndEarly) {
                System.out.println("leases that an old leader ended early: " + load.early());
            }
        } finally {
            ways.forEach(Ways::close);
            threads.shutdownNow();
        }
    }

    /** As an upgrade does it. */
    @Test
    void membersAreRestartedInTurn() throws Exception {
        load();
        for (int round = 0; round < (THOROUGH ? 2 : 1); round++) {
            for (EtcdServer member : cluster.members()) {
                ProcessHandle.of(member.pid()).ifPresent(ProcessHandle::destroy);
                await().atMost(Duration.ofSeconds(30)).until(() -> !member.isAlive());
                member.start();
            }
        }
        load.awaitService(SERVICE);
    }

    /**
     * Where etcd has the fault of issue 15247, the one that was frozen ends leases of the next leader when it goes on, so that a
     * claim can be gone before its holder's deadline, and another one granted. That is why a change of leader is then not declared
     * ({@link EtcdBackendTest#aChangeOfLeaderIsPromisedForRepairedVersionsOnly}). Tokens tell the two apart all the same.
     */
    @Test
    void theLeaderIsFrozenForLongerThanAnElection() throws Exception {
        leasesMayEndEarly = GrpcWire.isFaulty(GrpcWire.version(cluster.member(0).version()));
        load();
        EtcdServer leader = cluster.member(cluster.leader());
        leader.freeze();
        try {
            load.awaitService(SERVICE);
        } finally {
            leader.resume();
        }
        load.awaitService(SERVICE);
    }

    /**
     * One that was frozen does not know of the next one, and answers what waited in its socket: etcd before 3.4.31 and 3.5.13
     * says then that it has renewed a lease for its full length, of which the next leader never hears. What such a holder
     * counts on must not be more than the next leader gives it.
     */
    @Test
    void aLeaderThatIsNoneAnyMoreRenewsNothing() throws Exception {
        Duration lease = Duration.ofSeconds(20);
        Duration frozen = Duration.ofSeconds(4);
        int leader = cluster.leader();
        // These know no other, and have a connection each.
        Ways only = new Ways(List.of(cluster.member(leader)));
        ways.add(only);
        List<LockBackend> those = new ArrayList<>();
        List<Hold> held = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            LockBackend client = only.connect(Duration.ofSeconds(5));
            those.add(client);
            held.add(holds.sure(client, "fault/stale-" + i, lease));
        }
        List<Future<?>> renewals = new ArrayList<>();
        EtcdServer next;
        cluster.member(leader).freeze();
        try {
            next = cluster.leaderBesides(leader);
            TimeUnit.NANOSECONDS.sleep(frozen.toNanos());
            // It is not told of the next one before it has answered.
            cluster.cutOff(leader);
            for (int i = 0; i < 6; i++) {
                LockBackend client = those.get(i);
                Hold hold = held.get(i);
                renewals.add(threads.submit(() -> holds.renew(client, hold)));
            }
            // They are in its socket by then.
            TimeUnit.MILLISECONDS.sleep(300);
        } finally {
            cluster.member(leader).resume();
            TimeUnit.MILLISECONDS.sleep(150);
            cluster.mend(leader);
        }
        for (int i = 0; i < 6; i++) {
            try {
                renewals.get(i).get(20, TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                assertThat(e.getCause()).isInstanceOf(LockStoreException.class);
            }
            Hold hold = held.get(i);
            String key = Keys.of(Keys.PREFIX, hold.claim.name()).of(hold.claim.owner());
            long left = TimeUnit.SECONDS.toNanos(1 + left(next, key));
            assertThat(hold.until - System.nanoTime())
                    .as("what the holder counts on")
                    .isLessThan(left);
        }
    }

    /** What is left of the lease of a key, in whole seconds, by the leader. */
    private static long left(EtcdServer member, String key) {
        String lease = field(member.ctl("get", key, "-w", "fields"), "Lease");
        String told = member.ctl("lease", "timetolive", Long.toHexString(Long.parseLong(lease)), "-w", "fields");
        return Long.parseLong(field(told, "TTL"));
    }

    private static String field(String fields, String name) {
        return fields.lines()
                .filter(line -> line.startsWith("\"" + name + "\""))
                .map(line -> line.substring(line.indexOf(':') + 1).trim())
                .findFirst()
                .orElseThrow(() -> new AssertionError("no " + name + " in " + fields));
    }

    @Test
    void leadersChangeAllTheTime() throws Exception {
        load();
        for (int i = 0; i < (THOROUGH ? 10 : 5); i++) {
            int leader = cluster.leader();
            String status = cluster.member((leader + 1) % 3).ctl("endpoint", "status", "-w", "fields");
            String id = field(status, "MemberID");
            try {
                cluster.member(leader).ctl("move-leader", Long.toHexString(Long.parseUnsignedLong(id)));
            } catch (AssertionError e) {
                // It leads no more.
            }
            TimeUnit.MILLISECONDS.sleep(100);
        }
        load.awaitService(SERVICE);
    }

    /** Cut off from its peers, and not from its clients, which have no other: nothing is granted there, leader or not. */
    @Test
    void aServerIsCutOffFromItsPeers() throws Exception {
        int leader = cluster.leader();
        int follower = (leader + 1) % 3;
        for (int cut : List.of(leader, follower)) {
            Ways only = new Ways(List.of(cluster.member(cut)));
            ways.add(only);
            LockBackend lonely = only.connect(CALL_TIMEOUT);
            if (load == null) {
                load();
            }
            try (Load there = new Load(holds, List.of(lonely), NAMES, LEASE, CALL_TIMEOUT)) {
                there.awaitService(SERVICE);
                cluster.cutOff(cut);
                try {
                    // What was under way is answered by then.
                    TimeUnit.NANOSECONDS.sleep(CALL_TIMEOUT.plus(ELECTION).toNanos());
                    long before = there.grants(0);
                    load.awaitService(SERVICE);
                    assertThat(there.grants(0)).as("granted by the minority").isEqualTo(before);
                } finally {
                    cluster.mend(cut);
                }
                there.awaitService(SERVICE);
            }
            load.awaitService(SERVICE);
        }
    }

    @Test
    void aClientIsCutOffFromTheLeader() {
        load();
        int leader = cluster.leader();
        ways.get(0).refuse(leader);
        load.awaitService(SERVICE);
        ways.get(0).mend(leader);
        ways.get(0).blackHole(leader);
        load.awaitService(SERVICE);
        ways.get(0).mend(leader);
        load.awaitService(SERVICE);
    }

    /** One member is enough to reach them all. */
    @Test
    void aClientIsCutOffFromAMajority() {
        load();
        for (int left = 0; left < (THOROUGH ? 3 : 1); left++) {
            ways.get(0).blackHole((left + 1) % 3);
            ways.get(0).refuse((left + 2) % 3);
            load.awaitService(SERVICE);
            ways.get(0).mend();
        }
        load.awaitService(SERVICE);
    }

    /** It is told of its loss before another one can have the lock; the others do not even notice. */
    @Test
    void aClientIsCutOffFromAll() throws Exception {
        load();
        Ways own = new Ways(cluster.members());
        ways.add(own);
        AtomicBoolean lost = new AtomicBoolean();
        try (LockClient locks =
                LockClient.builder(own.connect(CALL_TIMEOUT)).lease(LEASE).build()) {
            Lease lease = locks.lock("fault/cut").acquire();
            lease.onLoss(loss -> lost.set(true));
            for (int i = 0; i < 3; i++) {
                own.blackHole(i);
                ways.get(0).blackHole(i);
            }
            Hold next = holds.sure(clients.get(1), "fault/cut", LEASE);
            // By the clock; the callback comes when this machine gets round to it.
            assertThat(lease.isHeld()).isFalse();
            await().until(lost::get);
            assertThat(next.token).isGreaterThan(lease.token());
            assertThat(holds.release(clients.get(1), next)).isTrue();
            // The other clients go on meanwhile, and this one is let in again.
            load.awaitService(SERVICE, 1, 3);
            own.mend();
            ways.get(0).mend();
            load.awaitService(SERVICE);
            try (Lease again = locks.lock("fault/cut").acquire()) {
                assertThat(again.token()).isGreaterThan(next.token);
            }
        }
    }

    /** A majority is gone: no answer, in time; and what was held by its token is held afterwards. */
    @Test
    void aMajorityIsGoneAndComesBack() throws Exception {
        LockBackend client = clients.get(0);
        Hold hold = holds.sure(client, "fault/majority", Duration.ofSeconds(30));
        cluster.member(0).kill();
        cluster.member(1).kill();
        long begin = System.nanoTime();
        assertThat(org.assertj.core.api.Assertions.catchThrowableOfType(
                        LockStoreException.class,
                        () -> holds.take(client, Holds.claim("fault/other", LEASE), Duration.ZERO)))
                .isNotNull();
        assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(CALL_TIMEOUT.plusSeconds(2));
        // Each by itself has no majority.
        Thread first = new Thread(cluster.member(0)::start);
        first.start();
        cluster.member(1).start();
        first.join();
        await().atMost(SERVICE).ignoreExceptions().until(() -> holds.renew(client, hold));
        assertThat(holds.release(client, hold)).isTrue();
    }
}
