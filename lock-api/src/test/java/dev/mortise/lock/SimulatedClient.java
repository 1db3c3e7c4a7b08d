package dev.mortise.lock;

import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
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
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/**
 * One client process in virtual time: an engine, a network to the store that a test can break, and a process that can be
 * stopped and continued as by SIGSTOP. Everything runs on one thread; a scenario with one seed always runs alike.
 */
final class SimulatedClient {
    static final Duration CALL_TIMEOUT = Duration.ofMillis(250);
    private static final long ONE_WAY = 2_000_000;

    /** What becomes of the next calls, in order; a call without a fate is answered after two milliseconds each way. */
    enum Fate {
        /** The request never arrives; the client gets an exception after the call timeout. */
        REQUEST_LOST,
        /** It takes effect; the client gets an exception after the call timeout. */
        REPLY_LOST,
        /** It takes effect long after the client got its exception. */
        REQUEST_LATE,
        /** It takes effect at once; the answer comes late, but within the call timeout. */
        REPLY_SLOW,
        /** Both come, and both late: the call breaks the contract of ending within the call timeout. */
        REPLY_VERY_LATE,
        /** It takes effect, and the client never hears anything. */
        HUNG,
        /** An exception at once that says that nothing happened, which is true. */
        REFUSED,
        /** An exception at once of a kind that nobody expects, after the effect. */
        BUG,
        /** An answer that makes no sense. */
        NONSENSE,
        /** Of a renewal, every second grant is left out of the answer. */
        PARTIAL
    }

    final int number;
    final VirtualTime world;
    final Engine engine;
    final ArrayList<Fate> fates = new ArrayList<>();
    final List<String> faults = new ArrayList<>();
    final List<LockEvent> events = new ArrayList<>();
    int calls;
    int renewCalls;
    private final LockBackend store;
    private final ClientTime time = new ClientTime();
    private final Set<String> acquired = new HashSet<>();
    private final Set<String> released = new HashSet<>();
    private final Set<String> renewing = new HashSet<>();
    private final Map<String, Integer> waitingAtStore = new HashMap<>();
    private long stoppedUntil = Long.MIN_VALUE;

    SimulatedClient(int number, VirtualTime world, LockBackend store) {
        this(number, world, store, door -> door);
    }

    /** With something between the engine and the network: for clients that are wrong on purpose. */
    SimulatedClient(int number, VirtualTime world, LockBackend store, UnaryOperator<Gateway> between) {
        this.number = number;
        this.world = world;
        this.store = store;
        this.engine = new Engine(
                "client" + number,
                store.guarantees(),
                time,
                between.apply(new Network()),
                new OneThread(),
                CALL_TIMEOUT,
                "c" + number,
                List.of(events::add));
    }

    /** Nothing of this process runs until then; its clock goes on. */
    void stop(Duration time) {
        stoppedUntil = Math.max(stoppedUntil, world.nanoTime() + time.toNanos());
    }

    boolean isStopped() {
        return world.nanoTime() < stoppedUntil;
    }

    /** Runs once the process runs. */
    private void running(Runnable task) {
        if (isStopped()) {
            world.schedule(Duration.ofNanos(stoppedUntil - world.nanoTime()), () -> running(task));
        } else {
            task.run();
        }
    }

    private final class ClientTime implements TimeSource {
        @Override
        public long nanoTime() {
            return world.nanoTime();
        }

        @Override
        public void schedule(Duration delay, Runnable task) {
            world.schedule(delay, () -> running(task));
        }
    }

    private final class OneThread extends Workers implements Workers.Here {
        @Override
        Executor renewals() {
            return this;
        }

        @Override
        Executor undos() {
            return this;
        }

        @Override
        Executor waiting() {
            return this;
        }

        @Override
        Here here() {
            return this;
        }

        @Override
        void close() {}

        @Override
        public boolean isCallingThread() {
            return false;
        }

        @Override
        public void execute(Runnable task) {
            time.schedule(Duration.ZERO, task);
        }

        @Override
        public void await(CompletableFuture<?> done) {
            world.advanceUntil(done::isDone);
        }
    }

    /** Carries calls to the store in time, and checks what the engine may never do. */
    private final class Network implements Gateway {
        /** Of an effect whose answer is lost. */
        private static void ignore(Object unused) {}

        private Fate next() {
            calls++;
            return fates.isEmpty() ? null : fates.remove(0);
        }

        private void after(long nanos, Runnable task) {
            world.schedule(Duration.ofNanos(nanos), task);
        }

        private <T> void call(
                Supplier<T> effect,
                Supplier<T> nonsense,
                UnaryOperator<T> part,
                Consumer<Runnable> onReply,
                Gateway.Answer<T> done) {
            Fate fate = next();
            long timeout = CALL_TIMEOUT.toNanos();
            LockStoreException unknown = new LockStoreException("sim", "no answer", "wait", true, null);
            if (fate == null) {
                after(ONE_WAY, () -> {
                    T answer = effect.get();
                    reply(ONE_WAY, onReply, () -> done.come(answer, null));
                });
                return;
            }
            switch (fate) {
                case REQUEST_LOST -> reply(timeout, onReply, () -> done.come(null, unknown));
                case REPLY_LOST -> {
                    after(ONE_WAY, () -> ignore(effect.get()));
                    reply(timeout, onReply, () -> done.come(null, unknown));
                }
                case REQUEST_LATE -> {
                    after(timeout + timeout / 2, () -> ignore(effect.get()));
                    reply(timeout, onReply, () -> done.come(null, unknown));
                }
                case REPLY_SLOW ->
                    after(ONE_WAY, () -> {
                        T answer = effect.get();
                        reply(timeout - 2 * ONE_WAY, onReply, () -> done.come(answer, null));
                    });
                case REPLY_VERY_LATE ->
                    after(5 * timeout, () -> {
                        T answer = effect.get();
                        reply(5 * timeout, onReply, () -> done.come(answer, null));
                    });
                case HUNG -> after(ONE_WAY, () -> ignore(effect.get()));
                case REFUSED ->
                    reply(
                            ONE_WAY,
                            onReply,
                            () -> done.come(null, new LockStoreException("sim", "refused", "start it", false, null)));
                case BUG ->
                    after(ONE_WAY, () -> {
                        ignore(effect.get());
                        reply(ONE_WAY, onReply, () -> done.come(null, new AssertionError("a bug of the backend")));
                    });
                case NONSENSE ->
                    after(ONE_WAY, () -> {
                        ignore(effect.get());
                        reply(ONE_WAY, onReply, () -> done.come(nonsense.get(), null));
                    });
                case PARTIAL ->
                    after(ONE_WAY, () -> {
                        T answer = part.apply(effect.get());
                        reply(ONE_WAY, onReply, () -> done.come(answer, null));
                    });
            }
        }

        private void reply(long nanos, Consumer<Runnable> onReply, Runnable deliver) {
            after(nanos, () -> running(() -> onReply.accept(deliver)));
        }

        @Override
        public Call acquire(Claim claim, Duration patience, Executor on, Answer<Attempt> done) {
            long sent = world.nanoTime();
            if (!acquired.add(claim.owner())) {
                faults.add("owner used for two attempts: " + claim);
            }
            if (released.contains(claim.owner())) {
                faults.add("acquire after release of the same owner: " + claim);
            }
            boolean line = !patience.isZero();
            String name = claim.name();
            boolean[] counted = {line};
            if (line && waitingAtStore.merge(name, 1, Integer::sum) > 1) {
                faults.add("two waiters of " + name + " at the store");
            }
            Consumer<Runnable> onReply = deliver -> {
                if (counted[0]) {
                    counted[0] = false;
                    waitingAtStore.merge(name, -1, Integer::sum);
                }
                deliver.run();
            };
            call(
                    () -> since(sent, claim),
                    () -> Attempt.granted(
                            Claim.of(name, "somebody-else", claim.lease()).granted(claim.lease(), 1, world.nanoTime())),
                    attempt -> attempt,
                    onReply,
                    done);
            return () -> {
                // Abandoned: the engine no longer waits for it, and may ask for the next in line.
                if (counted[0]) {
                    counted[0] = false;
                    waitingAtStore.merge(name, -1, Integer::sum);
                }
            };
        }

        private Attempt since(long sent, Claim claim) {
            Attempt attempt;
            try {
                attempt = store.acquire(claim, Duration.ZERO);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            return attempt.grant()
                    .map(g -> Attempt.granted(claim.granted(g.lease(), g.token(), sent)))
                    .orElse(attempt);
        }

        @Override
        public void renew(List<Grant> grants, Executor on, Answer<Renewal> done) {
            long sent = world.nanoTime();
            renewCalls++;
            for (Grant grant : grants) {
                if (!renewing.add(grant.owner())) {
                    faults.add("two renewals in flight for " + grant);
                }
            }
            Consumer<Runnable> onReply = deliver -> {
                grants.forEach(grant -> renewing.remove(grant.owner()));
                deliver.run();
            };
            call(
                    () -> {
                        Renewal renewal = store.renew(grants);
                        return Renewal.of(
                                renewal.live().stream()
                                        .map(g -> g.renewed(sent))
                                        .toList(),
                                renewal.ended());
                    },
                    () -> Renewal.of(
                            grants.stream()
                                    .map(g -> g.claim().granted(g.lease(), g.token() + 1, sent))
                                    .toList(),
                            List.of()),
                    renewal -> Renewal.of(half(renewal.live()), half(renewal.ended())),
                    onReply,
                    done);
        }

        private static List<Grant> half(List<Grant> grants) {
            List<Grant> half = new ArrayList<>();
            for (int i = 1; i < grants.size(); i += 2) {
                half.add(grants.get(i));
            }
            return half;
        }

        @Override
        public void release(Claim claim, Executor on, Answer<Boolean> done) {
            released.add(claim.owner());
            call(() -> store.release(claim), () -> null, live -> live, Runnable::run, done);
        }

        /** Both in one message, as in a store that can; or the release alone, as in all others. */
        @Override
        public void release(Claim claim, Claim next, Executor on, Passed done) {
            if (number % 2 == 1) {
                Gateway.super.release(claim, next, on, done);
                return;
            }
            long sent = world.nanoTime();
            released.add(claim.owner());
            if (!acquired.add(next.owner())) {
                faults.add("owner used for two attempts: " + next);
            }
            if (!claim.name().equals(next.name()) || claim.owner().equals(next.owner())) {
                faults.add("passed on from " + claim + " to " + next);
            }
            List<Attempt> attempt = new ArrayList<>();
            call(
                    () -> {
                        boolean live = store.release(claim);
                        attempt.add(since(sent, next));
                        return live;
                    },
                    () -> null,
                    live -> live,
                    Runnable::run,
                    (live, error) ->
                            done.come(live, error != null || attempt.isEmpty() ? null : attempt.get(0), error));
        }

        @Override
        public void adopt(Grant held, Claim heir, Executor on, Answer<Grant> done) {
            long sent = world.nanoTime();
            call(
                    () -> {
                        Optional<Grant> grant = store.adopt(held, heir);
                        return grant.map(g -> heir.granted(g.lease(), g.token(), sent))
                                .orElse(null);
                    },
                    () -> held,
                    grant -> grant,
                    Runnable::run,
                    done);
        }
    }
}
