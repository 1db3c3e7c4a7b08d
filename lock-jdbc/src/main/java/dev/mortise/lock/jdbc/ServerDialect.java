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

    /** The session in which a new connection is used. */
    abstract PlainSession session(Connection connection);

    /** The product that a DataSource must lead to, as its driver names it. */
    abstract String product();

    /**
     * Finds out whether this server can keep what is promised.
     *
     * @param end when it must have, on {@link System#nanoTime}
     */
    abstract void probe(Connection connection, boolean again, long end) throws SQLException;

    /** Probes each connection of our own, and the first one of the application's. */
    @Override
    public Session open(boolean again, long nanos) throws SQLException {
        long end = System.nanoTime() + nanos;
        PlainSession session = session(source.connect(nanos));
        boolean kept = false;
        try {
            if (!source.own() && !again) {
                String found = session.connection.getMetaData().getDatabaseProductName();
                if (!found.equals(product())) {
                    throw new Refusal(
                            "the DataSource leads to " + found + ", not to " + product(),
                            "give one of " + product(),
                            null);
                }
            }
            session.limit(end - System.nanoTime());
            if (!source.own()) {
                session.borrow();
            }
            if (source.own() || !again) {
                probe(session.connection, again, end);
            }
            session.settle();
            kept = true;
            return session;
        } finally {
            if (!kept) {
                session.close();
            }
        }
    }
}
