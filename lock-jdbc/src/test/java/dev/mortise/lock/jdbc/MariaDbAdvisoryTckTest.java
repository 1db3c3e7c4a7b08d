package dev.mortise.lock.jdbc;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.io.IOException;
import java.sql.SQLException;

/** Locks of MariaDB's sessions keep all rules of {@code docs/spec.md}. */
class MariaDbAdvisoryTckTest extends LockTck {
    @Override
    protected Store store() throws IOException, SQLException {
        return TableStore.of(
                "MariaDB, named locks",
                environment -> new MariaDbServer(environment),
                (server, port) -> new MariaDbStore(server, port, "advisory"));
    }
}
