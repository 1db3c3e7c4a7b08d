package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.LockTck;
import dev.mortise.lock.tck.Store;
import java.sql.SQLException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

/** A table of a database for the kit, with statements that take as long, or lose their answers, as it says. */
abstract class TableTck extends LockTck {
    abstract TestStore open();

    @Override
    protected Store store() {
        TestStore table = open();
        return new Store() {
            private final AtomicBoolean lose = new AtomicBoolean();
            private volatile Duration delay = Duration.ZERO;

            @Override
            public LockBackend connect() {
                // A statement takes as long, and loses its answer, as the kit says.
                return table.client(
                        TestStore.CALL_TIMEOUT,
                        connection -> TestStore.losing(
                                TestStore.observed(connection, sql -> LockSupport.parkNanos(delay.toNanos())),
                                sql -> lose.getAndSet(false)));
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
