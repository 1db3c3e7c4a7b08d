package dev.mortise.lock.jdbc;

import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;

/** Locks in a table of SQLite keep all rules of {@code docs/spec.md}. */
class SqliteTckTest extends TableTck {
    @TempDir
    static Path folder;

    @Override
    TestStore open() {
        return new SqliteStore(folder);
    }
}
