package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.Guarantees;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Locale;
import java.util.Objects;

/**
 * What differs from database to database: how to connect, what its errors mean, and the statements.
 *
 * <p>Every statement is complete in itself and runs in auto-commit. It judges and counts by the database's clock, read
 * by itself after it has got its locks; its parameters come in the order given here, and its answers are columns in the
 * order given here. A claim's end is rounded up, so that it never comes before {@code since + lease}.
 */
interface Dialect {
    /** The version of the layout that these statements read and write. */
    int FORMAT = 1;

    /** What the column {@code strategy} says in rows of these statements. */
    String STRATEGY = "table";

    /** The store as people know it, without secrets. */
    String store();

    Guarantees guarantees();

    /**
     * Connects, checks that the database is set up as the guarantees need it, and makes the table if it is not there.
     *
     * @param again true if this store was open before: what has gone since is then not made anew
     */
    Session open(boolean again) throws SQLException;

    /** Whether the database was busy with somebody else: nothing was done, and the same may succeed a little later. */
    boolean isBusy(SQLException e);

    /** Whether a write that failed so may have been done all the same. */
    boolean mayHaveTakenEffect(SQLException e);

    /** What came of it, in words for people. */
    String what(SQLException e);

    /** What to do about it. */
    String advice(SQLException e);

    /**
     * Takes a name that has no row, is free or has ended, for a new token; or starts the lease anew for the owner it
     * has, under the same token. Else it does nothing, and answers nothing. Rows of another format or strategy are
     * neither.
     *
     * <p>In: name, owner, lease. Out: token.
     */
    String acquire();

    /** In: name. Out: format, strategy, owner or NULL, token, lease, what is left of it. Writes nothing. */
    String look();

    /**
     * Starts the leases of live claims anew, each for its own length.
     *
     * <p>In: {@code size} times name, owner, token; the same may be given twice. Out, for each that was live: name,
     * owner, lease.
     */
    String renew(int size);

    /** How many claims one statement may renew: a power of two. */
    int largestBatch();

    /** Frees the name if it is this owner's. In: name, owner. Out: 1 if the claim was live, 0 if it had ended. */
    String release();

    /**
     * Puts the heir into the place of the held claim if that is live, for a new token; or, if the heir is there already
     * and live, starts its lease anew under the same token.
     *
     * <p>In: name, held owner, held token, heir, lease. Out: token.
     */
    String adopt();

    /**
     * Brings the end of this owner's claim back to one lease from now, if it lies further ahead. In: name, owner. Out:
     * one row if it did.
     */
    String clamp();

    /** One connection. Used by one thread at a time. */
    interface Session {
        Connection connection();

        /**
         * Proves that what others open under this store's name is still what this connection works in.
         *
         * @throws SQLException if it is not: then what it answered means nothing
         */
        void requireSameStore() throws SQLException;

        void close();
    }

    /** The statement that makes {@code table}, from the DDL that is shipped as {@code resource}. */
    static String ddl(String resource, String table) {
        try (InputStream in = Objects.requireNonNull(Dialect.class.getResourceAsStream(resource), resource)) {
            String text = new String(in.readAllBytes(), StandardCharsets.UTF_8).replaceAll("(?m)--.*$", "");
            for (String statement : text.split(";", -1)) {
                String stripped = statement.strip();
                if (stripped.toLowerCase(Locale.ROOT).startsWith("create table if not exists " + table)) {
                    return stripped;
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        throw new IllegalStateException(resource + " has no table " + table);
    }
}
