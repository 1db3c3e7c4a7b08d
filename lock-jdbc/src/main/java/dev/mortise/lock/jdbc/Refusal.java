package dev.mortise.lock.jdbc;

import java.sql.SQLException;
import org.jspecify.annotations.Nullable;

/** What we find wrong with a database ourselves, before or instead of its driver, with what to do about it. */
final class Refusal extends SQLException {
    private static final long serialVersionUID = 1;

    private final String advice;

    Refusal(String what, String advice, @Nullable Throwable cause) {
        super(what, cause);
        this.advice = advice;
    }

    String advice() {
        return advice;
    }
}
