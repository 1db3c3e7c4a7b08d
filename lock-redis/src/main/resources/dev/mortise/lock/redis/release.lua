-- Ends the claim of this owner, and no other's, and wakes those who wait.
-- KEYS[1] the lock, KEYS[2] the mark that this owner has been released
-- ARGV[1] the owner, ARGV[2] the channel, ARGV[3] how long the mark stays, in milliseconds
-- Returns 0: there was no live claim
--         1 or more: one was ended, and so many clients less one were told
--         text: a live claim was ended, and why nobody could be woken
local held = redis.call('GET', KEYS[1])
if held and string.match(held, '^1:%d+:%d+:(.+)$') == ARGV[1] then
  redis.call('DEL', KEYS[1])
  -- It has been released, whether or not this user may publish.
  local told = redis.pcall('PUBLISH', ARGV[2], '')
  if type(told) == 'table' then
    return told['err']
  end
  return 1 + told
end
-- Its acquire may still be on the way, and must find the door shut when it arrives. Without the mark this is no release, not
-- even where there is no memory for either: there may be some again by then. The caller repeats it.
redis.call('SET', KEYS[2], '1', 'PX', ARGV[3])
return 0
