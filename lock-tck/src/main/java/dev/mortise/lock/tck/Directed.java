package dev.mortise.lock.tck;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** What scenarios cannot show: the declaration, names, and waits, in real time and with threads. */
final class Directed {
    private final Store store;
    private final Delays delays;
    private final String prefix;
    private final boolean alone;

    private Directed(Store store, Delays delays, String prefix, boolean alone) {
        this.store = store;
        this.delays = delays;
        this.prefix = prefix;
        this.alone = alone;
    }

    /** A test of one rule; what it throws is what it saw. */
    private interface Test {
        void run(Directed kit) throws Exception;
    }

    private static final Map<Rule, Test> TESTS = new EnumMap<>(Map.ofEntries(
            Map.entry(Rule.R0_1, Directed::declaration),
            Map.entry(Rule.R0_2, Directed::outlivesClient),
            Map.entry(Rule.R0_3, Directed::close),
            Map.entry(Rule.R1_3, Directed::namesDiffer),
            Map.entry(Rule.R1_4, Directed::namesWork),
            Map.entry(Rule.R4_1, Directed::zeroPatience),
            Map.entry(Rule.R4_2, Directed::patience),
            Map.entry(Rule.R4_3, Directed::nobodyIsForgotten),
            Map.entry(Rule.R4_4, Directed::refusalLeavesNothing),
            Map.entry(Rule.R4_5, Directed::interruptLeavesNothing),
            Map.entry(Rule.R4_6, Directed::longWait)));

    static boolean has(Rule rule) {
        return TESTS.containsKey(rule);
    }

    /**
     * What was seen that breaks the rule, or null.
     *
     * @param prefix of all names
     * @param alone whether names without it can be tried too
     */
    static @Nullable String broken(Rule rule, Store store, Delays delays, String prefix, boolean alone)
            throws Exception {
        Test test = TESTS.get(rule);
        if (test == null) {
            return null;
        }
        try {
            test.run(new Directed(store, delays, prefix, alone));
            return null;
        } catch (Broken e) {
            return e.getMessage();
        } catch (LockStoreException e) {
            return "a store that is well did not answer: " + e;
        }
    }

    private static final class Broken extends Exception {
        private static final long serialVersionUID = 1;

        Broken(String what) {
            super(what);
        }
    }

    private static void require(boolean holds, String what) throws Broken {
        if (!holds) {
            throw new Broken(what);
        }
    }

    // ------------------------------------------------------------------------------------------------- declaration

    private void declaration() throws Exception {
        try (LockBackend client = store.connect()) {
            Guarantees g = client.guarantees();
            require(
                    g.toString().equals(client.guarantees().toString()),
                    "two calls answered differently: " + g + " and " + client.guarantees());
            require(
                    !g.shortestLease().isNegative()
                            && !g.shortestLease().isZero()
                            && g.shortestLease().compareTo(g.longestLease()) <= 0,
                    "leases from " + g.shortestLease() + " to " + g.longestLease());
            require(!g.granularity().isNegative() && !g.granularity().isZero(), "a granularity of " + g.granularity());
            for (Duration lease : List.of(g.shortestLease(), delays.shortLease(g, 1), delays.longLease(g))) {
                require(
                        g.freedWithin(lease).compareTo(lease) >= 0,
                        "a lease of " + lease + " freed within " + g.freedWithin(lease));
            }
        }
    }

    private void outlivesClient() throws Exception {
        try (LockBackend one = store.connect();
                LockBackend other = store.connect()) {
            Guarantees g = one.guarantees();
            Claim claim = claim(name("outlives"), delays.longLease(g));
            Grant grant = granted(one, claim);
            Claim heir = claim(claim.name(), claim.lease());
            if (!g.outlivesClient()) {
                try {
                    Optional<Grant> adopted = other.adopt(grant, heir);
                    throw new Broken("outlivesClient is not declared, and adopt answered " + adopted);
                } catch (IllegalStateException e) {
                    return;
                } finally {
                    other.release(heir);
                    one.release(claim);
                }
            }
            one.close();
            Attempt attempt = other.acquire(claim(claim.name(), claim.lease()), Duration.ZERO);
            long deadline = grant.since()
                    + grant.lease().toNanos()
                    - Event.margin(grant.lease().toNanos());
            require(
                    attempt.grant().isEmpty() || System.nanoTime() >= deadline,
                    "outlivesClient is declared, and another got the lock right after the close of its holder's client");
            require(
                    other.adopt(grant, heir).isPresent() || System.nanoTime() >= deadline,
                    "outlivesClient is declared, and a claim whose client was closed had no heir");
            other.release(heir);
        }
    }

    private void close() throws Exception {
        try (LockBackend other = store.connect()) {
            Grant held = granted(other, claim(name("close"), delays.longLease(other.guarantees())));
            LockBackend one = store.connect();
            one.acquire(claim(held.name(), held.lease()), Duration.ZERO);
            one.close();
            try {
                one.close();
            } catch (RuntimeException e) {
                throw new Broken("the second close threw " + e);
            }
            String what = "after the close of another client, ";
            try {
                require(other.renew(List.of(held)).ended().isEmpty() || overdue(held), what + "a live claim had ended");
                require(other.release(held.claim()) || overdue(held), what + "a live claim was gone at its release");
            } catch (RuntimeException e) {
                throw new Broken(what + "a call threw " + e);
            }
        }
    }

    // ------------------------------------------------------------------------------------------------------- names

    private void namesDiffer() throws Exception {
        try (LockBackend one = store.connect();
                LockBackend other = store.connect()) {
            Duration lease = delays.longLease(one.guarantees());
            for (String[] pair : Names.pairs(name(""), alone)) {
                Claim first = claim(pair[0], lease);
                Claim second = claim(pair[1], lease);
                String both = Names.show(pair[0]) + " and " + Names.show(pair[1]);
                try {
                    Attempt a = one.acquire(first, Duration.ZERO);
                    Attempt b = other.acquire(second, Duration.ZERO);
                    require(a.grant().isPresent() && b.grant().isPresent(), "not held at a time: " + both);
                    require(one.release(first), "release of the first did not find it: " + both);
                    require(
                            other.renew(List.of(b.grant().get())).ended().isEmpty(),
                            "release of the first ended the second: " + both);
                } catch (RuntimeException e) {
                    throw new Broken(both + ": " + e);
                } finally {
                    one.release(first);
                    other.release(second);
                }
            }
        }
    }

    private void namesWork() throws Exception {
        try (LockBackend client = store.connect();
                LockBackend other = store.connect()) {
            Duration lease = delays.longLease(client.guarantees());
            for (String name : Names.odd(name(""), alone)) {
                Claim claim = claim(name, lease);
                try {
                    require(
                            client.acquire(claim, Duration.ZERO).grant().isPresent(),
                            "free, and not granted: " + Names.show(name));
                    require(
                            other.acquire(claim(name, lease), Duration.ZERO)
                                    .grant()
                                    .isEmpty(),
                            "granted twice: " + Names.show(name));
                    require(client.release(claim), "held, and not found by release: " + Names.show(name));
                } catch (RuntimeException e) {
                    throw new Broken(Names.show(name) + ": " + e);
                }
            }
        }
    }

    // ------------------------------------------------------------------------------------------------------- waits

    private void zeroPatience() throws Exception {
        try (LockBackend one = store.connect();
                LockBackend other = store.connect()) {
            Claim held = claim(name("zero"), delays.longLease(one.guarantees()));
            granted(one, held);
            Claim claim = claim(held.name(), held.lease());
            Call call = new Call(() -> other.acquire(claim, Duration.ZERO));
            try {
                Attempt attempt = call.within(delays.longest(), "acquire with zero patience waits on a held lock");
                require(attempt.grant().isEmpty(), "granted although held");
            } finally {
                call.stop();
                other.release(claim);
                one.release(held);
            }
        }
    }

    private void patience() throws Exception {
        try (LockBackend one = store.connect();
                LockBackend other = store.connect()) {
            Claim held = claim(name("patience"), delays.longLease(one.guarantees()));
            granted(one, held);
            Claim claim = claim(held.name(), held.lease());
            Call call = new Call(() -> other.acquire(claim, delays.shortLease()));
            try {
                Attempt attempt = call.within(
                        delays.longest(), "acquire with a patience of " + delays.shortLease() + " has not come back");
                require(attempt.grant().isEmpty(), "granted although held");
            } finally {
                call.stop();
                other.release(claim);
                one.release(held);
            }
        }
    }

    private void nobodyIsForgotten() throws Exception {
        try (LockBackend one = store.connect();
                LockBackend other = store.connect()) {
            for (int round = 0; round < 4; round++) {
                boolean expires = round == 3;
                Duration lease = expires ? delays.shortLease(one.guarantees(), 1) : delays.longLease(one.guarantees());
                Claim held = claim(name("wait"), lease);
                granted(one, held);
                Waiter waiter = new Waiter(other, held.name(), delays.longLease(one.guarantees()), delays.longest());
                Call call = new Call(waiter::untilGranted);
                try {
                    waiter.hasBegun();
                    // At once, and when it has settled: a wake-up can be lost before and after it listens.
                    TimeUnit.NANOSECONDS.sleep(round * delays.shortLease().toNanos() / 3);
                    if (!expires) {
                        one.release(held);
                    }
                    Attempt attempt = call.within(
                            delays.longest().plus(delays.longest()), "a waiter has not come back from its wait");
                    require(
                            attempt.grant().isPresent(),
                            "a waiter with a patience of " + delays.longest() + " got nothing, although the lock was "
                                    + (expires ? "left to itself" : "released") + " right after it began to wait");
                } finally {
                    call.stop();
                    waiter.release();
                    one.release(held);
                }
            }
        }
    }

    private void refusalLeavesNothing() throws Exception {
        try (LockBackend one = store.connect();
                LockBackend other = store.connect();
                LockBackend third = store.connect()) {
            Claim held = claim(name("refused"), delays.longLease(one.guarantees()));
            granted(one, held);
            Claim refused = claim(held.name(), held.lease());
            Call call = new Call(() -> other.acquire(refused, delays.shortLease()));
            try {
                Attempt attempt = call.within(delays.longest(), "acquire has not come back");
                require(attempt.grant().isEmpty(), "granted although held");
                one.release(held);
                free(third, held.name(), "after a refused wait");
            } finally {
                call.stop();
                other.release(refused);
                one.release(held);
            }
        }
    }

    private void interruptLeavesNothing() throws Exception {
        // On a busy machine the first may be interrupted before it waits.
        interruptLeavesNothing(1);
        interruptLeavesNothing(6);
    }

    private void interruptLeavesNothing(int times) throws Exception {
        try (LockBackend one = store.connect();
                LockBackend other = store.connect();
                LockBackend third = store.connect()) {
            Claim held = claim(name("interrupt"), delays.longLease(one.guarantees()));
            granted(one, held);
            Claim waiting = claim(held.name(), held.lease());
            Call call = new Call(() -> other.acquire(waiting, delays.longest().plus(delays.longest())));
            try {
                TimeUnit.NANOSECONDS.sleep(times * delays.shortLease().toNanos() / 3);
                call.stop();
                call.end(delays.longest(), "an interrupted acquire has not come back");
            } finally {
                other.release(waiting);
                one.release(held);
            }
            free(third, held.name(), "after an interrupted wait and its release");

            // Interrupted before the call, on a lock that is free.
            Claim claim = claim(name("interrupt"), held.lease());
            Call early = new Call(() -> {
                Thread.currentThread().interrupt();
                return other.acquire(claim, Duration.ZERO);
            });
            early.end(delays.longest(), "an acquire of an interrupted thread has not come back");
            other.release(claim);
            free(third, claim.name(), "after an acquire by an interrupted thread and its release");
        }
    }

    private void longWait() throws Exception {
        try (LockBackend one = store.connect();
                LockBackend other = store.connect();
                LockBackend third = store.connect()) {
            Guarantees g = one.guarantees();
            Duration shortLease = delays.shortLease(g, 1);
            Claim held = claim(name("long"), delays.longLease(g));
            granted(one, held);
            Waiter waiter = new Waiter(other, held.name(), shortLease, delays.longest());
            Call call = new Call(waiter::untilGranted);
            try {
                waiter.hasBegun();
                TimeUnit.NANOSECONDS.sleep(2 * g.freedWithin(shortLease).toNanos());
                one.release(held);
                Attempt attempt = call.within(
                        delays.longest().plus(delays.longest()), "a waiter has not come back from its wait");
                require(attempt.grant().isPresent(), "a waiter got nothing, although the lock was released");
                Grant grant = attempt.grant().get();
                Renewal renewal = other.renew(List.of(grant));
                require(renewal.ended().isEmpty() || overdue(grant), "the grant of a long wait had ended at once");
                Grant live = renewal.live().isEmpty() ? grant : renewal.live().get(0);
                Claim next = claim(held.name(), shortLease);
                Attempt second = third.acquire(next, Duration.ZERO);
                boolean over = overdue(live);
                third.release(next);
                require(second.grant().isEmpty() || over, "another got the lock beside the grant of a long wait");
            } finally {
                call.stop();
                waiter.release();
                one.release(held);
            }
        }
    }

    // ----------------------------------------------------------------------------------------------------- helpers

    /** Waits as a client does: asks again, with a new owner, until its patience is over. */
    private static final class Waiter {
        private final LockBackend client;
        private final String name;
        private final Duration lease;
        private final long end;
        private final List<Claim> asked = new ArrayList<>();
        private volatile boolean begun;

        Waiter(LockBackend client, String name, Duration lease, Duration patience) {
            this.client = client;
            this.name = name;
            this.lease = lease;
            this.end = System.nanoTime() + patience.toNanos();
        }

        Attempt untilGranted() throws InterruptedException {
            while (true) {
                Claim claim = claim(name, lease);
                asked.add(claim);
                Duration left = Duration.ofNanos(Math.max(0, end - System.nanoTime()));
                begun = true;
                Attempt attempt = client.acquire(claim, left);
                if (attempt.grant().isPresent() || System.nanoTime() - end >= 0) {
                    return attempt;
                }
                long pause = Math.min(attempt.pause().toNanos(), end - System.nanoTime());
                TimeUnit.NANOSECONDS.sleep(Math.max(pause, 1));
            }
        }

        void hasBegun() throws InterruptedException {
            while (!begun) {
                TimeUnit.MILLISECONDS.sleep(1);
            }
        }

        void release() {
            asked.forEach(client::release);
        }
    }

    private interface Question {
        Attempt ask() throws InterruptedException;
    }

    /** A call on a thread of its own. */
    private static final class Call {
        private final FutureTask<Attempt> task;
        private final Thread thread;

        Call(Question question) {
            task = new FutureTask<>(question::ask);
            thread = new Thread(task, "lock-tck");
            thread.setDaemon(true);
            thread.start();
        }

        Attempt within(Duration time, String late) throws Exception {
            try {
                return task.get(time.toNanos(), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                throw new Broken(late + " within " + time);
            } catch (ExecutionException e) {
                throw new Broken("acquire threw " + e.getCause());
            }
        }

        /** However it ends, it ends. */
        void end(Duration time, String late) throws Exception {
            try {
                task.get(time.toNanos(), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                throw new Broken(late + " within " + time);
            } catch (ExecutionException e) {
                // An interrupt, or no answer: both are to be undone by its caller.
            }
        }

        void stop() {
            thread.interrupt();
        }
    }

    private void free(LockBackend client, String name, String when) throws Exception {
        Claim claim = claim(name, delays.longLease(client.guarantees()));
        boolean granted = client.acquire(claim, Duration.ZERO).grant().isPresent();
        client.release(claim);
        require(granted, when + " the lock is not free");
    }

    private static boolean overdue(Grant grant) {
        long lease = grant.lease().toNanos();
        return System.nanoTime() - (grant.since() + lease - Event.margin(lease)) >= 0;
    }

    private static Grant granted(LockBackend client, Claim claim) throws Exception {
        return client.acquire(claim, Duration.ZERO)
                .grant()
                .orElseThrow(() -> new Broken("a free lock was not granted: " + claim));
    }

    private String name(String what) {
        return prefix + what + "-" + UUID.randomUUID().toString().substring(0, 8);
    }

    private static Claim claim(String name, Duration lease) {
        return Claim.of(name, "tck~" + UUID.randomUUID(), lease);
    }
}
