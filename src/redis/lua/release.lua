-- Gives a lock back, or refuses a grant, and hands the lock on.
--
-- KEYS       lock, queue, done (and the state, of a monitor)
-- ARGV       prefix, id, fence, slot (empty: nothing is remembered, and who was signalled passes that on),
--            lease ms, claim ms, idle ms (and the last fence, if a cohort has passed the lock on)
-- returns    released | lost | unknown | foreign | wrongtype
-- repeated   answers what the first call did, as long as the slot has not given back anything else
-- wakes      the first of the queue
-- complexity O(log waiters)
-- flags: allow-oom
local id, fence, slot = ARGV[2], ARGV[3], ARGV[4]
local s, why = open(1, ARGV[6])
if not s then return why end
s.state = KEYS[4]
local parted = part(s, id, fence, slot, ARGV[8])
if not parted then reap(s) end
if s.owner == '' then grant(s) end
save(s, ARGV[5], ARGV[7])
return parted and answer(s, 'released') or ended(s, fence + 0, slot)
