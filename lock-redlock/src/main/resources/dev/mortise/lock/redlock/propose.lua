-- Accepts a client's token if the lock is free here, or this owner's, and the token is larger than all that are known.
--
-- KEYS  2 lock, 3 fence
-- ARGV  2 owner, 3 token, 4 lease in ms, 5 '1' if a key of this owner is from an earlier round of the same attempt,
--       6 how far ahead of the clock the token may be in microseconds, 7 terms
-- Returns  call, run, answer, fence, rest in ms, detail: see Node.Answer
local m = redis.call('HMGET', KEYS[1], 'run', 'high', 'floor', 'ready', 'terms')
if m[1] ~= run then
  return {ARGV[1], run, 'NO_MEMORY', '0', 0, mark()}
end
local longest = tonumber(string.match(m[5], '(%d+)$'))
if m[5] ~= ARGV[7] or tonumber(ARGV[4]) > longest then
  return {ARGV[1], run, 'OTHER_TERMS', '0', 0, m[5]}
end

-- Where the fence has expired, no token of any name was larger than high.
local fence = redis.call('GET', KEYS[3]) or m[2]
if tonumber(m[3]) > tonumber(fence) then
  fence = m[3]
end

local wait = tonumber(m[4]) - now
if wait > 0 then
  if wait > longest * 1000 then
    -- The clock was set back. What was promised ends a longest lease from now at the latest.
    wait = longest * 1000
    redis.call('HSET', KEYS[1], 'ready', text(now + wait))
  end
  return {ARGV[1], run, 'NOT_READY', fence, math.ceil(wait / 1000), ''}
end

local key = redis.call('GET', KEYS[2])
if key then
  local owner, token = string.match(key, '^(%S+) (%d+)$')
  if owner ~= ARGV[2] then
    local rest = redis.call('PTTL', KEYS[2])
    if rest > longest then
      -- The clock was set back. Nobody was promised more than a longest lease from now.
      rest = longest
      redis.call('PEXPIRE', KEYS[2], rest)
    end
    return {ARGV[1], run, 'HELD', fence, rest, ''}
  end
  -- A key that is not above the floor is from before a loss of memory, kept by a restart with old data: it may have been
  -- lost to others since. One that is above counts for the joins of others, too.
  if tonumber(token) > tonumber(m[3]) and (ARGV[5] ~= '1' or token == ARGV[3]) then
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
    if tonumber(token) > tonumber(m[2]) then
      redis.call('HSET', KEYS[1], 'high', token)
    end
    return {ARGV[1], run, ARGV[5] == '1' and 'OK' or 'MINE', token, 0, ''}
  end
end

local token = tonumber(ARGV[3])
if token <= tonumber(fence) then
  return {ARGV[1], run, 'STALE', fence, 0, ''}
end
-- By small steps it may go on from what is known: else one server with a high mark would part from the others for ever.
if token > math.max(tonumber(m[2]) + 1048576, now + tonumber(ARGV[6])) or token >= 9007199254740992 then
  return {ARGV[1], run, 'TOO_FAR', fence, 0, ''}
end
redis.call('SET', KEYS[2], ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
redis.call('SET', KEYS[3], ARGV[3], 'EX', 86400)
if token > tonumber(m[2]) then
  redis.call('HSET', KEYS[1], 'high', ARGV[3])
end
return {ARGV[1], run, 'OK', ARGV[3], 0, ''}
