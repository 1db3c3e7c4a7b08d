package dev.mortise.lock.tck;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mortise.lock.InMemoryBackend;
import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ProcessesTest {
    /** Wrong: each process has a store of its own. No test within one process can see that. */
    public static final class Lonely implements BackendProvider {
        public Lonely() {}

        @Override
        public Map<String, Guarantees> schemes() {
            return Map.of("lonely", new InMemoryBackend().guarantees());
        }

        @Override
        public List<Option<?>> options() {
            return List.of();
        }

        @Override
        public LockBackend open(StoreUri uri, BackendContext context) {
            return new InMemoryBackend();
        }
    }

    /** Holders in processes of their own that hold at a time are found in their histories. */
    @Test
    void lonelyProcessesAreFound() throws Exception {
        History history = Processes.play("lonely://here", Map.of(), Duration.ofSeconds(2));
        assertThat(history).isNotNull();
        assertThat(Checker.check(history, lease -> lease).breaks(Rule.R1_1))
                .as(history.timeline())
                .isTrue();
    }
}
