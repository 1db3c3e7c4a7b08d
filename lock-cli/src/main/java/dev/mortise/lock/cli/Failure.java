package dev.mortise.lock.cli;

import org.jspecify.annotations.Nullable;

/** An end that the user can do something about: one line for people, and the exit code for programs. */
final class Failure extends Exception {
    private static final long serialVersionUID = 1;

    // Those of sysexits.h, as other programs use them, so that they seldom collide with the command's own.
    static final int CONFLICT = 1;
    static final int USAGE = 64;
    static final int UNAVAILABLE = 69;
    static final int INTERNAL = 70;
    static final int LOST = 75;
    static final int NOT_EXECUTABLE = 126;
    static final int NOT_FOUND = 127;
    static final int SIGNAL = 128;

    final int code;

    Failure(int code, String message) {
        this(code, message, null);
    }

    Failure(int code, String message, @Nullable Throwable cause) {
        super(message, cause);
        this.code = code;
    }
}
