-- Lengthens claims that are exactly this owner's with this token. Never makes one again.
--
-- KEYS  2.. locks
-- ARGV  2.. for each lock: "OWNER TOKEN", lease in ms
-- Returns  call, run, mark or '', a character for each lock: 1 lengthened, 0 not there
local m = redis.call('HMGET', KEYS[1], 'run', 'floor')
if m[1] ~= run then
  return {ARGV[1], run, mark(), ''}
end
local live = {}
for i = 2, #KEYS do
  local at = 2 * i - 2
  -- Not above the floor: from before a loss of memory, kept by a restart with old data, and perhaps lost to others since.
  if redis.call('GET', KEYS[i]) == ARGV[at] and tonumber(string.match(ARGV[at], '(%d+)$')) > tonumber(m[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[at + 1])
    live[#live + 1] = '1'
  else
    live[#live + 1] = '0'
  end
end
return {ARGV[1], run, '', table.concat(live)}
