package dev.mortise.lock.redis;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;

/**
 * One connection, for one thread at a time; but for {@link #killIfLate} and {@link #kill}, which any thread may call.
 *
 * <p>The limits of the socket are for each single read, so an answer that trickles in never meets them, and there are
 * none for a write. So each call has a deadline here as well, after which {@link Servers} closes the socket.
 */
final class Link {
    private static final long NONE = 0;
    private static final long KILLED = 2;

    final Servers.Server server;

    /** When the call under way must be over, by {@link System#nanoTime}, made odd; or one of the even ones above. */
    private final AtomicLong deadline = new AtomicLong(NONE);

    /** While it is being opened there is a socket already, and no connection yet. */
    private volatile @Nullable AutoCloseable socket;

    private volatile @Nullable Connection connection;
    private int ownTimeout;

    /** When it was last used, by {@link System#nanoTime}. */
    long used;

    /** Whether its server is asked for what another still keeps. ASKING is for one request, so it precedes each. */
    boolean asking;

    Link(Servers.Server server) {
        this.server = server;
    }

    /** Before it is opened: so that it can be ended meanwhile. */
    void opens(AutoCloseable socket) {
        this.socket = socket;
        if (deadline.get() == KILLED) {
            kill();
        }
    }

    void opened(Connection connection) {
        this.connection = connection;
        ownTimeout = connection.getSoTimeout();
        if (deadline.get() == KILLED) {
            kill();
        }
    }

    Connection connection() {
        Connection c = connection;
        if (c == null) {
            throw new IllegalStateException("not open");
        }
        return c;
    }

    /** From now on it is killed when this moment is past. */
    void arm(long end) {
        if (!deadline.compareAndSet(NONE, end | 1)) {
            throw new JedisConnectionException("the connection was closed");
        }
    }

    /** False if it was killed meanwhile. */
    boolean disarm() {
        long now = deadline.get();
        return now != KILLED && deadline.compareAndSet(now, NONE);
    }

    boolean isArmed() {
        return (deadline.get() & 1) == 1;
    }

    /**
     * Sends all, then reads an answer to each.
     *
     * @return an answer to each; an error that the server answered is a {@link JedisDataException} among them
     * @throws JedisConnectionException if not all answers came; the connection is of no use then
     */
    List<Object> exchange(Wait wait, List<CommandArguments> requests) {
        long left = wait.left();
        if (left <= 0) {
            throw new JedisConnectionException("no time is left for the request");
        }
        Connection c = connection();
        arm(wait.end());
        server.watch();
        try {
            c.setSoTimeout((int) Math.min(Integer.MAX_VALUE, TimeUnit.NANOSECONDS.toMillis(left) + 1));
            for (CommandArguments request : requests) {
                if (asking) {
                    c.sendCommand(Protocol.Command.ASKING);
                }
                c.sendCommand(request);
            }
            return asking ? withoutAsking(c.getMany(2 * requests.size())) : c.getMany(requests.size());
        } finally {
            disarm();
        }
    }

    private static List<Object> withoutAsking(List<Object> all) {
        List<Object> answers = new ArrayList<>();
        for (int i = 0; i < all.size(); i += 2) {
            // Who may not ask is sent back where he came from, which says less.
            boolean refused = all.get(i) instanceof JedisDataException && all.get(i + 1) instanceof JedisDataException;
            answers.add(all.get(refused ? i : i + 1));
        }
        return answers;
    }

    /** The same for one request; an error that the server answered is thrown. */
    Object exchange(Wait wait, CommandArguments request) {
        Object answer = exchange(wait, List.of(request)).get(0);
        if (answer instanceof JedisDataException e) {
            throw e;
        }
        return answer;
    }

    /** By its digest, and by its text where the server does not have it. An error that it answers is thrown. */
    Object run(Wait wait, Script script, List<String> keys, List<String> arguments) {
        Object answer = exchange(wait, List.of(script.run(keys, arguments))).get(0);
        if (answer instanceof redis.clients.jedis.exceptions.JedisNoScriptException) {
            answer = exchange(wait, List.of(script.runByText(keys, arguments))).get(0);
        }
        if (answer instanceof JedisDataException e) {
            throw e;
        }
        return answer;
    }

    /** Whether the server answers on it. */
    boolean isAlive(Wait wait) {
        try {
            // An error is an answer, too: the user need not have the right to ask.
            List<Object> unused = exchange(wait, List.of(new CommandArguments(Protocol.Command.PING)));
            return true;
        } catch (redis.clients.jedis.exceptions.JedisException e) {
            System.getLogger(Link.class.getName()).log(System.Logger.Level.DEBUG, "idle connection", e);
            return false;
        }
    }

    boolean isUsable() {
        Connection c = connection;
        return c != null && !c.isBroken() && deadline.get() == NONE;
    }

    /** As it was when it was borrowed. */
    void restore() {
        connection().setSoTimeout(ownTimeout);
    }

    void killIfLate(long now) {
        long end = deadline.get();
        if ((end & 1) == 1 && now - end >= 0 && deadline.compareAndSet(end, KILLED)) {
            kill();
        }
    }

    /** Closes the socket under whoever uses it, who gets an exception. */
    void kill() {
        deadline.set(KILLED);
        for (AutoCloseable each : Arrays.asList(socket, connection == null ? null : (AutoCloseable) this::disconnect)) {
            try {
                if (each != null) {
                    each.close();
                }
            } catch (Exception e) {
                System.getLogger(Link.class.getName()).log(System.Logger.Level.DEBUG, "close", e);
            }
        }
    }

    private void disconnect() throws IOException {
        connection().forceDisconnect();
    }
}
