package dev.mortise.lock.jdbc;

/** Locks in a table of PostgreSQL keep all rules of {@code docs/spec.md}. */
class PostgresTckTest extends TableTck {
    @Override
    TestStore open() {
        return new PostgresStore();
    }
}
