-- Takes a free lock, or gives the same claim its lease anew.
-- KEYS[1] the lock, KEYS[2] its fence, KEYS[3] the mark that this owner has been released already
-- ARGV[1] the owner, ARGV[2] the lease in milliseconds
-- Returns the token as text: granted
--         a number: somebody else's, for so many milliseconds at most unless it is renewed
--         {'released'}: this owner was released before, so this request comes too late
--         {'format', value}: what is there is not of this format
local held = redis.call('GET', KEYS[1])
if held then
  local lease, token, owner = string.match(held, '^1:(%d+):(%d+):(.+)$')
  if not owner then
    return {'format', held}
  end
  if owner ~= ARGV[1] then
    local rest = redis.call('PTTL', KEYS[1])
    -- No holder was promised more than one lease from now, so the clock was set back, or somebody took the end away.
    if rest < 0 or rest > lease + 1 then
      rest = lease + 1
      redis.call('PEXPIRE', KEYS[1], string.format('%.0f', rest))
    end
    return rest
  end
  redis.call('SET', KEYS[1], '1:' .. ARGV[2] .. ':' .. token .. ':' .. owner,
    'PX', string.format('%.0f', ARGV[2] + 1))
  return token
end
local fence = redis.call('GET', KEYS[2])
local last = 0
if fence then
  last = tonumber(string.match(fence, '^1:(%d+)$'))
  -- From 2^53 on, numbers of Lua are no longer whole ones.
  if not last or last >= 9007199254740991 then
    return {'format', fence}
  end
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return {'released'}
end
-- The floor makes tokens grow even when the fence was lost. As text: a number would be written 1.79599e+15.
local time = redis.call('TIME')
local token = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
-- The fence first: if the server refuses the next write, no token was given.
redis.call('SET', KEYS[2], '1:' .. token, 'PX', '86400000')
-- One more millisecond: the server counts from the start of the current one.
redis.call('SET', KEYS[1], '1:' .. ARGV[2] .. ':' .. token .. ':' .. ARGV[1],
  'PX', string.format('%.0f', ARGV[2] + 1))
return token
