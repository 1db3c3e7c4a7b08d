package dev.mortise.lock.redlock;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** A server behind a {@link Wire}: puts calls into keys and arguments of the scripts, and reads their answers. */
final class RedisNode implements Node {
    private static final String META = "mortise:redlock";
    private static final String LOCK = META + ":lock:";
    private static final String FENCE = META + ":fence:";

    /** Claims renewed by one script, which keeps its server busy for about a millisecond. */
    private static final int BATCH = 1000;

    private final Wire wire;
    private final Twins twins;

    /** Makes the names of our calls ours. */
    private final String client = Long.toString(ThreadLocalRandom.current().nextLong() & Long.MAX_VALUE, 36) + "-";

    private final AtomicLong calls = new AtomicLong();

    /** Owners with a proposal under way, and those of them that have given up. */
    private final Map<String, Boolean> proposing = new ConcurrentHashMap<>();

    private volatile String run = "";

    RedisNode(Wire wire, Twins twins) {
        this.wire = wire;
        this.twins = twins;
    }

    /** Knows which server answers for which node: two addresses of one server would give it two votes. */
    static final class Twins {
        private final Map<String, RedisNode> byRun = new HashMap<>();

        /** Takes note of it; the other node if there is one. */
        synchronized Optional<RedisNode> claim(RedisNode node, String run) {
            RedisNode other = byRun.putIfAbsent(run, node);
            if (other != null && other != node) {
                return Optional.of(other);
            }
            // A node whose server was started anew is known by the new one only.
            byRun.entrySet().removeIf(e -> e.getValue() == node && !e.getKey().equals(run));
            node.run = run;
            return Optional.empty();
        }
    }

    Wire wire() {
        return wire;
    }

    @Override
    public String name() {
        return wire.name();
    }

    @Override
    public CompletableFuture<Vote> propose(Proposal p) {
        String name = encode(p.name());
        proposing.put(p.owner(), true);
        CompletableFuture<Vote> vote = call(
                Script.PROPOSE,
                List.of(META, LOCK + name, FENCE + name),
                List.of(
                        p.owner(),
                        String.valueOf(p.token()),
                        String.valueOf(p.leaseMillis()),
                        p.again() ? "1" : "0",
                        String.valueOf(p.aheadMicros()),
                        stored(p.terms())),
                () -> Boolean.TRUE.equals(proposing.get(p.owner())),
                a -> {
                    Answer answer = Answer.valueOf(text(a, 2));
                    String detail = text(a, 5);
                    return new Vote(
                            answer,
                            Long.parseLong(text(a, 3)),
                            number(a, 4),
                            answer == Answer.OTHER_TERMS ? shown(detail) : detail);
                });
        return vote.whenComplete((v, failure) -> proposing.remove(p.owner()));
    }

    @Override
    public CompletableFuture<Boolean> release(String name, String owner) {
        // A proposal of this owner that the server did not know the script for is not sent once more, behind this.
        proposing.computeIfPresent(owner, (o, still) -> false);
        return call(
                Script.RELEASE, List.of(META, LOCK + encode(name)), List.of(owner), () -> true, a -> number(a, 2) == 1);
    }

    @Override
    public CompletableFuture<Renewed> renew(List<Kept> kept) {
        if (kept.size() <= BATCH) {
            return renewSome(kept);
        }
        List<CompletableFuture<Renewed>> parts = new ArrayList<>();
        for (int from = 0; from < kept.size(); from += BATCH) {
            parts.add(renewSome(kept.subList(from, Math.min(kept.size(), from + BATCH))));
        }
        CompletableFuture<Void> all = CompletableFuture.allOf(parts.toArray(CompletableFuture[]::new));
        return all.thenApply(x -> {
            List<Boolean> live = new ArrayList<>(kept.size());
            for (CompletableFuture<Renewed> part : parts) {
                Renewed some = part.join();
                if (some.mark() != null) {
                    return some;
                }
                live.addAll(some.live());
            }
            return new Renewed(null, live);
        });
    }

    private CompletableFuture<Renewed> renewSome(List<Kept> kept) {
        List<String> keys = new ArrayList<>(kept.size() + 1);
        List<String> arguments = new ArrayList<>(2 * kept.size());
        keys.add(META);
        for (Kept each : kept) {
            keys.add(LOCK + encode(each.name()));
            arguments.add(each.owner() + " " + each.token());
            arguments.add(String.valueOf(each.leaseMillis()));
        }
        return call(Script.RENEW, keys, arguments, () -> true, a -> {
            String mark = text(a, 2);
            if (!mark.isEmpty()) {
                return new Renewed(mark, List.of());
            }
            String live = text(a, 3);
            List<Boolean> each = new ArrayList<>(kept.size());
            for (int i = 0; i < kept.size(); i++) {
                each.add(live.charAt(i) == '1');
            }
            return new Renewed(null, each);
        });
    }

    @Override
    public CompletableFuture<Memory> memory() {
        return call(Script.MEMORY, List.of(META), List.of(), () -> true, a -> {
            String mark = text(a, 2);
            return new Memory(
                    mark.isEmpty() ? null : mark,
                    Long.parseLong(text(a, 3)),
                    Long.parseLong(text(a, 4)),
                    Long.parseLong(text(a, 5)),
                    Long.parseLong(text(a, 6)),
                    terms(text(a, 7)));
        });
    }

    @Override
    public CompletableFuture<Boolean> join(String mark, Terms terms, long floor, boolean atOnce) {
        return call(
                Script.JOIN,
                List.of(META),
                List.of(mark, String.valueOf(floor), stored(terms), atOnce ? "1" : "0"),
                () -> true,
                a -> number(a, 2) == 1);
    }

    @Override
    public CompletableFuture<Optional<Look>> look(String name) {
        return call(Script.LOOK, List.of(META, LOCK + encode(name)), List.of(), () -> true, a -> {
            String key = text(a, 2);
            int space = key.indexOf(' ');
            return space < 0
                    ? Optional.empty()
                    : Optional.of(
                            new Look(key.substring(0, space), Long.parseLong(key.substring(space + 1)), number(a, 3)));
        });
    }

    /** What kind of server it is: the lines of INFO. */
    CompletableFuture<Map<String, String>> info() {
        return call(Script.PROBE, List.of(META), List.of(), () -> true, a -> {
            Map<String, String> info = new HashMap<>();
            for (String line : text(a, 2).split("\r\n", -1)) {
                int colon = line.indexOf(':');
                if (colon > 0) {
                    info.put(line.substring(0, colon), line.substring(colon + 1));
                }
            }
            return info;
        });
    }

    // -------------------------------------------------------------------------------------------------

    private interface Wanted {
        boolean still();
    }

    /** Runs a script by its digest, or whole where the server does not know it and it is still wanted. */
    private <T> CompletableFuture<T> call(
            Script script, List<String> keys, List<String> arguments, Wanted wanted, Function<List<Object>, T> reader) {
        String call = client + Long.toString(calls.incrementAndGet(), 36);
        List<String> all = new ArrayList<>(arguments.size() + 1);
        all.add(call);
        all.addAll(arguments);
        CompletableFuture<T> result = new CompletableFuture<>();
        send(script, false, keys, all, wanted, reader, result);
        return result;
    }

    private <T> void send(
            Script script,
            boolean whole,
            List<String> keys,
            List<String> arguments,
            Wanted wanted,
            Function<List<Object>, T> reader,
            CompletableFuture<T> result) {
        CompletableFuture<List<Object>> unused = wire.run(script, whole, keys, arguments)
                .whenComplete((answer, failure) -> {
                    if (answer != null) {
                        read(answer, arguments.get(0), reader, result);
                    } else if (failure != null && Protocol.cause(failure) instanceof Wire.NoScript) {
                        if (whole) {
                            result.completeExceptionally(new Silence("does not take scripts", false, null));
                        } else if (!wanted.still()) {
                            teach(script, keys, arguments);
                            result.completeExceptionally(
                                    new Silence("did not know the script, and is not asked again", false, null));
                        } else {
                            send(script, true, keys, arguments, wanted, reader, result);
                        }
                    } else {
                        result.completeExceptionally(
                                failure == null ? new Silence("an empty answer", true, null) : Protocol.cause(failure));
                    }
                });
    }

    /**
     * A proposal came to nothing because the server did not know the script, and its owner has given up meanwhile. So that
     * it knows it next time, the whole script is sent for an owner that is none with a token that is too small for anything:
     * where locks are held for less than the answer takes, the server would else never vote.
     */
    private void teach(Script script, List<String> keys, List<String> arguments) {
        if (script == Script.PROPOSE) {
            List<String> harmless = new ArrayList<>(arguments);
            harmless.set(1, "-");
            harmless.set(2, "0");
            harmless.set(4, "1");
            CompletableFuture<List<Object>> unused = wire.run(script, true, keys, harmless);
        }
    }

    private <T> void read(
            List<Object> answer, String call, Function<List<Object>, T> reader, CompletableFuture<T> result) {
        try {
            if (!text(answer, 0).equals(call)) {
                wire.distrust("an answer that belongs to another call");
                result.completeExceptionally(new Silence("its answers were mixed up", true, null));
                return;
            }
            String its = text(answer, 1);
            if (!its.isEmpty() && !its.equals(run)) {
                Optional<RedisNode> twin = twins.claim(this, its);
                if (twin.isPresent()) {
                    result.completeExceptionally(
                            new Silence("is the same server as " + twin.get().name(), true, null));
                    return;
                }
            }
            result.complete(reader.apply(answer));
        } catch (RuntimeException e) {
            result.completeExceptionally(new Silence("an answer that cannot be read: " + e, true, null));
        }
    }

    private static String text(List<Object> answer, int at) {
        return String.valueOf(answer.get(at));
    }

    private static long number(List<Object> answer, int at) {
        return Long.parseLong(text(answer, at));
    }

    private static String stored(Terms terms) {
        return Terms.FORMAT + " " + terms.attemptMillis() + " " + terms.longestMillis();
    }

    private static @Nullable Terms terms(String stored) {
        String[] parts = stored.split(" ", -1);
        if (parts.length != 3 || !parts[0].equals(String.valueOf(Terms.FORMAT))) {
            return null;
        }
        return new Terms(Long.parseLong(parts[1]), Long.parseLong(parts[2]));
    }

    private static String shown(String stored) {
        Terms terms = terms(stored);
        return terms != null ? terms.toString() : "terms " + stored;
    }

    /**
     * The name in printable ASCII, without collisions: a space, a percent sign and every byte of UTF-8 beyond printable
     * ASCII become {@code %XX}. So that administrators can type it, and no tool cuts it.
     */
    static String encode(String name) {
        StringBuilder out = null;
        int length = name.length();
        for (int i = 0; i < length; i++) {
            char c = name.charAt(i);
            if (c <= ' ' || c >= 0x7f || c == '%') {
                out = new StringBuilder(length + 16);
                break;
            }
        }
        if (out == null) {
            return name;
        }
        for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
            if (b > ' ' && b < 0x7f && b != '%') {
                out.append((char) b);
            } else {
                out.append('%').append(hex(b >> 4)).append(hex(b));
            }
        }
        return out.toString();
    }

    private static char hex(int digit) {
        return "0123456789ABCDEF".charAt(digit & 0xf);
    }
}
