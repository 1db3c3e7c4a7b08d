package dev.mortise.lock.tck;

import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.tck.Event.Op;
import dev.mortise.lock.tck.Event.Outcome;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Writes down what the clients of a store do in real time, each call with its answer. For any thread. */
final class Recorder {
    final History history = new History();
    private final AtomicInteger attempts = new AtomicInteger();
    private final Map<String, Integer> byOwner = new ConcurrentHashMap<>();
    private final Map<Object, Running> running = new ConcurrentHashMap<>();

    /** A call that has not come back. */
    record Running(String what, long since, Duration patience) {
        /** So much longer than its patience has it lasted. */
        Duration over(long now) {
            return Duration.ofNanos(now - since).minus(patience);
        }
    }

    Collection<Running> running() {
        return running.values();
    }

    /** The number of the attempt with this owner. */
    int number(Claim claim) {
        return byOwner.computeIfAbsent(claim.owner(), owner -> attempts.getAndIncrement());
    }

    /** The same client, whose calls are recorded. */
    Client of(LockBackend backend, int number) {
        return new Client(backend, number);
    }

    /** A client whose calls are recorded. */
    final class Client implements LockBackend {
        private final LockBackend to;
        final int number;
        private volatile long deadline = Long.MIN_VALUE;

        private Client(LockBackend to, int number) {
            this.to = to;
            this.number = number;
        }

        /** The latest deadline that any answer to it has given, for a client with one claim. */
        long deadline() {
            return deadline;
        }

        @Override
        public Guarantees guarantees() {
            return to.guarantees();
        }

        @Override
        public Attempt acquire(Claim claim, Duration patience) throws InterruptedException {
            Op op = byOwner.containsKey(claim.owner()) ? Op.AGAIN : Op.ACQUIRE;
            Object call = begin(op, claim.name(), patience);
            long invoked = System.nanoTime();
            try {
                Attempt attempt = to.acquire(claim, patience);
                Optional<Grant> grant = attempt.grant();
                Event event = event(op, claim, grant.isPresent() ? Outcome.DONE : Outcome.REFUSED, invoked)
                        .value(attempt.rest().map(Duration::toNanos).orElse(-1L));
                history.add(grant.map(g -> granted(event, g)).orElse(event));
                return attempt;
            } catch (InterruptedException | RuntimeException e) {
                history.add(unknown(op, claim, invoked, e));
                throw e;
            } finally {
                running.remove(call);
            }
        }

        @Override
        public Renewal renew(Collection<Grant> grants) {
            Object call = begin(Op.RENEW, String.join(" ", names(grants)), Duration.ZERO);
            long invoked = System.nanoTime();
            try {
                Renewal renewal = to.renew(grants);
                for (Grant grant : grants) {
                    Optional<Grant> live = renewal.live().stream()
                            .filter(l -> l.claim().equals(grant.claim()))
                            .findFirst();
                    Outcome outcome = live.isPresent()
                            ? Outcome.DONE
                            : renewal.ended().stream().anyMatch(e -> e.claim().equals(grant.claim()))
                                    ? Outcome.REFUSED
                                    : Outcome.UNKNOWN;
                    Event event =
                            event(Op.RENEW, grant.claim(), outcome, invoked).batch(grants.size());
                    history.add(live.map(l -> granted(event, l)).orElse(event));
                }
                return renewal;
            } catch (RuntimeException e) {
                grants.forEach(g -> history.add(unknown(Op.RENEW, g.claim(), invoked, e)));
                throw e;
            } finally {
                running.remove(call);
            }
        }

        @Override
        public boolean release(Claim claim) {
            Object call = begin(Op.RELEASE, claim.name(), Duration.ZERO);
            long invoked = System.nanoTime();
            try {
                boolean live = to.release(claim);
                history.add(event(Op.RELEASE, claim, live ? Outcome.DONE : Outcome.REFUSED, invoked));
                return live;
            } catch (RuntimeException e) {
                history.add(unknown(Op.RELEASE, claim, invoked, e));
                throw e;
            } finally {
                running.remove(call);
            }
        }

        @Override
        public Optional<Grant> adopt(Grant held, Claim heir) {
            Object call = begin(Op.ADOPT, heir.name(), Duration.ZERO);
            long invoked = System.nanoTime();
            try {
                Optional<Grant> grant = to.adopt(held, heir);
                Event event = event(Op.ADOPT, heir, grant.isPresent() ? Outcome.DONE : Outcome.REFUSED, invoked)
                        .after(number(held.claim()));
                history.add(grant.map(g -> granted(event, g)).orElse(event));
                return grant;
            } catch (RuntimeException e) {
                history.add(unknown(Op.ADOPT, heir, invoked, e).after(number(held.claim())));
                throw e;
            } finally {
                running.remove(call);
            }
        }

        /** Whoever it was, its claims are counted on by nobody from now on. */
        @Override
        public void close() {
            to.close();
        }

        @Override
        public String toString() {
            return to.toString();
        }

        private Object begin(Op op, String name, Duration patience) {
            Object call = new Object();
            running.put(
                    call,
                    new Running(
                            op + " of " + History.letter(name) + " by client " + number, System.nanoTime(), patience));
            return call;
        }

        private Event event(Op op, Claim claim, Outcome outcome, long invoked) {
            return Event.of(number, number(claim), claim.name(), op, outcome, invoked, System.nanoTime())
                    .granted(0, 0, claim.lease().toNanos());
        }

        private Event granted(Event event, Grant grant) {
            Event granted =
                    event.granted(grant.token(), grant.since(), grant.lease().toNanos());
            deadline = Math.max(deadline, granted.deadline());
            return granted;
        }

        private Event unknown(Op op, Claim claim, long invoked, Exception thrown) {
            if (thrown instanceof LockStoreException) {
                history.unanswered(op, thrown.toString());
            } else if (thrown instanceof RuntimeException) {
                history.broken(new History.Finding(Rule.R6_5, op + " threw " + thrown));
            }
            return event(op, claim, Outcome.UNKNOWN, invoked);
        }
    }

    private static List<String> names(Collection<Grant> grants) {
        return grants.stream().map(Grant::name).toList();
    }
}
