-- Moves a waiter of a condition to the queue of the lock, without a notification.
--
-- KEYS       lock
-- ARGV       prefix, ids (all by which the server may know the waiter, separated by commas), id, lease ms, claim ms,
--            idle ms, condition
-- returns    own | queued | gone | foreign | wrongtype; the extra is 1 if the attempt waited on the condition until now
-- repeated   answers as if the waiter had been notified
-- wakes      the first waiter of the queue, if the lock is free once expired leases have ended
-- complexity O(log waiters)
-- flags: allow-oom
local id = ARGV[3]
local s, why = open(KEYS[1], ARGV[5])
if not s then return why end
expire_grant(s)
mark_responsive(s, id)
-- A waiter that a deferred notification has yet to reach has not timed out.
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
