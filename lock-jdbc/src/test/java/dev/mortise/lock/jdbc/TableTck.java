package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

/** A table of a database for the kit, with statements that take as long, lose their answers, or wait, as it says. */
abstract class TableTck extends LockTck {
    abstract TestStore open();

    @Override
    protected Store store() {
        TestStore table = open();
        return new Store() {
            private final AtomicBoolean lose = new AtomicBoolean();
            private volatile Duration delay = Duration.ZERO;
            private Connection stranger;
            private volatile CountDownLatch standstill = new CountDownLatch(0);

            @Override
            public LockBackend connect() {
                return table.client(
                        TestStore.CALL_TIMEOUT,
                        connection -> TestStore.losing(
                                TestStore.observed(connection, this::before), sql -> lose.getAndSet(false)));
            }

            private synchronized void stranger(String sql) throws SQLException {
                if (stranger == null) {
                    // Once: to connect takes as long as a short lease, on a busy machine.
                    stranger = table.sql();
                }
                try (Statement statement = stranger.createStatement()) {
                    statement.execute(sql);
                }
            }

            private void before(String sql) {
                LockSupport.parkNanos(delay.toNanos());
                if (table.ignoresStandstill(sql)) {
                    // At the door, where others wait inside: what it reads must not be older than what they write.
                    try {
                        standstill.await();
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                    }
                }
            }

            @Override
            public void evict(String name) {
                try {
                    table.expire(name);
                } catch (SQLException e) {
                    throw new IllegalStateException(e);
                }
            }

            @Override
            public Optional<Faults> faults() {
                return Optional.of(new Faults() {
                    @Override
                    public void delayReplies(Duration by) {
                        delay = by;
                    }

                    @Override
                    public void loseReply() {
                        lose.set(true);
                    }

                    @Override
                    public Optional<AutoCloseable> holdUp(String name) throws SQLException {
                        if (table.standstill().isEmpty()) {
                            return Optional.empty();
                        }
                        CountDownLatch end = new CountDownLatch(1);
                        stranger(table.standstill());
                        standstill = end;
                        return Optional.of(() -> {
                            stranger(table.resume());
                            end.countDown();
                        });
                    }

                    @Override
                    public void heal() {
                        delay = Duration.ZERO;
                        lose.set(false);
                    }
                });
            }

            @Override
            public Optional<String> uri() {
                return Optional.of(table.arguments().get(0));
            }

            @Override
            public Map<String, String> options() {
                Map<String, String> options = new HashMap<>();
                for (String option :
                        table.arguments().subList(1, table.arguments().size())) {
                    String[] parts = option.split("=", 2);
                    options.put(parts[0], parts[1]);
                }
                return options;
            }

            @Override
            public void close() throws Exception {
                table.close();
            }
        };
    }
}
