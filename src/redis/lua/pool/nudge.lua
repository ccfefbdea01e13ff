-- Ends expired grants and grants their units to waiters. Reports the state of the client's first waiter.
--
-- KEYS       pool
-- ARGV       prefix, id (the client's first waiter; may be empty), lease ms, claim ms, idle ms,
--            capacity, units outside
-- returns    own | queued | gone | foreign | missing | wrongtype. If there are waiters, the extra is the time for the
--            next nudge of the client; it is also the deadline, unless the answer is own
-- repeated   harmless
-- wakes      waiters of the queue, as long as the first one fits
-- complexity O(log waiters + log holders)
-- flags: allow-oom
local id, lease = ARGV[2], tonumber(ARGV[3])
local s, why = open(KEYS[1], read_clock(), ARGV[4], ARGV[6], ARGV[7])
if not s then return why end
expire_grants(s)
mark_responsive(s, id)
if s.head then grant_next(s, id) end
save(s, lease, ARGV[5])
-- The deadline of the caller's new grant is not that of the first lease, for which other waiters of the client may wait.
return standing(s, id, lease, s.head and text(next_nudge(s, lease)))
