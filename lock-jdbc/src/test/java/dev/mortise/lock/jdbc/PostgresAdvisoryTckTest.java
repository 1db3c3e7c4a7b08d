package dev.mortise.lock.jdbc;

import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.io.IOException;
import java.sql.SQLException;

/** Advisory locks of PostgreSQL keep all rules of {@code docs/spec.md}. */
class PostgresAdvisoryTckTest extends LockTck {
    @Override
    protected Store store() throws IOException, SQLException {
        return TableStore.of(
                "PostgreSQL, advisory locks",
                environment -> new PostgresServer(environment),
                (server, port) -> new PostgresStore(server, port, "advisory"));
    }
}
