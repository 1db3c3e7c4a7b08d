package dev.mortise.lock.bench;

import dev.mortise.lock.Lease;
import dev.mortise.lock.LockClient;
import dev.mortise.lock.LockStoreException;
import dev.mortise.lock.bench.Session.Door;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.function.BiFunction;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import net.javacrumbs.shedlock.support.KeepAliveLockProvider;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.jspecify.annotations.Nullable;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** The libraries as their documents say to use them, with the settings that they have if none are given. */
final class Libraries {
    private static final Duration LEASE = Duration.ofSeconds(30);

    private Libraries() {}

    /** With everybody's processes starting at once, the first answer can take longer than a call may. */
    private static LockClient connect(String uri, Map<String, String> options) {
        for (int tries = 1; ; tries++) {
            try {
                return LockClient.connect(uri, options);
            } catch (LockStoreException e) {
                if (tries == 5) {
                    throw e;
                }
            }
        }
    }

    static Session mortise(String uri) {
        return mortise(uri, Map.of());
    }

    static Session mortise(String uri, Map<String, String> options) {
        LockClient client = connect(uri, options);
        return name -> new Door() {
            private @Nullable Lease lease;

            @Override
            public void acquire() throws InterruptedException {
                lease = client.lock(name).acquire();
            }

            @Override
            public void release() {
                Objects.requireNonNull(lease).close();
            }
        };
    }

    private static RedissonClient redisson(int port) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        return Redisson.create(config);
    }

    static Session redisson(List<Integer> ports, boolean fenced) {
        RedissonClient client = redisson(ports.get(0));
        if (!fenced) {
            return name -> door(client.getLock(name));
        }
        return name -> new Door() {
            private final RFencedLock lock = client.getFencedLock(name);

            @Override
            public void acquire() {
                Objects.requireNonNull(lock.lockAndGetToken());
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    @SuppressWarnings("deprecation") // Redisson advises against it, and has no other Redlock.
    static Session redLock(List<Integer> ports) {
        List<RedissonClient> clients = new ArrayList<>();
        for (int port : ports) {
            clients.add(redisson(port));
        }
        return name -> door(new RedissonRedLock(
                clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new)));
    }

    private static LettuceConnectionFactory lettuce(int port) {
        LettuceConnectionFactory lettuce =
                new LettuceConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", port));
        lettuce.afterPropertiesSet();
        lettuce.start();
        return lettuce;
    }

    static Session spring(int port) {
        RedisLockRegistry registry = new RedisLockRegistry(lettuce(port), "bench", LEASE);
        registry.setRedisLockType(RedisLockType.PUB_SUB_LOCK);
        return new Renewable() {
            @Override
            public void renew() {
                ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
                scheduler.initialize();
                registry.setRenewalTaskScheduler(scheduler);
            }

            @Override
            public Door door(String name) {
                return Libraries.door(registry.obtain(name));
            }
        };
    }

    static Session shedLock(int port) {
        return shedLock(new RedisLockProvider(lettuce(port)));
    }

    static Session shedLock(ExtensibleLockProvider provider) {
        return new Renewable() {
            private LockProvider each = provider;

            @Override
            public void renew() {
                each = new KeepAliveLockProvider(provider, Executors.newSingleThreadScheduledExecutor());
            }

            @Override
            public Door door(String name) {
                return new Door() {
                    private @Nullable SimpleLock lock;

                    @Override
                    public void acquire() throws InterruptedException {
                        for (Optional<SimpleLock> got = ask(); ; got = ask()) {
                            if (got.isPresent()) {
                                lock = got.get();
                                return;
                            }
                            TimeUnit.MILLISECONDS.sleep(5);
                        }
                    }

                    private Optional<SimpleLock> ask() {
                        return each.lock(new LockConfiguration(Instant.now(), name, LEASE, Duration.ZERO));
                    }

                    @Override
                    public void release() {
                        Objects.requireNonNull(lock).unlock();
                    }
                };
            }
        };
    }

    static Session curator(int port, BiFunction<CuratorFramework, String, InterProcessLock> recipe) {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient("127.0.0.1:" + port, new ExponentialBackoffRetry(1000, 3));
        client.start();
        return name -> new Door() {
            private final InterProcessLock lock = recipe.apply(client, "/bench/" + name);

            @Override
            public void acquire() throws Exception {
                lock.acquire();
            }

            @Override
            public void release() throws Exception {
                lock.release();
            }
        };
    }

    /** One that renews only when it is told. */
    interface Renewable extends Session {
        void renew();
    }

    static Door door(Lock lock) {
        return new Door() {
            @Override
            @SuppressWarnings("LockNotBeforeTry") // Released by another method.
            public void acquire() {
                lock.lock();
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }
}
