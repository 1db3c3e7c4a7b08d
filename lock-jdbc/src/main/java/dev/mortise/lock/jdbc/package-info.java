/**
 * Locks in a relational database, one table and one row a name; now in SQLite.
 *
 * <p>Users name the store by its JDBC URL, {@code jdbc:sqlite:/folder/file.db}, and need nothing from here but
 * {@link dev.mortise.lock.jdbc.JdbcFence}, which turns late writes and late reads of a former holder away.
 */
@NullMarked
package dev.mortise.lock.jdbc;

import org.jspecify.annotations.NullMarked;
