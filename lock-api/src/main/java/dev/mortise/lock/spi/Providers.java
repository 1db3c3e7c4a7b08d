package dev.mortise.lock.spi;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
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
                    add(provider, loaded, failed);
                }
            } catch (ServiceConfigurationError e) {
                // The iterator goes on behind the broken one.
                failed.add(e.getMessage() + (e.getCause() == null ? "" : " (" + e.getCause() + ")"));
            } catch (LinkageError e) {
                // Of a class that the provider extends; the loader does not tell of which provider.
                failed.add("a provider (" + e + ")");
            }
        }
    }

    /** Asks once for what is asked later, which fails first where a driver or a method of this interface is missing. */
    private static void add(BackendProvider provider, List<BackendProvider> loaded, Set<String> failed) {
        try {
            Objects.requireNonNull(provider.schemes(), "schemes");
            Objects.requireNonNull(provider.options(), "options");
            loaded.add(provider);
        } catch (RuntimeException | LinkageError e) {
            failed.add("Provider " + provider.getClass().getName() + " could not be asked (" + e + ")");
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
            throw new IllegalArgumentException("no store for the scheme " + Claim.printable(scheme) + "; found: "
                    + (byScheme.isEmpty() ? "none" : String.join(", ", byScheme.keySet()))
                    + "; add the module that serves it, such as dev.mortise:lock-jdbc for jdbc:sqlite and jdbc:postgresql"
                    + (failed.isEmpty() ? "" : "; failed to load: " + String.join("; ", failed)));
        }
        return provider;
    }

    /**
     * Checks the options and connects.
     *
     * @param own options that the caller uses itself: known, but not passed on
     * @throws IllegalArgumentException for an unknown scheme or option, or a value of the wrong type; lists those known
     * @throws dev.mortise.lock.LockStoreException if the store cannot be used
     */
    public LockBackend open(StoreUri uri, List<Option<?>> own, BackendContext context) {
        BackendProvider provider = of(uri.scheme());
        Map<String, Option<?>> known = new TreeMap<>();
        own.forEach(option -> known.put(option.name(), option));
        provider.options().forEach(option -> known.put(option.name(), option));
        uri.options().forEach((name, value) -> {
            Option<?> option = known.get(name);
            if (option == null) {
                throw new IllegalArgumentException("unknown option " + Claim.printable(name) + " for " + uri
                        + "; known: " + String.join(", ", known.keySet()));
            }
            Object unused = option.parse(value);
        });
        return provider.open(uri.without(own), context);
    }
}
