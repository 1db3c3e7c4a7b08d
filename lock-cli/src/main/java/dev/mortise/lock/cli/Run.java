package dev.mortise.lock.cli;

import dev.mortise.lock.DistributedLock;
import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockEvent;
import dev.mortise.lock.LockListener;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.Loss;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import sun.misc.Signal;
import sun.misc.SignalHandler;

/**
 * Runs one command while holding a lock.
 *
 * <p>The order is what makes it safe: guardian, lock, command at the gate, watch, gate open; and at the end the
 * command's last process, guardian, lock. The lock is never given back while a process of the command is known to live.
 */
final class Run implements LockListener, Consumer<Loss>, SignalHandler, Runnable {
    static final Duration SHORTEST_LEASE = Duration.ofSeconds(2);
    private static final String[] FORWARDED = {"INT", "TERM", "HUP"};

    private final Store store;
    private final String name;
    private final Arguments arguments;
    private final int command;
    private final Duration lease;
    private final @Nullable Duration patience;
    private final int conflict;
    private final boolean foreground;

    private final Thread main = Thread.currentThread();
    private volatile @Nullable Guardian guardian;
    private volatile @Nullable Lease held;
    private volatile boolean lost;
    private volatile boolean guardianDied;

    // Guarded by this.
    private @Nullable Command running;
    private int signal;
    private boolean started;

    /**
     * @param arguments of which those from {@code command} on are the command
     * @param patience null for ever
     */
    Run(
            Store store,
            String name,
            Arguments arguments,
            int command,
            Duration lease,
            @Nullable Duration patience,
            int conflict,
            boolean foreground) {
        this.store = store;
        this.name = name;
        this.arguments = arguments;
        this.command = command;
        this.lease = lease;
        this.patience = patience;
        this.conflict = conflict;
        this.foreground = foreground;
    }

    int call() throws Failure {
        try {
            Machine.uptime();
        } catch (IOException e) {
            throw new Failure(
                    Failure.INTERNAL,
                    "mortise run works on Linux only: its guardian needs /proc: " + e.getMessage(),
                    e);
        }
        for (String forwarded : FORWARDED) {
            try {
                // One that was ignored when we were started (nohup) stays ignored; the JVM sees to that.
                Signal.handle(new Signal(forwarded), this);
            } catch (IllegalArgumentException e) {
                // The JVM was told to leave signals alone (-Xrs): it dies of them, and the guardian ends the command.
            }
        }
        try (Guardian started = Guardian.start(grace() / 10, this)) {
            guardian = started;
            return withGuardian(started);
        } catch (InterruptedException e) {
            return interrupted();
        } catch (RuntimeException e) {
            // A store that is interrupted says so in its own way.
            if (signalled() != 0) {
                return interrupted();
            }
            throw e;
        }
    }

    /** Between TERM and the end, in milliseconds. */
    private long grace() {
        return Math.min(2000, lease.toMillis() / 5);
    }

    private int interrupted() {
        Text.complain("ended by signal " + (signalled() - Failure.SIGNAL) + " before the command was started");
        return signalled();
    }

    private synchronized int signalled() {
        return signal;
    }

    private synchronized void throwIfSignalled() throws InterruptedException {
        if (signal != 0) {
            // The flag would be in the way of a release.
            Thread.interrupted();
            throw new InterruptedException();
        }
    }

    private int withGuardian(Guardian guardian) throws Failure, InterruptedException {
        try (LockClient client = LockClient.builder(store.uri, store.options)
                .lease(lease)
                .listener(this)
                .build()) {
            guardian.awaitReady();
            // SQLite's driver runs a program when it is loaded, and swallows the interrupt of that wait.
            throwIfSignalled();
            Lease lease = acquire(client.lock(name));
            if (lease == null) {
                Text.complain(Text.quoted(name) + " is held by somebody else");
                return conflict;
            }
            held = lease;
            int code;
            try {
                lease.onLoss(this);
                code = underLock(guardian, lease);
            } finally {
                held = null;
                release(lease);
            }
            return code;
        }
    }

    private @Nullable Lease acquire(DistributedLock lock) throws InterruptedException {
        if (patience == null) {
            return lock.acquire();
        }
        Optional<Lease> lease = patience.isZero() ? lock.tryAcquire() : lock.tryAcquire(patience);
        return lease.orElse(null);
    }

    private void release(Lease lease) {
        try {
            lease.release();
        } catch (LockStoreException e) {
            if (!lost) {
                Text.complain("the lock " + Text.quoted(name) + " could not be given back, and ends by itself within "
                        + this.lease.toSeconds() + " s: " + e.getMessage());
            }
        }
    }

    private int underLock(Guardian guardian, Lease lease) throws Failure, InterruptedException {
        boolean coded = arguments.isBeyondAscii(command) || !Arguments.isAscii(name) || !Arguments.isAscii(store.shown);
        List<String> words = arguments.command(command, coded);
        if (!coded) {
            Command.require(words.get(0));
        }
        Map<String, String> variables = new HashMap<>();
        variables.put("MORTISE_TOKEN", Long.toString(lease.token()));
        variables.put("MORTISE_LOCK", coded ? Arguments.code(name) : name);
        variables.put("MORTISE_STORE", coded ? Arguments.code(store.shown) : store.shown);

        Command running;
        synchronized (this) {
            throwIfSignalled();
            sendEnd(guardian, lease);
            running = Command.start(guardian.gate(), coded, words, variables, foreground);
            this.running = running;
            running.guardBy(guardian);
            started = true;
        }
        if (lost || guardianDied) {
            // Before there was a command to be killed.
            running.kill();
        }
        int code;
        boolean endedByUs;
        try {
            code = awaitQuietly(running);
            endedByUs = guardianDied;
        } finally {
            endLeftovers(guardian, running);
        }
        // Now all is known that it has to say.
        guardian.close();
        if (lost || guardian.hasEnded()) {
            Text.complain(
                    "the lock " + Text.quoted(name) + " was lost while the command ran, and the command was ended;"
                            + " look after the store, or ask for a longer --lease");
            return Failure.LOST;
        }
        if (endedByUs) {
            Text.complain("the guardian of the command was killed, and the command was ended");
            return Failure.INTERNAL;
        }
        return code;
    }

    private static int awaitQuietly(Command running) {
        while (true) {
            try {
                return running.await();
            } catch (InterruptedException e) {
                // The signal that it came from is passed on to the command; we wait for its end.
            }
        }
    }

    /** Until no process of the command is left: TERM, and after the grace KILL. The lock is held and renewed meanwhile. */
    private void endLeftovers(Guardian guardian, Command running) throws InterruptedException {
        if (foreground) {
            return;
        }
        long start = System.nanoTime();
        boolean told = false;
        boolean complained = false;
        while (true) {
            String left = guardianDied || lost ? null : guardian.sweep("0");
            if (left == null) {
                running.kill();
                left = join(running.left());
            }
            if (left.isEmpty()) {
                return;
            }
            long waited = (System.nanoTime() - start) / 1_000_000;
            if (!told) {
                told = true;
                guardian.sweep("TERM");
                guardian.sweep("CONT");
            } else if (waited >= grace()) {
                guardian.sweep("KILL");
            }
            if (waited > 5000 + grace() && !complained) {
                complained = true;
                Text.complain("waiting for processes of the command that cannot be killed from here: " + left);
            }
            Thread.sleep(complained ? 500 : 20);
        }
    }

    private static String join(List<Long> pids) {
        StringBuilder text = new StringBuilder();
        for (long pid : pids) {
            text.append(text.length() == 0 ? "" : " ").append(pid);
        }
        return text.toString();
    }

    /** The uptime is read first: what happens in between makes the end come out too early, not too late. */
    private static void sendEnd(Guardian guardian, Lease lease) {
        long now;
        try {
            now = Machine.uptime();
        } catch (IOException e) {
            // Without a new end the guardian goes by the last one.
            return;
        }
        guardian.end(now + lease.remaining().toMillis() / 10);
    }

    /** A renewal moves the end. */
    @Override
    public void onEvent(LockEvent event) {
        Lease lease = held;
        Guardian guardian = this.guardian;
        if (event.kind() == LockEvent.Kind.RENEWED && lease != null && guardian != null) {
            sendEnd(guardian, lease);
        }
    }

    /** The lock is lost: nobody may wait for anything now. */
    @Override
    public void accept(Loss loss) {
        lost = true;
        // The client's thread has other things to do than to start processes.
        new Thread(this::killNow, "mortise-loss").start();
    }

    /** The guardian is dead: nobody would end the command if this process were stopped now. */
    @Override
    public void run() {
        guardianDied = true;
        killNow();
    }

    private void killNow() {
        Command command;
        synchronized (this) {
            command = running;
        }
        if (command != null) {
            command.kill();
        }
    }

    @Override
    public synchronized void handle(Signal caught) {
        Guardian guardian = this.guardian;
        if (started && guardian != null) {
            // In the foreground the terminal has sent its INT to the command, too.
            if (!foreground || !caught.getName().equals("INT")) {
                guardian.signal(caught.getName());
            }
        } else if (signal == 0) {
            signal = Failure.SIGNAL + caught.getNumber();
            main.interrupt();
        }
    }
}
