package dev.mortise.lock.spi;

import java.util.List;
import java.util.Map;

/**
 * Opens backends by the scheme of a URI. Found by {@link java.util.ServiceLoader}: a module names its provider in
 * {@code META-INF/services/dev.mortise.lock.spi.BackendProvider} or in its {@code module-info}.
 *
 * <p>A provider has a public constructor without parameters, keeps no state and may be used by any thread.
 */
public interface BackendProvider {

    /**
     * The schemes served, each with what a backend opened with the default options promises. The scheme of a JDBC URL
     * includes its database: {@code jdbc:sqlite}.
     */
    Map<String, Guarantees> schemes();

    /** The options understood. Others are refused before {@link #open} is called. */
    List<Option<?>> options();

    /**
     * Connects. Does I/O, so that a store that is down, too old or badly set up is found out here and not at the first
     * lock.
     *
     * @throws IllegalArgumentException if the URI or an option makes no sense; names it, and never shows a secret
     * @throws dev.mortise.lock.LockStoreException if the store cannot be used
     */
    LockBackend open(StoreUri uri, BackendContext context);
}
