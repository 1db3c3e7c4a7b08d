package dev.mortise.lock.tck;

import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What a lock protects, done right: every access, also a read, comes with a token, and one that is smaller than the
 * largest seen is refused. Not for several threads.
 */
class Resource {
    /** The number of the last write; and the largest token seen. */
    private long version;

    private long largest;
    private final Map<Integer, Long> read = new HashMap<>();

    boolean admits(long token, boolean write) {
        return token >= largest;
    }

    boolean fencesReads() {
        return true;
    }

    /** A read, under a lease: what it read, as an event. */
    Event read(Event event) {
        if (!admits(event.token(), false)) {
            return event;
        }
        if (fencesReads()) {
            largest = Math.max(largest, event.token());
        }
        read.put(event.attempt(), version);
        return done(event).value(version);
    }

    /** A write of what was made of the same lease's last read; null if there is none. */
    @Nullable
    Event write(Event event) {
        Long base = read.get(event.attempt());
        if (base == null) {
            return null;
        }
        if (!admits(event.token(), true)) {
            return event;
        }
        largest = Math.max(largest, event.token());
        read.put(event.attempt(), ++version);
        return done(event).granted(event.token(), base, 0).value(version);
    }

    private static Event done(Event e) {
        return Event.of(e.client(), e.attempt(), e.name(), e.op(), Event.Outcome.DONE, e.invoked(), e.returned())
                .granted(e.token(), e.since(), e.lease());
    }
}
