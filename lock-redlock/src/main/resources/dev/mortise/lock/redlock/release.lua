-- Removes the owner's key, whatever its token. Works without memory, too: so it stands alone, without the head of the others,
-- whose look at the run id takes longer than all the rest.
--
-- KEYS  2 lock
-- ARGV  1 call, 2 owner
-- Returns  call, nothing, 1 if there was one, else 0
local key = redis.call('GET', KEYS[2])
if not key or string.match(key, '^%S+') ~= ARGV[2] then
  return {ARGV[1], '', 0}
end
return {ARGV[1], '', redis.call('DEL', KEYS[2])}
