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
mark_responsive(s, id)
-- A sleeper for whom a notification is left is not timed out.
if s.pending then process_pending(s) end
local waited
for old in string.gmatch(ARGV[2], '[^,]+') do
  if redis.call('ZREM', waiters_on(s, ARGV[7]), old) == 1 then
    waited = 1
    enqueue(s, id, new_ticket(s, 0))
  end
end
if s.holder == '' then grant_next(s, id) end
save(s, ARGV[4], ARGV[6])
return answer(s, nil, id, waited)
