package dev.mortise.lock.jdbc;

import java.sql.Connection;
import java.sql.SQLException;

/** What databases with sessions have in common, of which many are open at once. */
abstract class ServerDialect implements Dialect {

    /** Where connections come from, and what is done to them so that our statements run as they must. */
    interface Source {
        /** The store as people know it, without secrets. */
        String store();

        /** Whether connections are ours, with settings of our own. */
        boolean own();

        Connection connect(long nanos) throws SQLException;
    }

    final Source source;
    private final String strategy;

    ServerDialect(Source source, String strategy) {
        this.source = source;
        this.strategy = strategy;
    }

    @Override
    public final String strategy() {
        return strategy;
    }

    @Override
    public final String store() {
        return source.store();
    }

    @Override
    public final int sessions() {
        return 8;
    }

    @Override
    public final boolean keepsSessions() {
        return source.own();
    }
}
