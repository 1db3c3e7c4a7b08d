-- The tables of Mortise in a MariaDB database (10.6 or later), format 1. Mortise makes mortise_lock on first use from this
-- very file; run it by hand (mariadb app < mariadb.sql) where a program may not create tables, and for the other two. It then
-- needs SELECT, INSERT and UPDATE on the tables:
--   GRANT SELECT, INSERT, UPDATE ON app.mortise_lock TO 'somebody'@'%';
--
-- In all tables, names are stored as printable ASCII: a space, a percent sign and every byte of UTF-8 beyond printable
-- ASCII as %XX; compared byte by byte, whatever the database's collation. Times are milliseconds since 1970 by the clock
-- of the server; time zones have no part in them.

-- One row a name; a lock that was released keeps its row, because the row keeps the token.
--   format    the version of this layout, 1; rows of another version are refused
--   strategy  table or advisory; rows of another strategy are refused
--   token     the fencing token of the latest grant
--   owner     the owner id of the latest grant; NULL once it was released
--   lease_ms  the length of its lease
--   until_ms  when the lease ends unless it is renewed; from then on the lock is free, whatever owner says
CREATE TABLE IF NOT EXISTS mortise_lock (
    name varchar(1536) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    format int NOT NULL,
    strategy varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    token bigint NOT NULL CHECK (token > 0),
    owner varchar(128) CHARACTER SET ascii COLLATE ascii_bin,
    lease_ms bigint NOT NULL,
    until_ms bigint NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- JdbcFence: one row a protected resource, with the largest token that a transaction came with.
CREATE TABLE IF NOT EXISTS mortise_fence (
    resource varchar(1536) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    token bigint NOT NULL CHECK (token > 0)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- JdbcTransactionLock: one row a name that was ever locked, made on first use; locked by a transaction to its end.
CREATE TABLE IF NOT EXISTS mortise_transaction_lock (
    name varchar(1536) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
