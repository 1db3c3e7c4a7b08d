package dev.mortise.lock.tck;

import java.util.Comparator;
import java.util.PriorityQueue;

/** Time that nothing but sleeping moves, for one thread. */
final class VirtualClock implements Clock {
    private final PriorityQueue<Alarm> alarms = new PriorityQueue<>(Comparator.comparingLong(Alarm::when));
    private long now = 1_000_000_000;

    private record Alarm(long when, Runnable what) {}

    @Override
    public long now() {
        return now;
    }

    @Override
    public void sleepUntil(long at) {
        for (Alarm next = alarms.peek(); next != null && next.when <= at; next = alarms.peek()) {
            alarms.remove();
            now = Math.max(now, next.when);
            next.what.run();
        }
        now = Math.max(now, at);
    }

    @Override
    public void at(long when, Runnable what) {
        alarms.add(new Alarm(when, what));
    }

    void pass(long nanos) {
        sleepUntil(now + nanos);
    }

    /** To the moment for which something is planned. */
    void toNextAlarm() {
        sleepUntil(alarms.element().when);
    }

    @Override
    public boolean isVirtual() {
        return true;
    }
}
