package org.example.lock.hazelcast;

import com.hazelcast.config.Config;
import com.hazelcast.config.InMemoryFormat;
import com.hazelcast.config.MapConfig;
import com.hazelcast.config.MergePolicyConfig;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.spi.properties.ClusterProperty;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.Objects;

/**
 * Locks in the Hazelcast cluster that the application is a member of, or a client.
 *
 * <pre>{@code
 * HazelcastInstance hazelcast = Hazelcast.newHazelcastInstance(HazelcastLocks.configure(new Config()));
 * LockClient locks = LockClient.builder(HazelcastLocks.over(hazelcast)).build();
 * }</pre>
 */
public final class HazelcastLocks {
    static final String MAP = "mortise.locks";

    /** The longest that a client gives a call by itself. */
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    private HazelcastLocks() {}

    /**
     * Adds what the locks need to the settings of a member; every member must have it, and this jar. A map of that name that is
     * there already is replaced.
     *
     * @return the same settings
     */
    public static Config configure(Config member) {
        // An answer that the copies have not confirmed is none.
        member.setProperty(ClusterProperty.FAIL_ON_INDETERMINATE_OPERATION_STATE.getName(), "true");
        return member.addMapConfig(new MapConfig(MAP)
                .setInMemoryFormat(InMemoryFormat.OBJECT)
                .setBackupCount(1)
                .setMergePolicyConfig(new MergePolicyConfig().setPolicy(LargestToken.class.getName())));
    }

    /**
     * Locks for the default lease of 30 seconds or longer ones.
     *
     * @see #over(HazelcastInstance, BackendContext)
     */
    public static LockBackend over(HazelcastInstance hazelcast) {
        return over(hazelcast, BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    /**
     * Locks in the map {@code mortise.locks} of this cluster; users of {@code hazelcast://} and of this exclude each other.
     *
     * @param hazelcast a member or a client; stays the caller's, and is not shut down
     * @param context the ticker of the client, and its call timeout: at most a quarter of its shortest lease
     * @throws dev.mortise.lock.LockStoreException if the cluster does not answer, or its map is set up so that locks would be
     *     lost; says what to do
     */
    public static LockBackend over(HazelcastInstance hazelcast, BackendContext context) {
        Objects.requireNonNull(hazelcast, "hazelcast");
        String store = "hazelcast://" + hazelcast.getConfig().getClusterName();
        return HazelcastBackend.open(store, hazelcast, MAP, context, () -> {});
    }
}
