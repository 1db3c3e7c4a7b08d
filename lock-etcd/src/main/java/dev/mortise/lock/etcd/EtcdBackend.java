package dev.mortise.lock.etcd;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Consistency;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreEvent;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Locks in etcd. A claim is a key on a lease of its own; who has the oldest key of a name holds it, and the others wait in the
 * order of theirs, each watching the one before. The token is the revision that made the key.
 *
 * <p>A lease of etcd is not refreshed by a key that is put on it, so a grant counts from the lease's last proof of life that was
 * answered. The keys are looked at as well as the leases: one can be gone while the other lives.
 *
 * <p>An acquire that arrives after its release finds its lease revoked, and does nothing. So a lease goes back to the pool only
 * after an answered acquire and a release that removed the key.
 */
final class EtcdBackend implements LockBackend {
    private static final Logger LOG = System.getLogger(EtcdBackend.class.getName());

    private static final Duration LONGEST = Duration.ofDays(365);

    /** Of servers without faults that are known. */
    static final Guarantees GUARANTEES = guarantees(Duration.ofSeconds(1), true);

    /** Opening has at least so long: a JVM that is new loads all of gRPC in it. */
    private static final Duration OPENING = Duration.ofSeconds(10);

    /** How soon to come back where nobody tells of releases. */
    private static final Duration PAUSE = Duration.ofMillis(20);

    /** How many keys are looked at in one transaction: etcd takes 128 steps by default. */
    private static final int BATCH = 100;

    /** Longer ago than any lease is long. */
    private static final long YEARS = TimeUnit.DAYS.toNanos(3_650);

    private static final long TROUBLE_PAUSE = TimeUnit.MILLISECONDS.toNanos(50);

    /** Who waits comes back so late at most when the store is in trouble: many may do so at once. */
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(1);

    private final Wire wire;
    private final String prefix;
    private final BackendContext context;
    private final LeasePool pool;

    /** What every call may take: less than it has, because others want to run as well. */
    private final Duration budget;

    private final Map<Claim, Seat> seats = new ConcurrentHashMap<>();

    /** By name: who waits for the lock, to whom this client's own holder can pass it. The last one, if there are several. */
    private final Map<String, Seat> waiting = new ConcurrentHashMap<>();

    /** By name: what this client is removing. Written before {@link #waiting} is read, and read after that is written. */
    private final Map<String, Passing> leaving = new ConcurrentHashMap<>();

    private volatile Guarantees guarantees = GUARANTEES;

    /** What this client knows of a claim. Its monitor is held for moments. */
    private static final class Seat {
        private LeasePool.@Nullable Lease lease;

        /** An entering that was sent, and is not answered: it may be on its way. */
        private boolean unsure;

        private boolean released;

        /** Of the own key; 0 if none is known. */
        private long created;

        /** The last key of this client that was removed while this one waited. */
        private volatile @Nullable Passing passing;

        synchronized LeasePool.@Nullable Lease lease() {
            return lease;
        }

        synchronized boolean isUnsure() {
            return unsure;
        }

        synchronized long created() {
            return created;
        }

        synchronized void entered(LeasePool.Lease on, long at) {
            lease = on;
            created = at;
        }

        /** For whoever ends it or gives it back: one alone. Null if somebody else has it. */
        synchronized LeasePool.@Nullable Lease take() {
            LeasePool.Lease taken = lease;
            lease = null;
            return taken;
        }

        /** The same if it is this one, and no release has begun. */
        synchronized boolean take(long which) {
            if (released || lease == null || lease.id != which) {
                return false;
            }
            lease = null;
            return true;
        }

        /** It could not be ended. */
        synchronized void putBack(LeasePool.Lease taken) {
            if (lease == null) {
                lease = taken;
            }
        }

        /** Before it is sent. False if its release came first. */
        synchronized boolean enters(LeasePool.Lease on) {
            if (released) {
                return false;
            }
            lease = on;
            unsure = true;
            return true;
        }

        synchronized void sure() {
            unsure = false;
        }

        synchronized void release() {
            released = true;
        }
    }

    /**
     * A key that this client is removing.
     *
     * @param left what was there then, and when that was asked for; empty if it is not known
     */
    private record Passing(String key, CompletableFuture<Optional<Passed>> left) {}

    private record Passed(Wire.Left left, long asked) {}

    EtcdBackend(Wire wire, String prefix, BackendContext context) {
        this(wire, prefix, context, new LeasePool(wire, context::nanoTime));
    }

    /** With a pool of which a test knows that it is wrong. */
    EtcdBackend(Wire wire, String prefix, BackendContext context, LeasePool pool) {
        this.wire = wire;
        this.prefix = prefix;
        this.context = context;
        this.pool = pool;
        budget = Duration.ofNanos(Math.max(1, context.callTimeout().toNanos() / 100 * 85));
    }

    /** Looks whether the store can be used at all, and which leases it gives; closes this if not. */
    EtcdBackend opened() {
        boolean fine = false;
        try {
            Limit limit = Limit.uninterruptible(budget.compareTo(OPENING) < 0 ? OPENING : budget);
            boolean failsOver = wire.probe(prefix, limit);
            // Says how short a lease can be, and that a majority is there to write.
            Wire.Granted shortest = wire.grant(1, limit);
            java.util.concurrent.Future<?> unused = wire.revokeSoon(shortest.id());
            guarantees = guarantees(Duration.ofSeconds(shortest.seconds()), failsOver);
            fine = true;
            return this;
        } catch (Trouble e) {
            throw failed("open", e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            if (!fine) {
                close();
            }
        }
    }

    /** @param failsOver whether a leader that was stopped leaves the leases of the next one alone */
    private static Guarantees guarantees(Duration shortest, boolean failsOver) {
        // Not a restart without data: of all servers it loses everything, and of one it is not a member any more.
        Set<StoreEvent> events = EnumSet.complementOf(EnumSet.of(StoreEvent.RESTART_WITHOUT_DATA));
        StoreEvent[] tokens = events.toArray(StoreEvent[]::new);
        if (!failsOver) {
            events.remove(StoreEvent.FAILOVER);
        }
        return Guarantees.builder(Consistency.CONSENSUS)
                .exclusionSurvives(events.toArray(StoreEvent[]::new))
                .tokensSurvive(tokens)
                .leases(shortest, LONGEST, Duration.ofSeconds(1))
                // A new leader, or a restart, gives every lease its full length once more, from the end of an election;
                // the
                // shortest lease is one and a half of what an election waits for. It then takes up to a second to end
                // it.
                .freedWithin(lease -> lease.plus(shortest).multipliedBy(2))
                .fair(true)
                .outlivesClient(false)
                .build();
    }

    @Override
    public Guarantees guarantees() {
        return guarantees;
    }

    @Override
    public String toString() {
        return wire.shown();
    }

    private LockStoreException failed(String tried, Trouble e) {
        return new LockStoreException(wire.shown(), tried + ": " + e.getMessage(), e.advice, e.effect, e);
    }

    /** In whole seconds, as etcd counts them. */
    private static long seconds(Claim claim) {
        if (claim.lease().compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException("lease must be at most " + LONGEST.toDays() + " days: " + claim.lease());
        }
        return claim.lease().plusSeconds(1).minusNanos(1).toSeconds();
    }

    // ---- Acquire -------------------------------------------------------------------------------------------------

    @Override
    public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
        long seconds = seconds(claim);
        Keys keys = Keys.of(prefix, claim.name());
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        long wait = patience.isNegative() ? 0 : Limit.nanos(patience);
        Limit whole = Limit.interruptible(Duration.ofNanos(wait + budget.toNanos()));
        Seat seat = seats.computeIfAbsent(claim, any -> new Seat());
        String tried = "acquire " + keys;
        if (wait > 0) {
            waiting.put(keys.start(), seat);
            // Or else the release that is under way has seen it there.
            seat.passing = leaving.get(keys.start());
        }
        try {
            for (int i = 0; i < 3; i++) {
                Wire.Line line = enter(claim, keys, seat, seconds, wait == 0, whole.part(budget.toNanos()));
                Wire.Entry ahead = line.ahead();
                if (ahead != null) {
                    // Whoever does not keep this layout cannot be waited for either.
                    long unused = Keys.seconds(ahead.value());
                }
                if (line.own() == null) {
                    forget(claim, seat, null, whole);
                    return held(ahead);
                }
                Wire.Line passed = ahead == null || wait == 0
                        ? null
                        : passed(keys.of(claim.owner()), ahead, seat, whole.part(budget.toNanos()));
                if (passed != null) {
                    line = passed;
                    ahead = null;
                }
                if (ahead != null) {
                    return wait == 0
                            ? giveUp(claim, keys, seat, whole)
                            : await(claim, keys, seat, seconds, ahead, whole);
                }
                Attempt granted = granted(claim, keys, seat, line.own(), whole.part(budget.toNanos()));
                if (granted != null) {
                    return granted;
                }
            }
            throw Trouble.late(wire.shown(), true, null);
        } catch (Trouble e) {
            if (!e.effect && !seat.isUnsure() && seat.created() == 0) {
                LeasePool.Lease lease = seat.take();
                if (lease != null) {
                    pool.giveBack(lease);
                }
                seats.remove(claim);
            }
            boolean left = e.effect || seat.isUnsure() || seat.created() != 0;
            throw failed(
                    tried,
                    left == e.effect ? e : new Trouble(String.valueOf(e.getMessage()), e.advice, left, e.getCause()));
        } catch (InterruptedException e) {
            withdraw(claim, keys, seat);
            throw e;
        } finally {
            boolean unused = waiting.remove(keys.start(), seat);
            seat.passing = null;
        }
    }

    /** Sends the own key; again with another lease if the first one has ended. */
    private Wire.Line enter(Claim claim, Keys keys, Seat seat, long seconds, boolean ifFree, Limit limit)
            throws Trouble, InterruptedException {
        for (int i = 0; ; i++) {
            LeasePool.Lease lease = seat.lease();
            if (lease == null) {
                lease = i == 0 ? pool.take(seconds, limit) : pool.make(seconds, limit);
            }
            boolean before = seat.isUnsure();
            if (!seat.enters(lease)) {
                pool.giveBack(lease);
                throw new Trouble("this owner was released before", "make a new claim for a new attempt", false, null);
            }
            Wire.Line line;
            long sent = System.nanoTime();
            try {
                line = wire.enter(keys, claim.owner(), Keys.value(lease.seconds), lease.id, ifFree, limit);
            } catch (Wire.LeaseGone e) {
                // Nothing on it can take effect any more, an earlier entering neither.
                seat.sure();
                boolean unused = seat.take(lease.id);
                if (i == 2) {
                    throw e;
                }
                continue;
            } catch (Trouble e) {
                if (!e.effect && !before) {
                    seat.sure();
                }
                throw e;
            }
            if (!before) {
                seat.sure();
            }
            lease.verify(line.term(), sent);
            Wire.Entry own = line.own();
            if (own == null) {
                return line;
            }
            if (own.lease() == lease.id) {
                seat.entered(lease, own.created());
                return line;
            }
            // From an earlier call, on a lease of which only the store knows, and not for how long it lives.
            LeasePool.Lease its =
                    new LeasePool.Lease(own.lease(), Keys.seconds(own.value()), seconds, context.nanoTime() - YEARS);
            pool.giveBack(lease);
            seat.entered(its, own.created());
            seat.sure();
            return line;
        }
    }

    /**
     * The grant, counted from the last proof of life that counts; for which there is another one if that is long ago, or if
     * none is known.
     *
     * @return null if the claim has ended meanwhile; the seat then has no lease
     */
    private @Nullable Attempt granted(Claim claim, Keys keys, Seat seat, Wire.Entry own, Limit limit)
            throws Trouble, InterruptedException {
        LeasePool.Lease lease = seat.lease();
        if (lease == null) {
            throw new IllegalStateException("granted without a lease: " + keys);
        }
        while (lease.age(context.nanoTime()) > lease.nanos() / 2) {
            if (limit.isOver()) {
                throw Trouble.late(wire.shown(), true, null);
            }
            Wire.Line line = look(claim, keys, seat, limit);
            if (line.own() == null || line.own().created() != own.created()) {
                end(seat, limit);
                return null;
            }
        }
        return Attempt.granted(claim.granted(lease.length(), own.created(), lease.since()));
    }

    private static Attempt held(Wire.@Nullable Entry by) throws Trouble {
        // What is left is less, and to ask for it would be one more round trip.
        return by == null ? Attempt.held(PAUSE) : Attempt.held(PAUSE, Duration.ofSeconds(Keys.seconds(by.value())));
    }

    /** Leaves the line, because the time is over. */
    private Attempt giveUp(Claim claim, Keys keys, Seat seat, Limit limit) throws Trouble, InterruptedException {
        Wire.Left left = wire.leave(keys, claim.owner(), limit);
        forget(claim, seat, left, limit);
        Wire.Entry oldest = left.oldest();
        return held(oldest == null || oldest.key().equals(keys.of(claim.owner())) ? null : oldest);
    }

    /** After an interrupt. What is not done is the caller's: it releases. */
    private void withdraw(Claim claim, Keys keys, Seat seat) {
        Limit limit = Limit.uninterruptible(budget);
        try {
            seat.release();
            if (seat.lease() != null) {
                forget(claim, seat, wire.leave(keys, claim.owner(), limit), limit);
            }
        } catch (Trouble e) {
            LOG.log(Level.DEBUG, "leaving the line after an interrupt", e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * Nothing of this owner is there any more, nor comes.
     *
     * @param left what was removed; null if no key was ever made
     */
    private void forget(Claim claim, Seat seat, Wire.@Nullable Left left, Limit limit)
            throws Trouble, InterruptedException {
        LeasePool.Lease lease = seat.take();
        if (lease != null) {
            Wire.Entry own = left == null ? null : left.own();
            boolean clean = left == null || (own != null && own.lease() == lease.id && !left.again());
            if (!pool.takesBack(lease, clean && !seat.isUnsure())) {
                end(seat, lease, limit);
            }
        } else if (left != null && left.own() != null) {
            java.util.concurrent.Future<?> unused = wire.revokeSoon(left.own().lease());
        }
        seats.remove(claim, seat);
    }

    /** Ends the lease that was taken from this seat; which has it again if that fails. */
    private void end(Seat seat, LeasePool.Lease lease, Limit limit) throws Trouble, InterruptedException {
        boolean ended = false;
        try {
            wire.revoke(lease.id, limit);
            ended = true;
        } finally {
            if (!ended) {
                seat.putBack(lease);
            }
        }
    }

    private void end(Seat seat, Limit limit) throws Trouble, InterruptedException {
        LeasePool.Lease lease = seat.take();
        if (lease != null) {
            end(seat, lease, limit);
        }
    }

    // ---- Waiting -------------------------------------------------------------------------------------------------

    private Attempt await(Claim claim, Keys keys, Seat seat, long seconds, Wire.Entry first, Limit whole)
            throws Trouble, InterruptedException {
        Wire.Entry ahead = first;
        // What is left of the patience; the rest of the whole is for leaving.
        Limit patience = whole.part(whole.left() - budget.toNanos());
        long troubled = 0;
        long pause = TROUBLE_PAUSE;
        while (true) {
            try (Wire.Watching watch = wire.watch(ahead.key())) {
                boolean begun = watch.begun(patience.part(budget.toNanos()));
                boolean told = false;
                while (true) {
                    if (patience.isOver()) {
                        return giveUp(claim, keys, seat, whole);
                    }
                    if (wire.isClosed()) {
                        throw Trouble.closed();
                    }
                    Wire.Line line = passed(keys.of(claim.owner()), ahead, seat, patience.part(budget.toNanos()));
                    if (line == null) {
                        line = look(claim, keys, seat, patience.part(budget.toNanos()));
                    }
                    troubled = 0;
                    Wire.Entry own = line.own();
                    if (own == null || own.created() != seat.created()) {
                        // The own lease has ended, or somebody has removed the key: from the end of the line again.
                        line = again(claim, keys, seat, seconds, patience.part(budget.toNanos()));
                        own = line.own();
                    }
                    if (own != null && line.ahead() == null) {
                        Attempt granted = granted(claim, keys, seat, own, patience.part(budget.toNanos()));
                        if (granted != null) {
                            return granted;
                        }
                        break; // What it waited for is gone, and its own place too: it enters again.
                    }
                    Wire.Entry now = line.ahead();
                    if (now != null && !now.key().equals(ahead.key())) {
                        ahead = now;
                        break;
                    }
                    if (watch.isBroken()) {
                        patience.pause(pause);
                        pause = Math.min(LONGEST_PAUSE, pause * 2);
                        break;
                    }
                    if (!begun) {
                        // Slow, and not silent: nothing is gained by another one. When it has begun, the line is read
                        // once more.
                        begun = watch.begun(patience.part(budget.toNanos()));
                        continue;
                    }
                    pause = TROUBLE_PAUSE;
                    if (told) {
                        break; // It tells once; and the key is there again, or it would not be ahead.
                    }
                    told = watch.await(patience.part(untilBeat(seat)));
                }
            } catch (Trouble e) {
                long now = System.nanoTime();
                if (patience.isOver()) {
                    return giveUp(claim, keys, seat, whole);
                }
                if (troubled == 0) {
                    troubled = now;
                }
                // As long as the own place in the line may be there, the store may come back.
                if (!e.isPassing()
                        || now - troubled > Math.max(budget.toNanos(), TimeUnit.SECONDS.toNanos(seconds))
                        || seat.isUnsure()) {
                    throw e;
                }
                patience.pause(pause);
                pause = Math.min(LONGEST_PAUSE, pause * 2);
            }
        }
    }

    /**
     * What the removal of the key ahead saw of the line, if this client has just removed it: as good as a look of its own. Null
     * if it has not, or if the own key was not the next.
     */
    private static Wire.@Nullable Line passed(String own, Wire.Entry ahead, Seat seat, Limit limit)
            throws InterruptedException {
        Passing passing = seat.passing;
        LeasePool.Lease lease = seat.lease();
        if (passing == null || lease == null || !passing.key().equals(ahead.key())) {
            return null;
        }
        seat.passing = null;
        try {
            Optional<Passed> left = limit.await(passing.left());
            Passed passed = left == null ? null : left.orElse(null);
            Wire.Entry next = passed == null ? null : passed.left().next();
            if (passed == null || next == null || !next.key().equals(own) || next.created() != seat.created()) {
                return null;
            }
            lease.verify(passed.left().term(), passed.asked());
            return new Wire.Line(next, false, null, passed.left().term());
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A third of the lease after the last proof of life; it is also how long a wake-up can be lost. */
    private long untilBeat(Seat seat) {
        LeasePool.Lease lease = seat.lease();
        return lease == null ? 0 : Math.max(TROUBLE_PAUSE, lease.nanos() / 3 - lease.age(context.nanoTime()));
    }

    /** Looks at the line; after a proof of life if the last one is not fresh, so that this verifies it. */
    private Wire.Line look(Claim claim, Keys keys, Seat seat, Limit limit) throws Trouble, InterruptedException {
        LeasePool.Lease lease = seat.lease();
        if (lease == null) {
            return new Wire.Line(null, false, null, 0);
        }
        long sent = context.nanoTime();
        long left = 1;
        if (lease.age(sent) > lease.nanos() / 6) {
            Wire.Proof proof = wire.beat(lease.id).await(limit.part(limit.left() / 2));
            lease.beaten(sent, proof);
            left = proof.seconds();
        }
        long asked = System.nanoTime();
        Wire.Line line = wire.look(keys, claim.owner(), seat.created(), limit);
        lease.verify(line.term(), asked);
        // Its key can still be there when it has ended, or when a leader is new and does not know it yet.
        return left == 0 ? new Wire.Line(null, false, line.ahead(), line.term()) : line;
    }

    private Wire.Line again(Claim claim, Keys keys, Seat seat, long seconds, Limit limit)
            throws Trouble, InterruptedException {
        // With it goes the key, should it be there after all.
        end(seat, limit);
        return enter(claim, keys, seat, seconds, false, limit);
    }

    // ---- Renew ---------------------------------------------------------------------------------------------------

    /** One grant of a renewal. */
    private static final class Asked {
        final Grant grant;
        final String key;
        long lease;
        long sent;
        Wire.Proof proof = Wire.Proof.NONE;
        Wire.@Nullable Beat beat;
        Wire.@Nullable Entry entry;
        boolean seen;

        /** Of the leader when the key was looked at. */
        long term;

        Asked(Grant grant, String key) {
            this.grant = grant;
            this.key = key;
        }
    }

    @Override
    public Renewal renew(Collection<Grant> grants) {
        String tried = "renew " + grants.size() + (grants.size() == 1 ? " lease" : " leases");
        Limit limit = Limit.uninterruptible(budget);
        List<Grant> live = new ArrayList<>();
        List<Grant> ended = new ArrayList<>();
        try {
            List<Asked> known = new ArrayList<>();
            List<Asked> unknown = new ArrayList<>();
            for (Grant grant : grants) {
                Asked asked = new Asked(grant, Keys.of(prefix, grant.name()).of(grant.owner()));
                Seat seat = seats.get(grant.claim());
                LeasePool.Lease lease = seat == null ? null : seat.lease();
                if (lease != null && seat != null && seat.created() == grant.token()) {
                    asked.lease = lease.id;
                    known.add(asked);
                } else {
                    unknown.add(asked);
                }
            }
            lookAt(unknown, limit);
            for (Asked each : unknown) {
                if (!each.seen) {
                    continue;
                }
                if (each.entry == null || each.entry.created() != each.grant.token()) {
                    ended.add(each.grant);
                } else {
                    each.lease = each.entry.lease();
                    known.add(each);
                }
            }
            List<Asked> left = known;
            for (int i = 0; i < 2 && !left.isEmpty() && !limit.isOver(); i++) {
                beat(left, limit.part(limit.left() / 3));
                beat(left.stream().filter(each -> each.proof.seconds() < 0).toList(), limit.part(limit.left() / 3));
                // After the proofs of life: a lease that lives says nothing of the key; and it verifies the proofs.
                lookAt(left, limit);
                left.forEach(each -> judge(each, live, ended));
                // Another leader since: once more.
                left = left.stream()
                        .filter(each -> each.seen
                                && each.entry != null
                                && each.proof.seconds() > 0
                                && each.term != each.proof.term())
                        .toList();
            }
            if (live.isEmpty() && ended.isEmpty() && !grants.isEmpty()) {
                throw Trouble.late(wire.shown(), true, null);
            }
        } catch (Trouble e) {
            if (live.isEmpty() && ended.isEmpty()) {
                throw failed(tried, e);
            }
            LOG.log(Level.DEBUG, "some are unknown", e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        return Renewal.of(live, ended);
    }

    private void beat(List<Asked> all, Limit limit) throws InterruptedException {
        for (Asked each : all) {
            each.sent = context.nanoTime();
            each.beat = wire.beat(each.lease);
        }
        for (Asked each : all) {
            if (each.beat != null) {
                each.proof = each.beat.await(limit);
            }
        }
    }

    /** Looks at their keys. At least at some, or it throws. */
    private void lookAt(List<Asked> all, Limit limit) throws Trouble, InterruptedException {
        all.forEach(each -> each.seen = false);
        for (int from = 0; from < all.size(); from += BATCH) {
            List<Asked> some = all.subList(from, Math.min(all.size(), from + BATCH));
            try {
                Wire.Found found = wire.find(some.stream().map(each -> each.key).toList(), limit);
                Map<String, Wire.Entry> there = new HashMap<>();
                found.entries().forEach(entry -> there.put(entry.key(), entry));
                for (Asked each : some) {
                    each.seen = true;
                    each.entry = there.get(each.key);
                    each.term = found.term();
                }
            } catch (Trouble e) {
                if (from == 0) {
                    throw e;
                }
                LOG.log(Level.DEBUG, "some are unknown", e);
                return;
            }
        }
    }

    private void judge(Asked asked, List<Grant> live, List<Grant> ended) {
        if (!asked.seen) {
            return;
        }
        Grant grant = asked.grant;
        Seat seat = seats.get(grant.claim());
        if (asked.entry == null || asked.entry.created() != grant.token()) {
            ended.add(grant);
            // If its release is what ended it, its lease is another claim's by now, and no longer ours to end.
            if (seat != null && seat.take(asked.lease)) {
                seats.remove(grant.claim(), seat);
                java.util.concurrent.Future<?> unused = wire.revokeSoon(asked.lease);
            }
        } else if (asked.proof.seconds() > 0 && asked.proof.term() == asked.term) {
            LeasePool.Lease lease = seat == null ? null : seat.lease();
            if (lease != null && lease.id == asked.lease) {
                lease.proven(asked.sent);
            }
            Duration length = Duration.ofSeconds(asked.proof.seconds());
            live.add(grant.renewed(length.compareTo(grant.lease()) < 0 ? length : grant.lease(), asked.sent));
        }
        // A lease that is not found, with its key still there: a leader that is new and does not know all yet. Unknown.
    }

    // ---- Release, holder -------------------------------------------------------------------------------------------

    @Override
    public boolean release(Claim claim) {
        Keys keys = Keys.of(prefix, claim.name());
        String tried = "release " + keys;
        Limit limit = Limit.uninterruptible(budget);
        Seat seat = seats.computeIfAbsent(claim, any -> new Seat());
        seat.release();
        Passing passing = new Passing(keys.of(claim.owner()), new CompletableFuture<>());
        leaving.put(keys.start(), passing);
        Seat next = waiting.get(keys.start());
        if (next != null && next != seat) {
            next.passing = passing;
        }
        try {
            long asked = System.nanoTime();
            Wire.Left left = wire.leave(keys, claim.owner(), limit);
            passing.left().complete(Optional.of(new Passed(left, asked)));
            forget(claim, seat, left, limit);
            Wire.Entry own = left.own();
            if (own == null && left.again()) {
                throw new Trouble("an earlier request had no answer, and may have ended it", "ask again", true, null);
            }
            return own != null
                    && left.oldest() != null
                    && own.key().equals(left.oldest().key());
        } catch (Trouble e) {
            throw failed(tried, e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            boolean unused = leaving.remove(keys.start(), passing);
            passing.left().complete(Optional.empty());
        }
    }

    @Override
    public Optional<Holder> holder(String name) {
        Keys keys = Keys.of(prefix, Claim.requireName(name));
        Limit limit = Limit.uninterruptible(budget);
        try {
            Wire.Entry oldest = wire.oldest(keys, limit);
            if (oldest == null) {
                return Optional.empty();
            }
            long unused = Keys.seconds(oldest.value());
            long left = left(oldest.lease(), limit);
            return Optional.of(
                    Holder.of(keys.owner(oldest.key()), oldest.created(), Duration.ofSeconds(Math.max(0, left))));
        } catch (Trouble e) {
            throw failed("look at " + keys, e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** In seconds; 0 if it has ended since. */
    private long left(long lease, Limit limit) throws Trouble, InterruptedException {
        try {
            return wire.left(lease, limit);
        } catch (Wire.LeaseGone e) {
            return 0;
        }
    }

    @Override
    public void close() {
        pool.close();
        wire.close();
        seats.clear();
    }

    /** For tests: how many claims are known here. */
    int known() {
        return seats.size();
    }
}
