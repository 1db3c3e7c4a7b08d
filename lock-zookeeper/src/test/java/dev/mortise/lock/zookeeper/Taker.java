package dev.mortise.lock.zookeeper;

import dev.mortise.lock.Holds;
import dev.mortise.lock.Holds.Hold;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Renewal;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * A client with a network of its own to each server, that takes locks, renews and releases them without a pause, or is
 * asked to by a test. What it does is what the engine does with a backend, written down in {@link Holds}.
 */
final class Taker implements AutoCloseable {
    static final Duration CALL_TIMEOUT = Duration.ofSeconds(2);

    /** What a renewal can say of a lease. */
    enum Answer {
        LIVE,
        ENDED,
        UNKNOWN
    }

    final int number;
    final List<TcpProxy> ways = new ArrayList<>();
    final LockBackend backend;
    private final Holds holds;
    private volatile Thread worker;
    private volatile boolean end;
    private volatile Throwable failure;
    /** The call of the last acquire that was granted. */
    private volatile long granted = Long.MIN_VALUE;

    Taker(int number, Holds holds, List<Integer> ports, Map<String, String> options) {
        this.number = number;
        this.holds = holds;
        try {
            for (int port : ports) {
                ways.add(new TcpProxy(port));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        backend = open(connectString(), options, CALL_TIMEOUT);
    }

    static LockBackend open(String hosts, Map<String, String> options, Duration callTimeout) {
        return new ZooKeeperProvider()
                .open(
                        StoreUri.parse("zookeeper://" + hosts, options),
                        BackendContext.of(System::nanoTime, callTimeout));
    }

    /** Where its proxies are. */
    String connectString() {
        return ways.stream().map(way -> "127.0.0.1:" + way.port()).collect(Collectors.joining(","));
    }

    /** Nothing goes through any more, and nobody is told: what was sent is kept. */
    void blackHole(int server) {
        ways.get(server).requests(TcpProxy.Mode.HOLD);
        ways.get(server).replies(TcpProxy.Mode.HOLD);
    }

    /** Connections are reset, and no new ones are taken. */
    void refuse(int server) {
        ways.get(server).refuse(true);
        ways.get(server).cut();
    }

    void heal() {
        ways.forEach(TcpProxy::heal);
    }

    /** Only this server is there for it. */
    void only(int server) {
        for (int i = 0; i < ways.size(); i++) {
            if (i != server) {
                refuse(i);
            }
        }
    }

    // -------------------------------------------------------------------------------------------------------- one by
    // one

    Optional<Hold> take(String name, Duration lease, Duration patience) throws InterruptedException {
        return holds.take(backend, Holds.claim(name, lease), patience);
    }

    /** What is free, or becomes so. */
    Hold sure(String name, Duration lease) throws InterruptedException {
        long limit = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        LockStoreException silence = null;
        while (System.nanoTime() - limit < 0) {
            Claim claim = Holds.claim(name, lease);
            try {
                Optional<Hold> hold = holds.take(backend, claim, Duration.ofSeconds(1));
                if (hold.isPresent()) {
                    return hold.get();
                }
            } catch (LockStoreException e) {
                silence = e;
            }
            undone(claim);
        }
        throw new AssertionError("not granted: " + name, silence);
    }

    /** What nobody has. */
    Hold atOnce(String name, Duration lease) throws InterruptedException {
        return take(name, lease, Duration.ZERO).orElseThrow(() -> new AssertionError("not free: " + name));
    }

    static boolean held(Hold hold) {
        return System.nanoTime() - hold.until < 0;
    }

    /** Its holder does not count on it from now on. */
    static void stop(Hold hold) {
        hold.until = Math.min(hold.until, System.nanoTime());
    }

    /** Written down; ended is, too, what was over anyhow. */
    Answer renew(Hold hold) {
        boolean live;
        try {
            live = holds.renew(backend, hold);
        } catch (LockStoreException e) {
            return Answer.UNKNOWN;
        }
        return live ? Answer.LIVE : held(hold) ? Answer.UNKNOWN : Answer.ENDED;
    }

    /** In one call; and not written down, as if nobody counted on it. */
    List<Answer> renew(List<Hold> all) {
        Renewal renewal;
        try {
            renewal = backend.renew(all.stream().map(hold -> hold.grant).toList());
        } catch (LockStoreException e) {
            return all.stream().map(hold -> Answer.UNKNOWN).toList();
        }
        return all.stream()
                .map(hold -> has(renewal.live(), hold)
                        ? Answer.LIVE
                        : has(renewal.ended(), hold) ? Answer.ENDED : Answer.UNKNOWN)
                .toList();
    }

    private static boolean has(List<Grant> grants, Hold hold) {
        return grants.stream().anyMatch(grant -> grant.claim().equals(hold.claim) && grant.token() == hold.token);
    }

    /** Whether it was still live. */
    boolean release(Hold hold) throws InterruptedException {
        try {
            return holds.release(backend, hold);
        } catch (LockStoreException e) {
            undone(hold.claim);
            return false;
        }
    }

    /** True if the store acknowledged. */
    boolean undo(Claim claim) {
        try {
            boolean unused = backend.release(claim);
            return true;
        } catch (LockStoreException e) {
            return false;
        }
    }

    // ------------------------------------------------------------------------------------------------------ under load

    /** Begins to take these names in turn, and to hold them for less than a lease or for more. */
    Taker work(List<String> names, Duration lease) {
        worker = new Thread(
                () -> {
                    try {
                        Random random = new Random(number);
                        while (!end) {
                            take(names.get(random.nextInt(names.size())), lease, random);
                        }
                    } catch (InterruptedException | RuntimeException | AssertionError e) {
                        failure = e;
                    }
                },
                "taker-" + number);
        worker.setDaemon(true);
        worker.start();
        return this;
    }

    private void take(String name, Duration lease, Random random) throws InterruptedException {
        Claim claim = Holds.claim(name, lease);
        long asked = System.nanoTime();
        Optional<Hold> hold;
        try {
            hold = holds.take(backend, claim, Duration.ofMillis(500));
        } catch (LockStoreException e) {
            undone(claim);
            return;
        }
        if (hold.isEmpty()) {
            undone(claim); // Held by another, or granted too late to be counted on.
            return;
        }
        granted = asked;
        boolean longer = random.nextInt(3) == 0;
        long nanos = longer ? lease.toNanos() / 3 + random.nextLong(lease.toNanos()) : random.nextLong(50_000_000);
        keep(hold.get(), System.nanoTime() + nanos);
        // Some are forgotten: what is not renewed ends by itself.
        if (random.nextInt(8) != 0) {
            release(hold.get());
        }
    }

    /** Until then, or until it is lost. */
    private void keep(Hold hold, long until) throws InterruptedException {
        long third = hold.claim.lease().toNanos() / 3;
        long next = hold.given + third;
        while (System.nanoTime() - until < 0 && held(hold) && !end) {
            TimeUnit.MILLISECONDS.sleep(2);
            if (System.nanoTime() - next >= 0) {
                Answer answer = renew(hold);
                if (answer == Answer.ENDED) {
                    return;
                }
                next = System.nanoTime() + (answer == Answer.LIVE ? third : 20_000_000);
            }
        }
    }

    /** As the engine does: again and again, until the store has acknowledged it. */
    void undone(Claim claim) throws InterruptedException {
        long limit = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (!undo(claim)) {
            TimeUnit.MILLISECONDS.sleep(20);
            if (System.nanoTime() - limit > 0) {
                throw new AssertionError("a release is not acknowledged: " + claim);
            }
        }
    }

    boolean works() {
        return worker != null;
    }

    /** Whether an acquire that was called after that moment was granted. */
    boolean grantedSince(long moment) {
        if (failure != null) {
            throw new AssertionError("taker " + number + " failed", failure);
        }
        return granted != Long.MIN_VALUE && granted - moment > 0;
    }

    void rest() throws InterruptedException {
        end = true;
        if (worker != null) {
            worker.join();
        }
        if (failure != null) {
            throw new AssertionError("taker " + number + " failed", failure);
        }
    }

    @Override
    public void close() {
        end = true;
        backend.close();
        ways.forEach(TcpProxy::close);
    }
}
