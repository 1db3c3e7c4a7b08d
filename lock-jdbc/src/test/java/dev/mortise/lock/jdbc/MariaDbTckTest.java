package dev.mortise.lock.jdbc;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.io.IOException;
import java.sql.SQLException;

/** Locks in a table of MariaDB keep all rules of {@code docs/spec.md}. */
class MariaDbTckTest extends LockTck {
    @Override
    protected Store store() throws IOException, SQLException {
        return TableStore.of(
                "MariaDB, rows",
                environment -> new MariaDbServer(environment),
                (server, port) -> new MariaDbStore(server, port, "table"));
    }
}
