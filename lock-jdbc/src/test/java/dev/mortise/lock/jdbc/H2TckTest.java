package dev.mortise.lock.jdbc;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.io.IOException;
import java.sql.SQLException;

/** Locks in a table of H2 keep all rules of {@code docs/spec.md}. */
class H2TckTest extends LockTck {
    @Override
    protected Store store() throws IOException, SQLException {
        return TableStore.of(
                "H2, a server",
                environment -> new H2Server(environment),
                (server, port) -> new H2Store(port, server.port()));
    }
}
