package dev.mortise.lock.tck;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Plays a scenario as calls of backends, with owners and grants that are stale or foreign as well: a client's own
 * deadline would hide a backend's mistakes.
 */
final class RawPlayer {
    private final List<LockBackend> clients;
    private final Store store;
    private final Clock clock;
    private final long lease;
    private final @Nullable Faults faults;
    private final String prefix;
    private final boolean outlivesClient;
    private final Supplier<Resource> resource;
    private final History history = new History();
    private final AtomicInteger attempts = new AtomicInteger();
    private final Map<String, Resource> resources = new HashMap<>();

    /** By client and name, oldest first; all of a name, in the order of their answers. */
    private final Map<String, List<Try>> tries = new LinkedHashMap<>();

    private final Map<String, List<Try>> granted = new HashMap<>();
    private final Map<String, Heir> heirs = new HashMap<>();
    private long late;
    private @Nullable Hold hold;

    /** Requests for a name that are held up in the store. */
    private final class Hold implements Runnable {
        private final String name;
        private final AutoCloseable held;
        private final long from = clock.now();
        private boolean ended;
        private @Nullable Exception thrown;

        Hold(String name, AutoCloseable held) {
            this.name = name;
            this.held = held;
        }

        /** Ends it, if it has not ended: when its time is over, or before. */
        @Override
        public synchronized void run() {
            if (ended) {
                return;
            }
            ended = true;
            // Before it is let go: what was held up cannot have been carried out by then.
            long until = clock.now();
            try {
                held.close();
            } catch (Exception e) {
                thrown = e;
            }
            history.add(Event.of(-1, -1, name, Op.HOLD_UP, Outcome.DONE, from, until));
        }

        synchronized @Nullable Exception thrown() {
            return thrown;
        }
    }

    /** An attempt; its grant as it was last told. */
    private static final class Try {
        final int number;
        final int client;
        final Claim claim;

        @Nullable
        Grant grant;

        boolean released;
        boolean unanswered;

        Try(int number, int client, Claim claim) {
            this.number = number;
            this.client = client;
            this.claim = claim;
        }
    }

    private record Heir(Try former, Grant held, Try heir) {}

    /**
     * A player.
     *
     * @param prefix of the names, new for each scenario
     * @param faults null if they are not to be caused, because other scenarios run beside this one
     */
    RawPlayer(
            List<LockBackend> clients,
            Store store,
            Clock clock,
            Duration lease,
            String prefix,
            @Nullable Faults faults) {
        this(clients, store, clock, lease, prefix, faults, Resource::new);
    }

    /** With a resource of which the kit's own tests know that it is wrong. */
    RawPlayer(
            List<LockBackend> clients,
            Store store,
            Clock clock,
            Duration lease,
            String prefix,
            @Nullable Faults faults,
            Supplier<Resource> resource) {
        this.resource = resource;
        this.clients = clients;
        this.store = store;
        this.clock = clock;
        this.lease = lease.toNanos();
        this.prefix = prefix;
        this.faults = faults;
        this.outlivesClient = clients.get(0).guarantees().outlivesClient();
    }

    /** Plays, and ends what was begun. */
    History play(Scenario scenario) throws InterruptedException {
        try {
            for (Step step : scenario.steps()) {
                if (clock.isVirtual()) {
                    clock.sleepUntil(clock.now() + 1_000); // One after the other, also by their times.
                }
                play(step);
            }
        } finally {
            try {
                letGo();
            } finally {
                heal();
                tries.values().forEach(list -> list.forEach(this::cleanUp));
            }
        }
        return history;
    }

    private void play(Step step) throws InterruptedException {
        int client = step.client();
        String name = prefix + (char) ('a' + step.name());
        switch (step.kind()) {
            case ACQUIRE -> acquire(client, name);
            case AGAIN ->
                last(tries(client, name), 0)
                        .filter(t -> (t.grant != null || t.unanswered) && !t.released)
                        .ifPresent(this::again);
            case RENEW -> last(grants(client, name), step.amount()).ifPresent(t -> renew(client, List.of(t)));
            case RENEW_ALL -> renewAll(client);
            case RELEASE -> last(tries(client, name), step.amount()).ifPresent(this::release);
            case FOREIGN_RELEASE -> foreignRelease(client, name);
            case FOREIGN_RENEW -> last(granted(name), 0).ifPresent(t -> foreignRenew(client, t));
            case ADOPT -> last(granted(name), 0).ifPresent(t -> adopt(client, t, t.grant));
            case ADOPT_AGAIN -> {
                Heir heir = heirs.get(name);
                if (heir != null && !heir.heir.released) {
                    adopt(heir);
                }
            }
            case ADOPT_SECOND -> {
                Heir heir = heirs.get(name);
                if (heir != null) {
                    adopt(client, heir.former, heir.held);
                }
            }
            case RACE -> race(name);
            case EVICT -> {
                if (store.canEvict()) {
                    letGo();
                    long invoked = clock.now();
                    store.evict(name);
                    history.add(Event.of(-1, -1, name, Op.EVICT, Outcome.DONE, invoked, clock.now()));
                }
            }
            case WAIT -> clock.sleepUntil(clock.now() + part(step.amount()));
            case EDGE -> edge(step.amount());
            case SLOW -> slow(part(step.amount()));
            case HOLD_UP -> holdUp(name, step.amount());
            case LOSE -> {
                if (faults != null) {
                    faults.loseReply();
                }
            }
            case READ -> last(grants(client, name), 0).ifPresent(t -> access(t, Op.READ));
            case WRITE -> last(grants(client, name), 0).ifPresent(t -> access(t, Op.WRITE));
            default -> {}
        }
    }

    private long part(int thousandths) {
        return lease / 1000 * thousandths;
    }

    private List<Try> tries(int client, String name) {
        return tries.computeIfAbsent(client + " " + name, k -> new ArrayList<>());
    }

    private List<Try> grants(int client, String name) {
        return tries(client, name).stream().filter(t -> t.grant != null).toList();
    }

    private List<Try> granted(String name) {
        return granted.computeIfAbsent(name, k -> new ArrayList<>());
    }

    private static Optional<Try> last(List<Try> list, int before) {
        int at = list.size() - 1 - before;
        return at < 0 ? Optional.empty() : Optional.of(list.get(at));
    }

    private Claim claim(String name) {
        return Claim.of(name, "tck~" + UUID.randomUUID(), Duration.ofNanos(lease));
    }

    private void acquire(int client, String name) {
        Try made = new Try(attempts.getAndIncrement(), client, claim(name));
        tries(client, name).add(made);
        note(made, acquireNow(made, Op.ACQUIRE));
    }

    private Event acquireNow(Try of, Op op) {
        long invoked = clock.now();
        Event event;
        try {
            Attempt attempt = clients.get(of.client).acquire(of.claim, Duration.ZERO);
            long returned = clock.now();
            Optional<Grant> grant = attempt.grant();
            event = event(of, op, grant.isPresent() ? Outcome.DONE : Outcome.REFUSED, invoked, returned)
                    .value(attempt.rest().map(Duration::toNanos).orElse(-1L));
            if (grant.isPresent()) {
                event = granted(event, grant.get());
                of.grant = grant.get();
            }
        } catch (RuntimeException | InterruptedException e) {
            event = unknown(of, op, invoked, e);
            of.unanswered = true;
        }
        return event;
    }

    private void note(Try of, Event event) {
        if (event.outcome() == Outcome.DONE) {
            granted(of.claim.name()).add(of);
        }
        history.add(event);
    }

    private void again(Try of) {
        Grant before = of.grant;
        Event event = acquireNow(of, Op.AGAIN);
        history.add(event);
        if (event.outcome() == Outcome.DONE && before == null) {
            granted(of.claim.name()).add(of);
        }
        Grant after = of.grant;
        if (event.outcome() == Outcome.DONE && before != null && after != null && before.token() != after.token()) {
            // Another claim, by all that the store says. They have one owner, so what follows belongs to that.
            Try other = new Try(attempts.getAndIncrement(), of.client, of.claim);
            other.grant = after;
            of.grant = before;
            tries(of.client, of.claim.name()).remove(of);
            tries(of.client, of.claim.name()).add(other);
            granted(of.claim.name()).remove(of);
            granted(of.claim.name()).add(other);
            history.add(event.of(other.number).granted(after.token(), after.since(), event.lease()));
        }
    }

    private void race(String name) throws InterruptedException {
        List<Try> all = new ArrayList<>();
        for (int client = 0; client < clients.size(); client++) {
            Try made = new Try(attempts.getAndIncrement(), client, claim(name));
            all.add(made);
            tries(client, name).add(made);
        }
        List<Event> events = new ArrayList<>();
        if (clock.isVirtual()) {
            all.forEach(t -> events.add(acquireNow(t, Op.ACQUIRE)));
        } else {
            CyclicBarrier start = new CyclicBarrier(all.size());
            Event[] got = new Event[all.size()];
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < all.size(); i++) {
                int at = i;
                Thread thread = new Thread(() -> {
                    try {
                        start.await();
                    } catch (Exception e) {
                        history.failed(e.toString());
                    }
                    got[at] = acquireNow(all.get(at), Op.ACQUIRE);
                });
                thread.start();
                threads.add(thread);
            }
            for (Thread thread : threads) {
                thread.join();
            }
            events.addAll(List.of(got));
        }
        for (int i = 0; i < all.size(); i++) {
            note(all.get(i), events.get(i));
        }
    }

    private void renewAll(int client) {
        List<Try> latest = new ArrayList<>();
        tries.forEach((key, list) -> {
            List<Try> grants = list.stream()
                    .filter(t -> t.grant != null && t.client == client)
                    .toList();
            last(grants, 0).ifPresent(latest::add);
        });
        if (!latest.isEmpty()) {
            renew(client, latest);
        }
    }

    private void renew(int client, List<Try> all) {
        long invoked = clock.now();
        Map<Claim, Grant> live = new HashMap<>();
        Map<Claim, Grant> ended = new HashMap<>();
        Map<Claim, Try> asked = new LinkedHashMap<>();
        List<Grant> grants = new ArrayList<>();
        for (Try each : all) {
            Grant grant = each.grant;
            if (grant != null) {
                grants.add(grant);
                asked.put(each.claim, each);
            }
        }
        @Nullable Exception thrown = null;
        try {
            Renewal renewal = clients.get(client).renew(grants);
            renewal.live().forEach(grant -> live.put(grant.claim(), grant));
            renewal.ended().forEach(grant -> ended.put(grant.claim(), grant));
        } catch (RuntimeException e) {
            thrown = e;
        }
        long returned = clock.now();
        for (Try each : asked.values()) {
            Grant renewed = live.get(each.claim);
            if (renewed != null) {
                history.add(granted(event(each, Op.RENEW, Outcome.DONE, invoked, returned), renewed)
                        .batch(grants.size()));
                each.grant = renewed;
            } else if (ended.containsKey(each.claim)) {
                history.add(event(each, Op.RENEW, Outcome.REFUSED, invoked, returned)
                        .batch(grants.size()));
            } else if (thrown != null) {
                history.add(unknown(each, Op.RENEW, invoked, thrown).batch(grants.size()));
            } else {
                history.add(event(each, Op.RENEW, Outcome.UNKNOWN, invoked, returned)
                        .batch(grants.size()));
            }
        }
    }

    private void release(Try of) {
        of.released = true;
        history.add(release(of, of.claim, Op.RELEASE));
    }

    private void foreignRelease(int client, String name) {
        history.add(release(new Try(-1, client, claim(name)), claim(name), Op.FOREIGN_RELEASE));
    }

    private Event release(Try of, Claim claim, Op op) {
        long invoked = clock.now();
        try {
            boolean live = clients.get(of.client).release(claim);
            return event(of, op, live ? Outcome.DONE : Outcome.REFUSED, invoked, clock.now());
        } catch (RuntimeException e) {
            return unknown(of, op, invoked, e);
        }
    }

    private void foreignRenew(int client, Try of) {
        Grant grant = of.grant;
        if (grant == null) {
            return;
        }
        Grant forged = claim(grant.name()).granted(grant.lease(), grant.token(), grant.since());
        Try foreign = new Try(-1, client, forged.claim());
        long invoked = clock.now();
        try {
            Renewal renewal = clients.get(client).renew(List.of(forged));
            Outcome outcome = !renewal.live().isEmpty()
                    ? Outcome.DONE
                    : renewal.ended().isEmpty() ? Outcome.UNKNOWN : Outcome.REFUSED;
            history.add(event(foreign, Op.FOREIGN_RENEW, outcome, invoked, clock.now()));
        } catch (RuntimeException e) {
            history.add(unknown(foreign, Op.FOREIGN_RENEW, invoked, e));
        }
    }

    private void adopt(int client, Try former, @Nullable Grant held) {
        if (held == null || !outlivesClient) {
            return;
        }
        Try heir = new Try(attempts.getAndIncrement(), client, claim(held.name()));
        adopt(new Heir(former, held, heir));
    }

    private void adopt(Heir heir) {
        Try to = heir.heir;
        long invoked = clock.now();
        try {
            Optional<Grant> grant = clients.get(to.client).adopt(heir.held, to.claim);
            Event event = event(to, Op.ADOPT, grant.isPresent() ? Outcome.DONE : Outcome.REFUSED, invoked, clock.now())
                    .after(heir.former.number);
            if (grant.isPresent()) {
                if (to.grant == null) {
                    tries(to.client, to.claim.name()).add(to);
                    granted(to.claim.name()).add(to);
                    heirs.put(to.claim.name(), heir);
                }
                to.grant = grant.get();
                event = granted(event, grant.get());
            }
            history.add(event);
        } catch (RuntimeException e) {
            heirs.put(to.claim.name(), heir);
            history.add(unknown(to, Op.ADOPT, invoked, e).after(heir.former.number));
        }
    }

    private void access(Try of, Op op) {
        Grant grant = of.grant;
        if (grant == null) {
            return;
        }
        Resource accessed = resources.computeIfAbsent(of.claim.name(), n -> resource.get());
        long now = clock.now();
        Event asked = event(of, op, Outcome.REFUSED, now, now).late(0).granted(grant.token(), 0, 0);
        Event event = op == Op.READ ? accessed.read(asked) : accessed.write(asked);
        if (event != null) {
            history.add(event);
        }
    }

    /** Before the end of the lease that ends first, or after the latest end that the store declares for it. */
    private void edge(int thousandths) throws InterruptedException {
        long now = clock.now();
        long soonest = Long.MAX_VALUE;
        for (List<Try> all : granted.values()) {
            soonest = Math.min(soonest, left(all, thousandths > 0, now));
        }
        if (soonest != Long.MAX_VALUE) {
            clock.sleepUntil(now + soonest + part(thousandths));
        }
    }

    /** Until the lease that ends first does, or has by what the store declares; at most {@link Long#MAX_VALUE}. */
    private long left(List<Try> all, boolean latestEnd, long now) {
        long soonest = Long.MAX_VALUE;
        for (Try each : all) {
            Grant grant = each.grant;
            if (grant != null && !each.released) {
                long freed =
                        clients.get(0).guarantees().freedWithin(grant.lease()).toNanos();
                long end = grant.since()
                        + (latestEnd
                                ? freed + Event.margin(freed)
                                : grant.lease().toNanos());
                if (end - now > 0) {
                    soonest = Math.min(soonest, end - now);
                }
            }
        }
        return soonest;
    }

    private void heal() {
        if (faults != null) {
            faults.heal();
            late = 0;
        }
    }

    private void slow(long by) {
        if (faults != null && late != by) {
            faults.delayReplies(Duration.ofNanos(by));
            late = by;
        }
    }

    private void holdUp(String name, int thousandths) {
        letGo();
        if (faults == null) {
            return;
        }
        Optional<AutoCloseable> held;
        try {
            held = faults.holdUp(name);
        } catch (Exception e) {
            throw new IllegalStateException("Faults.holdUp threw", e);
        }
        if (held.isPresent()) {
            Hold begun = new Hold(name, held.get());
            hold = begun;
            long left = left(granted(name), thousandths > 0, begun.from);
            clock.at(
                    begun.from + (left == Long.MAX_VALUE ? part(Math.abs(thousandths)) : left + part(thousandths)),
                    begun);
        }
    }

    private void letGo() {
        Hold begun = hold;
        hold = null;
        if (begun != null) {
            begun.run();
            Exception thrown = begun.thrown();
            if (thrown != null) {
                throw new IllegalStateException("the end of Faults.holdUp threw", thrown);
            }
        }
    }

    private void cleanUp(Try each) {
        try {
            clients.get(each.client).release(each.claim);
        } catch (RuntimeException e) {
            // It ends by itself, and nobody uses its name again.
        }
    }

    private Event event(Try of, Op op, Outcome outcome, long invoked, long returned) {
        return Event.of(of.client, of.number, of.claim.name(), op, outcome, invoked, returned)
                .granted(0, 0, lease)
                .late(late);
    }

    private static Event granted(Event event, Grant grant) {
        return event.granted(grant.token(), grant.since(), grant.lease().toNanos());
    }

    private Event unknown(Try of, Op op, long invoked, Exception thrown) {
        if (!(thrown instanceof LockStoreException)) {
            history.failed(op + " threw " + thrown);
            if (op == Op.RELEASE) {
                history.broken(new History.Finding(Rule.R2_5, "a release threw " + thrown));
            }
        } else {
            history.unanswered(op, thrown.toString());
        }
        return event(of, op, Outcome.UNKNOWN, invoked, clock.now());
    }
}
