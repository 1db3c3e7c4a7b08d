package dev.mortise.lock.tck;

import java.util.concurrent.TimeUnit;

/** The clock that a run of the kit lives by. */
interface Clock {
    Clock MACHINE = new Clock() {
        @Override
        public long now() {
            return System.nanoTime();
        }

        @Override
        public void sleepUntil(long at) throws InterruptedException {
            for (long left = at - now(); left > 0; left = at - now()) {
                TimeUnit.NANOSECONDS.sleep(left);
            }
        }

        @Override
        public void at(long when, Runnable what) {
            Thread thread = new Thread(
                    () -> {
                        try {
                            sleepUntil(when);
                        } catch (InterruptedException e) {
                            // Nobody has this thread; then it is done at once.
                        }
                        what.run();
                    },
                    "lock-tck-clock");
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public boolean isVirtual() {
            return false;
        }
    };

    /** Nanoseconds, of the same origin as {@link dev.mortise.lock.spi.Grant#since()}. */
    long now();

    void sleepUntil(long at) throws InterruptedException;

    /** Does it at that time or later, also while the caller waits for something else. */
    void at(long when, Runnable what);

    /** Whether nothing but {@link #sleepUntil} and the store moves it, on one thread. */
    boolean isVirtual();
}
