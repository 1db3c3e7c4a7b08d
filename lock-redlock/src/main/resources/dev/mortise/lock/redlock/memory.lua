-- What this server remembers.
--
-- Returns  call, run, mark or '', markAt, now, high, ready, terms
local m = redis.call('HMGET', KEYS[1], 'run', 'high', 'ready', 'terms')
if m[1] == run then
  return {ARGV[1], run, '', '0', text(now), m[2], m[3], m[4]}
end
local its = mark()
return {ARGV[1], run, its, redis.call('HGET', KEYS[1], 'markAt'), text(now), '0', '0', ''}
