package dev.mortise.lock.redlock;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreUri;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import org.redisson.api.RedissonClient;

/**
 * Locks over the application's own Redisson clients, and what an operator of a deployment does.
 *
 * <pre>{@code
 * LockClient locks = LockClient.builder(RedlockLocks.over(List.of(client1, client2, client3))).build();
 * }</pre>
 */
public final class RedlockLocks {
    /** The longest that a client gives a call by itself. */
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(3);

    private RedlockLocks() {}

    /**
     * Locks for leases of up to 30 seconds, with the terms of the deployment, or the default ones for a new deployment.
     *
     * @see #over(List, Map, BackendContext)
     */
    public static LockBackend over(List<RedissonClient> clients) {
        return over(clients, Map.of(), BackendContext.of(System::nanoTime, CALL_TIMEOUT));
    }

    /**
     * Locks in a majority of the servers of these clients. Connects at once; for a new deployment that takes as long as
     * the longest lease.
     *
     * <p>The clients stay the caller's and are not closed. Each must be of a single server, a master that is independent of
     * the others, and must have {@code retryAttempts} 0: a client that repeats commands by itself is refused. Redisson
     * sends a call over any connection of its pool, so that the release of an acquire that was not answered can overtake
     * it; the lock then stays taken for a lease at that server. Clients opened by a {@code redlock://} URI do not have
     * that, and need two threads instead of some 250.
     *
     * @param clients an odd number from 3 to 9
     * @param options {@code attempt} and {@code longest-lease}, as in a URI; the same for all clients of a deployment
     * @param context the ticker of the client, and its call timeout: at most a quarter of its shortest lease
     * @throws IllegalArgumentException if clients or options make no sense
     * @throws dev.mortise.lock.LockStoreException if the servers cannot be used; says what to do
     */
    public static LockBackend over(List<RedissonClient> clients, Map<String, String> options, BackendContext context) {
        List<Wire> wires = new ArrayList<>();
        StringJoiner store = new StringJoiner(",", "redlock://", "");
        for (RedissonClient client : clients) {
            Wire wire = new ClientWire(wires.size() + 1, client);
            wires.add(wire);
            store.add(wire.name());
        }
        Opening.requireCount(wires.size(), "the list of clients");
        for (String name : options.keySet()) {
            if (!name.equals(Opening.ATTEMPT.name()) && !name.equals(Opening.LONGEST.name())) {
                throw new IllegalArgumentException("unknown option " + Claim.printable(name) + "; known: "
                        + Opening.ATTEMPT.name() + ", " + Opening.LONGEST.name());
            }
        }
        Duration attempt =
                Opening.ATTEMPT.parse(options.getOrDefault(Opening.ATTEMPT.name(), Opening.ATTEMPT.fallback()));
        Duration longest =
                Opening.LONGEST.parse(options.getOrDefault(Opening.LONGEST.name(), Opening.LONGEST.fallback()));
        Connector timer = new Connector();
        return new Opening(
                        store.toString(),
                        Opening.terms(attempt, longest),
                        !options.isEmpty(),
                        context,
                        timer.alarm(),
                        timeout -> wires,
                        timer::close)
                .open();
    }

    /**
     * An operator's act: gives every server of this deployment that has no memory a new one, and lets it vote at once. For
     * a new deployment, which otherwise waits for as long as the longest lease; and for one that has lost the memory of so
     * many servers that the others cannot mend it.
     *
     * <p>The caller answers for it that no lock is held whose holder counts on what these servers have forgotten: such a
     * lock can get a second holder. Tokens are safe: the second holder's is larger.
     *
     * @param uri a {@code redlock://} URI, or {@code redlocks://} for TLS
     * @param options more options of the URI, {@code user} and {@code password} among them
     * @return what was done, a line for each server
     * @throws IllegalArgumentException if URI or options make no sense
     * @throws dev.mortise.lock.LockStoreException if fewer than a majority of the servers answer, or they differ
     */
    public static List<String> initialise(String uri, Map<String, String> options) {
        StoreUri parsed = StoreUri.parse(uri, options);
        for (String name : parsed.options().keySet()) {
            if (Opening.OPTIONS.stream().noneMatch(o -> o.name().equals(name))) {
                throw new IllegalArgumentException("unknown option " + Claim.printable(name));
            }
        }
        return Opening.of(parsed, BackendContext.of(System::nanoTime, CALL_TIMEOUT))
                .initialise();
    }
}
