package dev.mortise.lock.tck;

import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;

/**
 * A program that takes a lock again and again, to be stopped and killed from outside. What it does is written to a file at
 * once, a line before each call and one after it, so that a kill leaves all that was known. It ends when its standard input
 * does, and so with the process that started it.
 *
 * <p>Arguments: URI, name, lease in milliseconds, file, a seed, and any number of options of the store.
 */
final class Taker {
    private final FileChannel file;

    /** In so much time no lease ends, in nanoseconds. */
    private final long shortest;

    private int attempt;

    private Taker(FileChannel file, long shortest) {
        this.file = file;
        this.shortest = shortest;
    }

    public static void main(String[] arguments) throws Exception {
        long lease = Long.parseLong(arguments[2]);
        Map<String, String> options = new HashMap<>(Map.of("lease", lease + "ms", "call-timeout", lease / 4 + "ms"));
        for (String option : List.of(arguments).subList(5, arguments.length)) {
            int equals = option.indexOf('=');
            options.put(option.substring(0, equals), option.substring(equals + 1));
        }
        // To be compared with the clock of the process that reads the histories.
        System.out.println(System.nanoTime());
        Thread main = Thread.currentThread();
        Thread end = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Until its end.
                }
            } catch (IOException e) {
                // That is an end too.
            }
            main.interrupt();
        });
        end.setDaemon(true);
        end.start();
        try (FileChannel file =
                        FileChannel.open(Path.of(arguments[3]), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                LockClient locks = connect(arguments[0], options)) {
            new Taker(file, TimeUnit.MILLISECONDS.toNanos(lease) * 9 / 10)
                    .take(locks, arguments[1], new SplittableRandom(Long.parseLong(arguments[4])));
        } catch (InterruptedException | ClosedByInterruptException e) {
            // It was told to end, in the middle of a line perhaps.
        }
    }

    /** On a busy machine the store may not answer within so short a call timeout at once. */
    private static LockClient connect(String uri, Map<String, String> options) throws InterruptedException {
        for (int tries = 1; ; tries++) {
            try {
                return LockClient.connect(uri, options);
            } catch (LockStoreException e) {
                if (tries == 20) {
                    throw e;
                }
                TimeUnit.MILLISECONDS.sleep(50);
            }
        }
    }

    private void take(LockClient locks, String name, SplittableRandom random) throws Exception {
        while (true) {
            attempt++;
            Duration patience = Duration.ofMillis(random.nextInt(3) * 200L);
            long asked = System.nanoTime();
            write("acquire", asked, 0, 0);
            Optional<Lease> lease;
            try {
                lease = locks.lock(name).tryAcquire(patience);
            } catch (LockStoreException e) {
                write("unknown", System.nanoTime(), 0, 0);
                continue;
            }
            if (lease.isEmpty()) {
                // One that stood still gets nothing also when it was granted the lock, if its lease is over by now.
                long now = System.nanoTime();
                write(now - asked < shortest ? "refused" : "unknown", now, 0, 0);
                continue;
            }
            hold(lease.get(), random.nextInt(8));
        }
    }

    private void hold(Lease lease, int rounds) throws Exception {
        long now = System.nanoTime();
        write("held", now, lease.token(), now + lease.remaining().toNanos());
        for (int i = 0; i < rounds; i++) {
            try {
                TimeUnit.MILLISECONDS.sleep(40);
            } catch (InterruptedException e) {
                // The client's close releases it.
                write("release", System.nanoTime(), lease.token(), 0);
                throw e;
            }
            long before = System.nanoTime();
            long remaining = lease.remaining().toNanos();
            if (remaining == 0) {
                write("lost", before, lease.token(), 0);
                return;
            }
            write("held", before, lease.token(), before + remaining);
        }
        write("release", System.nanoTime(), lease.token(), 0);
        try {
            boolean live = lease.release();
            write(live ? "released" : "gone", System.nanoTime(), lease.token(), 0);
        } catch (LockStoreException e) {
            write("unreleased", System.nanoTime(), lease.token(), 0);
        }
    }

    private void write(String what, long now, long token, long deadline) throws IOException {
        String line = String.format(Locale.ROOT, "%s %d %d %d %d%n", what, attempt, now, token, deadline);
        file.write(ByteBuffer.wrap(line.getBytes(StandardCharsets.UTF_8)));
    }
}
