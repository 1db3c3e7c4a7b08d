package dev.mortise.lock.redis;

import static org.awaitility.Awaitility.await;

import dev.mortise.lock.ClockShim;
import dev.mortise.lock.tck.Fault;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** What befalls Redis servers of a test's own, and their clocks: for the stores of the kit. For one thread at a time. */
public final class RedisFaults implements AutoCloseable {
    /** Those that {@link #begin} causes. */
    public static final Set<Fault> FAULTS = Collections.unmodifiableSet(EnumSet.of(
            Fault.SERVER_STOPPED,
            Fault.SERVER_KILLED,
            Fault.DATA_LOST,
            Fault.DATA_OLD,
            Fault.CLOCK_FORWARD,
            Fault.CLOCK_BACK));

    /** How a server keeps its data unless it is told otherwise: what came after the last snapshot is lost in a crash. */
    static final List<String> DEFAULT_PERSISTENCE = List.of("--save", "3600 1 300 100 60 10000");

    private static final Duration STEP = Duration.ofHours(1);

    /** So long grants go on that an old copy lacks. */
    private static final long LACKING = 200;

    private static final String SHIFT = "for _, key in ipairs(redis.call('KEYS', '*')) do"
            + " local rest = redis.call('PTTL', key)"
            + " if rest >= 0 then redis.call('PEXPIRE', key, rest - tonumber(ARGV[1])) end"
            + " end";

    private final Optional<ClockShim> shim = ClockShim.compiled();
    private final Map<RedisServer, ClockShim.Clock> clocks = new HashMap<>();

    /** A server whose clock can be stepped, with these settings. */
    public RedisServer server(List<String> settings) {
        Optional<ClockShim.Clock> clock = shim.map(ClockShim::clock);
        RedisServer server = new RedisServer(
                clock.map(ClockShim.Clock::environment).orElse(Map.of()), settings.toArray(String[]::new));
        clock.ifPresent(its -> clocks.put(server, its));
        return server;
    }

    /** Begins one of {@link #FAULTS} at all of these. What it returns ends it; they answer then. */
    public AutoCloseable begin(Fault fault, List<RedisServer> servers) throws Exception {
        switch (fault) {
            case SERVER_STOPPED -> {
                servers.forEach(each -> each.signal("STOP"));
                return () -> servers.forEach(RedisFaults::goOn);
            }
            case SERVER_KILLED -> {
                servers.forEach(RedisServer::kill);
                return () -> servers.forEach(RedisServer::start);
            }
            case DATA_LOST -> {
                servers.forEach(RedisServer::kill);
                servers.forEach(RedisServer::wipe);
                return () -> servers.forEach(RedisServer::start);
            }
            case DATA_OLD -> {
                Map<RedisServer, Path> copies = new LinkedHashMap<>();
                servers.forEach(each -> copies.put(each, each.copy()));
                lack();
                servers.forEach(RedisServer::kill);
                copies.forEach(RedisServer::restore);
                return () -> servers.forEach(RedisServer::start);
            }
            case CLOCK_FORWARD -> {
                return step(servers, STEP);
            }
            case CLOCK_BACK -> {
                return step(servers, STEP.negated());
            }
            default -> throw new IllegalArgumentException("fault: " + fault + " is none of " + FAULTS);
        }
    }

    static void awaitLink(RedisServer replica) {
        await().atMost(Duration.ofSeconds(60))
                .ignoreExceptions()
                .until(() -> "up".equals(replica.info("replication").get("master_link_status")));
    }

    /** While clients go on: what they do now is not in what was copied, or heard by who was cut off, before. */
    static void lack() throws InterruptedException {
        TimeUnit.MILLISECONDS.sleep(LACKING);
    }

    private static void goOn(RedisServer server) {
        server.signal("CONT");
        server.ask("PING");
    }

    private AutoCloseable step(List<RedisServer> servers, Duration ahead) {
        servers.forEach(each -> set(each, ahead, ahead));
        return () -> servers.forEach(each -> set(each, Duration.ZERO, ahead.negated()));
    }

    /** Without a compiler, what expires does so as much sooner as the clock would have gone ahead. */
    private void set(RedisServer server, Duration ahead, Duration by) {
        ClockShim.Clock clock = clocks.get(server);
        if (clock != null) {
            clock.set(ahead);
        } else if (server.isMaster()) {
            server.ask("EVAL", SHIFT, "0", String.valueOf(by.toMillis()));
        }
    }

    /** What befalls the servers, and these. */
    public static Set<Fault> with(Collection<Fault> more) {
        Set<Fault> all = EnumSet.copyOf(FAULTS);
        all.addAll(more);
        return all;
    }

    /** For the report: a store of such servers, by its name there. */
    public Map<String, String> about(String store, RedisServer server) {
        Map<String, String> about = new LinkedHashMap<>();
        about.put("store", store);
        about.put("version", server.info("server").get("redis_version"));
        for (String setting : List.of("save", "appendonly", "appendfsync")) {
            List<?> answer = (List<?>) server.ask("CONFIG", "GET", setting);
            about.put(setting, (String) answer.get(1));
        }
        about.put("clocks", shim.isPresent() ? "stepped for real" : "as if stepped, by the ends of keys");
        return about;
    }

    /** After the servers have ended. */
    @Override
    public void close() {
        shim.ifPresent(ClockShim::close);
    }
}
