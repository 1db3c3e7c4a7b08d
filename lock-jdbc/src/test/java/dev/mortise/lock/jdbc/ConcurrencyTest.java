package dev.mortise.lock.jdbc;

import static dev.mortise.lock.jdbc.TestStore.acquire;
import static dev.mortise.lock.jdbc.TestStore.claim;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.spi.Claim;
import dev.mortise.lock.spi.Grant;
import dev.mortise.lock.spi.LockBackend;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** Many at once. */
@ParameterizedClass
@EnumSource(TestStore.Kind.class)
class ConcurrencyTest {
    @Parameter
    TestStore.Kind kind;

    private static final int THREADS = 8;

    private final ExecutorService threads = Executors.newFixedThreadPool(THREADS);

    @TempDir
    Path folder;

    @AfterEach
    void end() {
        threads.shutdownNow();
    }

    private void together(Callable<Void> body) throws Exception {
        List<Future<Void>> all = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            all.add(threads.submit(body));
        }
        for (Future<Void> each : all) {
            each.get(2, TimeUnit.MINUTES);
        }
    }

    /** Eight at the same instant for a name that has no row yet: one winner each, and no error (RT-07). */
    @Test
    void freshNames() throws Exception {
        int names = TestStore.times(80, 300);
        CyclicBarrier barrier = new CyclicBarrier(THREADS);
        AtomicIntegerArray winners = new AtomicIntegerArray(names);
        try (TestStore store = kind.open(folder)) {
            together(() -> {
                LockBackend client = store.client(Duration.ofSeconds(30));
                for (int i = 0; i < names; i++) {
                    barrier.await();
                    Grant grant = acquire(client, claim("n" + i)).orElse(null);
                    // Given back, because each may keep a connection, when all have asked.
                    barrier.await();
                    if (grant != null) {
                        winners.incrementAndGet(i);
                        client.release(grant.claim());
                    }
                }
                return null;
            });
        }
        for (int i = 0; i < names; i++) {
            assertThat(winners.get(i)).as("winners of name %d", i).isEqualTo(1);
        }
    }

    /** Eight make the store itself at the same instant: all can use it. */
    @Test
    void freshStores() throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(THREADS);
        for (int i = 0; i < TestStore.times(4, 10); i++) {
            Path own = folder.resolve("s" + i);
            java.nio.file.Files.createDirectory(own);
            try (TestStore store = kind.open(own)) {
                together(() -> {
                    barrier.await();
                    LockBackend client = store.client(Duration.ofSeconds(30));
                    Claim claim = claim("own " + Thread.currentThread().getName());
                    assertThat(acquire(client, claim)).isPresent();
                    assertThat(client.release(claim)).isTrue();
                    return null;
                });
            }
        }
    }

    /**
     * Eight threads over three clients take, renew, hand over, give back and forget three names with short leases: no
     * two leases overlap, and tokens grow in the order of holding.
     */
    @Test
    void historiesHaveNoOverlap() throws Exception {
        History history = new History();
        try (TestStore store = kind.open(folder)) {
            List<LockBackend> clients = List.of(
                    store.client(Duration.ofSeconds(30)),
                    store.client(Duration.ofSeconds(30)),
                    store.client(Duration.ofSeconds(30)));
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(TestStore.times(2, 6));
            together(() -> {
                ThreadLocalRandom random = ThreadLocalRandom.current();
                while (System.nanoTime() < end) {
                    LockBackend client = clients.get(random.nextInt(clients.size()));
                    Claim claim = claim("n" + random.nextInt(3), Duration.ofMillis(100 + random.nextInt(60)));
                    Grant grant = acquire(client, claim).orElse(null);
                    if (grant == null) {
                        continue;
                    }
                    History.Hold hold = history.begins(grant);
                    for (int i = random.nextInt(4); i > 0 && grant != null; i--) {
                        if (client.guarantees().outlivesClient() && random.nextInt(5) == 0) {
                            Claim heir = claim(grant.name(), Duration.ofMillis(100 + random.nextInt(60)));
                            long before = System.nanoTime();
                            Grant next = client.adopt(grant, heir).orElse(null);
                            if (next != null) {
                                hold.endsBefore(before);
                                hold = history.begins(next);
                            }
                            grant = next;
                        } else {
                            List<Grant> live = client.renew(List.of(grant)).live();
                            grant = live.isEmpty() ? null : live.get(0);
                            if (grant != null) {
                                hold.renewed(grant);
                            }
                        }
                    }
                    if (grant != null && random.nextInt(3) > 0) {
                        hold.endsBefore(System.nanoTime());
                        clients.get(random.nextInt(clients.size())).release(grant.claim());
                    }
                }
                return null;
            });
        }
        assertThat(history.size()).isGreaterThan(TestStore.times(30, 100));
        history.check();
    }

    /** A thread that asks for names of its own is not blocked by those who wait for others. */
    @Test
    void namesAreIndependent() throws Exception {
        List<Long> waits = Collections.synchronizedList(new ArrayList<>());
        try (TestStore store = kind.open(folder)) {
            LockBackend client = store.client(Duration.ofSeconds(30));
            acquire(client, claim("contended"));
            together(() -> {
                String own = "own " + Thread.currentThread().getName();
                for (int i = 0; i < 50; i++) {
                    assertThat(acquire(client, claim("contended"))).isEmpty();
                    long start = System.nanoTime();
                    Claim claim = claim(own);
                    assertThat(acquire(client, claim)).isPresent();
                    waits.add(System.nanoTime() - start);
                    client.release(claim);
                }
                return null;
            });
        }
        assertThat(Collections.max(waits)).isLessThan(TimeUnit.SECONDS.toNanos(5));
    }
}
