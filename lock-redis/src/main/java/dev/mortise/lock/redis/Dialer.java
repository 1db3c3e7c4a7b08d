package dev.mortise.lock.redis;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.ClientSetInfoConfig;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisConnectionException;

/**
 * Makes connections of our own. The sockets too: Jedis shows its own to nobody before the TLS handshake and the login
 * are over, and so nobody could end these. For any thread.
 */
final class Dialer implements Servers.Opener {
    private final JedisClientConfig config;
    private final int timeout;
    private final @Nullable SSLSocketFactory tls;

    /**
     * @param password null for none
     * @param tls null for none
     */
    Dialer(
            @Nullable String user,
            @Nullable String password,
            int database,
            @Nullable SSLSocketFactory tls,
            Duration timeout) {
        this.tls = tls;
        this.timeout = (int) Math.max(1, Math.min(Integer.MAX_VALUE, timeout.toMillis()));
        DefaultJedisClientConfig.Builder builder = DefaultJedisClientConfig.builder()
                .connectionTimeoutMillis(this.timeout)
                .socketTimeoutMillis(this.timeout)
                .database(database)
                .clientName("mortise")
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
        return new Connection(() -> socket(server, link), config);
    }

    /** For one question, answered within the timeouts of the socket. */
    Object ask(HostAndPort server, Protocol.Command command, String... words) {
        try (Connection connection = new Connection(() -> socket(server, null), config)) {
            CommandArguments arguments = new CommandArguments(command);
            Arrays.asList(words).forEach(arguments::add);
            return connection.executeCommand(arguments);
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
        IOException failure = null;
        for (InetAddress address : addresses) {
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
                socket.connect(new InetSocketAddress(address, server.getPort()), timeout);
                socket.setSoTimeout(timeout);
                Socket made = tls == null ? socket : tls(tls, socket, server);
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

    private static Socket tls(SSLSocketFactory tls, Socket socket, HostAndPort server) throws IOException {
        SSLSocket secure = (SSLSocket) tls.createSocket(socket, server.getHost(), server.getPort(), true);
        SSLParameters parameters = secure.getSSLParameters();
        // The name in the certificate must be the one that was asked for.
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        secure.setSSLParameters(parameters);
        secure.startHandshake();
        return secure;
    }
}
