package dev.mortise.lock.spi;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** The stores on the class path or module path. A provider that fails to load is named, and does not hide the others. */
public final class Providers {
    private final List<BackendProvider> loaded;
    private final List<String> failed;
    private final Map<String, BackendProvider> byScheme = new TreeMap<>();

    Providers(List<BackendProvider> loaded, List<String> failed) {
        this.loaded = List.copyOf(loaded);
        this.failed = List.copyOf(failed);
        Map<String, BackendProvider> seen = new HashMap<>();
        for (BackendProvider provider : loaded) {
            for (String scheme : provider.schemes().keySet()) {
                BackendProvider other = seen.putIfAbsent(scheme, provider);
                if (other != null) {
                    throw new IllegalStateException("two modules serve the scheme " + scheme + ": "
                            + other.getClass().getName() + " and "
                            + provider.getClass().getName() + "; remove one of them");
                }
            }
        }
        byScheme.putAll(seen);
    }

    /** Looks with the class loader of the calling thread, then with Mortise's own. */
    public static Providers find() {
        Set<Class<?>> seen = new HashSet<>();
        List<BackendProvider> loaded = new ArrayList<>();
        Set<String> failed = new TreeSet<>();
        load(ServiceLoader.load(BackendProvider.class), seen, loaded, failed);
        load(ServiceLoader.load(BackendProvider.class, BackendProvider.class.getClassLoader()), seen, loaded, failed);
        return new Providers(loaded, new ArrayList<>(failed));
    }

    private static void load(
            ServiceLoader<BackendProvider> loader,
            Set<Class<?>> seen,
            List<BackendProvider> loaded,
            Set<String> failed) {
        Iterator<BackendProvider> providers = loader.iterator();
        while (true) {
            try {
                if (!providers.hasNext()) {
                    return;
                }
                BackendProvider provider = providers.next();
                if (seen.add(provider.getClass())) {
                    loaded.add(provider);
                }
            } catch (ServiceConfigurationError | LinkageError e) {
                // The iterator goes on behind the broken one.
                failed.add(String.valueOf(e.getMessage()) + (e.getCause() == null ? "" : " (" + e.getCause() + ")"));
            }
        }
    }

    public List<BackendProvider> loaded() {
        return loaded;
    }

    /** One line for each provider that could not be loaded. */
    public List<String> failed() {
        return failed;
    }

    /**
     * The provider of this scheme.
     *
     * @throws IllegalArgumentException if there is none; lists those found, and the module to add
     */
    public BackendProvider of(String scheme) {
        BackendProvider provider = byScheme.get(scheme);
        if (provider == null) {
            throw new IllegalArgumentException("no store for the scheme " + Claim.visible(scheme) + "; found: "
                    + (byScheme.isEmpty() ? "none" : String.join(", ", byScheme.keySet()))
                    + "; add the module that serves it, such as dev.mortise:lock-jdbc for jdbc:sqlite"
                    + (failed.isEmpty() ? "" : "; failed to load: " + String.join("; ", failed)));
        }
        return provider;
    }

    /**
     * Checks the options and connects.
     *
     * @throws IllegalArgumentException for an unknown scheme or option, or a value of the wrong type; lists those known
     * @throws dev.mortise.lock.LockStoreException if the store cannot be used
     */
    public LockBackend open(StoreUri uri, BackendContext context) {
        BackendProvider provider = of(uri.scheme());
        check(uri, provider.options());
        return provider.open(uri, context);
    }

    private static void check(StoreUri uri, List<Option<?>> known) {
        Map<String, Option<?>> byName = new TreeMap<>();
        known.forEach(option -> byName.put(option.name(), option));
        uri.options().forEach((name, value) -> {
            Option<?> option = byName.get(name);
            if (option == null) {
                throw new IllegalArgumentException("unknown option " + Claim.visible(name) + " for " + uri + "; known: "
                        + (byName.isEmpty() ? "none" : String.join(", ", byName.keySet())));
            }
            option.parse(value);
        });
    }
}
