package dev.mortise.lock.jdbc;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.nio.file.Path;
import java.sql.SQLException;
import org.junit.jupiter.api.io.TempDir;

/** Locks in a table of SQLite keep all rules of {@code docs/spec.md}. */
class SqliteTckTest extends LockTck {
    @TempDir
    static Path folder;

    @Override
    protected Store store() throws SQLException {
        return TableStore.of("SQLite", new SqliteStore(folder));
    }
}
