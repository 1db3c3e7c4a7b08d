package dev.mortise.lock.bench;

import com.zaxxer.hikari.HikariDataSource;
import dev.mortise.lock.bench.Session.Door;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.integration.jdbc.lock.DefaultLockRepository;
import org.springframework.integration.jdbc.lock.JdbcLockRegistry;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;

/** The least that does the work in a database, and the libraries that people use there. */
final class JdbcPeers {
    /** More than threads, so that nobody waits for the pool. */
    private static final int POOL = 40;

    /** Of the floors, and of the peers by their own documents. */
    static final String[] TABLES = {
        "CREATE TABLE bare (name VARCHAR(100) PRIMARY KEY, owner VARCHAR(100), token BIGINT NOT NULL, until_ms BIGINT)",
        "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL, locked_at TIMESTAMP(3) NOT NULL,"
                + " locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
        "CREATE TABLE INT_LOCK (lock_key CHAR(36) NOT NULL, region VARCHAR(100) NOT NULL, client_id CHAR(36),"
                + " created_date TIMESTAMP(3) NOT NULL, expired_after TIMESTAMP(3) NOT NULL, PRIMARY KEY (lock_key, region))"
    };

    private static final String NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

    private JdbcPeers() {}

    /** By its name: the compiler warns of annotations in PostgreSQL's that are not there. */
    static Class<?> driver(String name) {
        try {
            return Class.forName(name, false, JdbcPeers.class.getClassLoader());
        } catch (ClassNotFoundException e) {
            throw new LinkageError(name, e);
        }
    }

    /** A connection of the door's own, with statements that are prepared once. */
    private abstract static class Bare implements Door {
        private final Connection connection;
        final String name;
        final String owner = UUID.randomUUID().toString();

        Bare(String url, String name) throws SQLException {
            connection = DriverManager.getConnection(url);
            this.name = name;
        }

        final PreparedStatement prepare(String sql) throws SQLException {
            return connection.prepareStatement(sql);
        }

        /** The number that it answers; 0 for no row, and for a function without a value. */
        static long ask(PreparedStatement statement) throws SQLException {
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() && rows.getString(1).matches("[0-9]+") ? rows.getLong(1) : 0;
            }
        }

        @Override
        public final void close() throws SQLException {
            connection.close();
        }
    }

    static Session advisory(String url) {
        return name -> new Bare(url, name) {
            private final PreparedStatement lock = prepare("SELECT pg_advisory_lock(hashtextextended(?, 0))");
            private final PreparedStatement token =
                    prepare("UPDATE bare SET owner = ?, token = token + 1 WHERE name = ? RETURNING token");
            private final PreparedStatement clear = prepare("WITH o AS MATERIALIZED (SELECT"
                    + " set_config('synchronous_commit', 'off', true)) UPDATE bare SET owner = NULL FROM o"
                    + " WHERE name = ? AND owner = ?");
            private final PreparedStatement unlock =
                    prepare("SELECT CASE WHEN pg_advisory_unlock(hashtextextended(?, 0)) THEN 1 ELSE 0 END");

            {
                try (PreparedStatement row =
                        prepare("INSERT INTO bare (name, token) VALUES (?, 0) ON CONFLICT DO NOTHING")) {
                    row.setString(1, name);
                    row.executeUpdate();
                }
                lock.setString(1, name);
                token.setString(1, owner);
                token.setString(2, name);
                clear.setString(1, name);
                clear.setString(2, owner);
                unlock.setString(1, name);
            }

            @Override
            public void acquire() throws SQLException {
                ask(lock);
                require(ask(token) > 0);
            }

            @Override
            public void release() throws SQLException {
                clear.executeUpdate();
                require(ask(unlock) == 1);
            }
        };
    }

    static Session row(String url) {
        return name -> new Bare(url, name) {
            private final PreparedStatement take = prepare("INSERT INTO bare AS b (name, owner, token, until_ms)"
                    + " VALUES (?, ?, 1, " + NOW + " + 30000) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner,"
                    + " token = b.token + 1, until_ms = excluded.until_ms WHERE b.owner IS NULL OR b.until_ms <= " + NOW
                    + " RETURNING token");
            private final PreparedStatement free = prepare("UPDATE bare SET owner = NULL WHERE name = ? AND owner = ?");

            {
                take.setString(1, name);
                take.setString(2, owner);
                free.setString(1, name);
                free.setString(2, owner);
            }

            @Override
            public void acquire() throws SQLException, InterruptedException {
                while (ask(take) == 0) {
                    TimeUnit.MILLISECONDS.sleep(1);
                }
            }

            @Override
            public void release() throws SQLException {
                require(free.executeUpdate() == 1);
            }
        };
    }

    static Session getLock(String url) {
        return name -> new Bare(url, name) {
            private final PreparedStatement lock = prepare("SELECT GET_LOCK(?, 100)");
            private final PreparedStatement token = prepare("INSERT INTO bare (name, owner, token) VALUES (?, ?, 1)"
                    + " ON DUPLICATE KEY UPDATE owner = VALUES(owner), token = token + 1 RETURNING token");
            private final PreparedStatement clear =
                    prepare("UPDATE bare SET owner = NULL WHERE name = ? AND owner = ?");
            private final PreparedStatement unlock = prepare("SELECT RELEASE_LOCK(?)");

            {
                lock.setString(1, name);
                token.setString(1, name);
                token.setString(2, owner);
                clear.setString(1, name);
                clear.setString(2, owner);
                unlock.setString(1, name);
            }

            @Override
            public void acquire() throws SQLException {
                require(ask(lock) == 1);
                require(ask(token) > 0);
            }

            @Override
            public void release() throws SQLException {
                clear.executeUpdate();
                require(ask(unlock) == 1);
            }
        };
    }

    static Session mariaDbRow(String url) {
        return name -> new Bare(url, name) {
            private static final String MILLIS = "floor(unix_timestamp(sysdate(3)) * 1000)";
            private static final String IS_FREE = "owner IS NULL OR until_ms <= " + MILLIS;

            // From left to right, each of what the one before has left: the owner last.
            private final PreparedStatement take = prepare("INSERT INTO bare (name, owner, token, until_ms)"
                    + " VALUES (?, ?, 1, " + MILLIS + " + 30000) ON DUPLICATE KEY UPDATE"
                    + " token = IF(" + IS_FREE + ", token + 1, token),"
                    + " owner = IF(" + IS_FREE + ", VALUES(owner), owner),"
                    + " until_ms = IF(owner = VALUES(owner), VALUES(until_ms), until_ms)"
                    + " RETURNING IF(owner = ?, token, 0)");
            private final PreparedStatement free = prepare("UPDATE bare SET owner = NULL WHERE name = ? AND owner = ?");

            {
                take.setString(1, name);
                take.setString(2, owner);
                take.setString(3, owner);
                free.setString(1, name);
                free.setString(2, owner);
            }

            @Override
            public void acquire() throws SQLException, InterruptedException {
                while (ask(take) == 0) {
                    TimeUnit.MILLISECONDS.sleep(1);
                }
            }

            @Override
            public void release() throws SQLException {
                require(free.executeUpdate() == 1);
            }
        };
    }

    private static void require(boolean held) {
        if (!held) {
            throw new IllegalStateException("it was not held any more");
        }
    }

    private static HikariDataSource pool(String url) {
        HikariDataSource pool = new HikariDataSource();
        pool.setJdbcUrl(url);
        pool.setMaximumPoolSize(POOL);
        return pool;
    }

    static Session shedLock(String url) {
        return Libraries.shedLock(new JdbcTemplateLockProvider(JdbcTemplateLockProvider.Configuration.builder()
                .withJdbcTemplate(new JdbcTemplate(pool(url)))
                .usingDbTime()
                .build()));
    }

    static Session spring(String url) {
        HikariDataSource pool = pool(url);
        DefaultLockRepository repository = new DefaultLockRepository(pool);
        repository.setTransactionManager(new DataSourceTransactionManager(pool));
        repository.afterPropertiesSet();
        repository.afterSingletonsInstantiated();
        JdbcLockRegistry registry = new JdbcLockRegistry(repository);
        return name -> Libraries.door(registry.obtain(name));
    }
}
