package dev.mortise.lock;

import dev.mortise.lock.Waiter.Terms;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Holder;
import dev.mortise.lock.spi.Renewal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/**
 * Clients with the engine, over a network that breaks, in virtual time; and the rules of the client, looked at all the
 * time. In this package because it looks into the engine; the scenarios are played by {@code SimulationTest}.
 */
public final class World {
    static final Duration LEASE = Duration.ofSeconds(1);
    private static final long MS = 1_000_000;
    private static final long MARGIN = LEASE.toNanos() / 100 + 2 * MS;
    private static final long CALL = SimulatedClient.CALL_TIMEOUT.toNanos();

    private final VirtualTime time = new VirtualTime();
    private final InMemoryBackend store = new InMemoryBackend(time);
    private final WrongClient wrong;
    private final List<SimulatedClient> clients = new ArrayList<>();
    private final List<Sent> sent = new ArrayList<>();
    private final List<Wait> waits = new ArrayList<>();
    private final List<Known> leases = new ArrayList<>();
    private final List<String> broken = new ArrayList<>();
    private final Map<String, Long> freeSince = new HashMap<>();
    private final Set<String> names = new HashSet<>();
    private final Set<String> handedOut = new HashSet<>();
    private final Map<SimulatedClient, Long> faults = new HashMap<>();
    private int adoptions;

    /** Clients that are right, if {@code wrong} is null. */
    public World(int clients, WrongClient wrong) {
        this.wrong = wrong;
        for (int i = 0; i < clients; i++) {
            this.clients.add(new SimulatedClient(i, time, store, network -> {
                Sent record = new Sent(network);
                sent.add(record);
                return WrongClient.door(wrong, record, time::nanoTime, handedOut);
            }));
        }
    }

    /** What was sent for an owner, and which of it was answered: what happened, whatever the client thinks. */
    private final class Sent implements Gateway {
        private final Gateway network;
        final Map<String, Long> asked = new HashMap<>();
        final Map<String, Long> confirmed = new HashMap<>();
        final Map<String, List<Long>> released = new HashMap<>();
        final Set<String> acknowledged = new HashSet<>();
        final Map<String, Long> unknown = new HashMap<>();

        Sent(Gateway network) {
            this.network = network;
        }

        @Override
        public Call acquire(Claim claim, Duration patience, Executor on, Answer<Attempt> done) {
            long now = time.nanoTime();
            asked.put(claim.owner(), now);
            return network.acquire(claim, patience, on, (attempt, error) -> {
                if (error == null && attempt != null) {
                    confirmed.put(claim.owner(), now);
                } else if (Engine.mayHaveTakenEffect(error)) {
                    unknown.putIfAbsent(claim.owner(), time.nanoTime());
                }
                done.come(attempt, error);
            });
        }

        @Override
        public void renew(List<Grant> grants, Executor on, Answer<Renewal> done) {
            long now = time.nanoTime();
            grants.forEach(grant -> asked.put(grant.owner(), now));
            network.renew(grants, on, (renewal, error) -> {
                if (renewal != null) {
                    renewal.live().forEach(grant -> confirmed.put(grant.owner(), now));
                }
                done.come(renewal, error);
            });
        }

        @Override
        public void release(Claim claim, Executor on, Answer<Boolean> done) {
            long now = time.nanoTime();
            released.computeIfAbsent(claim.owner(), o -> new ArrayList<>()).add(now);
            network.release(claim, on, (live, error) -> {
                // One that comes later may have been given up, as the claim, which must have ended by itself.
                if (error == null && time.nanoTime() - now < CALL) {
                    acknowledged.add(claim.owner());
                }
                done.come(live, error);
            });
        }

        @Override
        public void adopt(Grant held, Claim heir, Executor on, Answer<Grant> done) {
            long now = time.nanoTime();
            asked.put(heir.owner(), now);
            network.adopt(held, heir, on, (grant, error) -> {
                if (grant != null) {
                    confirmed.put(heir.owner(), now);
                }
                done.come(grant, error);
            });
        }
    }

    /** An acquire under way. */
    private static final class Wait {
        final SimulatedClient client;
        final String name;
        final long asked;
        final long patience;
        final CompletableFuture<Optional<Lease>> future;
        boolean disturbed;
        boolean evicted;

        Wait(
                SimulatedClient client,
                String name,
                long asked,
                long patience,
                boolean disturbed,
                CompletableFuture<Optional<Lease>> future) {
            this.client = client;
            this.name = name;
            this.asked = asked;
            this.patience = patience;
            this.future = future;
            this.disturbed = disturbed;
        }
    }

    /** A lease that a user has. */
    private final class Known {
        final SimulatedClient client;
        final Lease lease;
        boolean over;
        boolean released;
        boolean evicted;
        boolean disturbed;
        boolean told;
        boolean judged;
        long evictedAt;

        Known(SimulatedClient client, Lease lease) {
            this.client = client;
            this.lease = lease;
            this.disturbed = !client.fates.isEmpty() || client.isStopped();
            if (wrong != WrongClient.NOT_TOLD) {
                lease.onLoss(loss -> told = true);
            } else {
                lease.onLoss(loss -> {});
            }
        }

        /** What isHeld() answers, without asking a process that stands still. */
        boolean isHeld(long now) {
            Hold hold = lease.hold;
            if (wrong == WrongClient.NO_DEADLINE) {
                return hold.state == Hold.State.HELD;
            }
            if (wrong == WrongClient.REVIVED && hold.state == Hold.State.LOST) {
                Sent calls = sent.get(client.number);
                long confirmed = calls.confirmed.getOrDefault(hold.claim.owner(), 0L);
                return !told || now < confirmed + LEASE.toNanos() - MARGIN;
            }
            return hold.state == Hold.State.HELD && now - hold.end < 0;
        }
    }

    /** What a user does with a resource: under which lease. */
    public record Access(int attempt, long token, long now) {}

    // ------------------------------------------------------------------------------------------------------ steps

    public void acquire(int client, String name, long patience) {
        SimulatedClient of = clients.get(client);
        if (of.isStopped()) {
            return;
        }
        names.add(name);
        long asked = wrong == WrongClient.PATIENCE_FOR_EACH_TRY && patience > 0 ? patience + 2 * CALL : patience;
        waits.add(new Wait(
                of,
                name,
                time.nanoTime(),
                patience,
                // Before the call, which takes the next fate; and calls of before may still be under way.
                !of.fates.isEmpty() || time.nanoTime() < faults.getOrDefault(of, 0L),
                of.engine.waiters.acquireAsync(name, new Terms(LEASE, Nanos.FOREVER), asked)));
    }

    public void release(int client, String name) {
        held(client, name).ifPresent(this::release);
    }

    private void release(Known known) {
        known.released = true;
        CompletableFuture<Boolean> unused =
                known.client.engine.release(known.lease.hold, task -> time.schedule(Duration.ZERO, task));
    }

    private Optional<Known> held(int client, String name) {
        return leases.stream()
                .filter(l -> l.client.number == client && l.lease.name().equals(name) && l.isHeld(time.nanoTime()))
                .findFirst();
    }

    public void fate(int client, int which) {
        SimulatedClient of = clients.get(client);
        of.fates.add(List.of(SimulatedClient.Fate.values()).get(which));
        disturb(of);
    }

    public void stop(int client, long nanos) {
        clients.get(client).stop(Duration.ofNanos(nanos));
        disturb(clients.get(client));
    }

    private void disturb(SimulatedClient client) {
        faults.put(client, time.nanoTime() + 20 * CALL);
        leases.stream().filter(l -> l.client == client).forEach(l -> l.disturbed = true);
        waits.stream().filter(w -> w.client == client).forEach(w -> w.disturbed = true);
    }

    public void evict(String name) {
        Optional<Holder> holder = store.holder(name);
        store.evict(name);
        long now = time.nanoTime();
        for (Known each : leases) {
            if (each.lease.name().equals(name) && !each.evicted) {
                each.evicted = true;
                if (holder.isPresent() && holder.get().token() == each.lease.token()) {
                    each.evictedAt = now;
                }
            }
        }
        waits.stream().filter(w -> w.name.equals(name)).forEach(w -> w.evicted = true);
    }

    public void cancel(int client) {
        waits.stream()
                .filter(w -> w.client.number == client && !w.client.isStopped())
                .toList()
                .forEach(w -> w.future.cancel(true));
    }

    /** The holder of the name hands its lease over to this client. */
    public void handOver(int client, String name) {
        SimulatedClient heir = clients.get(client);
        long now = time.nanoTime();
        Optional<Known> holder = leases.stream()
                .filter(l -> l.lease.name().equals(name) && l.isHeld(now) && l.lease.isHeld())
                .findFirst();
        if (holder.isEmpty()
                || heir.isStopped()
                || heir.fates.contains(SimulatedClient.Fate.HUNG)
                || holder.get().client.isStopped()
                || !holder.get().client.fates.isEmpty()) {
            return;
        }
        try {
            String ticket = holder.get().lease.detach();
            heir.engine
                    .adopt(Ticket.parse(ticket), ticket, new Terms(LEASE, Nanos.FOREVER))
                    .ifPresent(lease -> {
                        adoptions++;
                        Known known = new Known(heir, lease);
                        handedOut.add(lease.hold.claim.owner());
                        known.evicted = holder.get().evicted;
                        known.disturbed = true;
                        leases.add(known);
                    });
        } catch (LockException | IllegalStateException | AssertionError e) {
            // Not confirmed, or without an answer: nothing was handed over that anybody knows of.
        }
    }

    public Optional<Access> access(int client, String name) {
        SimulatedClient of = clients.get(client);
        for (int i = leases.size() - 1; i >= 0 && !of.isStopped(); i--) {
            Known known = leases.get(i);
            if (known.client == of && known.lease.name().equals(name)) {
                return Optional.of(new Access(i, known.lease.token(), time.nanoTime()));
            }
        }
        return Optional.empty();
    }

    /** To the deadline that comes first, and so much further or less. */
    public void edge(long nanos) {
        long now = time.nanoTime();
        long end = leases.stream()
                .filter(l -> l.isHeld(now))
                .mapToLong(l -> l.lease.hold.end - now)
                .filter(left -> left > 0)
                .min()
                .orElse(0);
        if (end > 0 && end + nanos > 0) {
            advance(end + nanos);
        }
    }

    /** In small steps, so that what is broken for a moment only is seen too. */
    public void advance(long nanos) {
        long until = time.nanoTime() + nanos;
        while (time.nanoTime() < until) {
            time.advance(Duration.ofNanos(Math.min(10 * MS, until - time.nanoTime())));
            check();
        }
    }

    // ------------------------------------------------------------------------------------------------------ rules

    private void rule(String rule, boolean holds, String what) {
        if (!holds && broken.size() < 100) {
            broken.add(rule + " at " + time.nanoTime() / MS + " ms: " + what);
        }
    }

    private void check() {
        long now = time.nanoTime();
        for (Wait wait : List.copyOf(waits)) {
            if (wait.future.isDone()) {
                waits.remove(wait);
                if (!wait.future.isCompletedExceptionally()) {
                    wait.future.join().ifPresent(lease -> {
                        Known known = new Known(wait.client, lease);
                        handedOut.add(lease.hold.claim.owner());
                        known.evicted = wait.evicted;
                        known.disturbed |= wait.disturbed;
                        known.over = !known.isHeld(now);
                        leases.add(known);
                    });
                }
            } else if (!wait.disturbed) {
                rule(
                        "C4.1",
                        now - wait.asked <= wait.patience + CALL + 20 * MS,
                        "a wait of client " + wait.client.number + " goes on " + (now - wait.asked) / MS
                                + " ms after its call");
            }
        }
        Map<String, Known> holders = new HashMap<>();
        for (Known known : leases) {
            look(known, now, holders);
        }
        for (String name : names) {
            if (store.holder(name).isPresent()) {
                freeSince.remove(name);
                continue;
            }
            long since = freeSince.computeIfAbsent(name, n -> now);
            for (Wait wait : waits) {
                rule(
                        "C4.2",
                        behindFault(wait) || !wait.name.equals(name) || now - Math.max(since, wait.asked) < 2 * CALL,
                        "client " + wait.client.number + " waits for a lock that is free");
            }
        }
        for (SimulatedClient client : clients) {
            rule("C7.3", client.faults.stream().noneMatch(f -> f.contains("owner")), client.faults.toString());
            rule("engine", client.faults.stream().allMatch(f -> f.contains("owner")), client.faults.toString());
        }
    }

    /** In the line of a client with a fault, who is well may stand behind who is not. */
    private boolean behindFault(Wait wait) {
        return waits.stream().anyMatch(w -> w.client == wait.client && w.disturbed);
    }

    private void look(Known known, long now, Map<String, Known> holders) {
        Hold hold = known.lease.hold;
        boolean held = known.isHeld(now);
        String who = known.lease + " of client " + known.client.number;
        if (held && !known.evicted) {
            Known other = holders.put(known.lease.name(), known);
            rule("C1.1", other == null, "two holders: " + who + (other == null ? "" : " and " + other.lease));
        }
        Sent calls = sent.get(known.client.number);
        Long asked = calls.asked.get(hold.claim.owner());
        Long confirmed = calls.confirmed.get(hold.claim.owner());
        if (asked != null && confirmed != null) {
            rule("C3.1", hold.end <= asked + LEASE.toNanos() - MARGIN, "the deadline of " + who + " is late");
            rule("C3.6", hold.end <= confirmed + LEASE.toNanos() - MARGIN, "lengthened without an answer: " + who);
        }
        rule("C3.2", !held || now < hold.end, "held after the deadline: " + who);
        rule(
                "C3.2",
                known.client.isStopped() || now < hold.end || hold.state != Hold.State.HELD,
                "not noticed after the deadline: " + who);
        rule("C3.3", !known.over || !held, "held again: " + who);
        if (hold.state == Hold.State.LOST && !known.judged) {
            known.judged = true;
            rule("C3.4", known.disturbed || known.evicted, "lost, though all was well: " + who);
            boolean early =
                    known.lease.loss().isPresent() && known.lease.loss().get().reason() == Loss.Reason.REVOKED;
            rule("C3.6", known.evicted || !early, "lost before its deadline, and nobody had ended it: " + who);
        }
        if (held && known.evictedAt > 0 && !known.disturbed) {
            rule(
                    "C3.5",
                    now - known.evictedAt < LEASE.toNanos() / 3 + LEASE.toNanos() / 10,
                    "still held " + (now - known.evictedAt) / MS + " ms after it was taken away: " + who);
        }
        known.over |= !held;
    }

    /** Faults end, and time passes: what must have happened by then? The rules that were broken. */
    public List<String> quiesce() {
        clients.forEach(client -> client.fates.clear());
        advance(4_000 * MS);
        for (Known known : List.copyOf(leases)) {
            if (known.isHeld(time.nanoTime()) && known.lease.hold.state == Hold.State.HELD) {
                release(known);
            }
        }
        advance(20 * MS);
        waits.forEach(wait -> wait.future.cancel(true));
        advance(6_000 * MS);
        for (Known known : leases) {
            String who = known.lease + " of client " + known.client.number;
            boolean lost = known.lease.hold.state == Hold.State.LOST;
            rule(
                    "C3.2",
                    known.told == lost,
                    (lost ? "never told of its loss: " : "told of a loss that was none: ") + who);
            if (lost || known.released) {
                rule(
                        "C7.4",
                        sent.get(known.client.number).released.containsKey(known.lease.hold.claim.owner()),
                        "never released in the store: " + who);
            }
        }
        for (Sent calls : sent) {
            calls.unknown.forEach((owner, at) -> {
                List<Long> released = calls.released.getOrDefault(owner, List.of());
                rule("C7.1", !released.isEmpty(), "never undone: an acquire without an answer");
                if (calls.acknowledged.contains(owner)) {
                    rule(
                            "C7.2",
                            released.get(released.size() - 1) - released.get(0) >= LEASE.toNanos() - 10 * MS,
                            "undone, and not once more a lease later: an acquire that may still arrive");
                }
            });
        }
        for (String name : names) {
            rule("C7.4", store.holder(name).isEmpty(), "somebody still holds " + name + " in the store");
        }
        return broken;
    }

    /** How much was reached. */
    public record Reached(int leases, int losses, int handOvers) {
        public Reached plus(Reached more) {
            return new Reached(leases + more.leases, losses + more.losses, handOvers + more.handOvers);
        }
    }

    public Reached reached() {
        int losses = (int) leases.stream()
                .filter(l -> l.lease.hold.state == Hold.State.LOST)
                .count();
        return new Reached(leases.size(), losses, adoptions);
    }
}
