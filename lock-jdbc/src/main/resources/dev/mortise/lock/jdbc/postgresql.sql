-- The tables of Mortise in a PostgreSQL database (14 or later), format 1. Mortise makes each on first use from this very
-- file; run it by hand (psql -f postgresql.sql) where a program may not create tables. It then needs USAGE on the schema
-- and SELECT, INSERT and UPDATE on the tables:
--   GRANT SELECT, INSERT, UPDATE ON mortise_lock, mortise_fence TO some_role;
--
-- In both tables, names are stored as printable ASCII: a space, a percent sign and every byte of UTF-8 beyond printable
-- ASCII as %XX; compared byte by byte, whatever the database's collation. Times are milliseconds since 1970 by the clock
-- of the server.

-- One row a name; a lock that was released keeps its row, because the row keeps the token. Pages are filled by half, so
-- that a new version of a row finds room beside the old one.
--   format    the version of this layout, 1; rows of another version are refused
--   strategy  table or advisory; rows of another strategy than the client's are refused
--   token     the fencing token of the latest grant
--   owner     the owner id of the latest grant; NULL once it was released
--   lease_ms  the length of its lease
--   until_ms  when the lease ends unless it is renewed; from then on the lock is free, whatever owner says
CREATE TABLE IF NOT EXISTS mortise_lock (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    format integer NOT NULL,
    strategy text COLLATE "C" NOT NULL,
    token bigint NOT NULL CHECK (token > 0),
    owner text COLLATE "C",
    lease_ms bigint NOT NULL,
    until_ms bigint NOT NULL
) WITH (fillfactor = 50);

-- JdbcFence: one row a protected resource, with the largest token that a transaction came with.
CREATE TABLE IF NOT EXISTS mortise_fence (
    resource text COLLATE "C" NOT NULL PRIMARY KEY,
    token bigint NOT NULL CHECK (token > 0)
) WITH (fillfactor = 50);
