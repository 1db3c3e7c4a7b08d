package dev.mortise.lock;

import com.google.errorprone.annotations.CheckReturnValue;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Providers;
import dev.mortise.lock.spi.StoreUri;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Several stores, of which each lock takes the weakest that is strong enough for what is at stake. For any thread.
 *
 * <pre>{@code
 * LockStores stores = LockStores.of("redis://cache:6379", "etcd://e1:2379,e2:2379,e3:2379");
 * LockClient cheap = stores.at(Stakes.LOW), sure = stores.at(Stakes.HIGH);
 * }</pre>
 *
 * <p>The choice hangs on what the stores declare and on the order in which they are given, never on which of them is up:
 * two processes that chose differently would not exclude each other. All processes must therefore name the same stores.
 */
@CheckReturnValue
public final class LockStores implements AutoCloseable {
    private final List<Store> stores = new ArrayList<>();
    private final Providers providers;
    private boolean closed;

    private LockStores(Providers providers) {
        this.providers = providers;
    }

    /** One store: its declared strength, and its client once it is wanted. Guarded by the monitor of the whole. */
    private static final class Store {
        final String shown;
        final String uri;
        final Guarantees declared;

        @Nullable
        LockClient client;

        Store(String shown, String uri, Guarantees declared, @Nullable LockClient client) {
            this.shown = shown;
            this.uri = uri;
            this.declared = declared;
            this.client = client;
        }
    }

    /**
     * These stores, connected to when they are first wanted.
     *
     * @throws IllegalArgumentException if there is none, or one cannot be read or has no module
     */
    public static LockStores of(String... uris) {
        Providers providers = Providers.find();
        LockStores stores = new LockStores(providers);
        for (String uri : uris) {
            StoreUri parsed = StoreUri.parse(uri, Map.of());
            BackendProvider provider = providers.of(parsed.scheme());
            Guarantees declared = provider.schemes().get(parsed.scheme());
            stores.stores.add(new Store(parsed.toString(), uri, java.util.Objects.requireNonNull(declared), null));
        }
        return stores.requireSome();
    }

    /** These clients, which are closed with this. */
    public static LockStores of(LockClient... clients) {
        LockStores stores = new LockStores(Providers.find());
        for (LockClient client : clients) {
            stores.stores.add(new Store(client.toString(), "", client.guarantees(), client));
        }
        return stores.requireSome();
    }

    private LockStores requireSome() {
        if (stores.isEmpty()) {
            throw new IllegalArgumentException("stores must not be empty");
        }
        return this;
    }

    /**
     * The client of the weakest store that suffices; of two alike, the first given.
     *
     * @throws StakesNotMetException if none suffices; says what each lacks, and which modules found would do
     * @throws LockStoreException if that store cannot be used; another is not taken in its place
     */
    public synchronized LockClient at(Stakes stakes) {
        if (closed) {
            throw new IllegalStateException("these stores are closed");
        }
        Store weakest = null;
        for (Store store : stores) {
            Consistency has = store.declared.consistency();
            if (has.compareTo(stakes.least()) >= 0
                    && (weakest == null || has.compareTo(weakest.declared.consistency()) < 0)) {
                weakest = store;
            }
        }
        if (weakest == null) {
            throw new StakesNotMetException(lacking(stakes));
        }
        LockClient client = weakest.client;
        if (client == null) {
            client = LockClient.builder(weakest.uri, Map.of())
                    .providers(providers)
                    .build();
        }
        Consistency found = client.guarantees().consistency();
        if (found.compareTo(stakes.least()) < 0) {
            if (weakest.client == null) {
                client.close();
            }
            throw new StakesNotMetException("stakes " + stakes + " need " + stakes.least() + ", but " + weakest.shown
                    + ", declared as " + weakest.declared.consistency() + ", turned out to give " + found);
        }
        weakest.client = client;
        return client;
    }

    private String lacking(Stakes stakes) {
        StringBuilder why = new StringBuilder("stakes " + stakes + " need " + stakes.least() + " or stronger;");
        for (Store store : stores) {
            why.append(" ")
                    .append(store.shown)
                    .append(" is ")
                    .append(store.declared.consistency())
                    .append(";");
        }
        why.append(" modules found:").append(providers.loaded().isEmpty() ? " none" : "");
        for (BackendProvider provider : providers.loaded()) {
            provider.schemes()
                    .forEach((scheme, g) -> why.append(" ")
                            .append(scheme)
                            .append(" (")
                            .append(g.consistency())
                            .append(g.consistency().compareTo(stakes.least()) >= 0 ? ", would do)" : ")"));
        }
        return why.toString();
    }

    /** Closes the clients, all of them, also when closing one fails; then throws what was thrown first. */
    @Override
    public synchronized void close() {
        closed = true;
        RuntimeException first = null;
        for (Store store : stores) {
            try {
                if (store.client != null) {
                    store.client.close();
                }
            } catch (RuntimeException e) {
                if (first == null) {
                    first = e;
                } else {
                    first.addSuppressed(e);
                }
            }
        }
        if (first != null) {
            throw first;
        }
    }
}
