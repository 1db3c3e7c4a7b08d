package dev.mortise.lock;

import java.util.Objects;

/** The lease ended other than by release. What was done since then may have been done by two holders at a time. */
public final class LeaseLostException extends LockException {
    private static final long serialVersionUID = 1;

    private final Loss loss;

    LeaseLostException(Loss loss) {
        super(loss.toString(), null);
        this.loss = Objects.requireNonNull(loss, "loss");
    }

    /** What was lost, when, and why. */
    public Loss loss() {
        return loss;
    }
}
