package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.Guarantees;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.Option;
import dev.mortise.lock.spi.StoreUri;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.SQLException;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;

/** Opens locks in an H2 database: {@code jdbc:h2:tcp://host/database}. Found by its scheme; not for users. */
public final class H2Provider implements BackendProvider {
    private static final String SCHEME = "jdbc:h2";

    private static final Option<String> STRATEGY = Option.choice(
            "strategy",
            Dialect.TABLE,
            List.of(Dialect.TABLE),
            "How a lock is kept: table, a row with its end by the database's clock.");

    private static final Option<String> SCHEMA = Option.text(
            "schema", "", "The schema of the table, if not PUBLIC; the same for all who shall exclude each other.");

    private static final Option<String> USER = Option.text("user", "", "The user of the database.");

    private static final Option<String> PASSWORD = Option.secret("password", "Its password.");

    /** For {@link java.util.ServiceLoader}. */
    public H2Provider() {}

    @Override
    public Map<String, Guarantees> schemes() {
        return Map.of(SCHEME, H2Dialect.GUARANTEES);
    }

    @Override
    public List<Option<?>> options() {
        return List.of(STRATEGY, SCHEMA, USER, PASSWORD);
    }

    @Override
    public LockBackend open(StoreUri uri, BackendContext context) {
        if (!uri.scheme().equals(SCHEME)) {
            throw new IllegalArgumentException("scheme " + uri.scheme() + " is not served; " + SCHEME + " is");
        }
        String schema = uri.get(SCHEMA);
        return TableBackend.open(new H2Dialect(new Url(uri), schema.isEmpty() ? null : schema), context);
    }

    /** Connections of our own. */
    static final class Url implements ServerDialect.Source {
        private final String store;
        private final String url;
        private final Properties properties = new Properties();

        Url(StoreUri uri) {
            store = uri.toString();
            url = SCHEME + uri.verbatim().trim().substring(SCHEME.length());
            String upper = url.toUpperCase(Locale.ROOT);
            if (upper.startsWith("JDBC:H2:MEM:")) {
                throw new IllegalArgumentException(
                        "a database in memory is lost with its last connection: use a file or an"
                                + " H2 server, or for tests the in-memory store");
            }
            if (upper.replace(" ", "").contains(";AUTO_SERVER=TRUE")) {
                // Killed, such a client takes the last half second of all with it.
                throw new IllegalArgumentException(
                        "AUTO_SERVER makes a client the server of the others, whose locks are"
                                + " lost with it: start an H2 server, and use jdbc:h2:tcp://host/database");
            }
            uri.user().ifPresent(user -> once(upper, "USER", user));
            uri.password().ifPresent(password -> once(upper, "PASSWORD", password));
        }

        private void once(String upper, String name, String value) {
            if (upper.replace(" ", "").contains(";" + name + "=")) {
                throw new IllegalArgumentException(
                        name.toLowerCase(Locale.ROOT) + " is given twice: in the URL and as an option");
            }
            properties.setProperty(name.toLowerCase(Locale.ROOT), value);
        }

        @Override
        public String store() {
            return store;
        }

        @Override
        public boolean own() {
            return true;
        }

        @Override
        public Connection connect(long nanos) throws SQLException {
            Driver driver = Drivers.find("org.h2.", SCHEME + ":", "H2", "com.h2database:h2");
            try {
                return Drivers.connect(driver, url, properties, nanos);
            } catch (Refusal e) {
                throw e;
            } catch (SQLException e) {
                throw failed(e);
            }
        }

        /** The driver shows the URL, in which there may be a password. */
        private static SQLException failed(SQLException e) {
            return switch (e.getErrorCode()) {
                case 28000 ->
                    new Refusal(
                            "the database does not accept this user with this password",
                            "check the options user and password, or MORTISE_USER and MORTISE_PASSWORD",
                            null);
                case 90011, 90046, 90047, 90088, 90113, 90066 ->
                    new Refusal(
                            "the JDBC URL cannot be read, or has a setting that H2 does not know",
                            "write it jdbc:h2:tcp://host/database;SETTING=value, or jdbc:h2:/folder/database",
                            null);
                default -> e;
            };
        }
    }
}
