package dev.mortise.lock.jdbc;

import java.sql.Driver;
import java.sql.DriverPropertyInfo;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import java.util.TreeMap;
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
}
