package dev.mortise.lock.etcd;

import io.grpc.netty.GrpcSslContexts;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import javax.net.ssl.SSLException;

/** Whom to trust and who to be, from PEM files. Shows nothing of the files. */
final class Tls {
    private Tls() {}

    /**
     * Reads the files.
     *
     * @param trust the certificates to trust, or empty for those that the JVM trusts
     * @param identity this client's certificate and key in one file, or empty for none
     * @throws IllegalArgumentException if a file is not what it should be; names the option and the file
     */
    static SslContext of(String trust, String identity) {
        SslContextBuilder builder = GrpcSslContexts.configure(SslContextBuilder.forClient(), SslProvider.JDK);
        if (!trust.isEmpty()) {
            try {
                builder.trustManager(file("trust", trust));
            } catch (IllegalArgumentException e) {
                throw isOurs(e)
                        ? e
                        : new IllegalArgumentException(
                                "option trust names a file that holds no certificates in PEM: " + trust, e);
            }
        }
        if (!identity.isEmpty()) {
            File file = file("identity", identity);
            String text = read("identity", identity);
            if (!text.contains("PRIVATE KEY-----")) {
                throw new IllegalArgumentException(
                        "option identity names a file without a private key beside the certificate: " + identity);
            }
            try {
                builder.keyManager(file, file);
            } catch (IllegalArgumentException e) {
                // Without the cause, which may show what it could not read.
                throw new IllegalArgumentException(
                        "option identity names a file that does not hold, in PEM, a certificate"
                                + " and its private key in PKCS #8 without a password (openssl pkcs8 -topk8 -nocrypt): "
                                + identity);
            }
        }
        try {
            return builder.build();
        } catch (SSLException e) {
            throw new IllegalArgumentException("TLS cannot be used: " + e.getMessage(), cause(e));
        }
    }

    private static Exception cause(SSLException e) {
        return e.getCause() instanceof GeneralSecurityException inner ? inner : e;
    }

    private static boolean isOurs(IllegalArgumentException e) {
        return String.valueOf(e.getMessage()).startsWith("option ");
    }

    private static File file(String option, String name) {
        String unused = read(option, name);
        return Path.of(name).toFile();
    }

    private static String read(String option, String name) {
        try {
            return Files.readString(Path.of(name), java.nio.charset.StandardCharsets.ISO_8859_1);
        } catch (java.io.IOException | RuntimeException e) {
            throw new IllegalArgumentException("option " + option + " names a file that cannot be read: " + e, e);
        }
    }
}
