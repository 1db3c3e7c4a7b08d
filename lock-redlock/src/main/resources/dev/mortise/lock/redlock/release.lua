-- Removes the owner's key, whatever its token. Works without memory, too.
--
-- KEYS  2 lock
-- ARGV  2 owner
-- Returns  call, run, 1 if there was one, else 0
local key = redis.call('GET', KEYS[2])
if not key or string.match(key, '^%S+') ~= ARGV[2] then
  return {ARGV[1], run, 0}
end
return {ARGV[1], run, redis.call('DEL', KEYS[2])}
