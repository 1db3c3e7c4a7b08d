package dev.mortise.lock.tck;

/** Time that nothing but sleeping moves, for one thread. */
final class VirtualClock implements Clock {
    private long now = 1_000_000_000;

    @Override
    public long now() {
        return now;
    }

    @Override
    public void sleepUntil(long at) {
        now = Math.max(now, at);
    }

    void pass(long nanos) {
        now += nanos;
    }

    @Override
    public boolean isVirtual() {
        return true;
    }
}
