package dev.mortise.lock;

import org.jspecify.annotations.Nullable;

/**
 * The base of what Mortise throws. Bad arguments are {@link IllegalArgumentException} instead, and use of a closed
 * client {@link IllegalStateException}: those are mistakes in the program, these are facts of the world.
 */
public abstract class LockException extends RuntimeException {
    private static final long serialVersionUID = 1;

    LockException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
