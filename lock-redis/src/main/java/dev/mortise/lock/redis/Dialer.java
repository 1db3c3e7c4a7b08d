package dev.mortise.lock.redis;

import java.io.IOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.ClientSetInfoConfig;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

/**
 * Makes connections of our own. The sockets too: Jedis shows its own to nobody before the TLS handshake and the login
 * are over, and so nobody could end these. For any thread.
 */
final class Dialer implements Servers.Opener {
    private static final Logger LOG = System.getLogger(Dialer.class.getName());

    private final JedisClientConfig config;
    private final int timeout;
    private final @Nullable Tls tls;

    /** A connection that could not be made, and what to do about it. */
    static final class Refused extends JedisConnectionException {
        private static final long serialVersionUID = 1;

        final String advice;

        Refused(String what, String advice, @Nullable Throwable cause) {
            super(what, cause);
            this.advice = advice;
        }
    }

    /**
     * @param password null for none
     * @param tls null for none
     */
    Dialer(@Nullable String user, @Nullable String password, int database, @Nullable Tls tls, Duration timeout) {
        this.tls = tls;
        // Less than that: why there is no connection must be known before the caller has given up.
        this.timeout = (int) Math.max(1, Math.min(Integer.MAX_VALUE, timeout.toMillis() / 4 * 3));
        DefaultJedisClientConfig.Builder builder = DefaultJedisClientConfig.builder()
                .connectionTimeoutMillis(this.timeout)
                .socketTimeoutMillis(this.timeout)
                .database(database)
                .clientSetInfoConfig(ClientSetInfoConfig.DISABLED);
        if (user != null) {
            builder.user(user);
        }
        if (password != null) {
            builder.password(password);
        }
        config = builder.build();
    }

    @Override
    public boolean keeps() {
        return true;
    }

    @Override
    public Connection open(HostAndPort server, Link link) {
        return connect(server, link);
    }

    /** For one question, answered within the timeouts of the socket. */
    Object ask(HostAndPort server, Protocol.Command command, String... words) {
        try (Connection connection = connect(server, null)) {
            CommandArguments arguments = new CommandArguments(command);
            Arrays.asList(words).forEach(arguments::add);
            return connection.executeCommand(arguments);
        }
    }

    private Connection connect(HostAndPort server, @Nullable Link link) {
        boolean[] reached = {false};
        Connection connection = null;
        boolean fine = false;
        try {
            connection = new Connection(
                    () -> {
                        Socket socket = socket(server, link);
                        reached[0] = true;
                        return socket;
                    },
                    config);
            greet(connection);
            fine = true;
            return connection;
        } catch (Refused | JedisDataException e) {
            throw e;
        } catch (JedisConnectionException e) {
            if (!reached[0] || e.getCause() instanceof SocketTimeoutException) {
                throw e;
            }
            if (tls != null) {
                throw tls.afterHandshake(server.toString(), e);
            }
            throw new Refused(
                    server + " ended the connection before it answered: " + e.getMessage(),
                    "check that it is a Redis server; if it asks for TLS, use rediss:// or tls=true",
                    e);
        } finally {
            if (!fine && connection != null) {
                abandon(connection);
            }
        }
    }

    /** Closing sends what could not be sent, and would fail with less than the reason that is already known. */
    private static void abandon(Connection connection) {
        try {
            connection.close();
        } catch (JedisException e) {
            LOG.log(Level.DEBUG, "closing a connection that was refused", e);
        }
    }

    /** The first answer: a server that takes no more clients, or not from here, says so to whatever it is asked. */
    private static void greet(Connection connection) {
        try {
            Object unused = connection.executeCommand(
                    new CommandArguments(Protocol.Command.CLIENT).add("SETNAME").add("mortise"));
        } catch (JedisDataException e) {
            String message = String.valueOf(e.getMessage());
            if (message.startsWith("ERR max number of clients")) {
                throw new Refused(message, "let it take more clients (maxclients), or close some", e);
            }
            if (message.startsWith("DENIED")) {
                throw new Refused(
                        "the server is in protected mode and takes no clients of other machines",
                        "give its users passwords, then set protected-mode to no",
                        e);
            }
            if (!message.startsWith("ERR") && !Trouble.code(e).equals("NOPERM")) {
                throw e;
            }
            // It need not know the name.
        }
    }

    private Socket socket(HostAndPort server, @Nullable Link link) {
        try {
            return socket(server, List.of(InetAddress.getAllByName(server.getHost())), link);
        } catch (java.net.UnknownHostException e) {
            throw new JedisConnectionException(
                    "host " + server.getHost() + " is not known",
                    new IOException("host " + server.getHost() + " is not known", e));
        } catch (IOException e) {
            throw new JedisConnectionException("cannot connect to " + server, e);
        }
    }

    private Socket socket(HostAndPort server, List<InetAddress> addresses, @Nullable Link link) throws IOException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeout);
        IOException failure = null;
        for (int i = 0; i < addresses.size(); i++) {
            Socket socket = new Socket();
            boolean connected = false;
            try {
                if (link != null) {
                    link.opens(socket);
                }
                socket.setKeepAlive(true);
                socket.setTcpNoDelay(true);
                // When it is closed, what was not sent yet is thrown away: nothing is to arrive after we gave it up.
                socket.setSoLinger(true, 0);
                // An address that does not answer leaves the others their share.
                socket.connect(
                        new InetSocketAddress(addresses.get(i), server.getPort()),
                        Math.max(1, left(end) / (addresses.size() - i)));
                socket.setSoTimeout(left(end));
                Socket made = tls == null ? socket : tls(tls, socket, server);
                socket.setSoTimeout(left(end));
                connected = true;
                return made;
            } catch (IOException e) {
                if (failure != null) {
                    e.addSuppressed(failure);
                }
                failure = e;
            } finally {
                if (!connected) {
                    socket.close();
                }
            }
        }
        throw failure == null ? new IOException("host " + server.getHost() + " has no address") : failure;
    }

    private static int left(long end) {
        return (int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
    }

    private static Socket tls(Tls tls, Socket socket, HostAndPort server) throws IOException {
        SSLSocket secure = (SSLSocket) tls.sockets.createSocket(socket, server.getHost(), server.getPort(), true);
        SSLParameters parameters = secure.getSSLParameters();
        // The name in the certificate must be the one that was asked for.
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        secure.setSSLParameters(parameters);
        try {
            secure.startHandshake();
        } catch (IOException e) {
            throw tls.refused(server.toString(), server.getHost(), e);
        }
        return secure;
    }
}
