-- The tables of Mortise in an SQLite database, format 1. Mortise makes each on first use from this very file; run it by
-- hand (sqlite3 FILE < sqlite.sql) where a program may not create tables.
--
-- In both tables, names are stored as printable ASCII: a space, a percent sign and every byte of UTF-8 beyond printable
-- ASCII as %XX. Times are milliseconds since 1970 by the clock of the machine.

-- One row a name; a lock that was released keeps its row, because the row keeps the token.
--   format    the version of this layout, 1; rows of another version are refused
--   strategy  table; rows of another strategy are refused
--   token     the fencing token of the latest grant
--   owner     the owner id of the latest grant; NULL once it was released
--   lease_ms  the length of its lease
--   until_ms  when the lease ends unless it is renewed; from then on the lock is free, whatever owner says
CREATE TABLE IF NOT EXISTS mortise_lock (
    name TEXT NOT NULL PRIMARY KEY,
    format INTEGER NOT NULL,
    strategy TEXT NOT NULL,
    token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0),
    owner TEXT,
    lease_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- JdbcFence: one row a protected resource, with the largest token that a transaction came with.
CREATE TABLE IF NOT EXISTS mortise_fence (
    resource TEXT NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0)
) WITHOUT ROWID;
