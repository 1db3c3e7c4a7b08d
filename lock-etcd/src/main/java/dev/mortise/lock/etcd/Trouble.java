package dev.mortise.lock.etcd;

import io.grpc.Status;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import java.util.Locale;
import javax.net.ssl.SSLException;
import org.jspecify.annotations.Nullable;

/** Why the store gave no usable answer, and what to do. */
class Trouble extends Exception {
    private static final long serialVersionUID = 1;

    final String advice;

    /** What is known of a connection, for what may be wrong with it. */
    enum Kind {
        PLAIN,
        SECURE,
        /** TLS, and this client has a certificate of its own to show. */
        IDENTITY,
        /** The application's. */
        OWN
    }

    /** Whether what was asked for may be done, now or later. */
    final boolean effect;

    /** Whether another server, or the same a little later, may answer. */
    private boolean passing;

    private boolean staleToken;

    Trouble(String what, String advice, boolean effect, @Nullable Throwable cause) {
        super(what, cause);
        this.advice = advice;
        this.effect = effect;
    }

    boolean isPassing() {
        return passing;
    }

    /** Whether the server no longer knows who this client is. */
    boolean isStaleToken() {
        return staleToken;
    }

    private Trouble passing() {
        passing = true;
        return this;
    }

    /** The time was over, and this was met before. */
    static Trouble late(String server, boolean effect, @Nullable Trouble before) {
        String what = "no answer in time from " + server;
        if (before == null) {
            return new Trouble(what, "check that a majority of its servers run and can be reached", effect, null)
                    .passing();
        }
        String met = String.valueOf(before.getMessage());
        return new Trouble(
                        met.contains("no answer in time") ? met : what + "; before that: " + met,
                        before.advice,
                        effect || before.effect,
                        before.getCause())
                .passing();
    }

    static Trouble closed() {
        return new Trouble("this client of the store was closed", "open another", false, null);
    }

    /**
     * What a failed call means.
     *
     * @param sent whether it may have reached the server
     * @param kind of the connection
     */
    static Trouble of(Throwable failure, String server, boolean sent, Kind kind) {
        Status status = Status.fromThrowable(failure);
        String said = status.getDescription() == null ? "" : status.getDescription();
        String lower = said.toLowerCase(Locale.ROOT);
        if (lower.contains("requested lease not found")) {
            return new Wire.LeaseGone(failure);
        }
        if (lower.contains("invalid auth token") || lower.contains("revision of auth store is old")) {
            Trouble trouble = new Trouble(
                    server + " does not know this client any more: " + said,
                    "see whether its servers agree on users and times",
                    false,
                    failure);
            trouble.staleToken = true;
            return trouble;
        }
        if (lower.contains("user name is empty")) {
            return answered(
                    server, said, "give user and password in the URI or as MORTISE_USER, MORTISE_PASSWORD", failure);
        }
        if (lower.contains("authentication failed")) {
            return answered(server, said, "check user and password", failure);
        }
        if (lower.contains("permission denied")) {
            return answered(server, said, "give its user the rights listed in docs/stores/etcd.md", failure);
        }
        if (lower.contains("database space exceeded")) {
            return answered(server, said, "free space in etcd: compact, defragment, disarm the alarm", failure);
        }
        if (lower.contains("corrupt")) {
            return answered(
                    server, said, "see the alarms of etcd, and do not trust it before they are solved", failure);
        }
        Trouble tls = tls(failure, server, kind == Kind.IDENTITY);
        if (tls != null) {
            return tls;
        }
        switch (status.getCode()) {
            case UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN, ABORTED, RESOURCE_EXHAUSTED -> {
                String root = root(failure, said);
                boolean late = status.getCode() == Status.Code.DEADLINE_EXCEEDED;
                return new Trouble(
                                late ? "no answer in time from " + server : server + ": " + root,
                                lower.contains("leader") || lower.contains("etcdserver: request timed out")
                                        ? "see whether a majority of its servers run and reach each other"
                                        : "check that the server runs and can be reached" + hint(kind, root),
                                sent,
                                failure)
                        .passing();
            }
            default -> {
                return answered(
                        server, said.isEmpty() ? status.toString() : said, "see the log of the server", failure);
            }
        }
    }

    /** A connection that ends before anything was said. */
    private static String hint(Kind kind, String root) {
        if (kind == Kind.PLAIN && (root.contains("Network closed") || root.contains("Connection reset"))) {
            return "; if it speaks TLS, use etcds://";
        }
        if ((kind == Kind.SECURE || kind == Kind.IDENTITY)
                && (root.contains("Network closed") || root.contains("ClosedChannel"))) {
            return "; if it does not speak TLS, use etcd://";
        }
        return "";
    }

    private static Trouble answered(String server, String said, String advice, Throwable failure) {
        return new Trouble(server + ": " + said, advice, false, failure);
    }

    private static String root(Throwable failure, String said) {
        Throwable deepest = failure;
        while (deepest.getCause() != null && deepest.getCause() != deepest) {
            deepest = deepest.getCause();
        }
        String message = deepest == failure ? said : deepest.getMessage();
        return message == null || message.isEmpty() ? deepest.getClass().getSimpleName() : message;
    }

    /** No TLS with this server, and why. */
    private static @Nullable Trouble tls(Throwable failure, String server, boolean shows) {
        boolean handshake = false;
        for (Throwable t = failure; t != null; t = t.getCause()) {
            if (t instanceof CertificateExpiredException || t instanceof CertificateNotYetValidException) {
                return new Trouble(
                        "the certificate of " + server + " is not valid now: " + t.getMessage(),
                        "give the server a new one, and look at this machine's clock",
                        false,
                        failure);
            }
            if (t instanceof CertPathBuilderException) {
                return new Trouble(
                        "the certificate of " + server + " is not trusted: " + t.getMessage(),
                        "give the certificate of its authority, a PEM file, as option trust=FILE",
                        false,
                        failure);
            }
            handshake |= t instanceof SSLException;
        }
        for (Throwable t = failure; t != null; t = t.getCause()) {
            if (t instanceof CertificateException) {
                String why = String.valueOf(t.getMessage());
                boolean name = why.contains("matching") || why.contains("subject alternative");
                return new Trouble(
                        "the certificate of " + server + (name ? " is that of another host: " : " is refused: ") + why,
                        name ? "use a name that stands in the certificate" : "give the server another certificate",
                        false,
                        failure);
            }
        }
        if (!handshake) {
            return null;
        }
        String why = root(failure, "");
        if (why.toLowerCase(Locale.ROOT).contains("not an ssl/tls record")) {
            return new Trouble(
                    "no TLS handshake with " + server + ": " + why,
                    "check that it speaks TLS on this port; if not, use etcd://",
                    false,
                    failure);
        }
        return new Trouble(
                server + " refused the TLS connection: "
                        + (shows
                                ? "it may not trust the certificate of the client"
                                : "it may ask for a certificate of the client")
                        + " (" + why + ")",
                shows
                        ? "see whether it trusts the one of identity=FILE"
                        : "give certificate and private key, a PEM file, as option identity=FILE",
                false,
                failure);
    }
}
