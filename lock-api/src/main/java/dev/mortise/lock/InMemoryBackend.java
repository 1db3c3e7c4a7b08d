package dev.mortise.lock;

import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Locks in this process's memory, for tests: with {@link VirtualTime} as the clock, the loss of a lease is tested without
 * sleeping. It is also the reference for authors of backends. For any thread; several clients may share one instance,
 * which stands for several processes with one store, and which their closing leaves open.
 *
 * <p>Strict in what the contract leaves open: a claim ends exactly at the end of its lease, and tokens begin at 1.
 */
public final class InMemoryBackend implements LockBackend {
    private static final Duration PAUSE = Duration.ofMillis(10);

    private static final Guarantees GUARANTEES = Guarantees.builder(Consistency.BEST_EFFORT)
            // There is no server, no connection and no clock that anything could befall.
            .exclusionSurvives(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH)
            .tokensSurvive(StoreEvent.RELEASE_AND_EXPIRY, StoreEvent.CLIENT_CRASH)
            .leases(Duration.ofMillis(10), Duration.ofDays(365), Duration.ofMillis(1))
            .freedWithin(lease -> lease)
            .outlivesClient(true)
            .build();

    private final TimeSource time;
    private final Map<String, Entry> live = new HashMap<>();
    private final Map<String, Long> tokens = new HashMap<>(); // kept after a release: tokens only grow

    private record Entry(String owner, long token, long lease, long end) {}

    /** Locks that live by the machine's clock. */
    public InMemoryBackend() {
        this(new SystemTime());
    }

    /** Locks that live by this clock, which must be that of their clients too. */
    public InMemoryBackend(TimeSource time) {
        this.time = Objects.requireNonNull(time, "time");
    }

    @Override
    public Guarantees guarantees() {
        return GUARANTEES;
    }

    private @Nullable Entry live(String name, long now) {
        Entry entry = live.get(name);
        if (entry != null && Nanos.reached(now, entry.end)) {
            live.remove(name);
            return null;
        }
        return entry;
    }

    private Grant put(Claim claim, long token, long now) {
        long lease = Nanos.of(claim.lease());
        live.put(claim.name(), new Entry(claim.owner(), token, lease, now + lease));
        return claim.granted(claim.lease(), token, now);
    }

    private long next(String name) {
        return tokens.merge(name, 1L, Long::sum);
    }

    @Override
    public synchronized Attempt acquire(Claim claim, Duration patience) {
        long now = time.nanoTime();
        Entry entry = live(claim.name(), now);
        if (entry == null) {
            return Attempt.granted(put(claim, next(claim.name()), now));
        }
        if (entry.owner.equals(claim.owner())) {
            return Attempt.granted(put(claim, entry.token, now));
        }
        return Attempt.held(PAUSE, Duration.ofNanos(entry.end - now));
    }

    @Override
    public synchronized Renewal renew(Collection<Grant> grants) {
        long now = time.nanoTime();
        List<Grant> renewed = new ArrayList<>();
        List<Grant> ended = new ArrayList<>();
        for (Grant grant : grants) {
            Entry entry = live(grant.name(), now);
            if (entry != null && entry.owner.equals(grant.owner()) && entry.token == grant.token()) {
                live.put(grant.name(), new Entry(entry.owner, entry.token, entry.lease, now + entry.lease));
                renewed.add(grant.renewed(now));
            } else {
                ended.add(grant);
            }
        }
        return Renewal.of(renewed, ended);
    }

    @Override
    public synchronized boolean release(Claim claim) {
        Entry entry = live(claim.name(), time.nanoTime());
        return entry != null && entry.owner.equals(claim.owner()) && live.remove(claim.name(), entry);
    }

    @Override
    public synchronized Optional<Grant> adopt(Grant held, Claim heir) {
        long now = time.nanoTime();
        Entry entry = live(heir.name(), now);
        if (entry == null) {
            return Optional.empty();
        }
        if (entry.owner.equals(heir.owner())) {
            return Optional.of(put(heir, entry.token, now));
        }
        if (entry.owner.equals(held.owner()) && entry.token == held.token()) {
            return Optional.of(put(heir, next(heir.name()), now));
        }
        return Optional.empty();
    }

    @Override
    public synchronized Optional<Holder> holder(String name) {
        long now = time.nanoTime();
        Entry entry = live(name, now);
        return entry == null
                ? Optional.empty()
                : Optional.of(Holder.of(entry.owner, entry.token, Duration.ofNanos(entry.end - now)));
    }

    /**
     * Ends the claim of this name behind its holder's back, as an administrator or a failover would.
     *
     * @return whether there was one
     */
    public synchronized boolean evict(String name) {
        return live(name, time.nanoTime()) != null && live.remove(name) != null;
    }

    /** Does nothing: others may share this instance. */
    @Override
    public void close() {}

    @Override
    public String toString() {
        return "memory";
    }
}
