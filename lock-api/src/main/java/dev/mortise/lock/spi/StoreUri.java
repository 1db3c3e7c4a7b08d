package dev.mortise.lock.spi;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Where a store is: {@code scheme://[user[:password]@]host[:port][,host[:port]…][/path][?option=value&…]}. Immutable.
 *
 * <p>Parsed by hand, because {@link java.net.URI} knows no list of hosts, takes no underscore in a host's name, and puts
 * the password into its exception. User, password, path and options are percent-encoded UTF-8; of the characters with a
 * meaning here ({@code % @ : / ? # & = ,}) those that stand for themselves must be encoded. A message of this class
 * names the character to encode and never shows the value.
 *
 * <p>A URL that starts with {@code jdbc:} is kept as it is, for the driver; its scheme includes the database, as in
 * {@code jdbc:sqlite}, and its options come only from the map.
 */
public final class StoreUri {
    private static final Pattern SCHEME = Pattern.compile("[a-z][a-z0-9+.-]*");
    private static final Pattern HOST = Pattern.compile("[A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+(%25[A-Za-z0-9._-]+)?]");

    private static final String HEX = "0123456789abcdef";

    private final String scheme;
    private final @Nullable String user;
    private final @Nullable String password;
    private final List<Host> hosts;
    private final String path;
    private final Map<String, String> options;
    private final String verbatim;

    private StoreUri(
            String scheme,
            @Nullable String user,
            @Nullable String password,
            List<Host> hosts,
            String path,
            Map<String, String> options,
            String verbatim) {
        this.scheme = scheme;
        this.user = user;
        this.password = password;
        this.hosts = List.copyOf(hosts);
        this.path = path;
        this.options = Collections.unmodifiableMap(options);
        this.verbatim = verbatim;
    }

    /** One server: a name or address, and a port if one was given. Immutable. */
    public static final class Host {
        private final String name;
        private final int port;

        private Host(String name, int port) {
            this.name = name;
            this.port = port;
        }

        /** The name or address; an IPv6 address without its brackets. */
        public String name() {
            return name;
        }

        public OptionalInt port() {
            return port == 0 ? OptionalInt.empty() : OptionalInt.of(port);
        }

        @Override
        public String toString() {
            String shown = name.indexOf(':') >= 0 ? "[" + name + "]" : name;
            return port == 0 ? shown : shown + ":" + port;
        }
    }

    /**
     * Reads a URI, with more options beside it.
     *
     * @param uri the URI
     * @param more options by name, as {@code ?name=value} would give; {@code user} and {@code password} stand for those
     *     of the URI
     * @throws IllegalArgumentException if the URI cannot be read, or something is given twice; shows no secret
     */
    public static StoreUri parse(String uri, Map<String, String> more) {
        Objects.requireNonNull(uri, "uri");
        int colon = uri.indexOf(':');
        String scheme = colon < 0 ? "" : uri.substring(0, colon).toLowerCase(Locale.ROOT);
        if (!SCHEME.matcher(scheme).matches()) {
            throw bad("it must start with a scheme, as in redis://host or jdbc:sqlite:file");
        }
        Map<String, String> options = new TreeMap<>();
        more.forEach((name, value) -> put(options, name, Objects.requireNonNull(value, name)));
        String user = options.remove("user");
        String password = options.remove("password");
        if (scheme.equals("jdbc")) {
            int end = uri.indexOf(':', colon + 1);
            String database = end < 0 ? "" : uri.substring(colon + 1, end).toLowerCase(Locale.ROOT);
            if (!SCHEME.matcher(database).matches()) {
                throw bad("a JDBC URL starts with jdbc: and the database, as in jdbc:sqlite:file");
            }
            return new StoreUri("jdbc:" + database, user, password, List.of(), "", options, uri);
        }
        if (!uri.startsWith("//", colon + 1)) {
            throw bad("'" + scheme + ":' must be followed by //");
        }
        String rest = uri.substring(colon + 3);
        if (rest.indexOf('#') >= 0) {
            throw encode('#');
        }
        int authorityEnd = firstOf(rest, "/?");
        String authority = rest.substring(0, authorityEnd);
        int at = authority.indexOf('@');
        if (rest.indexOf('@', at + 1) >= 0) {
            // Either a second @ in user or password, or one of / and ? in there ended the authority too early.
            throw bad(at >= 0 ? must('@') : must('@') + ", and before it " + must('/') + " and " + must('?'));
        }
        if (at >= 0) {
            String userInfo = authority.substring(0, at);
            int split = userInfo.indexOf(':');
            if (userInfo.indexOf(':', split + 1) >= 0) {
                throw encode(':');
            }
            String uriUser = decode(split < 0 ? userInfo : userInfo.substring(0, split), "user");
            if (!uriUser.isEmpty()) {
                user = once(user, uriUser, "user");
            }
            if (split >= 0) {
                password = once(password, decode(userInfo.substring(split + 1), "password"), "password");
            }
        }
        List<Host> hosts = hosts(authority.substring(at + 1));
        String tail = rest.substring(authorityEnd);
        int question = tail.indexOf('?');
        String path = decode(question < 0 ? tail : tail.substring(0, question), "path");
        if (question >= 0 && question < tail.length() - 1) {
            for (String pair : tail.substring(question + 1).split("&", -1)) {
                int equals = pair.indexOf('=');
                if (equals <= 0 || pair.indexOf('=', equals + 1) >= 0) {
                    throw bad("options are written ?name=value&name=value, with = and & in a value as %3D and %26");
                }
                String name = decode(pair.substring(0, equals), "option's name");
                String value = decode(pair.substring(equals + 1), "option " + Claim.printable(name));
                switch (name) {
                    case "user" -> user = once(user, value, name);
                    case "password" -> password = once(password, value, name);
                    default -> put(options, name, value);
                }
            }
        }
        return new StoreUri(scheme, user, password, hosts, path, options, uri);
    }

    private static List<Host> hosts(String text) {
        List<Host> hosts = new ArrayList<>();
        if (text.isEmpty()) {
            return hosts;
        }
        for (String part : text.split(",", -1)) {
            int number = hosts.size() + 1;
            int bracket = part.indexOf(']');
            int colon = part.indexOf(':', Math.max(bracket, 0));
            String name = colon < 0 ? part : part.substring(0, colon);
            int port = 0;
            if (bracket < 0 && colon >= 0 && part.indexOf(':', colon + 1) >= 0) {
                throw bad(
                        "host " + number + " has several colons; an IPv6 address is written in brackets, as in [::1]");
            }
            if (colon >= 0) {
                port = port(part.substring(colon + 1), number);
            }
            if (!HOST.matcher(name).matches()) {
                // Not shown: a password with an unencoded character can end up here.
                throw bad("host " + number + " is not a name, an IPv4 address or an [IPv6 address]");
            }
            hosts.add(new Host(bracket < 0 ? name : name.substring(1, bracket).replace("%25", "%"), port));
        }
        return hosts;
    }

    private static int port(String text, int host) {
        if (text.matches("\\d{1,5}")) {
            int port = Integer.parseInt(text);
            if (port >= 1 && port <= 65535) {
                return port;
            }
        }
        throw bad("the port of host " + host + " is not a number from 1 to 65535");
    }

    private static int firstOf(String text, String characters) {
        for (int i = 0; i < text.length(); i++) {
            if (characters.indexOf(text.charAt(i)) >= 0) {
                return i;
            }
        }
        return text.length();
    }

    private static String decode(String text, String what) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(text.length());
        for (int i = 0; i < text.length(); ) {
            int c = text.codePointAt(i);
            if (c == '%') {
                int high = i + 2 < text.length() ? HEX.indexOf(Character.toLowerCase(text.charAt(i + 1))) : -1;
                int low = i + 2 < text.length() ? HEX.indexOf(Character.toLowerCase(text.charAt(i + 2))) : -1;
                if (high < 0 || low < 0) {
                    throw bad("in the " + what + ", " + must('%'));
                }
                bytes.write(high * 16 + low);
                i += 3;
            } else if (Character.getType(c) == Character.SURROGATE) {
                throw bad("in the " + what + " is an unpaired surrogate");
            } else {
                byte[] encoded = Character.toString(c).getBytes(StandardCharsets.UTF_8);
                bytes.write(encoded, 0, encoded.length);
                i += Character.charCount(c);
            }
        }
        try {
            return StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(bytes.toByteArray()))
                    .toString();
        } catch (CharacterCodingException e) {
            // Without the cause: nothing of the value may show.
            throw bad("the percent-encoding of the " + what + " is not UTF-8; if it is none, " + must('%'));
        }
    }

    private static void put(Map<String, String> options, String name, String value) {
        if (options.putIfAbsent(name, value) != null) {
            throw bad("option " + Claim.printable(name) + " is given twice");
        }
    }

    private static String once(@Nullable String before, String value, String what) {
        if (before != null) {
            throw bad(what + " is given twice");
        }
        return value;
    }

    private static String must(char c) {
        return "the character " + c + " must be written " + String.format("%%%02X", (int) c);
    }

    private static IllegalArgumentException encode(char c) {
        return bad("in user, password, path and options, " + must(c));
    }

    private static IllegalArgumentException bad(String why) {
        return new IllegalArgumentException("uri cannot be read: " + why);
    }

    /** The scheme in lower case; for JDBC with the database, as in {@code jdbc:sqlite}. */
    public String scheme() {
        return scheme;
    }

    public Optional<String> user() {
        return Optional.ofNullable(user);
    }

    /** A secret. */
    public Optional<String> password() {
        return Optional.ofNullable(password);
    }

    /** The servers in the order given; empty for JDBC and for a URI without any. */
    public List<Host> hosts() {
        return hosts;
    }

    /** The path with its leading slash, decoded; empty if there is none. */
    public String path() {
        return path;
    }

    /** The options given, decoded, without user and password. */
    public Map<String, String> options() {
        return options;
    }

    /** The value of an option: the given one, or its default. */
    public <T> T get(Option<T> option) {
        return option.parse(options.getOrDefault(option.name(), option.fallback()));
    }

    /** The URI as it was given. It may hold a secret: for the driver's eyes only. */
    public String verbatim() {
        return verbatim;
    }

    StoreUri without(List<Option<?>> some) {
        Map<String, String> fewer = new TreeMap<>(options);
        some.forEach(option -> fewer.remove(option.name()));
        if (fewer.equals(options)) {
            return this;
        }
        return new StoreUri(scheme, user, password, hosts, path, fewer, verbatim);
    }

    /** For people and logs: without user, password and options; a JDBC URL ends before its first {@code ?} or {@code ;}. */
    @Override
    public String toString() {
        if (scheme.startsWith("jdbc:")) {
            String shown = verbatim.substring(0, firstOf(verbatim, "?;"));
            if (scheme.equals("jdbc:sqlite")) {
                return shown;
            }
            // What stands before an @ may be a password, and a password may hold the ? that seemed to end the URL.
            // Drivers that know other forms write (password=...) or :password=... into the URL proper.
            int at = verbatim.lastIndexOf('@');
            boolean hostFollows = verbatim.startsWith("://", scheme.length());
            if (firstOf(shown, "=(") < shown.length() || at >= shown.length() || (at >= 0 && !hostFollows)) {
                return scheme + ":...";
            }
            return at < 0 ? shown : scheme + "://" + shown.substring(at + 1);
        }
        StringBuilder out = new StringBuilder(scheme).append("://");
        for (int i = 0; i < hosts.size(); i++) {
            out.append(i == 0 ? "" : ",").append(hosts.get(i));
        }
        return out.append(path).toString();
    }
}
