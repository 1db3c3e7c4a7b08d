-- Gives claims their leases anew; never makes one.
-- KEYS the locks
-- ARGV owner and token of each
-- Returns a list with, for each: the lease in milliseconds (live), 0 (ended), -1 (not to be told)
local answers = {}
for i = 1, #KEYS do
  local answer = 0
  local held = redis.pcall('GET', KEYS[i])
  if type(held) == 'table' then
    -- Another type is one key's matter. All else (no right to read) is every key's, and is said.
    if not string.find(held['err'], 'WRONGTYPE') then
      redis.call('GET', KEYS[i])
    end
    answer = -1
  elseif held then
    local lease, token, owner = string.match(held, '^1:(%d+):(%d+):(.+)$')
    if owner == ARGV[2 * i - 1] and token == ARGV[2 * i] then
      redis.call('PEXPIRE', KEYS[i], string.format('%.0f', lease + 1))
      answer = tonumber(lease)
    end
  end
  answers[i] = answer
end
return answers
