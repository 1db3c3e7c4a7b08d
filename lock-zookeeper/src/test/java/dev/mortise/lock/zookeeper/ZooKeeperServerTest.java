package dev.mortise.lock.zookeeper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** The tools of the other tests do what they say. */
class ZooKeeperServerTest {

    @Test
    void oneThatIsKilledStartsAgainOnItsPort() {
        try (ZooKeeperServer server = new ZooKeeperServer()) {
            int port = server.port();
            assertThat(server.role()).isEqualTo("standalone");
            server.kill();
            assertThat(server.role()).isEmpty();
            server.start();
            assertThat(server.port()).isEqualTo(port);
            assertThat(server.role()).isEqualTo("standalone");
        }
    }

    /** Both by the way that tells nobody: the one left alone stops to serve, and comes back. */
    @Test
    void aMemberThatIsCutOffServesNobodyAndComesBack() {
        try (ZooKeeperCluster three = new ZooKeeperCluster(3, "syncLimit=5")) {
            for (int round = 0; round < 2; round++) {
                int leader = three.leader();
                int cut = round == 0 ? (leader + 1) % 3 : leader;
                three.cutFromPeers(cut);
                await().atMost(Duration.ofSeconds(60))
                        .until(() -> three.server(cut).role().isEmpty());
                assertThat(three.leader()).isNotEqualTo(cut);
                three.healPeers();
                three.awaitMember(cut);
                three.leader();
            }
        }
    }
}
