package dev.mortise.lock;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.Waiter.Terms;
import dev.mortise.lock.spi.Claim;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * The engine under generated schedules: three clients, two names, calls that are lost, late, hung, refused or answered
 * with nonsense, processes that are stopped and continued, claims removed by an administrator, futures cancelled, leases
 * handed over. After each step and at the end the rules of the engine hold. A failure names its seed, which alone makes
 * the same schedule again.
 */
class ScheduleTest {
    private static final int SCHEDULES = Integer.getInteger("mortise.schedules", 5_000);
    private static final int STEPS = 40;
    private static final String[] NAMES = {"a", "b"};
    private static final long[] WAITS = {1, 3, 10, 50, 150, 340, 700, 990, 1200, 2500};
    private static final Duration LEASE = Duration.ofSeconds(1);

    // Undone claims that nobody answers for are told in the log, by the thousand here.
    private final Logger log = Logger.getLogger("dev.mortise.lock");

    @BeforeEach
    void quiet() {
        log.setLevel(Level.OFF);
    }

    @AfterEach
    void loud() {
        log.setLevel(null);
    }

    @Test
    void noScheduleBreaksARule() {
        int grants = 0;
        int losses = 0;
        int adoptions = 0;
        for (int seed = 0; seed < SCHEDULES; seed++) {
            Schedule schedule = new Schedule(seed);
            try {
                schedule.run();
            } catch (RuntimeException | AssertionError e) {
                throw new AssertionError("seed " + seed + " after\n" + String.join("\n", schedule.log), e);
            }
            grants += schedule.leases.size();
            losses += schedule.losses();
            adoptions += schedule.adoptions;
        }
        System.out.println(SCHEDULES + " schedules: " + grants + " grants, " + losses + " losses, " + adoptions
                + " hand-overs, no rule broken");
        // The schedules would prove little if they did not reach the rules.
        assertThat(grants).isGreaterThan(SCHEDULES);
        assertThat(losses).isGreaterThan(SCHEDULES / 10);
        assertThat(adoptions).isGreaterThan(SCHEDULES / 100);
    }

    private static final class Schedule {
        final SplittableRandom random;
        final VirtualTime world = new VirtualTime();
        final InMemoryBackend store = new InMemoryBackend(world);
        final List<SimulatedClient> clients = new ArrayList<>();
        final List<Wait> waits = new ArrayList<>();
        final List<Known> leases = new ArrayList<>();
        final List<String[]> tickets = new ArrayList<>();
        final List<String> log = new ArrayList<>();
        int adoptions;

        Schedule(long seed) {
            random = new SplittableRandom(seed);
            for (int i = 0; i < 3; i++) {
                clients.add(new SimulatedClient(i, world, store));
            }
        }

        /** An acquire under way. */
        private final class Wait {
            final SimulatedClient client;
            final String name;
            final long asked = world.nanoTime();
            final long patience;
            final long largestToken;
            final CompletableFuture<Optional<Lease>> future;
            final boolean bounded;
            boolean disturbed;
            boolean evicted;

            Wait(SimulatedClient client, String name, Duration patience, Terms terms) {
                this.client = client;
                this.name = name;
                this.patience = patience.toNanos();
                this.bounded = terms.holdAtMost() != Nanos.FOREVER;
                this.disturbed = !client.fates.isEmpty() || client.isStopped();
                this.largestToken = leases.stream()
                        .filter(l -> l.lease.name().equals(name))
                        .mapToLong(l -> l.lease.token())
                        .max()
                        .orElse(0);
                this.future = client.engine.waiters.acquireAsync(name, terms, this.patience);
            }
        }

        /** A lease that was handed to the user. */
        private static final class Known {
            final SimulatedClient client;
            final Lease lease;
            final boolean bounded;
            boolean over; // was seen not to be held
            boolean evicted;
            boolean disturbed;
            boolean told;

            Known(SimulatedClient client, Lease lease, boolean bounded) {
                this.client = client;
                this.lease = lease;
                this.bounded = bounded;
                lease.onLoss(loss -> told = true);
            }

            /** As isHeld() would answer, without asking the process, which may be stopped. */
            boolean counts(long now) {
                return lease.hold.state == Hold.State.HELD && now - lease.hold.end < 0;
            }
        }

        int losses() {
            return (int) leases.stream().filter(l -> l.lease.hold.loss != null).count();
        }

        void run() {
            for (int i = 0; i < STEPS; i++) {
                step();
                check();
            }
            quiesce();
        }

        private void step() {
            SimulatedClient client = clients.get(random.nextInt(clients.size()));
            String name = NAMES[random.nextInt(4) == 0 ? 1 : 0];
            int kind = random.nextInt(100);
            if (kind < 28) {
                if (!client.isStopped()) {
                    Duration patience =
                            Duration.ofMillis(random.nextInt(3) == 0 ? 0 : WAITS[random.nextInt(WAITS.length)]);
                    long most = random.nextInt(6) == 0 ? 1_500_000_000L : Nanos.FOREVER;
                    say("acquire " + client.number + " " + name + " patience " + patience + " most " + most);
                    waits.add(new Wait(client, name, patience, new Terms(LEASE, most)));
                }
            } else if (kind < 40) {
                pick(client, name).ifPresent(known -> {
                    say("release " + client.number + " " + known.lease);
                    release(known);
                });
            } else if (kind < 60) {
                advance(Duration.ofMillis(WAITS[random.nextInt(WAITS.length)]));
            } else if (kind < 66) {
                edge();
            } else if (kind < 80) {
                SimulatedClient.Fate[] all = SimulatedClient.Fate.values();
                int many = 1 + random.nextInt(3);
                for (int i = 0; i < many; i++) {
                    client.fates.add(all[random.nextInt(all.length)]);
                }
                say("fates " + client.number + " " + client.fates);
                disturb(client);
            } else if (kind < 85) {
                Duration time = Duration.ofMillis(WAITS[random.nextInt(WAITS.length)]);
                say("stop " + client.number + " for " + time);
                client.stop(time);
                disturb(client);
            } else if (kind < 89) {
                say("evict " + name);
                store.evict(name);
                leases.stream().filter(l -> l.lease.name().equals(name)).forEach(l -> l.evicted = true);
                // One may have been granted without its caller knowing yet.
                waits.stream().filter(w -> w.name.equals(name)).forEach(w -> w.evicted = true);
            } else if (kind < 94) {
                if (!waits.isEmpty()) {
                    Wait wait = waits.get(random.nextInt(waits.size()));
                    if (!wait.client.isStopped()) {
                        say("cancel " + wait.client.number + " " + wait.name);
                        wait.future.cancel(true);
                    }
                }
            } else if (kind < 97) {
                pick(client, name).ifPresent(known -> {
                    if (!known.client.isStopped() && known.client.fates.isEmpty()) {
                        say("detach " + client.number + " " + known.lease);
                        try {
                            tickets.add(new String[] {known.lease.name(), known.lease.detach()});
                        } catch (LockException | IllegalStateException e) {
                            say("  refused: " + e.getMessage());
                        }
                    }
                });
            } else if (!tickets.isEmpty() && !client.isStopped()) {
                String[] ticket = tickets.get(random.nextInt(tickets.size()));
                say("adopt " + client.number + " " + ticket[0]);
                if (!client.fates.contains(SimulatedClient.Fate.HUNG)) { // adopt has no way round a backend that hangs
                    try {
                        client.engine
                                .adopt(Ticket.parse(ticket[1]), ticket[1], new Terms(LEASE, Nanos.FOREVER))
                                .ifPresent(lease -> {
                                    adoptions++;
                                    took(client, lease, 0, false, false);
                                });
                    } catch (LockStoreException e) {
                        say("  unknown: " + e.getMessage());
                    } catch (AssertionError e) {
                        assertThat(e).hasMessage("a bug of the backend");
                    }
                }
            }
        }

        private void release(Known known) {
            CompletableFuture<Boolean> unused =
                    known.client.engine.release(known.lease.hold, task -> world.schedule(Duration.ZERO, task));
        }

        private void say(String what) {
            log.add(world.nanoTime() / 1_000 + " us: " + what);
        }

        private void disturb(SimulatedClient client) {
            leases.stream().filter(l -> l.client == client).forEach(l -> l.disturbed = true);
            waits.stream().filter(w -> w.client == client).forEach(w -> w.disturbed = true);
        }

        private Optional<Known> pick(SimulatedClient client, String name) {
            return leases.stream()
                    .filter(l -> l.client == client && l.lease.name().equals(name) && l.counts(world.nanoTime()))
                    .findFirst();
        }

        /** To the edge of some holder's deadline, where mistakes show. */
        private void edge() {
            long now = world.nanoTime();
            long end = leases.stream()
                    .filter(l -> l.counts(now))
                    .mapToLong(l -> l.lease.hold.end - now)
                    .min()
                    .orElse(0);
            long to = end - 6_000_000 + random.nextInt(12) * 1_000_000L;
            if (to > 0) {
                advance(Duration.ofNanos(to));
            }
        }

        private void advance(Duration by) {
            // In small steps, so that a rule that is broken for a moment only is seen too.
            say("advance " + by);
            long until = world.nanoTime() + by.toNanos();
            while (world.nanoTime() < until) {
                world.advance(Duration.ofNanos(Math.min(10_000_000, until - world.nanoTime())));
                check();
            }
        }

        private void took(SimulatedClient client, Lease lease, long largestBefore, boolean bounded, boolean evicted) {
            Known known = new Known(client, lease, bounded);
            known.evicted = evicted;
            known.disturbed = !client.fates.isEmpty() || client.isStopped();
            say("  " + client.number + " holds " + lease);
            assertThat(lease.token())
                    .as("a token is larger than all that were known at the call")
                    .isGreaterThan(largestBefore);
            for (Known other : leases) {
                if (other.lease.name().equals(lease.name())) {
                    assertThat(other.lease.token()).as("a token is unique").isNotEqualTo(lease.token());
                }
            }
            known.over = !known.counts(world.nanoTime());
            leases.add(known);
        }

        /** By hand and not with AssertJ: this runs a million times. */
        private void check() {
            long now = world.nanoTime();
            for (Wait wait : List.copyOf(waits)) {
                if (wait.future.isDone()) {
                    waits.remove(wait);
                    if (!wait.future.isCompletedExceptionally()) {
                        wait.future
                                .join()
                                .ifPresent(lease ->
                                        took(wait.client, lease, wait.largestToken, wait.bounded, wait.evicted));
                    }
                } else {
                    rule(
                            wait.disturbed
                                    || now - wait.asked
                                            <= wait.patience + SimulatedClient.CALL_TIMEOUT.toNanos() + 20_000_000,
                            "a wait ends within its patience and the call timeout",
                            wait.name);
                }
            }
            Map<String, Known> holders = new HashMap<>();
            for (Known known : leases) {
                boolean counts = known.counts(now);
                if (counts && !known.evicted) {
                    Known other = holders.put(known.lease.name(), known);
                    rule(other == null, "two holders at a time", known.lease);
                }
                rule(!known.over || !counts, "a lost lease does not come back", known.lease);
                known.over |= !counts;
                Hold.State state = known.lease.hold.state;
                rule(
                        known.client.isStopped() || now - known.lease.hold.end <= 0 || state != Hold.State.HELD,
                        "a running process has noticed the end",
                        known.lease);
                rule(
                        known.disturbed || known.evicted || known.bounded || state != Hold.State.LOST,
                        "an undisturbed holder keeps its lease",
                        known.lease);
            }
            for (SimulatedClient client : clients) {
                rule(client.faults.isEmpty(), "what the engine may never do", client.faults);
            }
        }

        private static void rule(boolean holds, String what, Object whom) {
            if (!holds) {
                throw new AssertionError(what + ": " + whom);
            }
        }

        /** Faults end, holders release, and nothing is left: not in the store, and not in the engines. */
        private void quiesce() {
            say("quiesce");
            clients.forEach(client -> client.fates.clear());
            advance(Duration.ofSeconds(4));
            for (Known known : leases) {
                if (known.counts(world.nanoTime())) {
                    release(known);
                }
            }
            advance(Duration.ofMillis(20));
            waits.forEach(wait -> wait.future.cancel(true));
            advance(Duration.ofSeconds(6));
            for (Known known : leases) {
                assertThat(known.told)
                        .as("the holder was told of its loss: " + known.lease)
                        .isEqualTo(known.lease.hold.state == Hold.State.LOST);
            }
            for (String name : NAMES) {
                assertThat(store.holder(name))
                        .as("nobody holds " + name + " in the store")
                        .isEmpty();
                Claim probe = Claim.of(name, "probe", LEASE);
                assertThat(store.acquire(probe, Duration.ZERO).grant()).isPresent();
            }
            for (SimulatedClient client : clients) {
                assertThat(client.engine.contents())
                        .isEqualTo("holds 0, lines 0, others 0, undos 0, heirs 0, alarms 0");
            }
        }
    }
}
