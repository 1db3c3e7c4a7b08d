package dev.mortise.lock.spi;

import dev.mortise.lock.InMemoryBackend;
import dev.mortise.lock.LockStoreException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * Modules as the calling thread's class loader finds them: providers named in a {@code META-INF/services} file of a folder
 * of their own, until this is closed.
 */
public final class TestProviders implements AutoCloseable {
    /** The stores opened since this was made, in order. */
    public static final List<Store> OPENED = new CopyOnWriteArrayList<>();

    private static final String SERVICES = "META-INF/services/" + BackendProvider.class.getName();

    private final ClassLoader before = Thread.currentThread().getContextClassLoader();
    private final Path folder;
    private final URLClassLoader loader;

    private TestProviders(Set<String> missing, List<String> providers) {
        OPENED.clear();
        try {
            folder = Files.createTempDirectory("mortise-providers");
            Path services = folder.resolve(SERVICES);
            Files.createDirectories(services.getParent());
            Files.write(services, providers);
            URL url = folder.toUri().toURL();
            loader = new Loader(url, before, missing);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Thread.currentThread().setContextClassLoader(loader);
    }

    /** These providers, in this order. */
    public static TestProviders of(Class<?>... providers) {
        return new TestProviders(
                Set.of(), List.of(providers).stream().map(Class::getName).toList());
    }

    /** Providers by the names of their classes, where the classes {@code missing} cannot be found by any other. */
    static TestProviders without(Set<String> missing, String... providers) {
        return new TestProviders(missing, List.of(providers));
    }

    @Override
    public void close() {
        Thread.currentThread().setContextClassLoader(before);
        try {
            loader.close();
            for (Path path = folder.resolve(SERVICES); !path.equals(folder.getParent()); path = path.getParent()) {
                Files.delete(path);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Defines the broken providers itself, so that it can withhold what they need. */
    private static final class Loader extends URLClassLoader {
        private final Set<String> missing;

        Loader(URL url, ClassLoader parent, Set<String> missing) {
            super(new URL[] {url}, parent);
            this.missing = missing;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (missing.contains(name)) {
                throw new ClassNotFoundException(name);
            }
            if (missing.isEmpty() || !name.startsWith(BrokenProviders.class.getName() + "$")) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> known = findLoadedClass(name);
                if (known != null) {
                    return known;
                }
                try (var in = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
                    if (in == null) {
                        throw new ClassNotFoundException(name);
                    }
                    byte[] bytes = in.readAllBytes();
                    return defineClass(name, bytes, 0, bytes.length);
                } catch (IOException e) {
                    throw new ClassNotFoundException(name, e);
                }
            }
        }
    }

    /** Guarantees of this strength, and otherwise those of memory. */
    public static Guarantees guarantees(Consistency consistency) {
        return Guarantees.builder(consistency)
                .exclusionSurvives(StoreEvent.RELEASE_AND_EXPIRY)
                .tokensSurvive(StoreEvent.RELEASE_AND_EXPIRY)
                .leases(Duration.ofMillis(10), Duration.ofDays(365), Duration.ofMillis(1))
                .freedWithin(lease -> lease)
                .build();
    }

    /** The scheme of a store of this strength: {@code best-effort}, {@code quorum}, … */
    public static String scheme(Consistency consistency) {
        return consistency.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /**
     * A store for each strength. A host named {@code down} does not answer, {@code weak} turns out to be weaker than
     * declared, and {@code sticky} cannot be closed.
     */
    public static final class Strengths implements BackendProvider {
        public Strengths() {}

        @Override
        public Map<String, Guarantees> schemes() {
            Map<String, Guarantees> schemes = new TreeMap<>();
            for (Consistency consistency : Consistency.values()) {
                schemes.put(scheme(consistency), guarantees(consistency));
            }
            return schemes;
        }

        @Override
        public List<Option<?>> options() {
            return List.of(
                    Option.flag("tls", false, "Whether to encrypt."),
                    Option.number("replicas", 0, 0, 5, "How many must answer."),
                    Option.secret("key", "What opens the door."));
        }

        @Override
        public LockBackend open(StoreUri uri, BackendContext context) {
            String host = uri.hosts().isEmpty() ? "" : uri.hosts().get(0).name();
            if (host.equals("down")) {
                throw new LockStoreException(uri.toString(), "connect: no answer", "see that it runs", false, null);
            }
            Guarantees declared = schemes().get(uri.scheme());
            Store store = new Store(
                    uri,
                    context,
                    host.equals("weak") ? guarantees(Consistency.BEST_EFFORT) : declared,
                    host.equals("sticky"));
            OPENED.add(store);
            return store;
        }
    }

    /** The same schemes again, from another module. */
    public static final class Rival implements BackendProvider {
        public Rival() {}

        @Override
        public Map<String, Guarantees> schemes() {
            return Map.of("quorum", guarantees(Consistency.QUORUM));
        }

        @Override
        public List<Option<?>> options() {
            return List.of();
        }

        @Override
        public LockBackend open(StoreUri uri, BackendContext context) {
            throw new IllegalStateException("not for use");
        }
    }

    /** A store in memory that remembers how it was opened and whether it was closed. */
    public static final class Store implements LockBackend {
        public final StoreUri uri;
        public final BackendContext context;
        private final InMemoryBackend memory = new InMemoryBackend();
        private final Guarantees guarantees;
        private final boolean sticky;
        private volatile boolean closed;

        private Store(StoreUri uri, BackendContext context, Guarantees guarantees, boolean sticky) {
            this.uri = uri;
            this.context = context;
            this.guarantees = guarantees;
            this.sticky = sticky;
        }

        public boolean closed() {
            return closed;
        }

        @Override
        public Guarantees guarantees() {
            return guarantees;
        }

        @Override
        public Attempt acquire(Claim claim, Duration patience) {
            return memory.acquire(claim, patience);
        }

        @Override
        public Renewal renew(Collection<Grant> grants) {
            return memory.renew(grants);
        }

        @Override
        public boolean release(Claim claim) {
            return memory.release(claim);
        }

        @Override
        public Optional<Holder> holder(String name) {
            return memory.holder(name);
        }

        @Override
        public void close() {
            closed = true;
            if (sticky) {
                throw new IllegalStateException("stuck: " + uri);
            }
        }
    }
}
