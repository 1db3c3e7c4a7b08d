package dev.mortise.lock.redlock;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.util.List;
import java.util.Map;

/** Opens locks in a majority of Redis servers: {@code redlock://h1:6379,h2:6379,h3:6379}. Found by its scheme; not for users. */
public final class RedlockProvider implements BackendProvider {
    /** For {@link java.util.ServiceLoader}. */
    public RedlockProvider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        Guarantees guarantees = RedlockBackend.guarantees(RedlockBackend.LONGEST_LEASE);
        return Map.of(Opening.PLAIN, guarantees, Opening.TLS, guarantees);
    }

    @Override
    public List<Option<?>> options() {
        return Opening.OPTIONS;
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        return Opening.of(uri, context).open();
    }
}
