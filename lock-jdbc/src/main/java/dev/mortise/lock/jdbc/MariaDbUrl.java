package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.StoreUri;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import javax.net.ssl.SSLException;
import org.jspecify.annotations.Nullable;

/** Connections of our own to the server of a JDBC URL of MariaDB, with settings of our own. */
final class MariaDbUrl implements ServerDialect.Source {
    private static final String PREFIX = "jdbc:mariadb:";

    private final String store;
    private final String url;
    private final String query;
    private final @Nullable String user;
    private final @Nullable String password;
    private final Duration callTimeout;
    private final boolean multi;

    /** With several statements in one request, if the strategy needs that. */
    MariaDbUrl(StoreUri uri, Duration callTimeout, boolean multi) {
        this.multi = multi;
        store = uri.toString();
        String verbatim = uri.verbatim().trim();
        int question = verbatim.indexOf('?');
        url = PREFIX + (question < 0 ? verbatim : verbatim.substring(0, question)).substring(PREFIX.length());
        query = question < 0 ? "" : verbatim.substring(question + 1);
        user = uri.user().orElse(null);
        password = uri.password().orElse(null);
        this.callTimeout = callTimeout;
        if (!url.startsWith(PREFIX + "//")) {
            // Without showing it. With a mode (replication, load balancing) the driver would choose the server, and
            // change it under way.
            throw new IllegalArgumentException(
                    "a URL of MariaDB is written jdbc:mariadb://host:port/database?option=value,"
                            + " without a mode such as replication or loadbalance: one server keeps the locks");
        }
        if (url.indexOf('@') >= 0) {
            // The driver takes what is before it for a part of the host's name, and shows it.
            throw new IllegalArgumentException("a URL of MariaDB has no user and password before its host: give them in"
                    + " the options user and password");
        }
        int path = url.indexOf('/', PREFIX.length() + 2);
        if (path < 0 || path == url.length() - 1) {
            throw new IllegalArgumentException("the URL of MariaDB names no database; it is written"
                    + " jdbc:mariadb://host:port/database?option=value");
        }
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
        Driver driver =
                Drivers.find("org.mariadb.jdbc.", PREFIX + "//", "MariaDB", "org.mariadb.jdbc:mariadb-java-client");
        Properties properties = properties(driver);
        try {
            return Drivers.connect(driver, url, properties, nanos);
        } catch (Refusal e) {
            throw e;
        } catch (SQLException e) {
            throw failed(e);
        }
    }

    private static SQLException failed(SQLException e) {
        // The server names the user: neither that nor the cause is passed on.
        return switch (e.getErrorCode()) {
            case 1045, 1698 ->
                new Refusal(
                        "the server does not accept this user with this password",
                        "check the options user and password, or MORTISE_USER and MORTISE_PASSWORD; and whether this user"
                                + " is to have TLS (sslMode=verify-full) or a certificate",
                        null);
            case 1130 ->
                new Refusal(
                        "the server lets nobody in from this host",
                        "make the user for this host, as in CREATE USER app@'%'",
                        null);
            case 1044 ->
                new Refusal(
                        "this user may not use that database",
                        "GRANT SELECT, INSERT, UPDATE ON its table mortise_lock to the user",
                        null);
            default -> {
                String message = String.valueOf(e.getMessage());
                for (Throwable cause = e; cause != null; cause = cause.getCause()) {
                    if (cause instanceof SSLException) {
                        yield new Refusal(
                                "the server's certificate is not trusted, or TLS with it fails otherwise ("
                                        + cause.getMessage() + ")",
                                "check the driver's options sslMode, serverSslCert and keyStore, and the name of the host",
                                e);
                    }
                }
                if (message.startsWith("error parsing url")) {
                    yield new Refusal(
                            "the JDBC URL cannot be read",
                            "write it jdbc:mariadb://host:port/database?option=value",
                            null);
                }
                yield e;
            }
        };
    }

    private Properties properties(Driver driver) throws SQLException {
        Properties properties = new Properties();
        Map<String, String> given = Drivers.options(driver, PREFIX + "//host/database", query);
        given.forEach(properties::setProperty);
        once(given, properties, "user", user);
        once(given, properties, "password", password);
        String millis = String.valueOf(Math.min(Integer.MAX_VALUE, callTimeout.toMillis()));
        // For a connection that is given up while it is made; then each call has its own.
        properties.setProperty("connectTimeout", millis);
        properties.setProperty("socketTimeout", millis);
        properties.setProperty("tcpKeepAlive", "true");
        properties.setProperty("autocommit", "true");
        properties.setProperty("transactionIsolation", "READ-COMMITTED");
        // Ours are the sessions, one a connection, made when they are needed.
        properties.setProperty("pool", "false");
        // To read the texts of ours costs the server more than to carry them out. Requests of several statements cannot
        // be prepared.
        properties.setProperty("useServerPrepStmts", String.valueOf(!multi));
        properties.setProperty("allowMultiQueries", String.valueOf(multi));
        // Not what a server may ask for.
        properties.setProperty("allowLocalInfile", "false");
        properties.setProperty("dumpQueriesOnException", "false");
        return properties;
    }

    private static void once(Map<String, String> given, Properties properties, String name, @Nullable String value) {
        if (value != null) {
            if (given.containsKey(name)) {
                throw new IllegalArgumentException(name + " is given twice: in the URL and as an option");
            }
            properties.setProperty(name, Objects.requireNonNull(value));
        }
    }
}
