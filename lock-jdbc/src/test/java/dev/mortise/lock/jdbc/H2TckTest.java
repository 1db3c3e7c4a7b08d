package dev.mortise.lock.jdbc;

/** Locks in a table of H2 keep all rules of {@code docs/spec.md}. */
class H2TckTest extends TableTck {
    @Override
    TestStore open() {
        return new H2Store();
    }
}
