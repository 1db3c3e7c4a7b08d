package dev.mortise.lock.bench;

import org.jspecify.annotations.Nullable;

/** Peers that can be compared, since they use the same servers. */
enum Tier {
    REDIS("Redis, one server", 1, Peer.BARE_PAIR, Peer.BARE_LIST),
    REDLOCK("Redlock, five servers", 5, Peer.BARE_SCATTER, Peer.BARE_SCATTER);

    final String title;
    final int servers;
    private final Peer floor;
    private final Peer handOffFloor;

    Tier(String title, int servers, Peer floor, Peer handOffFloor) {
        this.title = title;
        this.servers = servers;
        this.floor = floor;
        this.handOffFloor = handOffFloor;
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
