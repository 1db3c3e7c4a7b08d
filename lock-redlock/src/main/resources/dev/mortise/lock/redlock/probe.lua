-- What kind of server this is.
--
-- Returns  call, run, INFO
return {ARGV[1], run, redis.call('INFO')}
