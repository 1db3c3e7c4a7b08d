/** Locks in a relational database, and a fence for what is in one. */
module dev.mortise.lock.jdbc {
    requires transitive dev.mortise.lock;
    requires transitive java.sql;
    requires static org.jspecify;

    exports dev.mortise.lock.jdbc;

    uses java.sql.Driver;

    provides dev.mortise.lock.spi.BackendProvider with
            dev.mortise.lock.jdbc.H2Provider,
            dev.mortise.lock.jdbc.JdbcProvider,
            dev.mortise.lock.jdbc.MariaDbProvider,
            dev.mortise.lock.jdbc.PostgresProvider;
}
