package org.example.lock.hazelcast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.hazelcast.config.Config;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Locks in the Hazelcast that the application is itself a member of. */
class MemberTest {
    private static HazelcastInstance member(Config config) {
        config.setClusterName("member-test");
        config.setProperty("hazelcast.phone.home.enabled", "false");
        config.getJetConfig().setEnabled(false);
        config.getNetworkConfig().getJoin().getAutoDetectionConfig().setEnabled(false);
        config.getNetworkConfig().getJoin().getMulticastConfig().setEnabled(false);
        config.getNetworkConfig().getInterfaces().setEnabled(true).addInterface("127.0.0.1");
        return Hazelcast.newHazelcastInstance(config);
    }

    /** A member and a client of the cluster, found by its scheme, exclude each other. */
    @Test
    void memberAndClientExcludeEachOther() throws InterruptedException {
        HazelcastInstance hazelcast = member(HazelcastLocks.configure(new Config()));
        String uri = "hazelcast://127.0.0.1:"
                + hazelcast.getCluster().getLocalMember().getAddress().getPort() + "/member-test";
        try (LockClient member = LockClient.builder(HazelcastLocks.over(hazelcast)).build();
                LockClient client = LockClient.connect(uri, Map.of())) {
            Lease lease = member.lock("invoice-42").tryAcquire().orElseThrow();
            assertTrue(client.lock("invoice-42").tryAcquire().isEmpty());
            assertEquals(lease.token(), client.holder("invoice-42").orElseThrow().token());
            lease.close();
            try (Lease next = client.lock("invoice-42").tryAcquire(Duration.ofSeconds(10)).orElseThrow()) {
                assertEquals(lease.token() + 1, next.token());
            }
        } finally {
            hazelcast.getLifecycleService().terminate();
        }
    }

    /** A cluster whose settings would lose locks is refused, with what to do. */
    @Test
    void settingsThatLoseLocksAreRefused() {
        HazelcastInstance hazelcast = member(new Config());
        try {
            LockStoreException refused =
                    assertThrows(LockStoreException.class, () -> HazelcastLocks.over(hazelcast));
            assertTrue(refused.getMessage().contains("must be OBJECT"), refused.getMessage());
            assertTrue(refused.getMessage().contains("HazelcastLocks.configure"), refused.getMessage());
        } finally {
            hazelcast.getLifecycleService().terminate();
        }
    }
}
