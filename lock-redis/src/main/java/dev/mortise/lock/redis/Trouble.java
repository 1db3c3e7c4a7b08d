package dev.mortise.lock.redis;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

/** A request to the store without a usable answer: what came of it, what to do, and whether it may have taken effect. */
final class Trouble extends Exception {
    private static final long serialVersionUID = 1;

    /**
     * Errors that say that nothing was done. Servers before 7.0 put the errors of commands in scripts behind other words
     * and a minus.
     */
    private static final Pattern REFUSED = Pattern.compile("(?:^|-)(READONLY|LOADING|CLUSTERDOWN|MASTERDOWN|TRYAGAIN"
            + "|NOREPLICAS|OOM|MISCONF|BUSY|NOAUTH|NOPERM|WRONGPASS|MOVED|ASK|CROSSSLOT|NOSCRIPT|WRONGTYPE)\\b");

    private final String advice;
    private final boolean effect;

    /** Whether nothing was heard from a server: then an earlier trouble of the same call may say more. */
    private boolean silent;

    Trouble(String what, String advice, boolean effect, @Nullable Throwable cause) {
        super(what, cause);
        this.advice = advice;
        this.effect = effect;
    }

    String advice() {
        return advice;
    }

    boolean mayHaveTakenEffect() {
        return effect;
    }

    /** Whether the server could not be reached, or did not answer; not that it refused. */
    boolean isSilence() {
        return silent;
    }

    /** The same, where a call was repeated and then ran out of time: with what it met first. */
    Trouble after(@Nullable Trouble first) {
        if (!silent || first == null || String.valueOf(getMessage()).contains(String.valueOf(first.getMessage()))) {
            return this;
        }
        Trouble both =
                new Trouble(getMessage() + "; before that: " + first.getMessage(), first.advice, effect, getCause());
        both.silent = true;
        return both;
    }

    /** The code of an error that did nothing, or an empty text. */
    static String code(JedisDataException error) {
        String message = String.valueOf(error.getMessage());
        Matcher matcher = REFUSED.matcher(message);
        if (matcher.find()) {
            return matcher.group(1);
        }
        // Redis says so to connections without a password in words of its own, and 7.0 to scripts.
        String lower = message.toLowerCase(Locale.ROOT);
        return lower.contains("without any password configured")
                ? "WRONGPASS"
                : lower.contains("user executing the script can't") ? "NOPERM" : "";
    }

    /** The server answered with an error. */
    static Trouble answered(JedisDataException error) {
        String code = code(error);
        String advice = switch (code) {
            case "READONLY" -> "it is a replica: give the address of the master, or redis+sentinel://";
            case "LOADING" -> "it is starting: try again when it has read its data";
            case "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN" -> "try again when the cluster is well";
            case "NOREPLICAS" -> "see why its replicas are gone (min-replicas-to-write)";
            case "OOM" -> "give it more memory (maxmemory)";
            case "MISCONF" -> "see in its log why it cannot write to its disk";
            case "BUSY" -> "find the script that keeps it busy (SCRIPT KILL ends it)";
            case "NOAUTH", "WRONGPASS" -> "give user and password in the URI or as MORTISE_USER, MORTISE_PASSWORD";
            case "NOPERM" -> "give its user the rights listed in docs/stores/redis.md";
            case "WRONGTYPE" -> "something else than Mortise uses its keys: choose another prefix";
            case "MOVED", "ASK", "CROSSSLOT" -> "it belongs to a Cluster: use redis+cluster://";
            default -> "see the log of the server";
        };
        String what = String.valueOf(error.getMessage());
        if (code.equals("NOPERM")) {
            what = (what.contains(code) ? "" : code + " ") + what + Script.commandOf(what);
        }
        return new Trouble(what, advice, code.isEmpty(), error);
    }

    /** The connection failed, or there was none. */
    static Trouble disconnected(JedisException error, boolean effect, String server) {
        Throwable root = error;
        for (int i = 0; i < 10; i++) {
            if (root instanceof Dialer.Refused refused) {
                return new Trouble(String.valueOf(refused.getMessage()), refused.advice, effect, error);
            }
            Throwable next = root.getCause();
            if (next == null && root.getSuppressed().length > 0) {
                next = root.getSuppressed()[0];
            }
            if (next == null) {
                break;
            }
            root = next;
        }
        String what = root instanceof java.net.SocketTimeoutException
                ? "no answer in time from " + server
                : server + ": " + (root.getMessage() == null ? root.toString() : root.getMessage());
        Trouble trouble = new Trouble(what, "check that the server runs and can be reached", effect, error);
        trouble.silent = true;
        return trouble;
    }
}
