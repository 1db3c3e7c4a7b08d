-- Who has a lock at this server.
--
-- KEYS  2 lock
-- Returns  call, run, "OWNER TOKEN" or '', rest in ms
return {ARGV[1], run, redis.call('GET', KEYS[2]) or '', redis.call('PTTL', KEYS[2])}
