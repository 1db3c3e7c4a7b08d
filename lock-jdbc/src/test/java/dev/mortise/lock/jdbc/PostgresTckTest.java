package dev.mortise.lock.jdbc;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.io.IOException;
import java.sql.SQLException;

/** Locks in a table of PostgreSQL keep all rules of {@code docs/spec.md}. */
class PostgresTckTest extends LockTck {
    @Override
    protected Store store() throws IOException, SQLException {
        return TableStore.of(
                "PostgreSQL, rows",
                environment -> new PostgresServer(environment),
                (server, port) -> new PostgresStore(server, port, "table"));
    }
}
