package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.StoreUri;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** Connections of our own to the server of a JDBC URL, with settings of our own. */
final class PostgresUrl implements PostgresDialect.Source {
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
        // The driver counts in seconds, for each of several steps and addresses; only from another thread is there one
        // limit for all of them.
        CompletableFuture<Connection> made = new CompletableFuture<>();
        Thread thread = new Thread(
                () -> {
                    try {
                        Connection connection = driver.connect(url, properties);
                        if (connection == null) {
                            made.completeExceptionally(new SQLException("the driver did not take the URL"));
                        } else if (!made.complete(connection)) {
                            connection.close();
                        }
                    } catch (Throwable e) {
                        made.completeExceptionally(e);
                    }
                },
                "mortise-jdbc-connect");
        thread.setDaemon(true);
        thread.start();
        return wait(made, nanos);
    }

    private Connection wait(CompletableFuture<Connection> made, long nanos) throws SQLException {
        long end = System.nanoTime() + nanos;
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return made.get(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
                } catch (InterruptedException e) {
                    interrupted = true;
                } catch (TimeoutException e) {
                    SQLException late = new Refusal(
                            "the server did not answer within "
                                    + Duration.ofNanos(nanos).toMillis() + " ms",
                            "check that the server runs, and that no firewall is between",
                            null);
                    if (made.completeExceptionally(late)) {
                        throw late;
                    }
                    // It has come at this very moment.
                    end = Long.MAX_VALUE / 2 + System.nanoTime();
                } catch (ExecutionException e) {
                    throw failed(e.getCause() == null ? e : e.getCause());
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static SQLException failed(Throwable cause) {
        if (!(cause instanceof SQLException e)) {
            return new SQLException("no connection (" + cause + ")", "08001", cause);
        }
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
                        "check the option user, the server's pg_hba.conf, and whether it demands sslmode=require",
                        null);
            case "08004" ->
                new Refusal(
                        "the server demands a password, or a way to prove who one is that the driver does not know",
                        "give the options user and password, or MORTISE_USER and MORTISE_PASSWORD",
                        null);
            default -> e;
        };
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
