package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.StoreUri;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import javax.net.ssl.SSLException;
import org.jspecify.annotations.Nullable;

/** Connections of our own to the server of a JDBC URL, with settings of our own. */
final class PostgresUrl implements ServerDialect.Source {
    private static final String PREFIX = "jdbc:postgresql:";

    private final String store;
    private final String url;
    private final String query;
    private final @Nullable String user;
    private final @Nullable String password;
    private final Duration callTimeout;

    PostgresUrl(StoreUri uri, Duration callTimeout) {
        store = uri.toString();
        String verbatim = uri.verbatim().trim();
        int question = verbatim.indexOf('?');
        url = PREFIX + (question < 0 ? verbatim : verbatim.substring(0, question)).substring(PREFIX.length());
        query = question < 0 ? "" : verbatim.substring(question + 1);
        user = uri.user().orElse(null);
        password = uri.password().orElse(null);
        this.callTimeout = callTimeout;
        if (url.indexOf('@') >= 0) {
            // The driver takes what is before it for a part of the host's name, and shows it.
            throw new IllegalArgumentException("a URL of PostgreSQL has no user and password before its host: give them"
                    + " in the options user and password");
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
        Driver driver = Drivers.find("org.postgresql.", PREFIX, "PostgreSQL", "org.postgresql:postgresql");
        Properties properties = properties(driver);
        if (!driver.acceptsURL(url)) {
            // It would show the URL.
            throw new IllegalArgumentException(
                    "the JDBC URL cannot be read; it is written jdbc:postgresql://host:port/database?option=value");
        }
        try {
            return Drivers.connect(driver, url, properties, nanos);
        } catch (Refusal e) {
            throw e;
        } catch (SQLException e) {
            throw failed(e);
        }
    }

    private static SQLException failed(SQLException e) {
        // The server names the user, the driver's own words may as well: neither they nor the cause are passed on.
        return switch (PostgresDialect.state(e)) {
            case "28P01" ->
                new Refusal(
                        "the server does not accept this user with this password",
                        "check the options user and password, or MORTISE_USER and MORTISE_PASSWORD",
                        null);
            case "28000" ->
                new Refusal(
                        "the server does not let this user in from here",
                        "check the option user and the server's pg_hba.conf: whether it demands TLS (sslmode=verify-full in"
                                + " the URL), or a certificate of the client (sslcert and sslkey)",
                        null);
            case "42501" ->
                new Refusal(
                        "this user may not connect to the database", "GRANT CONNECT ON DATABASE … TO the role", null);
            default -> secured(e);
        };
    }

    /** The driver says in few cases by a state of its own that it was TLS; its words are in the language of the place. */
    private static SQLException secured(SQLException e) {
        boolean handshake = false;
        for (Throwable each = e.getCause(); each != null; each = each.getCause()) {
            handshake |= each instanceof SSLException;
            if (handshake && each instanceof GeneralSecurityException) {
                return new Refusal(
                        "the server's certificate is not trusted (" + each.getMessage() + ")",
                        "name the certificate of its authority in the URL: sslrootcert=/path/of/a/file.crt",
                        null);
            }
            if (handshake && each.getCause() == null) {
                return new Refusal(
                        "TLS with the server failed (" + each.getMessage() + ")",
                        "check that the server trusts the certificate of this client (sslcert and sslkey in the URL), and"
                                + " that both sides speak the same versions of TLS",
                        null);
            }
        }
        String state = PostgresDialect.state(e);
        if (String.valueOf(e.getMessage()).contains("startup parameter")) {
            return new Refusal(
                    "a proxy is between that does not take our start-up parameters",
                    "let PgBouncer have ignore_startup_parameters = extra_float_digits,options (and pool_mode = session for"
                            + " strategy=advisory), or connect past it",
                    e);
        }
        if (state.equals("08004") && String.valueOf(e.getMessage()).contains("SSL")) {
            return new Refusal(
                    "the server does not speak TLS", "let it (ssl = on), or leave sslmode out of the URL", null);
        }
        if (state.equals("08004")) {
            return new Refusal(
                    "the server demands a password, or a way to prove who one is that the driver does not know",
                    "give the options user and password, or MORTISE_USER and MORTISE_PASSWORD",
                    null);
        }
        if (String.valueOf(e.getMessage()).contains("HostnameVerifier")) {
            return new Refusal(
                    "the server's certificate is one of another host",
                    "name the host in the URL as its certificate does",
                    null);
        }
        StackTraceElement[] thrown = e.getStackTrace();
        if (thrown.length > 0 && thrown[0].getClassName().startsWith("org.postgresql.ssl.")) {
            return new Refusal(
                    "TLS cannot begin: " + String.valueOf(e.getMessage()).replaceAll("\\s+", " "),
                    "check sslrootcert, sslcert and sslkey in the URL: the files, who may read them, and pemKeyAlgorithm",
                    e);
        }
        return e;
    }

    private Properties properties(Driver driver) throws SQLException {
        Properties properties = new Properties();
        Map<String, String> given = Drivers.options(driver, PREFIX + "//host/database", query);
        given.forEach((name, value) -> properties.setProperty(name, URLDecoder.decode(value, StandardCharsets.UTF_8)));
        if (user != null) {
            once(given, "user");
            properties.setProperty("user", user);
        }
        if (password != null) {
            once(given, "password");
            properties.setProperty("password", password);
        }
        properties.putIfAbsent("ApplicationName", "mortise");
        properties.putIfAbsent("tcpKeepAlive", "true");
        // A request of the largest size goes into the system's buffer at once, also when the server reads nothing: a
        // read can be limited, a write cannot.
        properties.putIfAbsent("sendBufferSize", "1048576");
        // For a connection that is given up while it is made.
        String seconds = String.valueOf(callTimeout.plusMillis(999).toSeconds());
        properties.setProperty("connectTimeout", seconds);
        properties.setProperty("socketTimeout", seconds);
        properties.setProperty("readOnly", "false");
        properties.setProperty("autosave", "never");
        properties.setProperty("assumeMinServerVersion", "14");
        // With the connection, so that there is no round trip, no moment without, and nothing left in a proxy's pool.
        // Above the role's and the database's own. The server gives a statement up before we do.
        String settings = "-c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off"
                + " -c lock_timeout=" + TableBackend.LONGEST_WAIT + " -c statement_timeout="
                + Math.max(1, Math.min(Integer.MAX_VALUE, callTimeout.toMillis()));
        String before = properties.getProperty("options");
        properties.setProperty("options", before == null ? settings : before + " " + settings);
        return properties;
    }

    private static void once(Map<String, String> given, String name) {
        if (given.containsKey(name)) {
            throw new IllegalArgumentException(name + " is given twice: in the URL and as an option");
        }
    }
}
