package org.example.lock.hazelcast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.LockTck;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** What is wrong with {@link NaiveBackend}, by the numbers of the rules that it breaks. */
class NaiveTest {
    private static final Map<String, String> CAUSES = new TreeMap<>(Map.ofEntries(
            Map.entry("1.1", "the owner is the client's thread: whoever comes by the same one gets the lock beside its holder"),
            Map.entry("1.5", "another token for an owner that has one already"),
            Map.entry("2.1", "forceUnlock ends whoever's claim"),
            Map.entry("2.2", "to lock once more lengthens the lock of the thread, whoever asks"),
            Map.entry("2.3", "the same: a holder that was replaced is told that it holds"),
            Map.entry("2.5", "what is locked is not looked at by its owner"),
            Map.entry("2.6", "to lock once more takes a lock that has ended, for nobody who knows of it"),
            Map.entry("3.3", "the clock is read when the answer has come"),
            Map.entry("5.2", "each client has its own supply of identifiers, and they grow in that client only"),
            Map.entry("5.3", "the same"),
            Map.entry("5.5", "the same")));

    /** Rules that it keeps; what is judged must not be broken altogether. */
    private static final Set<String> KEPT = Set.of("0.2", "0.3", "1.3", "1.4", "4.1", "5.1", "5.4");

    private static final class NaiveStore extends HazelcastStore {
        NaiveStore() throws Exception {
            super(1, NaiveBackend.MAP);
        }

        @Override
        public LockBackend connect(Duration callTimeout) {
            return new NaiveBackend(
                    HazelcastProvider.connect(address(), BackendContext.of(System::nanoTime, callTimeout)));
        }

        @Override
        public void evict(String name) {
            admin().getMap(NaiveBackend.MAP).forceUnlock(name);
        }

        @Override
        public Map<String, String> about() {
            Map<String, String> about = new LinkedHashMap<>(super.about());
            about.put("store", "Hazelcast, the lock that comes to mind first");
            return about;
        }

        @Override
        public Optional<Faults> faults() {
            return Optional.of(new HazelcastFaults() {
                /** Nothing waits for a lock that is in the way of nothing else. */
                @Override
                public Optional<AutoCloseable> holdUp(String name) {
                    return Optional.empty();
                }

                @Override
                public Set<Fault> possible() {
                    return Set.of();
                }
            });
        }

        @Override
        public Optional<String> uri() {
            return Optional.empty();
        }
    }

    @Test
    void naiveLockBreaksTheseRules() throws Exception {
        Set<String> judged = new TreeSet<>(CAUSES.keySet());
        judged.addAll(KEPT);
        Map<String, String> broken = LockTck.broken(new NaiveStore(), judged.toArray(String[]::new));
        assertEquals(CAUSES.keySet(), broken.keySet(), () -> String.join("\n", broken.values()));
    }
}
