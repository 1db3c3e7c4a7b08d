package dev.mortise.lock.redis;

import static org.awaitility.Awaitility.await;

import dev.mortise.lock.spi.BackendContext;
import dev.mortise.lock.spi.StoreUri;
import dev.mortise.lock.tck.Store;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/** A master, a replica, and sentinels that watch over them. */
final class RedisSentinels implements Store {
    static final String MASTER = "mymaster";

    final List<RedisServer> servers = new ArrayList<>();
    final List<RedisServer> sentinels = new ArrayList<>();

    /**
     * Starts them, and waits until the sentinels know of all.
     *
     * @param password of the servers; null for none
     * @param sentinelPassword null for none
     */
    RedisSentinels(int count, String password, String sentinelPassword) {
        boolean fine = false;
        try {
            List<String> settings = new ArrayList<>();
            if (password != null) {
                settings.addAll(List.of("--requirepass", password, "--masterauth", password));
            }
            servers.add(new RedisServer(settings.toArray(String[]::new)));
            settings.addAll(List.of("--replicaof", "127.0.0.1 " + servers.get(0).port()));
            servers.add(new RedisServer(settings.toArray(String[]::new)));
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> "up".equals(servers.get(1).info("replication").get("master_link_status")));
            List<String> file = new ArrayList<>();
            file.add("sentinel monitor " + MASTER + " 127.0.0.1 "
                    + servers.get(0).port() + " " + (count / 2 + 1));
            file.add("sentinel down-after-milliseconds " + MASTER + " 1500");
            file.add("sentinel failover-timeout " + MASTER + " 6000");
            if (password != null) {
                file.add("sentinel auth-pass " + MASTER + " " + password);
            }
            List<String> words = new ArrayList<>();
            if (sentinelPassword != null) {
                file.add("sentinel sentinel-pass " + sentinelPassword);
                words.addAll(List.of("--requirepass", sentinelPassword));
            }
            for (int i = 0; i < count; i++) {
                sentinels.add(RedisServer.sentinel(file, words.toArray(String[]::new)));
            }
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> sentinels.stream().allMatch(each -> {
                        Map<String, String> known = master(each);
                        return known.get("num-slaves").equals("1")
                                && known.get("num-other-sentinels").equals(String.valueOf(count - 1))
                                && known.get("flags").equals("master");
                    }));
            fine = true;
        } finally {
            if (!fine) {
                close();
            }
        }
    }

    private static Map<String, String> master(RedisServer sentinel) {
        List<?> words = (List<?>) sentinel.ask("SENTINEL", "MASTER", MASTER);
        Map<String, String> all = new HashMap<>();
        for (int i = 0; i < words.size(); i += 2) {
            all.put((String) words.get(i), (String) words.get(i + 1));
        }
        return all;
    }

    /** The server that is the master by its own word, and by that of the first sentinel that runs. */
    RedisServer master() {
        for (RedisServer server : servers) {
            try {
                if (((List<?>) server.ask("ROLE")).get(0).equals("master")) {
                    return server;
                }
            } catch (java.io.UncheckedIOException e) {
                // Not this one.
            }
        }
        throw new AssertionError("no master");
    }

    @Override
    public Optional<String> uri() {
        return Optional.of(sentinels.stream()
                .map(each -> "127.0.0.1:" + each.port())
                .collect(Collectors.joining(",", "redis+sentinel://", "/" + MASTER)));
    }

    static RedisBackend connect(String uri, Map<String, String> options) {
        return (RedisBackend) new RedisProvider()
                .open(StoreUri.parse(uri, options), BackendContext.of(System::nanoTime, RedisStore.CALL_TIMEOUT));
    }

    @Override
    public RedisBackend connect() {
        return connect(uri().orElseThrow(), Map.of());
    }

    @Override
    public void evict(String name) {
        master().ask("DEL", Keys.of(Keys.PREFIX, name).lock());
    }

    @Override
    public void close() {
        sentinels.forEach(RedisServer::close);
        servers.forEach(RedisServer::close);
    }
}
