-- Lets one who sleeps on a condition wait for the lock, although nobody has signalled it.
--
-- KEYS       lock
-- ARGV       prefix, ids (all that the sleeper may be known by, with commas), id, lease ms, claim ms, idle ms,
--            condition
-- returns    own | queued | gone | foreign | wrongtype; the extra is 1 if it slept until now
-- repeated   as if it had been signalled
-- wakes      the first of the queue, if nobody owns the lock
-- complexity O(log waiters)
-- flags: none
local id = ARGV[3]
local s, why = open(KEYS[1], ARGV[5])
if not s then return why end
reap(s)
speak(s, id)
-- A sleeper for whom a notification is left is not timed out.
if s.bound then lapse(s) end
local slept
for old in string.gmatch(ARGV[2], '[^,]+') do
  if redis.call('ZREM', sleepers(s, ARGV[7]), old) == 1 then
    slept = 1
    enqueue(s, id, ticket(s, 0))
  end
end
if s.owner == '' then grant(s, id) end
save(s, ARGV[4], ARGV[6])
return answer(s, nil, id, slept)
