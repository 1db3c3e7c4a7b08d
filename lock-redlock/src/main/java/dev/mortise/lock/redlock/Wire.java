package dev.mortise.lock.redlock;

import dev.mortise.lock.redlock.Node.Silence;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** The way to one server: sends scripts, and brings back what they return. For any thread; never blocks. */
interface Wire {
    /** Host and port. */
    String name();

    /**
     * Runs a script. A call of one owner does not overtake an earlier one of the same owner, unless the connection breaks.
     *
     * @param whole sends the whole text instead of its digest
     * @return what the script returns, as texts, longs and lists; fails with {@link NoScript} or {@link Silence} only
     */
    CompletableFuture<List<Object>> run(Script script, boolean whole, List<String> keys, List<String> arguments);

    /** An answer was another call's: nothing that this connection brings can be believed any more. */
    void distrust(String why);

    /** Ends all calls that wait. */
    void close();

    /** The server does not know the script by its digest. It has certainly not run. */
    final class NoScript extends Exception {
        private static final long serialVersionUID = 1;

        NoScript() {
            super("the server does not know the script", null, false, false);
        }
    }
}
