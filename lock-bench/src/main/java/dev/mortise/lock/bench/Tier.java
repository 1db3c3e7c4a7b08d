package dev.mortise.lock.bench;

import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Peers that can be compared, since they use the same servers. */
enum Tier {
    REDIS("Redis, one server", 1, Peer.BARE_PAIR, Peer.BARE_LIST, () -> new RedisServers(1)),
    REDLOCK("Redlock, five servers", 5, Peer.BARE_SCATTER, Peer.BARE_SCATTER, () -> new RedisServers(5)),
    ETCD("etcd, one server", 1, Peer.BARE_TXNS, null, EtcdServers::new),
    ZOOKEEPER("ZooKeeper, one server", 1, Peer.BARE_NODE, null, ZooKeeperServers::new),
    POSTGRES("PostgreSQL, one server", 1, Peer.BARE_ADVISORY, Peer.BARE_ADVISORY, PostgresServers::new),
    MARIADB("MariaDB, one server", 1, Peer.BARE_GET_LOCK, Peer.BARE_GET_LOCK, MariaDbServers::new);

    final String title;
    final int servers;

    /** The first of the tier's peers. */
    final Peer floor;

    private final @Nullable Peer handOffFloor;

    @SuppressWarnings("ImmutableEnumChecker") // Has no state.
    private final Supplier<Servers> starter;

    /** @param handOffFloor null where none of the peers shows the limit of waking a waiter */
    Tier(String title, int servers, Peer floor, @Nullable Peer handOffFloor, Supplier<Servers> starter) {
        this.title = title;
        this.servers = servers;
        this.floor = floor;
        this.handOffFloor = handOffFloor;
        this.starter = starter;
    }

    /** Servers without data. */
    Servers start() {
        return starter.get();
    }

    /** What the others are compared with. */
    @Nullable
    Peer floor(Scenario scenario) {
        return switch (scenario) {
            case ALONE, DISTINCT -> floor;
            case ONE_NAME, HAND_OFF -> handOffFloor;
            case IDLE -> null;
        };
    }
}
