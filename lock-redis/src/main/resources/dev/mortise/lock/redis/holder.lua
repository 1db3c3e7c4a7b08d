-- Who holds a lock, for people.
-- KEYS[1] the lock
-- Returns {owner, token, milliseconds left}, {} (free), or {'format', value}
local held = redis.call('GET', KEYS[1])
if not held then
  return {}
end
local _, token, owner = string.match(held, '^1:(%d+):(%d+):(.+)$')
if not owner then
  return {'format', held}
end
return {owner, token, redis.call('PTTL', KEYS[1])}
