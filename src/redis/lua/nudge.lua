-- Ends an expired grant and grants the lock to the next waiter. Reports the status of one of the client's waiters.
--
-- KEYS       lock (and the state, of a monitor)
-- ARGV       prefix, id (a waiter of the client; may be empty), lease ms, claim ms, idle ms, channel (of the
--            client), condition (on which the waiter may wait; may be empty)
-- returns    own | queued | asleep | gone | foreign | wrongtype; the extra is the holder, if it is another attempt
--            with the same channel
-- repeated   harmless
-- wakes      the first waiter of the queue, if the lock is free once expired leases have ended
-- complexity O(log waiters)
-- flags: allow-oom
local id = ARGV[2]
local s, why = open(KEYS[1], ARGV[4])
if not s then return why end
s.state = KEYS[2]
expire_grant(s)
mark_responsive(s, string.sub(ARGV[6], #ARGV[1] + 1))
if s.holder == '' then grant_next(s, id) elseif s.pending then process_pending(s) end
save(s, ARGV[3], ARGV[5])
local mine = s.holder ~= '' and s.holder ~= id and channel(s.holder) == ARGV[6]
return answer(s, nil, id, mine and s.holder or nil, ARGV[7] ~= '' and ARGV[7])
