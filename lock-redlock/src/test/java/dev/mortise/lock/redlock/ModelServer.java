package dev.mortise.lock.redlock;

import dev.mortise.lock.redlock.Node.Answer;
import dev.mortise.lock.redlock.Node.Kept;
import dev.mortise.lock.redlock.Node.Look;
import dev.mortise.lock.redlock.Node.Memory;
import dev.mortise.lock.redlock.Node.Proposal;
import dev.mortise.lock.redlock.Node.Renewed;
import dev.mortise.lock.redlock.Node.Terms;
import dev.mortise.lock.redlock.Node.Vote;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.LongSupplier;

/**
 * A Redis server with the scripts of the protocol, as a model: each method does what the script of its name does, line by
 * line, so that one who changes a script changes the method. ModelTest compares them. {@code call} is the name of a call.
 */
final class ModelServer {
    /** The limit of a token's lead over what is known, beside the clock. */
    private static final long STEP = 1 << 20;

    private final LongSupplier clockMicros;
    private final long fenceMillis;
    private final Mutant mutant;

    private String processRun;
    private Data data = new Data();

    private record Key(String owner, long token, long until) {}

    private record Fence(long token, long until) {}

    /** Everything that a snapshot keeps. */
    private static final class Data {
        private String run = "";
        private long high;
        private long floor;
        private long ready;
        private Terms terms = new Terms(0, 0);
        private String markRun = "";
        private String mark = "";
        private long markAt;
        private final Map<String, Key> locks = new HashMap<>(4);
        private final Map<String, Fence> fences = new HashMap<>(4);

        Data copy() {
            Data copy = new Data();
            copy.run = run;
            copy.high = high;
            copy.floor = floor;
            copy.ready = ready;
            copy.terms = terms;
            copy.markRun = markRun;
            copy.mark = mark;
            copy.markAt = markAt;
            copy.locks.putAll(locks);
            copy.fences.putAll(fences);
            return copy;
        }
    }

    /** An empty one, with a clock in microseconds since 1970, and fences that expire after this time without a grant. */
    ModelServer(String run, LongSupplier clockMicros, long fenceMillis, Mutant mutant) {
        this.processRun = run;
        this.clockMicros = clockMicros;
        this.fenceMillis = fenceMillis;
        this.mutant = mutant;
    }

    // What happens to a server.

    void flush() {
        data = new Data();
    }

    Object snapshot() {
        return data.copy();
    }

    /** Starts anew with the data that it has, or with those of a snapshot. */
    void restart(String run, Object snapshot) {
        processRun = run;
        if (snapshot != null) {
            data = ((Data) snapshot).copy();
        }
    }

    // What a test asks, and a client cannot.

    boolean remembers() {
        return mutant == Mutant.M21_NO_RUN_ID_CHECK ? !data.run.isEmpty() : data.run.equals(processRun);
    }

    boolean has(String name, String owner, long token) {
        Key key = live(name);
        return key != null && key.owner.equals(owner) && (token == 0 || key.token == token);
    }

    /** Until the last key is gone, in milliseconds of this server's clock. */
    long busyMillis() {
        long most = 0;
        for (Key key : data.locks.values()) {
            most = Math.max(most, key.until - millis() + 1);
        }
        return most;
    }

    boolean votes() {
        return remembers() && clockMicros.getAsLong() >= data.ready;
    }

    void dropKey(String name) {
        data.locks.remove(name);
    }

    void dropFence(String name) {
        data.fences.remove(name);
    }

    // The scripts.

    private long millis() {
        return clockMicros.getAsLong() / 1000;
    }

    private Key live(String name) {
        Key key = data.locks.get(name);
        if (key != null && millis() > key.until) {
            data.locks.remove(name);
            return null;
        }
        return key;
    }

    private String mark(String call) {
        if (!data.markRun.equals(processRun)) {
            long now = clockMicros.getAsLong();
            data.run = "";
            data.markRun = processRun;
            data.mark = mutant == Mutant.M26_MARK_FROM_MESSAGE
                    ? call
                    : now / 1_000_000 + "." + now % 1_000_000 + "." + call;
            data.markAt = now;
        }
        return data.mark;
    }

    Vote propose(String call, Proposal p) {
        long now = clockMicros.getAsLong();
        if (!remembers()) {
            return new Vote(Answer.NO_MEMORY, 0, 0, mark(call));
        }
        long longest = data.terms.longestMillis();
        if (mutant != Mutant.M32_TERMS_NOT_CHECKED && (!data.terms.equals(p.terms()) || p.leaseMillis() > longest)) {
            return new Vote(Answer.OTHER_TERMS, 0, 0, data.terms.toString());
        }
        Fence kept = data.fences.get(p.name());
        long fence = kept != null && now / 1000 <= kept.until
                ? kept.token
                : mutant == Mutant.M28_EXPIRED_FENCE_IS_ZERO ? 0 : data.high;
        fence = Math.max(fence, data.floor);
        long wait = data.ready - now;
        if (wait > 0 && mutant != Mutant.M05_READY_NOT_WAITED_FOR) {
            if (wait > longest * 1000 && mutant != Mutant.M31_READY_NOT_CLAMPED) {
                wait = longest * 1000;
                data.ready = now + wait;
            }
            return new Vote(Answer.NOT_READY, fence, (wait + 999) / 1000, "");
        }
        Key key = live(p.name());
        if (key != null) {
            if (!key.owner.equals(p.owner())) {
                long rest = key.until - now / 1000;
                if (rest > longest && mutant != Mutant.M42_OLD_KEY_NOT_CUT) {
                    rest = longest;
                    data.locks.put(p.name(), new Key(key.owner, key.token, now / 1000 + rest));
                }
                return new Vote(Answer.HELD, fence, rest, "");
            }
            boolean same = key.token == p.token() || mutant == Mutant.M12_OWNER_OK_FOR_ANY_TOKEN;
            boolean ours = key.token > data.floor || mutant == Mutant.M39_KEYS_OF_BEFORE_THE_LOSS_COUNT;
            if (ours && (!p.again() || same)) {
                if (mutant != Mutant.M41_KEPT_TOKEN_NOT_IN_HIGH) {
                    data.high = Math.max(data.high, key.token);
                }
                data.locks.put(p.name(), new Key(key.owner, key.token, now / 1000 + p.leaseMillis()));
                return Vote.of(p.again() ? Answer.OK : Answer.MINE, key.token);
            }
        }
        boolean stale = mutant == Mutant.M11_EQUAL_TOKEN_ACCEPTED ? p.token() < fence : p.token() <= fence;
        if (stale && mutant != Mutant.M02_FENCE_NOT_CHECKED) {
            return Vote.of(Answer.STALE, fence);
        }
        if (p.token() > Math.max(data.high + STEP, now + p.aheadMicros()) || p.token() >= Protocol.TOKENS_END) {
            return Vote.of(Answer.TOO_FAR, fence);
        }
        long until = mutant == Mutant.M35_LEASE_NOT_SET ? Long.MAX_VALUE / 2 : now / 1000 + p.leaseMillis();
        data.locks.put(p.name(), new Key(p.owner(), p.token(), until));
        data.fences.put(p.name(), new Fence(p.token(), now / 1000 + fenceMillis));
        if (mutant != Mutant.M33_HIGH_NOT_RAISED) {
            data.high = Math.max(data.high, p.token());
        }
        return Vote.of(Answer.OK, p.token());
    }

    Renewed renew(String call, List<Kept> kept) {
        if (!remembers() && mutant != Mutant.M30_RENEW_WITHOUT_MEMORY) {
            return new Renewed(mark(call), List.of());
        }
        List<Boolean> live = new ArrayList<>(kept.size());
        for (Kept each : kept) {
            Key key = live(each.name());
            boolean is = key != null
                    && (key.token > data.floor || mutant == Mutant.M39_KEYS_OF_BEFORE_THE_LOSS_COUNT)
                    && ((key.owner.equals(each.owner()) && key.token == each.token())
                            || mutant == Mutant.M17_RENEW_IGNORES_OWNER);
            if (key == null && mutant == Mutant.M08_RENEW_RECREATES) {
                key = new Key(each.owner(), each.token(), 0);
                is = true;
            }
            if (is) {
                data.locks.put(each.name(), new Key(key.owner, key.token, millis() + each.leaseMillis()));
            }
            live.add(is);
        }
        return new Renewed(null, live);
    }

    boolean release(String name, String owner) {
        Key key = live(name);
        if (key == null || (!key.owner.equals(owner) && mutant != Mutant.M18_RELEASE_IGNORES_OWNER)) {
            return false;
        }
        data.locks.remove(name);
        if (mutant == Mutant.M03_RELEASE_RESETS_FENCE) {
            data.fences.put(name, new Fence(0, millis() + fenceMillis));
        }
        return true;
    }

    Memory memory(String call) {
        long now = clockMicros.getAsLong();
        if (remembers()) {
            return new Memory(null, 0, now, data.high, data.ready, data.terms);
        }
        String mark = mark(call);
        return new Memory(mark, data.markAt, now, 0, 0, null);
    }

    boolean join(String mark, Terms terms, long floor, boolean atOnce) {
        boolean unmarked = mutant == Mutant.M13_JOIN_WITHOUT_MARK_CHECK && !remembers();
        if (!unmarked && (!data.markRun.equals(processRun) || !data.mark.equals(mark))) {
            return false;
        }
        long now = clockMicros.getAsLong();
        data.ready = atOnce ? now : Math.min(data.markAt, now) + terms.longestMillis() * 1000;
        data.run = processRun;
        data.high = mutant == Mutant.M04_JOIN_WITHOUT_FLOOR ? 0 : floor;
        data.floor = data.high;
        data.terms = terms;
        data.markRun = "";
        data.mark = "";
        return true;
    }

    Optional<Look> look(String name) {
        Key key = live(name);
        return key == null ? Optional.empty() : Optional.of(new Look(key.owner, key.token, key.until - millis()));
    }
}
