package dev.mortise.lock;

/** None of the stores is strong enough for what is at stake. The message says what each of them lacks. */
public final class StakesNotMetException extends LockException {
    private static final long serialVersionUID = 1;

    StakesNotMetException(String message) {
        super(message, null);
    }
}
