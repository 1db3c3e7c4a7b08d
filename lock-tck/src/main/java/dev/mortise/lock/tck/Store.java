package dev.mortise.lock.tck;

import dev.mortise.lock.spi.LockBackend;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * A store under test, empty and running, for one run of the kit, which closes it. For any thread.
 *
 * <p>The kit uses names that begin with {@code tck-}, and no others but those that rule 1.4 tries.
 */
public interface Store extends AutoCloseable {

    /**
     * A new client of the store, as independent of the others as one in another process. The kit closes it.
     *
     * <p>Its {@link dev.mortise.lock.spi.BackendContext} has {@code System::nanoTime} as its ticker, because the kit
     * compares {@link dev.mortise.lock.spi.Grant#since()} with its own readings.
     */
    LockBackend connect();

    /**
     * A new client whose calls end within this beyond their patience, for rules about faults, in which they hang: the sooner
     * they end, the sooner is the kit done. One with another call timeout does too.
     */
    default LockBackend connect(Duration callTimeout) {
        return connect();
    }

    /**
     * Ends the live claim of this name, if there is one, behind its holder's back and not through the backend, as an
     * administrator would: delete the key or the row's owner, revoke the lease. No other name's claim is touched, and the
     * tokens are kept.
     */
    void evict(String name);

    /** Whether {@link #evict} can be done here; where it cannot, the kit never calls it, and says what it left out. */
    default boolean canEvict() {
        return true;
    }

    /** What was tested, for the report: the product, its version, settings that matter. Never a secret. */
    default Map<String, String> about() {
        return Map.of();
    }

    /** Faults that can be caused here; a rule that needs one is skipped where there are none. */
    default Optional<Faults> faults() {
        return Optional.empty();
    }

    /**
     * The URI with which {@link dev.mortise.lock.LockClient#connect(String)} reaches the store from any process of this
     * machine. Where there is one, the kit also starts clients in processes of their own, and stops and kills some.
     */
    default Optional<String> uri() {
        return Optional.empty();
    }

    /**
     * The options that go with {@link #uri()}. They are arguments of the processes that the kit starts, which others on
     * this machine can read: no place for a password that is worth keeping.
     */
    default Map<String, String> options() {
        return Map.of();
    }

    /**
     * What the locks protect in the histories of client processes, where {@link #uri()} is given. Empty: a file of the
     * kit's own.
     */
    default Optional<ProtectedResource.Reference> resource() {
        return Optional.empty();
    }

    @Override
    default void close() throws Exception {}
}
