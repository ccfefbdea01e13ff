-- Notifies waiters of a condition. The caller need not hold the lock.
--
-- KEYS       lock (and the state, of a monitor)
-- ARGV       prefix, condition, one | all, lease ms, claim ms, idle ms, newest (a ticket, see notify_waiters();
--            or empty)
-- returns    ok | foreign | wrongtype; if the notification is not complete, the ticket is the newest one
-- repeated   notifies again
-- wakes      the first waiter of the queue, if the lock is free once expired leases have ended
-- complexity O((notified + 1) log waiters)
-- flags: none
local s, why = open(KEYS[1], ARGV[5])
if not s then return why end
s.state = KEYS[2]
expire_grant(s)
s.more = notify_waiters(s, ARGV[2], ARGV[3] == 'all', ARGV[7] ~= '' and ARGV[7]) or s.more
if s.holder == '' then grant_next(s) end
save(s, ARGV[4], ARGV[6])
return answer(s, 'ok')
