package dev.mortise.lock.jdbc;

import dev.mortise.lock.ClockShim;
import dev.mortise.lock.spi.LockBackend;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.Faults;
import dev.mortise.lock.tck.ProtectedResource;
import dev.mortise.lock.tck.Store;
import dev.mortise.lock.tck.TcpProxy;
import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/**
 * The table of a database for the kit, with a server and a network of its own to which all may happen, and with statements
 * that take as long, lose their answers, or wait, as it says.
 */
final class TableStore implements Store, Faults {
    private final String title;
    private final Optional<ClockShim> shim;
    private final Optional<DatabaseServer> server;
    private final Optional<TcpProxy> way;
    private final TestStore table;
    private final TableFaults faults;
    private final UnaryOperator<Connection> mistake;
    private final AtomicBoolean lose = new AtomicBoolean();
    private volatile Duration delay = Duration.ZERO;
    private Connection stranger;
    private volatile CountDownLatch standstill = new CountDownLatch(0);

    interface Start<S extends DatabaseServer> {
        /** With these variables in its environment. */
        S server(Map<String, String> environment);
    }

    interface Open<S extends DatabaseServer> {
        /** With this port by which clients reach the server. */
        TestStore store(S server, int port);
    }

    /** @param title as in the report's table */
    static <S extends DatabaseServer> TableStore of(String title, Start<S> start, Open<S> open)
            throws IOException, SQLException {
        return of(title, start, open, UnaryOperator.identity());
    }

    /** With a mistake in what clients send. */
    static <S extends DatabaseServer> TableStore of(
            String title, Start<S> start, Open<S> open, UnaryOperator<Connection> mistake)
            throws IOException, SQLException {
        Optional<ClockShim> shim = ClockShim.compiled();
        Optional<ClockShim.Clock> clock = shim.map(ClockShim::clock);
        S server = start.server(clock.map(ClockShim.Clock::environment).orElse(Map.of()));
        TcpProxy way = new TcpProxy(server.port());
        TestStore table = open.store(server, way.port());
        return new TableStore(title, table, shim, clock, Optional.of(server), Optional.of(way), mistake);
    }

    /** Without a server. */
    static TableStore of(String title, TestStore file) throws SQLException {
        return new TableStore(
                title,
                file,
                Optional.empty(),
                Optional.empty(),
                Optional.empty(),
                Optional.empty(),
                UnaryOperator.identity());
    }

    private TableStore(
            String title,
            TestStore table,
            Optional<ClockShim> shim,
            Optional<ClockShim.Clock> clock,
            Optional<DatabaseServer> server,
            Optional<TcpProxy> way,
            UnaryOperator<Connection> mistake)
            throws SQLException {
        this.title = title;
        this.table = table;
        this.shim = shim;
        this.server = server;
        this.way = way;
        this.mistake = mistake;
        faults = new TableFaults(table, server, way, clock);
        FencedNumbers.create(table.adminUrl());
    }

    @Override
    public LockBackend connect() {
        return connect(TestStore.CALL_TIMEOUT);
    }

    @Override
    public LockBackend connect(Duration callTimeout) {
        return table.client(
                callTimeout,
                connection -> TestStore.losing(
                        TestStore.observed(mistake.apply(connection), this::before),
                        sql -> changesALock(sql) && lose.getAndSet(false)));
    }

    /** And is none that a new session begins with, whose answer nobody would miss. */
    private static boolean changesALock(String sql) {
        return sql.contains("mortise_lock")
                && Stream.of("INSERT", "UPDATE", "MERGE").anyMatch(sql::contains);
    }

    private synchronized void stranger(String sql) throws SQLException {
        if (stranger == null || !stranger.isValid(5)) {
            // Once in the life of a server: to connect takes as long as a short lease, on a busy machine.
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
    public Map<String, String> about() {
        Map<String, String> about = new LinkedHashMap<>();
        about.put("store", title);
        try (Connection connection = table.admin()) {
            about.put("version", connection.getMetaData().getDatabaseProductVersion());
            about.put("driver", connection.getMetaData().getDriverVersion());
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
        about.put("clock", shim.isPresent() ? "stepped for real" : "as if stepped, by the ends of rows");
        return about;
    }

    @Override
    public Optional<Faults> faults() {
        return Optional.of(this);
    }

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

    @Override
    public Set<Fault> possible() {
        return faults.possible();
    }

    @Override
    public Map<StoreEvent, String> impossible() {
        return faults.impossible();
    }

    @Override
    public AutoCloseable begin(Fault fault) throws Exception {
        return faults.begin(fault);
    }

    @Override
    public Optional<ProtectedResource.Reference> resource() {
        return Optional.of(new ProtectedResource.Reference(FencedNumbers.class, table.adminUrl()));
    }

    @Override
    public Optional<String> uri() {
        return Optional.of(table.arguments().get(0));
    }

    @Override
    public Map<String, String> options() {
        Map<String, String> options = new LinkedHashMap<>();
        for (String option : table.arguments().subList(1, table.arguments().size())) {
            String[] parts = option.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        return options;
    }

    @Override
    public void close() throws Exception {
        table.close();
        way.ifPresent(TcpProxy::close);
        server.ifPresent(DatabaseServer::close);
        shim.ifPresent(ClockShim::close);
    }
}
