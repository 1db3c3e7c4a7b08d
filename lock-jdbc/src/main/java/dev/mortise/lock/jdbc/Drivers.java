package dev.mortise.lock.jdbc;

import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverPropertyInfo;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/** Finds JDBC drivers, and what they know of. */
final class Drivers {
    private Drivers() {}

    /**
     * The driver of this database. Not by DriverManager, which finds drivers of the class path only, not those of a
     * plug-in or a web application; and by the names of the classes first, so that no other driver is initialized.
     */
    static Driver find(String classes, String url, String database, String artifact) throws Refusal {
        Iterator<ServiceLoader.Provider<Driver>> drivers =
                ServiceLoader.load(Driver.class, Drivers.class.getClassLoader()).stream()
                        .iterator();
        Throwable broken = null;
        while (true) {
            try {
                if (!drivers.hasNext()) {
                    break;
                }
                ServiceLoader.Provider<Driver> provider = drivers.next();
                if (!provider.type().getName().startsWith(classes)) {
                    continue;
                }
                Driver driver = provider.get();
                if (driver.acceptsURL(url)) {
                    return driver;
                }
            } catch (SQLException | LinkageError | ServiceConfigurationError e) {
                // Another one than ours, as a rule.
                broken = e;
            }
        }
        throw new Refusal(
                "no JDBC driver for " + database + " is there"
                        + (broken == null ? "" : ", and one cannot be loaded: " + broken),
                "add " + artifact + " to the class path",
                broken);
    }

    /**
     * The options behind the ? of a URL, as they are written there. Refuses what the driver does not know, and what has no
     * value, because drivers take the first for something else or drop it in silence, and show the URL, which may have a
     * secret, at the second.
     */
    static Map<String, String> options(Driver driver, String url, String query) throws SQLException {
        Map<String, String> known = new TreeMap<>();
        Arrays.stream(driver.getPropertyInfo(url, new Properties()))
                .map((DriverPropertyInfo info) -> info.name)
                .forEach(name -> known.put(name.toLowerCase(Locale.ROOT), name));
        Map<String, String> options = new LinkedHashMap<>();
        for (String option : query.split("&", -1)) {
            String[] parts = option.split("=", 2);
            String written = parts[0].trim();
            if (option.isBlank()) {
                continue;
            }
            String name = known.get(written.toLowerCase(Locale.ROOT));
            if (name == null) {
                // It may be the rest of a password that has an & in it.
                String shown = query.contains("password") ? "an option" : "option '" + written + "'";
                throw new IllegalArgumentException(shown + " in the JDBC URL is not known to the driver, which knows "
                        + known.values().stream().collect(Collectors.joining(", ")));
            }
            if (parts.length < 2 || parts[1].isBlank()) {
                throw new IllegalArgumentException("option '" + name + "' in the JDBC URL has no value");
            }
            options.put(name, parts[1]);
        }
        return options;
    }

    /**
     * Connects under one limit. Drivers count in seconds, or for each of several steps and addresses; only from another
     * thread is there one limit for all of them.
     *
     * @throws SQLException as the driver throws it; or a {@link Refusal} if it has not come in time
     */
    static Connection connect(Driver driver, String url, Properties properties, long nanos) throws SQLException {
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
                    Throwable cause = e.getCause() == null ? e : e.getCause();
                    throw cause instanceof SQLException sql
                            ? sql
                            : new SQLException("no connection (" + cause + ")", "08001", cause);
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
