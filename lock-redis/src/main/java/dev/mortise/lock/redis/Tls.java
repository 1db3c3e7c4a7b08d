package dev.mortise.lock.redis;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.CertPathBuilderException;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateFactory;
import java.security.cert.CertificateNotYetValidException;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import org.jspecify.annotations.Nullable;

/** Whom to trust and who to be, from PEM files; and what a handshake that failed means. Shows nothing of the files. */
final class Tls {
    private static final Pattern KEY =
            Pattern.compile("-----BEGIN ([A-Z ]*)PRIVATE KEY-----([^-]*)-----END [A-Z ]*PRIVATE KEY-----");

    final SSLSocketFactory sockets;

    /** Whether this client has a certificate of its own to show. */
    private final boolean shown;

    private Tls(SSLSocketFactory sockets, boolean shown) {
        this.sockets = sockets;
        this.shown = shown;
    }

    /**
     * Reads the files.
     *
     * @param trust the certificates to trust, or empty for those that the JVM trusts
     * @param identity this client's certificate and key, or empty for none but what the JVM was told to show
     * @throws IllegalArgumentException if a file is not what it should be; names the option and the file
     */
    static Tls of(String trust, String identity) {
        try {
            if (trust.isEmpty() && identity.isEmpty()) {
                return new Tls(
                        SSLContext.getDefault().getSocketFactory(),
                        !System.getProperty("javax.net.ssl.keyStore", "").isEmpty());
            }
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(identity.isEmpty() ? null : identity(identity), trust.isEmpty() ? null : trust(trust), null);
            return new Tls(context.getSocketFactory(), !identity.isEmpty());
        } catch (GeneralSecurityException e) {
            throw new IllegalArgumentException("TLS cannot be used: " + e, e);
        }
    }

    private static String read(String option, String file) {
        try {
            return Files.readString(Path.of(file), StandardCharsets.ISO_8859_1);
        } catch (IOException | RuntimeException e) {
            throw new IllegalArgumentException("option " + option + " names a file that cannot be read: " + e, e);
        }
    }

    private static KeyStore empty() throws GeneralSecurityException {
        try {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            return store;
        } catch (IOException e) {
            throw new GeneralSecurityException(e);
        }
    }

    private static Certificate[] certificates(String option, String file, String text) {
        try {
            Certificate[] all = CertificateFactory.getInstance("X.509")
                    .generateCertificates(new ByteArrayInputStream(
                            KEY.matcher(text).replaceAll("").getBytes(StandardCharsets.ISO_8859_1)))
                    .toArray(new Certificate[0]);
            if (all.length > 0) {
                return all;
            }
        } catch (CertificateException e) {
            throw new IllegalArgumentException(
                    "option " + option + " names a file that holds no certificates in PEM: " + file, e);
        }
        throw new IllegalArgumentException("option " + option + " names a file without certificates: " + file);
    }

    private static TrustManager[] trust(String file) throws GeneralSecurityException {
        KeyStore trusted = empty();
        int number = 0;
        for (Certificate each : certificates("trust", file, read("trust", file))) {
            trusted.setCertificateEntry("trusted-" + number++, each);
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        return managers.getTrustManagers();
    }

    private static KeyManager[] identity(String file) throws GeneralSecurityException {
        String text = read("identity", file);
        Certificate[] chain = certificates("identity", file, text);
        Matcher key = KEY.matcher(text);
        if (!key.find()) {
            throw new IllegalArgumentException(
                    "option identity names a file without a private key beside the certificate: " + file);
        }
        if (!key.group(1).isEmpty()) {
            throw new IllegalArgumentException("option identity names a file with a key of the form "
                    + key.group(1).strip()
                    + ", and PKCS #8 without a password is needed (openssl pkcs8 -topk8 -nocrypt): "
                    + file);
        }
        KeyStore own = empty();
        own.setKeyEntry("own", key(file, chain[0], key.group(2)), new char[0], chain);
        KeyManagerFactory managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        managers.init(own, new char[0]);
        return managers.getKeyManagers();
    }

    /** Without causes, which may show what they could not read. */
    private static PrivateKey key(String file, Certificate certificate, String base64) throws GeneralSecurityException {
        String algorithm = certificate.getPublicKey().getAlgorithm();
        try {
            return KeyFactory.getInstance(algorithm)
                    .generatePrivate(
                            new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(base64)));
        } catch (IllegalArgumentException | InvalidKeySpecException e) {
            throw new IllegalArgumentException(
                    "option identity names a file whose key is none for its certificate (" + algorithm + "): " + file);
        }
    }

    /** What it means that the handshake failed. */
    Dialer.Refused refused(String server, String host, IOException failure) {
        for (Throwable t = failure; t != null; t = t.getCause()) {
            if (t instanceof CertificateExpiredException || t instanceof CertificateNotYetValidException) {
                return new Dialer.Refused(
                        "the certificate of " + server + " is not valid now: " + t.getMessage(),
                        "give the server a new one, and look at this machine's clock",
                        failure);
            }
            if (t instanceof CertPathBuilderException) {
                return new Dialer.Refused(
                        "the certificate of " + server + " is not trusted: " + t.getMessage(),
                        "give the certificate of its authority, a PEM file, as option trust=FILE",
                        failure);
            }
        }
        for (Throwable t = failure; t != null; t = t.getCause()) {
            if (t instanceof CertificateException) {
                String why = String.valueOf(t.getMessage());
                boolean name = why.contains("matching") || why.contains("subject alternative");
                return new Dialer.Refused(
                        "the certificate of " + server
                                + (name ? " is that of another host, not of " + host + ": " : " is refused: ") + why,
                        name ? "use a name that stands in the certificate" : "give the server another certificate",
                        failure);
            }
        }
        // What the client sends after it was refused breaks on a closed connection.
        if (failure instanceof SocketException
                || String.valueOf(failure.getMessage()).contains("fatal alert")) {
            return afterHandshake(server, failure);
        }
        return new Dialer.Refused(
                "no TLS handshake with " + server
                        + (failure instanceof SocketTimeoutException ? " in time" : ": " + failure.getMessage()),
                "check that it speaks TLS on this port; if not, use redis:// or tls=false",
                failure);
    }

    /** The server ended the connection after it has seen, or missed, what this client shows. */
    Dialer.Refused afterHandshake(String server, @Nullable Throwable failure) {
        List<String> told = shown
                ? List.of(
                        "it may not trust the certificate of the client",
                        "see whether it trusts the one of identity=FILE")
                : List.of(
                        "it may ask for a certificate of the client",
                        "give certificate and private key, a PEM file, as option identity=FILE");
        return new Dialer.Refused(
                server + " refused the TLS connection: " + told.get(0)
                        + (failure == null ? "" : " (" + failure.getMessage() + ")"),
                told.get(1),
                failure);
    }
}
