package dev.mortise.lock.etcd;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import io.etcd.jetcd.Client;
import java.time.Duration;
import java.util.Objects;

/**
 * Locks over the application's own jetcd client.
 *
 * <pre>{@code
 * LockClient locks = LockClient.builder(EtcdLocks.over(client)).build();
 * }</pre>
 *
 * <p>What jetcd does by itself costs more than {@code LockClient.connect("etcd://...")}: a stream for each proof of life and
 * for each watch, and a question before each try without patience. A call ends within the call timeout whatever the client's
 * own timeouts are; what jetcd goes on with by itself after that is undone by the lock client. Which server is asked is
 * jetcd's choice: with more than one, let it have a load balancer policy ({@code round_robin}), or it stays with a server that
 * is cut off from the others.
 *
 * <p>The client stays the caller's, and is not closed. Its keys and their format are those of {@code etcd://}: users of both
 * exclude each other, unless the client has a namespace, which then stands before the prefix.
 */
public final class EtcdLocks {
    /** The longest that a client gives a call by itself. */
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    private EtcdLocks() {}

    /**
     * Locks with the prefix {@code mortise}, for the default lease of 30 seconds or longer ones.
     *
     * @see #over(Client, String, BackendContext)
     */
    public static LockBackend over(Client client) {
        return over(client, Keys.PREFIX, BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    /**
     * Locks over this client. Asks the store at once whether it can be used; the servers' versions are not looked at.
     *
     * @param prefix what all keys begin with, the same for all who shall exclude each other: 1 to 64 letters, digits and
     *     {@code . _ : / -}, without two slashes together or one at the end
     * @param context the ticker of the client, and its call timeout: at most a quarter of its shortest lease
     * @throws dev.mortise.lock.LockStoreException if the store cannot be used; says what to do
     */
    public static LockBackend over(Client client, String prefix, BackendContext context) {
        Objects.requireNonNull(client, "client");
        String checked = Keys.requirePrefix(Objects.requireNonNull(prefix, "prefix"));
        return new EtcdBackend(new ClientWire(client), checked, context).opened();
    }
}
