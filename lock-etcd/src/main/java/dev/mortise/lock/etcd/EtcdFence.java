package dev.mortise.lock.etcd;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Claim;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.options.GetOption;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/**
 * Lets the application's own transactions in etcd happen only while it holds a lock that is kept in the same etcd.
 *
 * <pre>{@code
 * Cmp held = fence.of("invoice-42", lease.token()).orElseThrow();    // once for a lease
 * client.getKVClient().txn().If(held).Then(Op.put(...)).commit();    // in each transaction
 * }</pre>
 *
 * <p>The comparison is that the holder's own key is there, as it was made with this token. A holder's key is the oldest of its
 * name from its grant on until it is gone, and nobody else is granted the lock before that. So a transaction that succeeds was
 * carried out while no other grant of the name existed, whatever the clocks say and however long the process was stopped; one
 * that is late fails its comparison. This is stronger than a check of tokens: nothing has to be stored beside what is protected.
 *
 * <p>It proves nothing of anything outside that transaction. A comparison can be used for as long as the lease is renewed; after
 * that it is false for ever. Keeps no state; for any thread.
 */
public final class EtcdFence {
    private final Client client;
    private final String prefix;
    private final Duration timeout;

    /**
     * For locks with the prefix {@code mortise}, that waits three seconds at most for an answer.
     *
     * @param client of the etcd that the lock is in, by whose transactions the comparisons are used; not closed
     */
    public EtcdFence(Client client) {
        this(client, Keys.PREFIX, Duration.ofSeconds(3));
    }

    /**
     * For locks with this prefix.
     *
     * @param client as above; a namespace of its own would stand before the prefix
     * @param timeout the longest that looking for the holder's key may take; positive
     */
    public EtcdFence(Client client, String prefix, Duration timeout) {
        this.client = Objects.requireNonNull(client, "client");
        this.prefix = Keys.requirePrefix(Objects.requireNonNull(prefix, "prefix"));
        this.timeout = Objects.requireNonNull(timeout, "timeout");
        if (timeout.isZero() || timeout.isNegative()) {
            throw new IllegalArgumentException("timeout must be positive: " + timeout);
        }
    }

    /**
     * What a transaction is to compare. Looks in the store for the key of the holder with this token: one read that a majority
     * stands behind.
     *
     * @param name the lock's name
     * @param token the lease's token
     * @return empty if the lock is not held with this token: the lease is over
     * @throws IllegalArgumentException if the name or the token is none
     * @throws LockStoreException if there was no answer in time, or something else than a lock
     */
    public Optional<Cmp> of(String name, long token) throws InterruptedException {
        Keys keys = Keys.of(prefix, Claim.requireName(name));
        if (token <= 0) {
            throw new IllegalArgumentException("token must be positive: " + token);
        }
        try {
            List<KeyValue> oldest = ClientWire.answer(
                            client.getKVClient()
                                    .get(
                                            bytes(keys.start()),
                                            GetOption.builder()
                                                    .withRange(bytes(keys.end()))
                                                    .withSortField(GetOption.SortTarget.CREATE)
                                                    .withSortOrder(GetOption.SortOrder.ASCEND)
                                                    .withLimit(1)
                                                    .build()),
                            Limit.interruptible(timeout))
                    .getKvs();
            if (oldest.isEmpty() || oldest.get(0).getCreateRevision() != token) {
                return Optional.empty();
            }
            long unused = Keys.seconds(oldest.get(0).getValue().toString(StandardCharsets.UTF_8));
            return Optional.of(new Cmp(oldest.get(0).getKey(), Cmp.Op.EQUAL, CmpTarget.createRevision(token)));
        } catch (Trouble e) {
            throw new LockStoreException(
                    ClientWire.SHOWN, "look for the holder of " + keys + ": " + e.getMessage(), e.advice, false, e);
        }
    }

    private static ByteSequence bytes(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }
}
