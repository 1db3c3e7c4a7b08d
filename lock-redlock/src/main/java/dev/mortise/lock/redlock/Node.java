package dev.mortise.lock.redlock;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * One of the N servers, as the {@link Protocol} sees it. Each call returns at once and answers later, once, on any thread;
 * a call that gets no answer fails with {@link Silence}, or never ends: the protocol has an alarm of its own for each round.
 *
 * <p>What a server does with each call is written in the script of the same name.
 */
interface Node {
    /** The server as people know it: host and port, without secrets. */
    String name();

    /** Asks for the lock of a name with a token that the client proposes: {@code propose.lua}. */
    CompletableFuture<Vote> propose(Proposal proposal);

    /** Lengthens claims, all in one call: {@code renew.lua}. */
    CompletableFuture<Renewed> renew(List<Kept> kept);

    /**
     * Removes the owner's key, whatever its token: {@code release.lua}. Goes over the connection of the owner's proposals,
     * behind them, or after that was closed.
     *
     * @return whether there was one
     */
    CompletableFuture<Boolean> release(String name, String owner);

    /** What the server remembers: {@code memory.lua}. */
    CompletableFuture<Memory> memory();

    /**
     * Gives a server without memory a new one, if the mark is still its mark: {@code join.lua}.
     *
     * @param floor every token from now on is larger
     * @param atOnce whether it votes from now on; else a longest lease after it lost its memory
     * @return whether the mark was still the same
     */
    CompletableFuture<Boolean> join(String mark, Terms terms, long floor, boolean atOnce);

    /** Who holds the name at this server: {@code look.lua}. */
    CompletableFuture<Optional<Look>> look(String name);

    /**
     * What all clients and servers of a deployment have in common. Kept by the servers; a proposal under other terms is
     * refused.
     *
     * @param attemptMillis the longest that an attempt lasts, from its first send to its decision
     * @param longestMillis the longest lease
     */
    record Terms(long attemptMillis, long longestMillis) {
        /** The layout in the store. */
        static final int FORMAT = 1;

        @Override
        public String toString() {
            return "format " + FORMAT + ", attempt " + attemptMillis + " ms, longest lease " + longestMillis + " ms";
        }
    }

    /**
     * One proposal.
     *
     * @param token the token proposed; positive, below 2^53, in microseconds since 1970
     * @param again whether this owner may have a key from an earlier round of this very attempt, to be replaced; else a key
     *     of this owner is a claim that is live, and is answered with {@link Answer#MINE}
     * @param aheadMicros how far before the server's clock a token may be
     */
    record Proposal(
            String name, String owner, long token, long leaseMillis, boolean again, long aheadMicros, Terms terms) {}

    /** How a server answers a proposal. */
    enum Answer {
        /** The owner has the key, with this token, for a full lease from now. */
        OK,
        /** The owner had the key already, with the token that is the vote's fence, and has it for a full lease from now. */
        MINE,
        /** Another owner has the key. */
        HELD,
        /** The token is not larger than one that this server knows. */
        STALE,
        /** The token is too far before the server's clock. */
        TOO_FAR,
        /** The server has its memory again, but does not vote yet. */
        NOT_READY,
        /** The server has lost its memory; it is known by the mark. */
        NO_MEMORY,
        /** The server is of a deployment with other terms. */
        OTHER_TERMS
    }

    /**
     * A server's answer to a proposal.
     *
     * @param fence what a token must be larger than, for all answers that know it; the token itself for {@code OK} and
     *     {@code MINE}; else 0
     * @param restMillis how long the other owner's key lives unless renewed, or how long until the server votes; else 0
     * @param detail the mark for {@code NO_MEMORY}, the server's terms for {@code OTHER_TERMS}; else empty
     */
    record Vote(Answer answer, long fence, long restMillis, String detail) {
        static Vote of(Answer answer, long fence) {
            return new Vote(answer, fence, 0, "");
        }
    }

    /** A claim to be kept: exactly this owner's, with this token. */
    record Kept(String name, String owner, long token, long leaseMillis) {}

    /**
     * The answer to a renewal.
     *
     * @param mark the mark of a server without memory, which knows nothing of any claim; else null
     * @param live for each claim, in order, whether it has its key for a full lease from now; empty without memory
     */
    record Renewed(@Nullable String mark, List<Boolean> live) {}

    /**
     * What a server remembers.
     *
     * @param mark the mark of a server without memory; else null
     * @param markAtMicros when the mark was made, by the server's clock; 0 with memory
     * @param nowMicros the server's clock
     * @param high the largest token that it knows; 0 without memory
     * @param readyAtMicros from when on it votes, by the server's clock; 0 without memory
     * @param terms its terms; null without memory, or if they cannot be read
     */
    record Memory(
            @Nullable String mark,
            long markAtMicros,
            long nowMicros,
            long high,
            long readyAtMicros,
            @Nullable Terms terms) {
        boolean lost() {
            return mark != null;
        }
    }

    /** Who holds a name at one server. */
    record Look(String owner, long token, long restMillis) {}

    /** No answer. */
    final class Silence extends Exception {
        private static final long serialVersionUID = 1;

        private final boolean mayHaveTakenEffect;

        /**
         * No answer, and why.
         *
         * @param mayHaveTakenEffect false only if the request certainly never reaches the server
         */
        Silence(String why, boolean mayHaveTakenEffect, @Nullable Throwable cause) {
            super(why, cause, false, false);
            this.mayHaveTakenEffect = mayHaveTakenEffect;
        }

        boolean mayHaveTakenEffect() {
            return mayHaveTakenEffect;
        }
    }
}
