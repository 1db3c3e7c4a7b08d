package dev.mortise.lock.bench;

import static dev.mortise.lock.bench.Scenario.*;

import dev.mortise.lock.LockClient;
import io.etcd.jetcd.Client;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import net.javacrumbs.shedlock.core.LockProvider;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.zookeeper.ZooKeeper;
import org.redisson.api.RLock;
import org.springframework.integration.jdbc.lock.JdbcLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry;
import redis.clients.jedis.Jedis;

/** Who takes part: Mortise, the libraries people use today with their default settings, and the least that is needed. */
enum Peer {
    BARE_PAIR(
            Kind.FLOOR,
            "bare: two scripts, Jedis",
            "SET NX PX and INCR in one script, compare and DEL in another, each thread on a connection of its own;"
                    + " waits by asking every millisecond. Nothing is renewed.",
            Jedis.class,
            EnumSet.complementOf(EnumSet.of(IDLE)),
            Floors::pair),
    BARE_LIST(
            Kind.FLOOR,
            "bare: LPUSH and BLPOP, Jedis",
            "An element of a list goes from hand to hand: the limit of waking a waiter. No lease, no lock.",
            Jedis.class,
            EnumSet.of(ONE_NAME, HAND_OFF),
            Floors::list),
    MORTISE_REDIS(
            Kind.MORTISE,
            "Mortise lock-redis",
            "LockClient.connect(\"redis://host:port\"), default settings.",
            LockClient.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.mortise("redis://127.0.0.1:" + ports.get(0))),
    RLOCK(
            Kind.PEER,
            "Redisson RLock",
            "lock(), which is renewed.",
            RLock.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.redisson(ports, false)),
    FENCED_LOCK(
            Kind.PEER,
            "Redisson RFencedLock",
            "lockAndGetToken(), which is renewed.",
            RLock.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.redisson(ports, true)),
    SPRING(
            Kind.PEER,
            "Spring Integration, pub/sub",
            "RedisLockRegistry over Lettuce, PUB_SUB_LOCK. No token. Renewal, which is off by default and costs, only in (e).",
            RedisLockRegistry.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.spring(ports.get(0))),
    SHEDLOCK(
            Kind.PEER,
            "ShedLock, polled",
            "RedisLockProvider over Lettuce. It cannot wait: asked every 5 ms. No token. KeepAliveLockProvider only in (e).",
            LockProvider.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.shedLock(ports.get(0))),

    BARE_SCATTER(
            Kind.FLOOR,
            "bare: five sockets",
            "SET NX PX to all five before any reply is read, then the same with compare and DEL; a majority is a lock."
                    + " Waits by asking after 1 to 5 ms. No token, nothing is renewed.",
            Jedis.class,
            EnumSet.complementOf(EnumSet.of(IDLE)),
            Floors::scatter),
    MORTISE_REDLOCK(
            Kind.MORTISE,
            "Mortise lock-redlock",
            "LockClient.connect(\"redlock://host:port,…\"), default settings.",
            LockClient.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.mortise(RedisServers.redlock(ports))),
    RED_LOCK(
            Kind.PEER,
            "Redisson RedissonRedLock",
            "lock() over five clients, which is renewed. No token.",
            RLock.class,
            EnumSet.allOf(Scenario.class),
            Libraries::redLock),

    BARE_TXNS(
            Kind.FLOOR,
            "bare: two transactions, jetcd",
            "A key is created if it is not there, under one lease for all of a process, and deleted if it is the thread's own."
                    + " No token.",
            Client.class,
            EnumSet.of(ALONE, DISTINCT),
            EtcdPeers::pair),
    MORTISE_ETCD(
            Kind.MORTISE,
            "Mortise lock-etcd",
            "LockClient.connect(\"etcd://host:port\"), default settings.",
            LockClient.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.mortise("etcd://127.0.0.1:" + ports.get(0))),
    JETCD_LOCK(
            Kind.PEER,
            "jetcd Lock, a lease each",
            "grant(), lock(), unlock() and revoke(). keepAlive() only in (e).",
            Client.class,
            EnumSet.allOf(Scenario.class),
            EtcdPeers::lock),
    JETCD_LOCK_KEPT(
            Kind.PEER,
            "jetcd Lock, leases kept",
            "lock() and unlock() with a lease that the thread keeps alive: whoever comes after a crash waits for its end, and a"
                    + " lock that is lost takes all others of that lease with it.",
            Client.class,
            EnumSet.complementOf(EnumSet.of(IDLE)),
            EtcdPeers::lockWithLeaseKept),
    BARE_NODE(
            Kind.FLOOR,
            "bare: create and delete",
            "An ephemeral node is made and deleted, all threads on one session. Nobody can wait for it: no scenario with"
                    + " one name for several.",
            ZooKeeper.class,
            EnumSet.of(ALONE, DISTINCT),
            ports -> Floors.node(ports.get(0))),
    MORTISE_ZOOKEEPER(
            Kind.MORTISE,
            "Mortise lock-zookeeper",
            "LockClient.connect(\"zookeeper://host:port\"), default settings.",
            LockClient.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.mortise("zookeeper://127.0.0.1:" + ports.get(0))),
    MUTEX(
            Kind.PEER,
            "Curator InterProcessMutex",
            "acquire() and release() over one CuratorFramework. No token.",
            InterProcessMutex.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.curator(ports.get(0), InterProcessMutex::new)),
    SEMAPHORE_MUTEX(
            Kind.PEER,
            "Curator InterProcessSemaphoreMutex",
            "acquire() and release() over one CuratorFramework. No token.",
            InterProcessSemaphoreMutex.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.curator(ports.get(0), InterProcessSemaphoreMutex::new)),
    BARE_ADVISORY(
            Kind.FLOOR,
            "bare: advisory lock and token",
            "pg_advisory_lock, which waits in the server, and an UPDATE that counts a token and commits; an UPDATE that does"
                    + " not wait for the disk, and pg_advisory_unlock. Each thread on a connection of its own. No lease.",
            JdbcPeers.driver("org.postgresql.Driver"),
            EnumSet.complementOf(EnumSet.of(IDLE)),
            ports -> JdbcPeers.advisory(PostgresServers.url(ports))),
    BARE_ROW(
            Kind.FLOOR,
            "bare: two statements on a row",
            "An upsert that takes a row which is free or has ended, and counts a token; an UPDATE that frees it. Each thread on"
                    + " a connection of its own. Who waits would have to ask again: no scenario with one name for several.",
            JdbcPeers.driver("org.postgresql.Driver"),
            EnumSet.of(ALONE, DISTINCT),
            ports -> JdbcPeers.row(PostgresServers.url(ports))),
    MORTISE_ADVISORY(
            Kind.MORTISE,
            "Mortise lock-jdbc, advisory",
            "LockClient.connect(\"jdbc:postgresql://host:port/db\"), default settings. Not in (e): a lock is a connection"
                    + " there, which is not for a thousand.",
            LockClient.class,
            EnumSet.complementOf(EnumSet.of(IDLE)),
            ports -> Libraries.mortise(PostgresServers.database(ports), Map.of("user", "test"))),
    MORTISE_TABLE(
            Kind.MORTISE,
            "Mortise lock-jdbc, table",
            "The same with the option strategy=table.",
            LockClient.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.mortise(
                    PostgresServers.database(ports), Map.of("user", "test", "strategy", "table", "schema", "rows"))),
    SHEDLOCK_POSTGRES(
            Kind.PEER,
            "ShedLock, polled",
            "JdbcTemplateLockProvider with usingDbTime over HikariCP. It cannot wait: asked every 5 ms. No token."
                    + " KeepAliveLockProvider only in (e).",
            LockProvider.class,
            EnumSet.allOf(Scenario.class),
            ports -> JdbcPeers.shedLock(PostgresServers.url(ports))),
    SPRING_POSTGRES(
            Kind.PEER,
            "Spring Integration, polled",
            "JdbcLockRegistry over HikariCP: asks every 100 ms. No token. Not in (e): it does not renew by itself.",
            JdbcLockRegistry.class,
            EnumSet.complementOf(EnumSet.of(IDLE)),
            ports -> JdbcPeers.spring(PostgresServers.url(ports))),
    BARE_GET_LOCK(
            Kind.FLOOR,
            "bare: GET_LOCK and token",
            "GET_LOCK, which waits in the server, and an UPDATE that counts a token and commits; an UPDATE that clears the"
                    + " row, and RELEASE_LOCK. Each thread on a connection of its own. No lease.",
            JdbcPeers.driver("org.mariadb.jdbc.Driver"),
            EnumSet.complementOf(EnumSet.of(IDLE)),
            ports -> JdbcPeers.getLock(MariaDbServers.url(ports))),
    BARE_ROW_MARIADB(
            Kind.FLOOR,
            "bare: two statements on a row",
            "An upsert that takes a row which is free or has ended, and counts a token; an UPDATE that frees it. Each thread on"
                    + " a connection of its own. Who waits would have to ask again: no scenario with one name for several.",
            JdbcPeers.driver("org.mariadb.jdbc.Driver"),
            EnumSet.of(ALONE, DISTINCT),
            ports -> JdbcPeers.mariaDbRow(MariaDbServers.url(ports))),
    MORTISE_ADVISORY_MARIADB(
            Kind.MORTISE,
            "Mortise lock-jdbc, advisory",
            "LockClient.connect(\"jdbc:mariadb://host:port/db\"), default settings. Not in (e): a lock is a connection"
                    + " there, which is not for a thousand.",
            LockClient.class,
            EnumSet.complementOf(EnumSet.of(IDLE)),
            ports -> Libraries.mortise(MariaDbServers.database(ports, "test"), Map.of("user", "test"))),
    MORTISE_TABLE_MARIADB(
            Kind.MORTISE,
            "Mortise lock-jdbc, table",
            "The same with the option strategy=table.",
            LockClient.class,
            EnumSet.allOf(Scenario.class),
            ports -> Libraries.mortise(
                    MariaDbServers.database(ports, "row_locks"), Map.of("user", "test", "strategy", "table"))),
    SHEDLOCK_MARIADB(
            Kind.PEER,
            "ShedLock, polled",
            "JdbcTemplateLockProvider with usingDbTime over HikariCP. It cannot wait: asked every 5 ms. No token."
                    + " KeepAliveLockProvider only in (e).",
            LockProvider.class,
            EnumSet.allOf(Scenario.class),
            ports -> JdbcPeers.shedLock(MariaDbServers.url(ports))),
    SPRING_MARIADB(
            Kind.PEER,
            "Spring Integration, polled",
            "JdbcLockRegistry over HikariCP: asks every 100 ms. No token. Not in (e): it does not renew by itself.",
            JdbcLockRegistry.class,
            EnumSet.complementOf(EnumSet.of(IDLE)),
            ports -> JdbcPeers.spring(MariaDbServers.url(ports)));

    /** How it is shown. */
    enum Kind {
        FLOOR,
        MORTISE,
        PEER
    }

    interface Opener {
        Session open(List<Integer> ports) throws Exception;
    }

    final Kind kind;
    final String title;
    final String method;

    @SuppressWarnings("ImmutableEnumChecker") // A copy.
    final Set<Scenario> scenarios;

    private final Class<?> library;

    @SuppressWarnings("ImmutableEnumChecker") // Has no state.
    private final Opener opener;

    Peer(Kind kind, String title, String method, Class<?> library, Set<Scenario> scenarios, Opener opener) {
        this.kind = kind;
        this.title = title;
        this.method = method;
        this.library = library;
        this.scenarios = Set.copyOf(scenarios);
        this.opener = opener;
    }

    /** The peers of a tier stand together, its floor first. */
    Tier tier() {
        Tier mine = Tier.REDIS;
        for (Tier tier : Tier.values()) {
            mine = compareTo(tier.floor) < 0 ? mine : tier;
        }
        return mine;
    }

    Session open(List<Integer> ports) throws Exception {
        return opener.open(ports);
    }

    /** The jar it came from, which has its version. */
    String version() {
        String path =
                library.getProtectionDomain().getCodeSource().getLocation().getPath();
        String name = path.substring(path.lastIndexOf('/') + 1);
        return name.endsWith(".jar") ? name.substring(0, name.length() - ".jar".length()) : "as built";
    }
}
