package dev.mortise.lock.tck;

import dev.mortise.lock.Lease;
import dev.mortise.lock.LeaseLostException;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockEvent;
import dev.mortise.lock.LockStoreException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * A program with one client, which does what it is told by lines on its standard input, to be stopped and killed from
 * outside. What it does is written to a file at once, a line before each call and one after it, so that a kill leaves all
 * that was known; {@link Processes} reads it. It ends when its standard input does, and so with the process that started it.
 *
 * <p>Arguments: what names begin with, lease in milliseconds, file, class and argument of the resource (empty for a file
 * beside that one). First lines, in Base64 because anything may be in them: URI and options of the store, which others on the
 * machine must not see, to an empty one. Lines: a number, what to do, and what that needs. It answers {@code ok} with the
 * number when it is done.
 *
 * <p>A grant reads the resource, and a release writes what was made of that, as users do; a holder that has lost its lease
 * writes all the same, because it may not know.
 */
class ClientProcess {
    /** How often each lease is looked at, in milliseconds. */
    private static final int LOOK = 10;

    /** So many looks later at the latest the client's listener has been told of a renewal. */
    private static final int TOLD = 50;

    private final String[] arguments;
    private final PrintStream out = System.out;
    private final ExecutorService pool = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "step");
        thread.setDaemon(true);
        return thread;
    });

    /** The lease of each name that was granted last, until it is released. */
    private final Map<String, Held> latest = new ConcurrentHashMap<>();

    private final Queue<Held> watched = new ConcurrentLinkedQueue<>();

    /** What was begun last for a name; the next for it comes after that. */
    private final Map<String, CompletableFuture<Void>> turns = new ConcurrentHashMap<>();

    private final AtomicInteger running = new AtomicInteger();
    private final long lease;
    private volatile long looked = System.nanoTime();
    private volatile long stoodStill = looked - TimeUnit.DAYS.toNanos(1);
    private @Nullable FileChannel file;
    private @Nullable LockClient client;
    private @Nullable ProtectedResource resource;

    /** A lease, from its grant until it is released. */
    private static final class Held {
        final int attempt;
        final Lease lease;
        boolean ended;
        boolean over;
        long seen;
        long end;
        long latestEnd;
        /** When it was held after its deadline, and by how much; zero if it was not. */
        long late;

        long lateBy;
        int lateLooks;
        final AtomicInteger renewals = new AtomicInteger();

        /** How many there were at the last look. */
        int seenRenewals;

        @Nullable
        Long base;

        int writes;

        Held(int attempt, Lease lease) {
            this.attempt = attempt;
            this.lease = lease;
        }
    }

    ClientProcess(String[] arguments) {
        this.arguments = arguments;
        lease = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(arguments[1]));
    }

    public static void main(String[] arguments) throws Exception {
        new ClientProcess(arguments).run();
    }

    /** For a client of the kit's own tests that is wrong. */
    boolean isHeld(Lease lease) {
        return lease.isHeld();
    }

    final void run() throws Exception {
        // What a library prints is no answer.
        System.setOut(System.err);
        Map<String, String> options =
                new HashMap<>(Map.of("lease", lease / 1_000_000 + "ms", "call-timeout", lease / 4_000_000 + "ms"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String uri = "";
        for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine()) {
            String text = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
            int equals = text.indexOf('=');
            if (uri.isEmpty()) {
                uri = text;
            } else {
                options.put(text.substring(0, equals), text.substring(equals + 1));
            }
        }
        Path path = Path.of(arguments[2]);
        String type = arguments[3];
        try (FileChannel opened = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                ProtectedResource accessed = type.isEmpty()
                        ? new FileResource(String.valueOf(path.getParent()))
                        : Class.forName(type)
                                .asSubclass(ProtectedResource.class)
                                .getConstructor(String.class)
                                .newInstance(arguments[4]);
                LockClient locks = connect(uri, options)) {
            resource = accessed;
            client = locks;
            warmUp();
            file = opened;
            Thread looks = new Thread(this::look, "looks");
            looks.setDaemon(true);
            looks.start();
            // To be compared with the clock of the process that reads the histories.
            answer("ready " + System.nanoTime());
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                begin(line.split(" ", -1));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    /** The lock by which each process gets warm. */
    static String warm(String prefix) {
        return prefix + "warm";
    }

    /** What is done for the first time takes a large part of a short lease. */
    private void warmUp() throws InterruptedException {
        String name = warm(arguments[0]);
        for (int i = 0; i < 3; i++) {
            Held held = acquire(i, name, Duration.ZERO);
            if (held != null) {
                release(held);
            }
        }
        watched.clear();
    }

    /** On a busy machine, or in the middle of a fault, the store may not answer within so short a call timeout at once. */
    private LockClient connect(String uri, Map<String, String> options) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (true) {
            try {
                return LockClient.builder(uri, options).listener(this::told).build();
            } catch (LockStoreException e) {
                if (System.nanoTime() > until) {
                    throw e;
                }
                TimeUnit.MILLISECONDS.sleep(50);
            }
        }
    }

    private synchronized void answer(String line) {
        out.println(line);
        out.flush();
    }

    private interface Task {
        String run() throws Exception;
    }

    private void begin(String[] words) {
        String number = words[0];
        switch (words[1]) {
            case "acquire" -> aside(number, () -> acquire(words));
            case "last" -> aside(number, () -> last(words));
            case "adopt" -> aside(number, () -> adopt(words));
            case "finish" ->
                pool.execute(() -> {
                    finish();
                    answer("ok " + number + " ");
                });
            case "release" -> inTurn(number, words[2], this::release);
            case "read" -> inTurn(number, words[2], this::read);
            case "write" -> inTurn(number, words[2], this::write);
            case "detach" -> inTurn(number, words[2], this::detach);
            default -> throw new IllegalArgumentException(words[1] + " is not known");
        }
    }

    private void aside(String number, Task task) {
        running.incrementAndGet();
        pool.execute(() -> done(number, task));
    }

    private interface Use {
        String of(Held held) throws Exception;
    }

    private void inTurn(String number, String name, Use use) {
        running.incrementAndGet();
        turns.compute(
                name,
                (n, before) -> (before == null ? CompletableFuture.<Void>completedFuture(null) : before)
                        .thenRunAsync(
                                () -> done(number, () -> {
                                    Held held = latest.get(name);
                                    return held == null ? "" : use.of(held);
                                }),
                                pool));
    }

    private void done(String number, Task task) {
        String what = "";
        try {
            what = task.run();
        } catch (Throwable e) {
            e.printStackTrace();
            note("failed", 0, System.nanoTime(), e.toString().replaceAll("\\s", "_"));
        } finally {
            running.decrementAndGet();
        }
        answer("ok " + number + " " + what);
    }

    private LockClient locks() {
        LockClient locks = client;
        if (locks == null) {
            throw new IllegalStateException("not connected");
        }
        return locks;
    }

    private ProtectedResource resource() {
        ProtectedResource accessed = resource;
        if (accessed == null) {
            throw new IllegalStateException("not opened");
        }
        return accessed;
    }

    // ---------------------------------------------------------------------------------------------- what it is told

    private String acquire(String[] words) {
        int attempt = Integer.parseInt(words[2]);
        return acquire(attempt, words[3], Duration.ofNanos(Long.parseLong(words[4]))) == null ? "none" : "granted";
    }

    private @Nullable Held acquire(int attempt, String name, Duration patience) {
        long asked = System.nanoTime();
        note("acquire", attempt, asked, name);
        Optional<Lease> lease;
        try {
            lease = locks().lock(name).tryAcquire(patience);
        } catch (LockStoreException | InterruptedException e) {
            note("unknown", attempt, System.nanoTime(), e.toString().replaceAll("\\s", "_"));
            return null;
        } catch (RuntimeException e) {
            note("failed", attempt, System.nanoTime(), e.toString().replaceAll("\\s", "_"));
            return null;
        }
        if (lease.isEmpty()) {
            long now = System.nanoTime();
            // One that stood still gets nothing also when it was granted the lock, if its lease is over by now.
            boolean stood = stoodStill - asked >= 0 || now - looked > this.lease / 4;
            note(stood ? "unknown" : "refused", attempt, now, "");
            return null;
        }
        return granted(attempt, lease.get(), "granted");
    }

    private Held granted(int attempt, Lease lease, String what) {
        Held held = new Held(attempt, lease);
        long before = System.nanoTime();
        long remaining = lease.remaining().toNanos();
        long after = System.nanoTime();
        held.end = before + remaining;
        held.latestEnd = after + remaining;
        held.seen = before;
        note(what, attempt, after, lease.token() + " " + held.end);
        watched.add(held);
        read(held);
        latest.put(lease.name(), held);
        return held;
    }

    /** Again and again until it is granted, each time a new attempt. */
    private String last(String[] words) throws InterruptedException {
        int attempt = Integer.parseInt(words[2]);
        String name = words[3];
        long until = System.nanoTime() + Long.parseLong(words[4]);
        for (long left = until - System.nanoTime(); left > 0; left = until - System.nanoTime()) {
            Held held = acquire(attempt++, name, Duration.ofNanos(left));
            if (held != null) {
                release(held);
                return "granted";
            }
            TimeUnit.MILLISECONDS.sleep(LOOK);
        }
        return "none";
    }

    private String adopt(String[] words) {
        int attempt = Integer.parseInt(words[2]);
        String name = words[3];
        note("adopt", attempt, System.nanoTime(), name + " " + words[4]);
        try {
            Optional<Lease> lease = locks().lock(name).adopt(words[5]);
            if (lease.isPresent()) {
                granted(attempt, lease.get(), "adopted");
            } else {
                note("unheired", attempt, System.nanoTime(), "");
            }
        } catch (LockStoreException e) {
            note("unadopted", attempt, System.nanoTime(), "");
        }
        return "";
    }

    private String read(Held held) {
        int attempt = held.attempt;
        note("read", attempt, System.nanoTime(), String.valueOf(held.lease.token()));
        try {
            OptionalLong value = resource().read(held.lease.name(), held.lease.token());
            note(
                    value.isPresent() ? "seen" : "stale",
                    attempt,
                    System.nanoTime(),
                    value.isPresent() ? String.valueOf(value.getAsLong()) : "");
            held.base = value.isPresent() ? Long.valueOf(value.getAsLong()) : held.base;
        } catch (Exception e) {
            note("unread", attempt, System.nanoTime(), "");
        }
        return "";
    }

    private String write(Held held) {
        Long base = held.base;
        if (base == null) {
            return "";
        }
        int attempt = held.attempt;
        // No other has this number.
        long value = attempt * 1_000L + ++held.writes;
        note("write", attempt, System.nanoTime(), held.lease.token() + " " + base + " " + value);
        try {
            boolean accepted = resource().write(held.lease.name(), held.lease.token(), value);
            note(accepted ? "written" : "rejected", attempt, System.nanoTime(), "");
            held.base = accepted ? Long.valueOf(value) : base;
        } catch (Exception e) {
            note("unwritten", attempt, System.nanoTime(), "");
            // What is there now, it does not know.
            held.base = null;
        }
        return "";
    }

    private String release(Held held) {
        write(held);
        int attempt = held.attempt;
        synchronized (held) {
            held.ended = true;
            note("release", attempt, System.nanoTime(), "");
        }
        latest.remove(held.lease.name(), held);
        try {
            boolean live = held.lease.release();
            long now = System.nanoTime();
            // After its deadline it is the client that says so, and the store was not asked.
            note(live ? "released" : now < held.end && !held.over ? "gone" : "unreleased", attempt, now, "");
        } catch (LockStoreException e) {
            note("unreleased", attempt, System.nanoTime(), "");
        }
        return "";
    }

    private String detach(Held held) {
        int attempt = held.attempt;
        synchronized (held) {
            held.ended = true;
            note("detach", attempt, System.nanoTime(), String.valueOf(held.lease.token()));
        }
        try {
            String ticket = held.lease.detach();
            note("detached", attempt, System.nanoTime(), "");
            latest.remove(held.lease.name(), held);
            return attempt + " " + ticket;
        } catch (LockStoreException | LeaseLostException | IllegalStateException e) {
            note("undetached", attempt, System.nanoTime(), "");
            return "";
        }
    }

    /** Ends all waits, leases and looks of a scenario; the next begins after it. */
    private void finish() {
        while (true) {
            int before = running.get();
            latest.forEach((name, held) -> {
                CompletableFuture<Void> released = new CompletableFuture<>();
                turns.compute(
                        name,
                        (n, turn) -> (turn == null ? CompletableFuture.<Void>completedFuture(null) : turn)
                                .thenRunAsync(
                                        () -> {
                                            if (latest.get(name) == held) {
                                                release(held);
                                            }
                                            released.complete(null);
                                        },
                                        pool));
                released.join();
            });
            boolean doubtful = watched.stream().anyMatch(held -> held.late != 0);
            if (before == 0 && running.get() == 0 && latest.isEmpty() && !doubtful) {
                watched.clear();
                turns.clear();
                return;
            }
            pause();
        }
    }

    private static void pause() {
        try {
            TimeUnit.MILLISECONDS.sleep(LOOK);
        } catch (InterruptedException e) {
            throw new IllegalStateException("nobody interrupts this", e);
        }
    }

    // ------------------------------------------------------------------------------------------------ what it sees

    private void told(LockEvent event) {
        if (event.kind() != LockEvent.Kind.RENEWED && event.kind() != LockEvent.Kind.UNCERTAIN) {
            return;
        }
        for (Held held : watched) {
            if (held.lease.name().equals(event.name())
                    && held.lease.token() == event.token().orElse(0)) {
                if (event.kind() == LockEvent.Kind.RENEWED) {
                    held.renewals.incrementAndGet();
                } else {
                    note("uncertain", held.attempt, System.nanoTime(), "");
                }
            }
        }
    }

    private void look() {
        while (true) {
            long now = System.nanoTime();
            if (now - looked > lease / 4) {
                stoodStill = now;
            }
            looked = now;
            watched.forEach(this::look);
            pause();
        }
    }

    /** What the client says of a lease, against what it said before. */
    private void look(Held held) {
        synchronized (held) {
            int renewals = held.renewals.get();
            if (held.late != 0) {
                late(held, renewals);
            }
            if (held.ended || held.late != 0) {
                return;
            }
            long before = System.nanoTime();
            boolean yes = isHeld(held.lease);
            long remaining = held.lease.remaining().toNanos();
            long after = System.nanoTime();
            if (!yes) {
                if (!held.over) {
                    held.over = true;
                    note(
                            "over",
                            held.attempt,
                            before,
                            held.seen + (before >= held.latestEnd ? " deadline" : " before"));
                }
                return;
            }
            if (held.over && held.latestEnd != Long.MAX_VALUE) {
                held.latestEnd = Long.MAX_VALUE;
                note("again", held.attempt, before, "");
            } else if (before >= held.latestEnd && renewals == held.seenRenewals) {
                // Unless a renewal came in time: the listener is told of it, perhaps a little later.
                held.late = before;
                held.lateBy = before - held.latestEnd;
                held.lateLooks = 0;
            }
            if (remaining > 0 && before + remaining > held.end + 1_000_000) {
                held.end = before + remaining;
                note("held", held.attempt, after, held.seen + " " + held.lease.token() + " " + held.end);
                held.latestEnd = Math.max(held.latestEnd, after + remaining);
            }
            if (held.late == 0) {
                held.seenRenewals = renewals;
            }
            held.seen = before;
        }
    }

    /** Whether it turns out that a renewal had come in time. */
    private void late(Held held, int renewals) {
        if (renewals != held.seenRenewals) {
            held.late = 0;
            held.seenRenewals = renewals;
        } else if (++held.lateLooks > TOLD) {
            note("late", held.attempt, held.late, String.valueOf(held.lateBy));
            held.late = 0;
            held.over = true;
            held.latestEnd = Long.MAX_VALUE;
        }
    }

    private synchronized void note(String what, int attempt, long at, String more) {
        String line = what + " " + attempt + " " + at + " " + more + "\n";
        FileChannel channel = file;
        try {
            if (channel != null) {
                channel.write(ByteBuffer.wrap(line.getBytes(StandardCharsets.UTF_8)));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
