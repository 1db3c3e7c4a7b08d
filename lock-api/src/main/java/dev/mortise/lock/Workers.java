package dev.mortise.lock;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The threads of one client, by kind; {@code docs/threads.md} says what may run on which. None may stand in for another:
 * a release that hangs must not hold up a renewal, and user code must hold up nothing.
 */
abstract class Workers {

    /** Renewals, and nothing else. */
    abstract Executor renewals();

    /** Releases that nobody waits for. */
    abstract Executor undos();

    /** What may take as long as it likes: asynchronous acquires, callbacks, listeners. */
    abstract Executor waiting();

    /** The calling thread, as a place to run what it waits for. */
    abstract Here here();

    abstract void close();

    /** A thread that runs tasks while it waits for a result, so that its own call to the store needs no other thread. */
    interface Here extends Executor {
        /** True if tasks run nowhere but in {@link #await}, on the thread that calls it. */
        boolean isCallingThread();

        /** Runs tasks until {@code done} is complete. */
        void await(CompletableFuture<?> done) throws InterruptedException;

        /** The same, not to be stopped by an interrupt, which is kept for later. */
        default void awaitUninterruptibly(CompletableFuture<?> done) {
            boolean interrupted = Thread.interrupted();
            try {
                while (true) {
                    try {
                        await(done);
                        return;
                    } catch (InterruptedException e) {
                        interrupted = true;
                    }
                }
            } finally {
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }
    }

    static ThreadFactory daemons(String name) {
        AtomicInteger number = new AtomicInteger();
        return task -> {
            Thread thread = new Thread(task, name + "-" + number.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        };
    }

    static Workers threads() {
        return new Threads();
    }

    static Workers in(VirtualTime time) {
        return new Virtual(time);
    }

    private static final class Threads extends Workers {
        private final ThreadPoolExecutor renewals = pool("mortise-renew");
        private final ThreadPoolExecutor undos = pool("mortise-undo");
        private final ExecutorService waiting = waitingThreads();

        private static ThreadPoolExecutor pool(String name) {
            ThreadPoolExecutor pool = new ThreadPoolExecutor(
                    2, 2, 10, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), daemons(name), (task, executor) -> {});
            pool.allowCoreThreadTimeOut(true);
            return pool;
        }

        /** Virtual threads where the JDK has them (21 and later), else daemons that come and go. */
        private static ExecutorService waitingThreads() {
            try {
                return (ExecutorService) Executors.class
                        .getMethod("newVirtualThreadPerTaskExecutor")
                        .invoke(null);
            } catch (ReflectiveOperationException e) {
                return new ThreadPoolExecutor(
                        0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), daemons("mortise-wait"));
            }
        }

        @Override
        Executor renewals() {
            return renewals;
        }

        @Override
        Executor undos() {
            return undos;
        }

        @Override
        Executor waiting() {
            return task -> {
                try {
                    waiting.execute(task);
                } catch (RejectedExecutionException e) {
                    // After close: somebody may still wait for the future that this completes.
                    daemons("mortise-last").newThread(task).start();
                }
            };
        }

        @Override
        Here here() {
            return new Mailbox();
        }

        @Override
        void close() {
            renewals.shutdown();
            undos.shutdown();
            // What waits there already, such as the news of a loss, is still delivered.
            waiting.shutdown();
        }
    }

    private static final class Mailbox implements Here {
        private final LinkedBlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();

        /** A task that does nothing: the loop looks again. */
        private static void wake() {}

        @Override
        public boolean isCallingThread() {
            return true;
        }

        @Override
        public void execute(Runnable task) {
            tasks.add(task);
        }

        @Override
        public void await(CompletableFuture<?> done) throws InterruptedException {
            for (Runnable task = tasks.poll(); task != null && !done.isDone(); task = tasks.poll()) {
                task.run();
            }
            if (done.isDone()) {
                return;
            }
            CompletableFuture<?> unused = done.whenComplete((value, error) -> tasks.add(Mailbox::wake));
            while (!done.isDone()) {
                tasks.take().run();
            }
        }
    }

    private static final class Virtual extends Workers implements Workers.Here {
        private final VirtualTime time;

        Virtual(VirtualTime time) {
            this.time = time;
        }

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
        public boolean isCallingThread() {
            return false;
        }

        @Override
        public void execute(Runnable task) {
            time.schedule(Duration.ZERO, task);
        }

        @Override
        public void await(CompletableFuture<?> done) throws InterruptedException {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            time.advanceUntil(done::isDone);
        }

        @Override
        void close() {}
    }
}
