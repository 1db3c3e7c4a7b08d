package dev.mortise.lock.jdbc;

import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A connection with the statements prepared on it. Used by one thread at a time. */
final class Connected {
    final Dialect.Session session;
    private final Map<String, PreparedStatement> statements = new HashMap<>();

    /** When it was given back last, in the time of {@link System#nanoTime}; 0 if it never was. */
    long used;

    /** How long a statement may wait for a lock, in milliseconds; 0 where it does not wait. */
    long waits;

    Connected(Dialect.Session session) {
        this.session = session;
    }

    interface Reader<T> {
        T read(ResultSet row) throws SQLException;
    }

    void close() {
        session.close(() -> {
            for (PreparedStatement statement : statements.values()) {
                try {
                    statement.close();
                } catch (SQLException e) {
                    System.getLogger(Connected.class.getName()).log(System.Logger.Level.DEBUG, "close", e);
                }
            }
        });
    }

    /** A statement that may wait for somebody else's lock. */
    <T> List<T> change(String sql, Reader<T> reader, Object... parameters) throws SQLException {
        return query(sql, reader, waits == 0 ? parameters : withWaits(parameters));
    }

    /** These parameters, and how long the statement may wait, as the last. */
    Object[] withWaits(Object... parameters) {
        Object[] more = Arrays.copyOf(parameters, parameters.length + 1);
        more[parameters.length] = String.valueOf(waits);
        return more;
    }

    /**
     * Reads to the end: a statement that answers rows commits after the last one, and may still fail there.
     *
     * @throws SQLException also at a warning: a commit whose wait for its copies was cut short is told as a success with one
     */
    <T> List<T> query(String sql, Reader<T> reader, Object... parameters) throws SQLException {
        PreparedStatement statement = prepared(sql, parameters);
        try (ResultSet rows = statement.executeQuery()) {
            List<T> read = read(rows, reader);
            requireNoWarning(statement);
            return read;
        }
    }

    /**
     * Statements in one request, one after the other, the answers of each in a list of their own. Where one of them fails,
     * nothing is known of those before it but what the database says of such requests.
     */
    List<List<Object[]>> queries(String sql, Object... parameters) throws SQLException {
        PreparedStatement statement = prepared(sql, parameters);
        List<List<Object[]>> answers = new ArrayList<>();
        for (boolean more = statement.execute(); more; more = statement.getMoreResults()) {
            try (ResultSet rows = statement.getResultSet()) {
                int columns = rows.getMetaData().getColumnCount();
                answers.add(read(rows, row -> {
                    Object[] values = new Object[columns];
                    for (int i = 0; i < columns; i++) {
                        values[i] = row.getObject(i + 1);
                    }
                    return values;
                }));
            }
        }
        requireNoWarning(statement);
        return answers;
    }

    private static void requireNoWarning(Statement statement) throws SQLException {
        for (SQLWarning each = statement.getWarnings(); each != null; each = each.getNextWarning()) {
            // Notices have no class of their own: a role may ask for many.
            if (!"00000".equals(each.getSQLState())) {
                throw new SQLException("a warning: " + each.getMessage(), "01000", each);
            }
        }
    }

    private PreparedStatement prepared(String sql, Object... parameters) throws SQLException {
        String limited = session.limited(sql);
        PreparedStatement statement = statements.get(limited);
        if (statement == null) {
            statement = session.connection().prepareStatement(limited);
            statements.put(limited, statement);
        }
        for (int i = 0; i < parameters.length; i++) {
            statement.setObject(i + 1, parameters[i]);
        }
        return statement;
    }

    private static <T> List<T> read(ResultSet rows, Reader<T> reader) throws SQLException {
        List<T> read = new ArrayList<>();
        while (rows.next()) {
            read.add(reader.read(rows));
        }
        return read;
    }
}
