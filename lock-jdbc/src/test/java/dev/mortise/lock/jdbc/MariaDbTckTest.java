package dev.mortise.lock.jdbc;

/** Locks in a table of MariaDB keep all rules of {@code docs/spec.md}. */
class MariaDbTckTest extends TableTck {
    @Override
    TestStore open() {
        return new MariaDbStore();
    }
}
