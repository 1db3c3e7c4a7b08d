package dev.mortise.lock.tck;

import dev.mortise.lock.InMemoryBackend;
import dev.mortise.lock.spi.LockBackend;

/** The in-memory backend keeps all rules. */
class MemoryTest extends LockTck {
    @Override
    protected Store store() {
        InMemoryBackend memory = new InMemoryBackend();
        return new Store() {
            @Override
            public LockBackend connect() {
                return memory;
            }

            @Override
            public void evict(String name) {
                memory.evict(name);
            }
        };
    }
}
