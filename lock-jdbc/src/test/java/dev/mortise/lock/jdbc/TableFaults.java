package dev.mortise.lock.jdbc;

import dev.mortise.lock.ClockShim;
import dev.mortise.lock.spi.StoreEvent;
import dev.mortise.lock.tck.Fault;
import dev.mortise.lock.tck.TcpProxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** What befalls the table of a database, its server, if it has one, and the way there. */
final class TableFaults {
    private static final Duration STEP = Duration.ofHours(1);

    /** So long grants go on that an old copy lacks. */
    private static final long LACKING = 200;

    private final TestStore table;
    private final Optional<DatabaseServer> server;
    private final Optional<TcpProxy> way;
    private final Optional<ClockShim.Clock> clock;

    TableFaults(
            TestStore table, Optional<DatabaseServer> server, Optional<TcpProxy> way, Optional<ClockShim.Clock> clock) {
        this.table = table;
        this.server = server;
        this.way = way;
        this.clock = clock;
    }

    Set<Fault> possible() {
        Set<Fault> all = EnumSet.of(Fault.DATA_LOST, Fault.DATA_OLD, Fault.CLOCK_FORWARD, Fault.CLOCK_BACK);
        if (server.isPresent()) {
            all.addAll(TcpProxy.FAULTS);
            all.addAll(List.of(Fault.SERVER_STOPPED, Fault.SERVER_KILLED));
        }
        if (corrupts()) {
            all.removeAll(List.of(Fault.SERVER_KILLED, Fault.DATA_LOST, Fault.DATA_OLD));
        }
        return all;
    }

    /** A kill under load was seen to leave a file that H2 itself cannot read any more. */
    private boolean corrupts() {
        return server.map(H2Server.class::isInstance).orElse(false);
    }

    Map<StoreEvent, String> impossible() {
        if (corrupts()) {
            String why = "a kill can leave a file of H2 that it cannot read any more; then nothing answers";
            return Map.of(StoreEvent.STORE_RESTART, why, StoreEvent.RESTART_WITHOUT_DATA, why);
        }
        return server.isPresent()
                ? Map.of()
                : Map.of(
                        StoreEvent.CONNECTION_LOSS, "a file has no connections",
                        StoreEvent.STORE_RESTART, "a file has no server; its users are killed elsewhere");
    }

    AutoCloseable begin(Fault fault) throws Exception {
        return switch (fault) {
            case CONNECTIONS_BROKEN, NETWORK_GONE, REPLIES_LOST, REQUESTS_LATE ->
                TcpProxy.begin(fault, List.of(way.orElseThrow()));
            case SERVER_STOPPED -> {
                DatabaseServer stopped = server.orElseThrow();
                stopped.signal("STOP");
                yield () -> {
                    stopped.signal("CONT");
                    rows();
                };
            }
            case SERVER_KILLED -> {
                server.orElseThrow().kill();
                yield server.orElseThrow()::start;
            }
            case DATA_LOST -> replace(List.of());
            case DATA_OLD -> {
                List<Object[]> rows = rows();
                TimeUnit.MILLISECONDS.sleep(LACKING);
                yield replace(rows);
            }
            case CLOCK_FORWARD -> step(STEP);
            case CLOCK_BACK -> step(STEP.negated());
            default -> throw new IllegalArgumentException("fault: " + fault + " is none of " + possible());
        };
    }

    /** What a server finds when it comes back, before anybody is let in; in a file at once. */
    private AutoCloseable replace(List<Object[]> rows) throws SQLException {
        if (server.isEmpty()) {
            put(rows);
            return () -> {};
        }
        server.get().kill();
        return () -> {
            way.orElseThrow().refuse(true);
            server.get().start();
            put(rows);
            way.orElseThrow().heal();
        };
    }

    /** As real as it can be done: without a compiler, rows become as much older as the clock would have gone on. */
    private AutoCloseable step(Duration ahead) throws SQLException {
        if (clock.isPresent()) {
            clock.get().set(ahead);
            return () -> clock.get().set(Duration.ZERO);
        }
        age(ahead);
        return () -> age(ahead.negated());
    }

    private void age(Duration by) throws SQLException {
        table.change("UPDATE mortise_lock SET until_ms = until_ms - ?", by.toMillis());
    }

    private List<Object[]> rows() throws SQLException {
        try (Connection connection = table.admin();
                Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery("SELECT * FROM mortise_lock")) {
            List<Object[]> rows = new ArrayList<>();
            while (found.next()) {
                Object[] row = new Object[found.getMetaData().getColumnCount()];
                for (int i = 0; i < row.length; i++) {
                    row[i] = found.getObject(i + 1);
                }
                rows.add(row);
            }
            return rows;
        }
    }

    private void put(List<Object[]> rows) throws SQLException {
        try (Connection connection = table.admin();
                Statement delete = connection.createStatement();
                PreparedStatement insert =
                        connection.prepareStatement("INSERT INTO mortise_lock VALUES (?, ?, ?, ?, ?, ?, ?)")) {
            connection.setAutoCommit(false);
            delete.executeUpdate("DELETE FROM mortise_lock");
            for (Object[] row : rows) {
                for (int i = 0; i < row.length; i++) {
                    insert.setObject(i + 1, row[i]);
                }
                insert.executeUpdate();
            }
            connection.commit();
        }
    }
}
