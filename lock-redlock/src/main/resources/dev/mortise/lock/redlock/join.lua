-- Gives this server a new memory, if it has lost the old one and the mark is still that of this loss: a write that comes
-- late, after a second loss, would bring an old floor.
--
-- ARGV  2 mark, 3 floor, 4 terms, 5 '1' to vote at once
-- Returns  call, run, 1 if the mark was still the same, else 0
local m = redis.call('HMGET', KEYS[1], 'mrun', 'mark', 'markAt')
if m[1] ~= run or m[2] ~= ARGV[2] then
  return {ARGV[1], run, 0}
end
-- What it promised before it lost its memory has ended when a longest lease has gone by. Where the clock was set back
-- since, from now.
local ready = math.min(tonumber(m[3]), now) + tonumber(string.match(ARGV[4], '(%d+)$')) * 1000
if ARGV[5] == '1' then
  ready = now
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'run', run, 'high', ARGV[3], 'floor', ARGV[3], 'ready', text(ready), 'terms', ARGV[4])
return {ARGV[1], run, 1}
