package dev.mortise.lock.tck;

import java.time.Duration;

/** A backend that waits in the store, with a queue and a lag, keeps all rules. */
class QueueTest extends LockTck {
    @Override
    protected Store store() {
        return new SketchStore(Clock.MACHINE, null, Duration.ofMillis(3));
    }
}
