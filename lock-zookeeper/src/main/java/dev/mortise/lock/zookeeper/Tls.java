package dev.mortise.lock.zookeeper;

import java.io.File;
import java.io.IOException;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import java.util.Optional;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.common.ClientX509Util;
import org.apache.zookeeper.common.X509Exception;
import org.apache.zookeeper.util.PemReader;

/** Whom to trust and who to be, from PEM files; and what it means that a handshake failed. Shows nothing of the files. */
final class Tls {
    private static final String TRUST = "zookeeper.ssl.trustStore";
    private static final String IDENTITY = "zookeeper.ssl.keyStore";

    private Tls() {}

    /**
     * Tells ZooKeeper's client. It reads the files itself, with each connection, and tells nobody but its log what is wrong with
     * them, so they are looked at here first.
     *
     * @param trust the certificates to trust, or empty for those that the JVM trusts
     * @param identity this client's certificate and key, or empty for none
     * @throws IllegalArgumentException if a file is not what it should be; names the option and the file
     */
    static void configure(ZKClientConfig config, String trust, String identity) {
        config.setProperty(ZKClientConfig.SECURE_CLIENT, "true");
        config.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, "org.apache.zookeeper.ClientCnxnSocketNetty");
        if (!trust.isEmpty()) {
            File file = readable("trust", trust);
            require(() -> PemReader.loadTrustStore(file), "trust", trust, "that holds no certificates in PEM");
            set(config, TRUST, trust);
        }
        if (!identity.isEmpty()) {
            File file = readable("identity", identity);
            require(
                    () -> PemReader.loadKeyStore(file, file, Optional.empty()),
                    "identity",
                    identity,
                    "that does not hold a certificate and its private key in PKCS #8 without a password, both in PEM");
            set(config, IDENTITY, identity);
        }
    }

    private static void set(ZKClientConfig config, String property, String file) {
        config.setProperty(property + ".location", file);
        config.setProperty(property + ".type", "PEM");
    }

    private static File readable(String option, String file) {
        if (!Files.isRegularFile(Path.of(file)) || !Files.isReadable(Path.of(file))) {
            throw new IllegalArgumentException("option " + option + " names a file that cannot be read: " + file);
        }
        return new File(file);
    }

    private interface Pem {
        KeyStore read() throws IOException, GeneralSecurityException;
    }

    /** Without causes, which may show what they could not read. */
    private static void require(Pem pem, String option, String file, String what) {
        boolean fine = false;
        try {
            fine = pem.read().size() > 0;
        } catch (IOException | GeneralSecurityException | RuntimeException e) {
            // Not fine.
        }
        if (!fine) {
            throw new IllegalArgumentException("option " + option + " names a file " + what + ": " + file);
        }
    }

    /**
     * Shakes hands as the library does, which tells only its log why that fails.
     *
     * @param socket connected, with a limit for reads
     * @return what came of it, and what to do
     */
    static String whyNot(ZKClientConfig config, Socket socket, String host, int port) {
        String server = host + ":" + port;
        boolean shown = config.getProperty(IDENTITY + ".location") != null;
        boolean done = false;
        try (ClientX509Util util = new ClientX509Util();
                SSLSocket secure = (SSLSocket)
                        util.createSSLContext(config).getSocketFactory().createSocket(socket, host, port, true)) {
            SSLParameters parameters = secure.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            secure.setSSLParameters(parameters);
            secure.startHandshake();
            done = true;
            // From TLS 1.3 on a server refuses a client's certificate afterwards.
            return secure.getInputStream().read() < 0
                    ? refusesTheClient(server, shown, "")
                    : server + ": TLS connects, but gives no session";
        } catch (SocketTimeoutException e) {
            return done
                    ? server + ": TLS connects, but gives no session in time"
                    : "no TLS handshake with " + server
                            + " in time; check that it speaks TLS on this port; if not, use tls=false";
        } catch (IOException e) {
            return failed(server, host, shown, done, e);
        } catch (X509Exception e) {
            return "the files of options trust and identity cannot be used any more";
        }
    }

    private static String failed(String server, String host, boolean shown, boolean done, IOException failure) {
        for (Throwable t = failure; t != null; t = t.getCause()) {
            if (t instanceof CertificateExpiredException || t instanceof CertificateNotYetValidException) {
                return "the certificate of " + server + " is not valid now: " + t.getMessage()
                        + "; give the server a new one, and look at this machine's clock";
            }
            if (t instanceof CertPathBuilderException) {
                return "the certificate of " + server + " is not trusted: " + t.getMessage()
                        + "; give the certificate of its authority, a PEM file, as option trust=FILE";
            }
        }
        for (Throwable t = failure; t != null; t = t.getCause()) {
            if (t instanceof CertificateException) {
                String why = String.valueOf(t.getMessage());
                return why.contains("matching") || why.contains("subject alternative")
                        ? "the certificate of " + server + " is that of another host, not of " + host + ": " + why
                                + "; use a name that stands in the certificate"
                        : "the certificate of " + server + " is refused: " + why;
            }
        }
        // What the client sends after it was refused breaks on a closed connection.
        boolean alert = String.valueOf(failure.getMessage()).contains("fatal alert");
        if (done || alert || failure instanceof SocketException) {
            return refusesTheClient(server, shown, " (" + failure.getMessage() + ")");
        }
        return "no TLS handshake with " + server + ": " + failure.getMessage()
                + (failure instanceof SSLException
                        ? "; check that it speaks TLS on this port; if not, use tls=false"
                        : "");
    }

    private static String refusesTheClient(String server, boolean shown, String why) {
        return server + " refused the TLS connection: "
                + (shown
                        ? "it may not trust the certificate of the client" + why
                                + "; see whether it trusts the one of identity=FILE"
                        : "it may ask for a certificate of the client" + why
                                + "; give certificate and private key, a PEM file, as option identity=FILE");
    }
}
