package dev.mortise.lock.cli;

import dev.mortise.lock.jdbc.JdbcFence;
import dev.mortise.lock.jdbc.StaleTokenException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** A command that leaves its session, so that no guardian can end it, and writes when the file {@code go} is there. */
final class LateWriter {
    private LateWriter() {}

    public static void main(String[] args) throws Exception {
        String database = args[0];
        Path go = Path.of(args[1]);
        long token = Long.parseLong(System.getenv("MORTISE_TOKEN"));
        System.out.println("ready " + token);
        await(go);
        try (Connection connection = DriverManager.getConnection(database)) {
            System.out.println("write " + (write(connection, token) ? "accepted" : "refused"));
            System.out.println("read " + (read(connection, token) ? "accepted" : "refused"));
        }
    }

    private static void await(Path go) throws IOException, InterruptedException {
        while (!Files.exists(go)) {
            Thread.sleep(20);
        }
    }

    private static boolean write(Connection connection, long token) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            new JdbcFence().check(connection, "x", token);
            statement.execute("CREATE TABLE IF NOT EXISTS ledger (token INTEGER)");
            statement.execute("INSERT INTO ledger VALUES (" + token + ")");
            connection.commit();
            return true;
        } catch (StaleTokenException e) {
            connection.rollback();
            return false;
        }
    }

    private static boolean read(Connection connection, long token) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            new JdbcFence().check(connection, "x", token);
            try (ResultSet rows = statement.executeQuery("SELECT max(token) FROM ledger")) {
                rows.next();
                return rows.getLong(1) == token;
            }
        } catch (StaleTokenException e) {
            return false;
        } finally {
            connection.rollback();
        }
    }
}
