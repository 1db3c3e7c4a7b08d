-- The tables of Mortise in an H2 database (2.2 or later), format 1. Mortise makes mortise_lock on first use from this very
-- file; run it by hand where a program may not create tables, and for the other two. It then needs SELECT, INSERT and
-- UPDATE on the tables:
--   GRANT SELECT, INSERT, UPDATE ON mortise_lock TO somebody;
--
-- In all tables, names are stored as printable ASCII: a space, a percent sign and every byte of UTF-8 beyond printable
-- ASCII as %XX. Times are milliseconds since 1970 by the clock of the machine that has the database.

-- One row a name; a lock that was released keeps its row, because the row keeps the token.
--   format    the version of this layout, 1; rows of another version are refused
--   strategy  table; rows of another strategy are refused
--   token     the fencing token of the latest grant
--   owner     the owner id of the latest grant; NULL once it was released
--   lease_ms  the length of its lease
--   until_ms  when the lease ends unless it is renewed; from then on the lock is free, whatever owner says
CREATE TABLE IF NOT EXISTS mortise_lock (
    name VARCHAR(1536) NOT NULL PRIMARY KEY,
    format INTEGER NOT NULL,
    strategy VARCHAR(16) NOT NULL,
    token BIGINT NOT NULL CHECK (token > 0),
    owner VARCHAR(128),
    lease_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL
);

-- JdbcFence: one row a protected resource, with the largest token that a transaction came with.
CREATE TABLE IF NOT EXISTS mortise_fence (
    resource VARCHAR(1536) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token > 0)
);

-- JdbcTransactionLock: one row a name that was ever locked, made on first use; locked by a transaction to its end.
CREATE TABLE IF NOT EXISTS mortise_transaction_lock (
    name VARCHAR(1536) NOT NULL PRIMARY KEY
);
