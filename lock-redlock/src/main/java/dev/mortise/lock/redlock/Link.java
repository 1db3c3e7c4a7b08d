package dev.mortise.lock.redlock;

import dev.mortise.lock.redlock.Node.Silence;
import io.netty.util.Timeout;
import io.netty.util.Timer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import org.redisson.client.RedisClient;
import org.redisson.client.RedisClientConfig;
import org.redisson.client.RedisConnection;
import org.redisson.client.RedisNoScriptException;
import org.redisson.client.codec.StringCodec;
import org.redisson.client.protocol.CommandData;
import org.redisson.client.protocol.RedisCommand;
import org.redisson.client.protocol.RedisCommands;
import org.redisson.client.protocol.decoder.ObjectListReplayDecoder;

/**
 * One connection of our own to one server, with all calls in a pipeline: those of one owner keep their order, and nothing
 * is sent twice. Below Redisson's pools, which would use any of many connections, repeat commands, and keep threads.
 *
 * <p>A call without an answer for the node timeout condemns its connection, with all that waits on it: whatever comes over
 * it later is not looked at. A new one is opened at once, and then when it is needed, in growing intervals. A call waits
 * for the connection that is being opened; if that fails, it certainly had no effect.
 */
final class Link implements Wire {
    private static final RedisCommand<List<Object>> EVALSHA =
            new RedisCommand<>("EVALSHA", new ObjectListReplayDecoder<>());
    private static final RedisCommand<List<Object>> EVAL = new RedisCommand<>("EVAL", new ObjectListReplayDecoder<>());

    private static final String CLOSED = "this client was closed";

    private static final long FIRST_BACK_OFF = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long LONGEST_BACK_OFF = TimeUnit.SECONDS.toNanos(1);

    /** The first connection of a JVM loads a thousand classes. */
    private static final long FIRST_CONNECTION = TimeUnit.SECONDS.toNanos(5);

    private final String name;
    private final RedisClientConfig config;
    private final Timer timer;
    private final long timeout;

    private final Object lock = new Object();

    // Guarded by the lock, but session, which is read without it.
    private volatile @Nullable Session session;
    private boolean opening;
    private volatile boolean connected;
    private final Queue<Queued> queue = new ArrayDeque<>();
    private long backOff;
    private long retryAt = System.nanoTime();
    private String failure = "not connected";
    private boolean closed;

    /**
     * A way to one server; connects when it is used.
     *
     * @param config says where it is, and with which group, timer and executor
     * @param timeout how long to wait for an answer, in nanoseconds
     */
    Link(String name, RedisClientConfig config, Timer timer, long timeout) {
        this.name = name;
        this.config = config;
        this.timer = timer;
        this.timeout = timeout;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public CompletableFuture<List<Object>> run(
            Script script, boolean whole, List<String> keys, List<String> arguments) {
        Object[] words = new Object[2 + keys.size() + arguments.size()];
        int at = 0;
        words[at++] = whole ? script.text() : script.sha();
        words[at++] = String.valueOf(keys.size());
        for (String key : keys) {
            words[at++] = key;
        }
        for (String argument : arguments) {
            words[at++] = argument;
        }
        RedisCommand<List<Object>> command = whole ? EVAL : EVALSHA;
        Session open = session;
        if (open != null) {
            return open.send(command, words);
        }
        Queued call = new Queued(command, words);
        Runnable refuse;
        synchronized (lock) {
            open = session;
            if (open == null) {
                refuse = queue(call);
            } else {
                refuse = () -> {};
            }
        }
        if (open != null) {
            return open.send(command, words);
        }
        refuse.run();
        return call.answer;
    }

    /** A call that waits for a connection. They are sent in their order: a release must not overtake its acquire. */
    private static final class Queued {
        private final RedisCommand<List<Object>> command;
        private final Object[] words;
        private final CompletableFuture<List<Object>> answer = new CompletableFuture<>();

        Queued(RedisCommand<List<Object>> command, Object[] words) {
            this.command = command;
            this.words = words;
        }
    }

    @Override
    public void distrust(String why) {
        Session open = session;
        if (open != null) {
            open.end(why);
        }
    }

    @Override
    public void close() {
        Session open;
        synchronized (lock) {
            closed = true;
            open = session;
        }
        if (open != null) {
            open.end(CLOSED);
        }
    }

    // ------------------------------------------------------------------------------------------------- connecting

    /** Called under the lock, without a session: queues the call, or tells how to refuse it. */
    private Runnable queue(Queued call) {
        if (!opening && (closed || System.nanoTime() - retryAt < 0)) {
            Silence silence = new Silence(closed ? CLOSED : failure, false, null);
            return () -> call.answer.completeExceptionally(silence);
        }
        queue.add(call);
        return open();
    }

    /** Called under the lock, without a session: begins to connect, unless that is under way. What is to be done without it. */
    private Runnable open() {
        if (opening || closed) {
            return () -> {};
        }
        opening = true;
        return this::connect;
    }

    private void connect() {
        AtomicBoolean over = new AtomicBoolean();
        long nanos = connected ? 2 * timeout : Math.max(2 * timeout, FIRST_CONNECTION);
        Timeout limit;
        try {
            limit = timer.newTimeout(
                    t -> {
                        if (over.compareAndSet(false, true)) {
                            failed("no connection within " + nanos / 1_000_000 + " ms");
                        }
                    },
                    nanos,
                    TimeUnit.NANOSECONDS);
        } catch (IllegalStateException e) {
            failed(CLOSED); // The timer has stopped.
            return;
        }
        // A client of its own for each connection: one remembers the address that a name once had.
        CompletableFuture<Session> unused = RedisClient.create(config)
                .connectAsync()
                .toCompletableFuture()
                .thenCompose(connection -> {
                    Session made = new Session(connection);
                    // Before Redisson's own handler, which would connect again and put the new channel in the old's
                    // place.
                    connection.getChannel().closeFuture().addListener(f -> made.end("the connection broke"));
                    return connection
                            .async(nanos / 1_000_000, StringCodec.INSTANCE, RedisCommands.PING)
                            .toCompletableFuture()
                            .handle((pong, silence) -> {
                                if (silence != null) {
                                    made.end(reason(silence));
                                    throw new CompletionException(silence);
                                }
                                return made;
                            });
                })
                .whenComplete((made, silence) -> {
                    if (!over.compareAndSet(false, true)) {
                        if (made != null) {
                            made.end("connected too late");
                        }
                        return;
                    }
                    limit.cancel();
                    if (made == null) {
                        failed(silence == null ? "not connected" : reason(silence));
                    } else {
                        opened(made);
                    }
                });
    }

    private void opened(Session made) {
        synchronized (lock) {
            opening = false;
            if (!closed && !made.ended.get()) {
                backOff = 0;
                connected = true;
                for (Queued call = queue.poll(); call != null; call = queue.poll()) {
                    CompletableFuture<List<Object>> answer = call.answer;
                    CompletableFuture<List<Object>> unused = made.send(call.command, call.words)
                            .whenComplete((list, silence) -> {
                                if (silence != null) {
                                    answer.completeExceptionally(silence);
                                } else {
                                    answer.complete(list);
                                }
                            });
                }
                // Only now, so that nobody passes the queue.
                session = made;
                return;
            }
        }
        made.end(CLOSED);
        failed("the connection broke");
    }

    private void failed(String why) {
        List<Queued> refused;
        synchronized (lock) {
            opening = false;
            failure = why;
            backOff = Math.min(LONGEST_BACK_OFF, Math.max(FIRST_BACK_OFF, 2 * backOff));
            retryAt = System.nanoTime() + backOff;
            refused = new ArrayList<>(queue);
            queue.clear();
        }
        for (Queued call : refused) {
            call.answer.completeExceptionally(new Silence(why, false, null));
        }
    }

    // ------------------------------------------------------------------------------------------------- connected

    /** One connection, until it ends. */
    private final class Session {
        private final RedisConnection connection;
        private final AtomicBoolean ended = new AtomicBoolean();
        private final AtomicBoolean watched = new AtomicBoolean();

        /** Calls without an answer, the oldest first. */
        private final Queue<Waiting> waiting = new ConcurrentLinkedQueue<>();

        Session(RedisConnection connection) {
            this.connection = connection;
        }

        CompletableFuture<List<Object>> send(RedisCommand<List<Object>> command, Object[] words) {
            Waiting call = new Waiting(System.nanoTime());
            waiting.add(call);
            CompletableFuture<List<Object>> answer = new CompletableFuture<>();
            CompletableFuture<List<Object>> unused = answer.whenComplete((list, silence) -> {
                waiting.remove(call);
                if (list != null) {
                    call.complete(list);
                } else if (silence instanceof RedisNoScriptException) {
                    call.completeExceptionally(new NoScript());
                } else {
                    call.completeExceptionally(new Silence(
                            silence == null ? "an empty answer" : reason(silence), mayHaveRun(silence), null));
                }
            });
            if (ended.get()) {
                answer.completeExceptionally(new Silence("the connection broke", false, null));
                return call;
            }
            connection
                    .send(new CommandData<>(answer, StringCodec.INSTANCE, command, words))
                    .addListener(written -> {
                        if (!written.isSuccess()) {
                            answer.completeExceptionally(new Silence("the connection broke", true, null));
                        }
                    });
            if (ended.get()) {
                // It may have ended before this call was in the queue that is cleared.
                answer.completeExceptionally(new Silence("the connection broke", true, null));
            }
            watch(timeout);
            return call;
        }

        private void watch(long nanos) {
            if (!waiting.isEmpty() && watched.compareAndSet(false, true)) {
                try {
                    Timeout unused = timer.newTimeout(t -> look(), nanos, TimeUnit.NANOSECONDS);
                } catch (IllegalStateException e) {
                    watched.set(false); // The timer has stopped, because this client was closed.
                }
            }
        }

        private void look() {
            watched.set(false);
            Waiting oldest = waiting.peek();
            if (oldest != null) {
                long age = System.nanoTime() - oldest.since;
                if (age >= timeout) {
                    end("no answer within " + timeout / 1_000_000 + " ms");
                } else {
                    watch(timeout - age);
                }
            }
        }

        @SuppressWarnings("FutureReturnValueIgnored") // Closed is closed; how it went does not matter.
        private void disconnect() {
            connection.closeAsync();
        }

        /** Closes it. All that waits has no answer. */
        void end(String why) {
            if (!ended.compareAndSet(false, true)) {
                return;
            }
            disconnect();
            Runnable again = () -> {};
            synchronized (lock) {
                if (session == this) {
                    session = null;
                    failure = why;
                    again = open();
                }
            }
            for (Waiting call : new ArrayList<>(waiting)) {
                call.completeExceptionally(new Silence(why, true, null));
            }
            waiting.clear();
            again.run();
        }
    }

    private static final class Waiting extends CompletableFuture<List<Object>> {
        private final long since;

        Waiting(long since) {
            this.since = since;
        }
    }

    /** A server that answers with an error has not run the script, or not to its end: a script that fails has written. */
    private static boolean mayHaveRun(@Nullable Throwable failure) {
        return !(failure instanceof Silence silence) || silence.mayHaveTakenEffect();
    }

    /** What went wrong, without the command, which may hold a password. */
    static String reason(Throwable failure) {
        Throwable cause = Protocol.cause(failure);
        String text = cause.getMessage();
        if (text == null) {
            return cause.getClass().getSimpleName();
        }
        for (String end : List.of(". channel:", " channel:", ", channel:", ", Redis client:", " data:", " command:")) {
            int at = text.indexOf(end);
            if (at > 0) {
                text = text.substring(0, at);
            }
        }
        int script = text.indexOf(" script: ");
        text = script > 0 ? text.substring(0, script) : text;
        return text.length() > 300 ? text.substring(0, 300) + "..." : text;
    }
}
