package dev.mortise.lock;

import dev.mortise.lock.spi.Attempt;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * The only way from the engine to a store. Each method returns at once, also when called under the engine's mutex; the
 * answer, or what the store threw, comes later on the executor given. Tests put a scripted store here, whose answers
 * come late, twice as late, or never.
 */
interface Gateway {
    Call acquire(Claim claim, Duration patience, Executor on, Answer<Attempt> done);

    void renew(List<Grant> grants, Executor on, Answer<Renewal> done);

    void release(Claim claim, Executor on, Answer<Boolean> done);

    /** The same, and an acquire for the next in line where the store can do both at once. */
    default void release(Claim claim, Claim next, Executor on, Passed done) {
        release(claim, on, (live, error) -> done.come(live, null, error));
    }

    void adopt(Grant held, Claim heir, Executor on, Answer<Grant> done);

    /** Takes an answer, or what the store threw. A null answer without an error is for {@code adopt} to give. */
    interface Answer<T> {
        void come(@Nullable T answer, @Nullable Throwable error);
    }

    /** Takes the answer to a release that is an acquire as well; no attempt if there was none, or nothing is known of it. */
    interface Passed {
        void come(@Nullable Boolean live, @Nullable Attempt attempt, @Nullable Throwable error);
    }

    /** A call under way. */
    interface Call {
        /** Asks it to come back early; it still answers. */
        void interrupt();
    }

    /** The real one: a backend's blocking calls. */
    static Gateway to(LockBackend backend) {
        return new Blocking(backend);
    }

    /** A backend's blocking calls, each on the executor given for it. */
    final class Blocking implements Gateway {
        private final LockBackend backend;

        private Blocking(LockBackend backend) {
            this.backend = backend;
        }

        @Override
        public Call acquire(Claim claim, Duration patience, Executor on, Answer<Attempt> done) {
            Interruptible call = new Interruptible(
                    () -> backend.acquire(claim, patience),
                    on instanceof Workers.Here here && here.isCallingThread(),
                    done);
            // A thread that waits for its own acquire is interrupted by its owner alone, so there is nothing to pass
            // on.
            boolean own = on instanceof Workers.Here here && here.isCallingThread();
            on.execute(call);
            return own ? () -> {} : call;
        }

        @Override
        public void renew(List<Grant> grants, Executor on, Answer<Renewal> done) {
            on.execute(() -> run(() -> backend.renew(grants), done));
        }

        @Override
        public void release(Claim claim, Executor on, Answer<Boolean> done) {
            on.execute(() -> run(() -> backend.release(claim), done));
        }

        @Override
        public void release(Claim claim, Claim next, Executor on, Passed done) {
            on.execute(() -> {
                AtomicReference<@Nullable Attempt> attempt = new AtomicReference<>();
                run(
                        () -> backend.release(claim, next, attempt::set),
                        (live, error) -> done.come(live, attempt.get(), error));
            });
        }

        @Override
        public void adopt(Grant held, Claim heir, Executor on, Answer<Grant> done) {
            on.execute(() -> run(() -> backend.adopt(held, heir).orElse(null), done));
        }

        private interface Question<T> {
            @Nullable
            T ask() throws Exception;
        }

        private static <T> void run(Question<T> call, Answer<T> done) {
            @Nullable T answer;
            try {
                answer = call.ask();
            } catch (Throwable e) { // Also errors: whatever it was, its effect in the store is to be looked after.
                done.come(null, e);
                return;
            }
            done.come(answer, null);
        }

        /**
         * Interrupts the thread of the call only while it is in the call, so that no interrupt strays elsewhere; never a
         * thread of the user's, which only its owner interrupts. A call that has not begun when it is interrupted is not
         * sent any more: its undo may be on its way.
         */
        private static final class Interruptible implements Runnable, Call {
            private final Question<Attempt> call;
            private final Answer<Attempt> done;
            private final boolean usersThread;
            private @Nullable Thread thread;
            private boolean interrupted;

            Interruptible(Question<Attempt> call, boolean usersThread, Answer<Attempt> done) {
                this.call = call;
                this.usersThread = usersThread;
                this.done = done;
            }

            @Override
            public void run() {
                Gateway.Blocking.<Attempt>run(
                        () -> {
                            enter();
                            try {
                                return call.ask();
                            } finally {
                                leave();
                            }
                        },
                        done);
            }

            private synchronized void enter() throws InterruptedException {
                if (interrupted) {
                    throw new InterruptedException();
                }
                thread = Thread.currentThread();
            }

            private synchronized void leave() {
                thread = null;
                if (interrupted && !usersThread) {
                    Thread.interrupted();
                }
            }

            @Override
            public synchronized void interrupt() {
                interrupted = true;
                if (thread != null && !usersThread) {
                    thread.interrupt();
                }
            }
        }
    }
}
