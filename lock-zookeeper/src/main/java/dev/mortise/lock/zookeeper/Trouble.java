package dev.mortise.lock.zookeeper;

import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.jspecify.annotations.Nullable;

/** A request to the store without a usable answer: what came of it, what to do, and whether it may have taken effect. */
final class Trouble extends Exception {
    private static final long serialVersionUID = 1;

    private final String advice;
    private final boolean effect;

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

    /** Nothing was heard in time. */
    static Trouble silence(String why) {
        return new Trouble(why, "check that a majority of the servers runs and can be reached", true, null);
    }

    /** The server answered with an error. */
    static Trouble answered(int code, String path) {
        Code what = Code.get(code);
        String said = what == null ? "error " + code : what.name();
        String advice = what == null
                ? "see the log of the server"
                : switch (what) {
                    case NOAUTH ->
                        "give its user the rights listed in docs/stores/zookeeper.md on this node, or the right user and"
                                + " password";
                    case AUTHFAILED ->
                        "give the right user and password in the URI or as MORTISE_USER, MORTISE_PASSWORD";
                    case INVALIDACL, SESSIONCLOSEDREQUIRESASLAUTH ->
                        "give user and password in the URI or as MORTISE_USER, MORTISE_PASSWORD";
                    case NONODE -> "somebody has removed it: try again";
                    case QUOTAEXCEEDED -> "raise the quota, or lock fewer names at a time";
                    case NOTREADONLY -> "it has lost the other servers: try again when they are back";
                    case UNIMPLEMENTED -> "use servers of version 3.6 or later";
                    case THROTTLEDOP, REQUESTTIMEOUT -> "it is overloaded: try again";
                    default -> "see the log of the server";
                };
        boolean effect = what == Code.CONNECTIONLOSS || what == Code.OPERATIONTIMEOUT || what == Code.REQUESTTIMEOUT;
        return new Trouble(
                said + " at " + path, advice, effect, what == null ? null : KeeperException.create(what, path));
    }
}
