-- Stands in front of every other script. The layout is format 1:
--
--   mortise:redlock               hash: what this server remembers
--     run    the run id of the server process that the rest is of
--     high   the largest token accepted for any name
--     floor  every token accepted is larger
--     ready  from when on it votes, in microseconds of its clock
--     terms  "FORMAT ATTEMPT-MS LONGEST-LEASE-MS" of the deployment
--   or, without memory:
--     mrun   the run id of the server process that made the mark
--     mark   names this loss of memory
--     markAt when the mark was made, in microseconds of its clock
--   mortise:redlock:lock:NAME     "OWNER TOKEN", expires with its lease
--   mortise:redlock:fence:NAME    the largest token accepted for the name, expires a day after
--
-- KEYS[1] is the hash, and ARGV[1] names this very call: it is the first of each answer, and the run id is the second.
--
-- The run id is read here and not by the client: it belongs to the process that answers, whatever proxy or reconnecting
-- client library is in between. A process started anew has lost its memory, even if it kept its data: those may be old.
-- Tokens are never turned into numbers and back: '' .. 1795990000000001 is 1.79599e+15.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')

local function text(number)
  return string.format('%.0f', number)
end

-- The mark of this loss of memory. Made here: made from the client's message, a message that comes twice would make it
-- again after a second loss, and a join that was meant for the first would pass.
local function mark()
  local known = redis.call('HMGET', KEYS[1], 'mrun', 'mark')
  if known[1] == run then
    return known[2]
  end
  local new = time[1] .. '.' .. time[2] .. '.' .. ARGV[1]
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'mrun', run, 'mark', new, 'markAt', text(now))
  return new
end
