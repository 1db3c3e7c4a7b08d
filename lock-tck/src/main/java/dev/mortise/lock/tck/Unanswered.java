package dev.mortise.lock.tck;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.tck.History.Finding;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** Chapter 7 from 7.7 on: calls whose answers are lost, connections that break in the middle of one, and hand-overs. */
final class Unanswered {
    /** So often is it tried to lose an answer: one may be asked for again by the driver, or another's is lost. */
    private static final int TRIES = 6;

    private static final Map<Rule, Test> TESTS = new EnumMap<>(Map.of(
            Rule.R7_7, Unanswered::renewal,
            Rule.R7_8, Unanswered::release,
            Rule.R7_9, Unanswered::adoption,
            Rule.R7_11, Unanswered::mayHaveTakenEffect,
            Rule.R7_12, Unanswered::resending,
            Rule.R7_13, Unanswered::chain,
            Rule.R7_14, Unanswered::heirs));

    private final Store store;
    private final Guarantees guarantees;
    private final Delays delays;
    private final String prefix;
    private final Recorder recorder = new Recorder();
    private final List<LockBackend> open = new ArrayList<>();
    private final Recorder.Client one;
    private final Recorder.Client two;
    private final Recorder.Client three;

    /** How often the rule was put to the test. */
    private int tries;

    private interface Test {
        void run(Unanswered kit) throws Exception;
    }

    /**
     * What came of it.
     *
     * @param seen what broke the rule, or null
     * @param tries none if it could not be shown
     */
    record Tried(@Nullable String seen, int tries, History history) {}

    private static final class Broken extends Exception {
        private static final long serialVersionUID = 1;

        Broken(String what) {
            super(what);
        }
    }

    private Unanswered(Store store, Guarantees guarantees, Delays delays, String prefix) {
        this.store = store;
        this.guarantees = guarantees;
        this.delays = delays;
        this.prefix = prefix + UUID.randomUUID().toString().substring(0, 6) + "-";
        one = connect(0);
        two = connect(1);
        three = connect(2);
    }

    static boolean has(Rule rule) {
        return TESTS.containsKey(rule);
    }

    /** Why a rule could not be shown. */
    static String unseen(Rule rule, Store store) {
        if (rule == Rule.R7_12) {
            return "the Store's Faults cannot cause " + Fault.CONNECTIONS_BROKEN;
        }
        return store.faults().isEmpty()
                ? "the Store has no Faults: no answer can be lost"
                : "no answer was lost in " + TRIES + " tries of Faults.loseReply()";
    }

    static Tried test(Rule rule, Store store, Guarantees guarantees, Delays delays, String prefix) throws Exception {
        Test test = TESTS.get(rule);
        boolean faults = rule != Rule.R7_14;
        if (test == null || (faults && store.faults().isEmpty())) {
            return new Tried(null, 0, new History());
        }
        // A busy machine may leave a call of a store that is well without an answer, once.
        Tried tried = test(test, new Unanswered(store, guarantees, delays, prefix), true);
        return tried == null
                ? Objects.requireNonNull(test(test, new Unanswered(store, guarantees, delays, prefix), false))
                : tried;
    }

    /** Null if a call had no answer that should have had one, and it is to be tried again. */
    private static @Nullable Tried test(Test test, Unanswered kit, boolean again) throws Exception {
        @Nullable String seen = null;
        try {
            test.run(kit);
        } catch (Broken e) {
            seen = e.getMessage();
        } catch (LockStoreException e) {
            if (again) {
                return null;
            }
            seen = "a store that is well did not answer: " + e;
        } finally {
            kit.store.faults().ifPresent(Faults::heal);
            kit.open.forEach(LockBackend::close);
        }
        return new Tried(seen, kit.tries, kit.recorder.history);
    }

    private Recorder.Client connect(int number) {
        LockBackend client = store.connect();
        open.add(client);
        return recorder.of(client, number);
    }

    // ----------------------------------------------------------------------------------------------------- answers

    private void renewal() throws Exception {
        for (int i = 0; i < TRIES && tries < 2; i++) {
            Grant held = granted(one, claim("a" + i, longLease()));
            Renewal[] answer = {Renewal.of(List.of(), List.of())};
            boolean lost = loses(() -> answer[0] = one.renew(List.of(held))) != null;
            require(
                    answer[0].ended().isEmpty() || overdue(held),
                    "a renewal whose answer was lost came back as ended, before the deadline");
            if (lost || answer[0].live().isEmpty()) {
                tries++;
                Renewal again = one.renew(List.of(held));
                require(
                        again.ended().isEmpty() || overdue(held),
                        "a renewal asked for again after its answer was lost came back as ended");
                for (Grant live : again.live()) {
                    require(live.token() == held.token(), "the token of a renewal asked for again is another");
                }
                Attempt attempt = two.acquire(claim("a" + i, longLease()), Duration.ZERO);
                boolean over = overdue(held);
                attempt.grant().ifPresent(grant -> two.release(grant.claim()));
                require(attempt.grant().isEmpty() || over, "another got the lock after a renewal without an answer");
            }
            one.release(held.claim());
        }
    }

    private void release() throws Exception {
        for (int i = 0; i < TRIES && tries < 2; i++) {
            Claim claim = claim("a" + i, longLease());
            granted(one, claim);
            if (loses(() -> one.release(claim)) == null) {
                continue;
            }
            tries++;
            Claim next = claim("a" + i, longLease());
            Attempt attempt = two.acquire(next, Duration.ZERO);
            if (attempt.grant().isEmpty()) {
                // It may not have been carried out, whatever the Store's Faults say.
                untilAcknowledged(one, claim);
                next = claim("a" + i, longLease());
                attempt = two.acquire(next, Duration.ZERO);
            }
            require(attempt.grant().isPresent(), "the lock is not free after a release that was asked for again");
            Grant held = attempt.grant().orElseThrow();
            untilAcknowledged(one, claim);
            untilAcknowledged(one, claim);
            require(
                    two.renew(List.of(held)).ended().isEmpty() || overdue(held),
                    "a release asked for again, after its answer was lost, ended the claim of the next holder");
            require(two.release(next) || overdue(held), "the next holder's claim was gone after the other's release");
        }
    }

    private void adoption() throws Exception {
        for (int i = 0; i < TRIES && tries < 2; i++) {
            Grant held = granted(one, claim("a" + i, longLease()));
            Claim heir = claim("a" + i, longLease());
            if (loses(() -> two.adopt(held, heir)) == null) {
                two.release(heir);
                continue;
            }
            tries++;
            Optional<Grant> again = two.adopt(held, heir);
            require(
                    again.isPresent() || overdue(held),
                    "the heir asked again after its answer was lost, and got nothing");
            if (again.isEmpty()) {
                continue;
            }
            Grant got = again.get();
            require(got.token() > held.token(), "the heir's token is " + got.token() + ", after " + held.token());
            require(
                    two.adopt(held, heir).map(Grant::token).orElse(got.token()) == got.token(),
                    "the heir asked a third time, and got another token");
            require(
                    one.renew(List.of(held)).live().isEmpty(),
                    "the former owner's renewal came back live after the heir had taken over");
            require(
                    !one.release(held.claim()),
                    "the former owner's release answered true after the heir had taken over");
            require(
                    three.adopt(held, claim("a" + i, longLease())).isEmpty(),
                    "a second heir got what the first had taken over with an answer that was lost");
            require(two.release(heir) || overdue(got), "the heir's claim was gone at its release");
        }
    }

    private void mayHaveTakenEffect() throws Exception {
        for (int i = 0; i < TRIES && tries < 3; i++) {
            Claim claim = claim("a" + i, longLease());
            LockStoreException lost = loses(() -> one.acquire(claim, Duration.ZERO));
            if (lost != null) {
                Attempt other = two.acquire(claim("a" + i, longLease()), Duration.ZERO);
                other.grant().ifPresent(grant -> two.release(grant.claim()));
                says(other.grant().isEmpty(), lost, "an acquire that took the lock");
            } else {
                continue;
            }
            LockStoreException release = loses(() -> one.release(claim));
            if (release != null) {
                Attempt other = two.acquire(claim("a" + i, longLease()), Duration.ZERO);
                other.grant().ifPresent(grant -> two.release(grant.claim()));
                says(other.grant().isPresent(), release, "a release that freed the lock");
            }
            untilAcknowledged(one, claim);
        }
    }

    private void says(boolean effect, LockStoreException lost, String what) throws Broken {
        if (effect) {
            tries++;
            require(
                    lost.mayHaveTakenEffect(),
                    what + " and had no answer threw with mayHaveTakenEffect() false: " + lost);
        }
    }

    // ------------------------------------------------------------------------------------------------------ chains

    private void chain() throws Exception {
        Duration unit = delays.shortLease(guarantees, 1);
        List<Duration> leases = List.of(unit.multipliedBy(2), unit.multipliedBy(3), unit);
        chain("a", leases);
        long freed = guarantees.freedWithin(unit.multipliedBy(3)).toNanos();
        // As a clock sees it that goes at another speed.
        long latest = System.nanoTime() + freed + Event.margin(freed);
        untilGranted("a", latest, "after the longest lease of a chain of acquires without answers was over");

        for (boolean reversed : new boolean[] {false, true}) {
            String name = reversed ? "c" : "b";
            List<Claim> all = chain(name, List.of(longLease(), unit, longLease()));
            for (int i = 0; i < all.size(); i++) {
                Claim claim = all.get(reversed ? all.size() - 1 - i : i);
                untilAcknowledged(all.indexOf(claim) == 1 ? two : one, claim);
            }
            Attempt attempt = three.acquire(claim(name, unit), Duration.ZERO);
            require(
                    attempt.grant().isPresent(),
                    "the lock is not free after each of a chain of acquires without answers was released");
            three.release(attempt.grant().orElseThrow().claim());
        }
    }

    private List<Claim> chain(String name, List<Duration> leases) throws Exception {
        List<Claim> all = new ArrayList<>();
        for (Duration lease : leases) {
            Claim claim = claim(name, lease);
            Recorder.Client client = all.size() == 1 ? two : one;
            all.add(claim);
            if (loses(() -> client.acquire(claim, Duration.ZERO)) != null) {
                tries++;
            }
        }
        return all;
    }

    // -------------------------------------------------------------------------------------------------- resending

    private void resending() throws Exception {
        Faults faults = store.faults().orElseThrow();
        if (!faults.possible().contains(Fault.CONNECTIONS_BROKEN)) {
            return;
        }
        Duration lease = delays.shortLease(guarantees, 2);
        Duration delay = delays.shortLease().dividedBy(3);
        for (int i = 0; i < TRIES; i++) {
            String name = "a" + i;
            Claim claim = claim(name, lease);
            faults.delayReplies(delay);
            FutureTask<Attempt> call = start(() -> one.acquire(claim, Duration.ZERO));
            TimeUnit.NANOSECONDS.sleep(delay.toNanos() * (i + 1) / (TRIES + 2));
            faults.begin(Fault.CONNECTIONS_BROKEN).close();
            faults.heal();
            Optional<Attempt> answer = answer(call);
            tries++;
            if (answer.isPresent() && answer.get().grant().isEmpty()) {
                throw new Broken("an acquire in whose middle the connections broke was refused, though nobody else had"
                        + " asked: it met its own first sending");
            }
            if (answer.isPresent()) {
                kept(claim, answer.get().grant().orElseThrow(), i % 2 == 0);
            } else {
                untilAcknowledged(one, claim);
                long freed = guarantees.freedWithin(lease).toNanos();
                untilGranted(
                        name,
                        System.nanoTime()
                                + freed
                                + Event.margin(freed)
                                + Ordeal.grace(delays).toNanos(),
                        "a lease after an acquire in whose middle the connections broke, and its release");
            }
        }
        Checker.Verdict verdict = Checker.check(
                recorder.history,
                nanos -> guarantees.freedWithin(Duration.ofNanos(nanos)).toNanos());
        Set<Rule> told = EnumSet.of(Rule.R1_1, Rule.R1_5, Rule.R3_3, Rule.R5_1, Rule.R5_2);
        for (Finding finding : verdict.findings()) {
            if (told.contains(finding.rule())) {
                throw new Broken("where connections broke in the middle of an acquire: " + finding.what());
            }
        }
    }

    /** Whether the store keeps what was granted: by asking again, or by what others are answered until the deadline. */
    private void kept(Claim claim, Grant grant, boolean again) throws Exception {
        String name = claim.name().substring(prefix.length());
        if (again) {
            answer(start(() -> one.acquire(claim, Duration.ZERO)));
        } else {
            long lease = grant.lease().toNanos();
            while (grant.since() + lease - Event.margin(lease) - System.nanoTime() > 0) {
                Claim other = claim(name, claim.lease());
                Optional<Attempt> answer = answer(start(() -> two.acquire(other, Duration.ZERO)));
                untilAcknowledged(two, other);
                if (answer.isPresent() && answer.get().grant().isPresent()) {
                    break;
                }
                TimeUnit.MILLISECONDS.sleep(5);
            }
        }
        untilAcknowledged(one, claim);
    }

    // ------------------------------------------------------------------------------------------------------- heirs

    private void heirs() throws Exception {
        for (int i = 0; i < 3; i++) {
            String name = "a" + i;
            Grant held = granted(one, claim(name, longLease()));
            List<FutureTask<Attempt>> waiting = new ArrayList<>();
            List<Claim> waiters = new ArrayList<>();
            for (Recorder.Client client : List.of(one, two)) {
                Claim waits = claim(name, longLease());
                waiters.add(waits);
                waiting.add(start(() -> client.acquire(waits, delays.longest())));
            }
            TimeUnit.NANOSECONDS.sleep(delays.shortLease().toNanos() / 3);
            CyclicBarrier start = new CyclicBarrier(2);
            Claim first = claim(name, longLease());
            Claim second = claim(name, longLease());
            FutureTask<Optional<Grant>> a = start(() -> {
                start.await();
                return two.adopt(held, first);
            });
            FutureTask<Optional<Grant>> b = start(() -> {
                start.await();
                return three.adopt(held, second);
            });
            Optional<Grant> one = a.get(delays.longest().toNanos(), TimeUnit.NANOSECONDS);
            Optional<Grant> other = b.get(delays.longest().toNanos(), TimeUnit.NANOSECONDS);
            boolean over = overdue(held);
            tries++;
            require(
                    one.isEmpty() || other.isEmpty(),
                    "two heirs that came at a time both got the lock, with tokens "
                            + one.map(Grant::token).orElse(0L) + " and "
                            + other.map(Grant::token).orElse(0L));
            require(
                    one.isPresent() || other.isPresent() || over,
                    "of two heirs that came at a time, while others waited, none got the lock");
            Recorder.Client winner = one.isPresent() ? two : three;
            Optional<Grant> won = one.isPresent() ? one : other;
            if (won.isPresent()) {
                Grant grant = won.get();
                require(
                        grant.token() > held.token(),
                        "the heir's token is " + grant.token() + ", after " + held.token());
                require(
                        winner.renew(List.of(grant)).ended().isEmpty() || overdue(grant),
                        "the heir's claim had ended at once, while others waited");
                for (FutureTask<Attempt> wait : waiting) {
                    boolean passed = wait.isDone() && wait.get().grant().isPresent();
                    require(!passed || overdue(grant), "one who waited got the lock beside the heir");
                }
            }
            two.release(first);
            three.release(second);
            this.one.release(held.claim());
            end(waiting, waiters);
        }
    }

    /** Whoever gets the lock gives it to the next. */
    private void end(List<FutureTask<Attempt>> waiting, List<Claim> claims) throws Exception {
        long until = System.nanoTime() + delays.longest().multipliedBy(2).toNanos();
        Set<Claim> left = new LinkedHashSet<>(claims);
        while (!left.isEmpty()) {
            require(
                    System.nanoTime() - until < 0,
                    "a waiter with a patience of " + delays.longest() + " has not come back");
            for (int i = 0; i < waiting.size(); i++) {
                if (waiting.get(i).isDone() && left.remove(claims.get(i))) {
                    untilAcknowledged(i == 0 ? one : two, claims.get(i));
                }
            }
            TimeUnit.MILLISECONDS.sleep(2);
        }
    }

    // ----------------------------------------------------------------------------------------------------- helpers

    /** Does it while its answer is lost: what it threw, or null if it was answered all the same. */
    private @Nullable LockStoreException loses(Callable<?> call) throws Exception {
        Faults faults = store.faults().orElseThrow();
        faults.loseReply();
        try {
            call.call();
            return null;
        } catch (LockStoreException e) {
            return e;
        } finally {
            faults.heal();
        }
    }

    private void untilGranted(String name, long latest, String when) throws Exception {
        while (true) {
            long asked = System.nanoTime();
            Claim claim = claim(name, delays.shortLease(guarantees, 1));
            Optional<Attempt> answer = answer(start(() -> three.acquire(claim, Duration.ZERO)));
            boolean granted = answer.isPresent() && answer.get().grant().isPresent();
            if (granted || answer.isEmpty()) {
                untilAcknowledged(three, claim);
            }
            if (granted) {
                return;
            }
            require(answer.isEmpty() || asked - latest <= 0, "the lock is not free " + when);
            TimeUnit.MILLISECONDS.sleep(10);
        }
    }

    private void untilAcknowledged(Recorder.Client client, Claim claim) throws Exception {
        long until = System.nanoTime() + delays.longest().toNanos();
        while (true) {
            try {
                client.release(claim);
                return;
            } catch (LockStoreException e) {
                require(System.nanoTime() - until < 0, "a release had no answer for " + delays.longest() + ": " + e);
                TimeUnit.MILLISECONDS.sleep(10);
            }
        }
    }

    /** Empty if it had none. */
    private Optional<Attempt> answer(FutureTask<Attempt> call) throws Exception {
        try {
            return Optional.of(call.get(delays.longest().toNanos(), TimeUnit.NANOSECONDS));
        } catch (TimeoutException e) {
            throw new Broken("an acquire without patience has not come back within " + delays.longest());
        } catch (ExecutionException e) {
            if (e.getCause() instanceof LockStoreException) {
                return Optional.empty();
            }
            throw new Broken("acquire threw " + e.getCause());
        }
    }

    private static <T> FutureTask<T> start(Callable<T> call) {
        FutureTask<T> task = new FutureTask<>(call);
        Thread thread = new Thread(task, "lock-tck");
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    private static void require(boolean holds, String what) throws Broken {
        if (!holds) {
            throw new Broken(what);
        }
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

    private Duration longLease() {
        return delays.longLease(guarantees);
    }

    private Claim claim(String name, Duration lease) {
        return Claim.of(prefix + name, "tck~" + UUID.randomUUID(), lease);
    }
}
