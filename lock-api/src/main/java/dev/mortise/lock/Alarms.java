package dev.mortise.lock;

import java.time.Duration;
import java.util.TreeSet;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * The engine's alarms: many, in order, behind one outstanding timer. Most are taken back before they ring (a release
 * takes back the renewal and the deadline), so setting one usually costs an insertion and wakes nobody.
 *
 * <p>Guarded by the engine's mutex. Actions run under it, on the timer's thread.
 */
final class Alarms {
    private final TimeSource time;
    private final LongConsumer ring;
    private final long origin;
    private final TreeSet<Alarm> alarms = new TreeSet<>();
    private long order;
    private boolean armed;
    private long armedFor;

    /**
     * Alarms.
     *
     * @param ring takes the mutex and calls {@link #ringDue} with what it was given
     */
    Alarms(TimeSource time, LongConsumer ring) {
        this.time = time;
        this.ring = ring;
        origin = time.nanoTime();
    }

    /** One alarm. */
    static final class Alarm implements Comparable<Alarm> {
        private final long at; // since the origin, so that the order survives a ticker that wraps
        private final long order;
        private final Runnable action;

        private Alarm(long at, long order, Runnable action) {
            this.at = at;
            this.order = order;
            this.action = action;
        }

        @Override
        public int compareTo(Alarm other) {
            return at != other.at ? Long.compare(at, other.at) : Long.compare(order, other.order);
        }
    }

    Alarm at(long nanoTime, Runnable action) {
        Alarm alarm = new Alarm(nanoTime - origin, order++, action);
        alarms.add(alarm);
        arm();
        return alarm;
    }

    void cancel(@Nullable Alarm alarm) {
        if (alarm != null) {
            alarms.remove(alarm);
        }
    }

    void clear() {
        alarms.clear();
    }

    int size() {
        return alarms.size();
    }

    /** Runs what is due, for the timer that was set for {@code target}. */
    void ringDue(long target) {
        if (!armed || target != armedFor) {
            return; // an earlier one was set meanwhile and is the one that counts
        }
        armed = false;
        long now = time.nanoTime() - origin;
        long last = order;
        // One by one, because an action may cancel the next; not those set meanwhile, so that this ends.
        while (!alarms.isEmpty() && alarms.first().at <= now && alarms.first().order < last) {
            Alarm alarm = alarms.first();
            alarms.remove(alarm);
            alarm.action.run();
        }
        arm();
    }

    private void arm() {
        if (alarms.isEmpty()) {
            return;
        }
        long first = alarms.first().at;
        if (armed && armedFor <= first) {
            return; // it rings early enough, finds nothing due, and is armed again
        }
        armed = true;
        armedFor = first;
        long now = time.nanoTime() - origin;
        time.schedule(Duration.ofNanos(Math.max(0, first - now)), () -> ring.accept(first));
    }
}
