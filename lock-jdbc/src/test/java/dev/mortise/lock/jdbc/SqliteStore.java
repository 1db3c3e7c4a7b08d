package dev.mortise.lock.jdbc;

import dev.mortise.lock.spi.BackendProvider;
import dev.mortise.lock.spi.StoreUri;
import java.nio.file.Path;
import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/** A file in a folder of its own. */
final class SqliteStore extends TestStore {
    final Path file;

    SqliteStore(Path folder) {
        file = folder.resolve("locks.db");
    }

    @Override
    BackendProvider provider() {
        return new JdbcProvider();
    }

    @Override
    StoreUri uri() {
        return StoreUri.parse(adminUrl(), Map.of());
    }

    @Override
    List<String> arguments() {
        return List.of(adminUrl());
    }

    @Override
    String adminUrl() {
        return "jdbc:sqlite:" + file;
    }

    @Override
    String now() {
        return "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";
    }

    @Override
    String standstill() {
        return "BEGIN IMMEDIATE";
    }

    /** With a write-ahead log, whoever only reads waits for nobody. */
    @Override
    boolean ignoresStandstill(String sql) {
        return sql.startsWith("SELECT");
    }

    @Override
    Dialect dialect(Duration callTimeout, UnaryOperator<Connection> wrapping) {
        return new SqliteDialect(uri(), StoreFile::fileSystem, wrapping);
    }
}
