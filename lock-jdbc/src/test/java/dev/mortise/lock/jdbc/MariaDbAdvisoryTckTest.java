package dev.mortise.lock.jdbc;

/** Locks of MariaDB's sessions keep all rules of {@code docs/spec.md}. */
class MariaDbAdvisoryTckTest extends TableTck {
    @Override
    TestStore open() {
        return new MariaDbStore(MariaDbServer.shared(), "advisory");
    }
}
