-- Puts the heir in the place of a live claim, with a new token.
-- KEYS[1] the lock, KEYS[2] its fence, KEYS[3] the mark that the heir has been released already
-- ARGV[1] the owner and ARGV[2] the token that are held, ARGV[3] the heir's owner, ARGV[4] its lease in milliseconds
-- Returns the heir's token as text, {'none'}, or {'format', value}
local held = redis.call('GET', KEYS[1])
if not held then
  return {'none'}
end
local _, token, owner = string.match(held, '^1:(%d+):(%d+):(.+)$')
if not owner then
  return {'format', held}
end
if owner ~= ARGV[3] then
  if owner ~= ARGV[1] or token ~= ARGV[2] or redis.call('EXISTS', KEYS[3]) == 1 then
    return {'none'}
  end
  local fence = redis.call('GET', KEYS[2])
  local last = tonumber(token)
  if fence then
    last = tonumber(string.match(fence, '^1:(%d+)$'))
    if not last or last >= 9007199254740991 then
      return {'format', fence}
    end
  end
  local time = redis.call('TIME')
  token = string.format('%.0f', math.max(last + 1, tonumber(token) + 1, time[1] * 1000000 + time[2]))
  redis.call('SET', KEYS[2], '1:' .. token, 'PX', '86400000')
end
redis.call('SET', KEYS[1], '1:' .. ARGV[4] .. ':' .. token .. ':' .. ARGV[3],
  'PX', string.format('%.0f', ARGV[4] + 1))
return token
