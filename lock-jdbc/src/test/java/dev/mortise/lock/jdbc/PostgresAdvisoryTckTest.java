package dev.mortise.lock.jdbc;

/** Advisory locks of PostgreSQL keep all rules of {@code docs/spec.md}. */
class PostgresAdvisoryTckTest extends TableTck {
    @Override
    TestStore open() {
        return new PostgresStore(PostgresServer.shared(), "advisory");
    }
}
