-- Lengthens claims that are exactly this owner's with this token. Never makes one again.
--
-- KEYS  2.. locks
-- ARGV  2.. for each lock: "OWNER TOKEN", lease in ms
-- Returns  call, run, mark or '', a character for each lock: 1 lengthened, 0 not there
if redis.call('HGET', KEYS[1], 'run') ~= run then
  return {ARGV[1], run, mark(), ''}
end
local live = {}
for i = 2, #KEYS do
  local at = 2 * i - 2
  if redis.call('GET', KEYS[i]) == ARGV[at] then
    redis.call('PEXPIRE', KEYS[i], ARGV[at + 1])
    live[#live + 1] = '1'
  else
    live[#live + 1] = '0'
  end
end
return {ARGV[1], run, '', table.concat(live)}
