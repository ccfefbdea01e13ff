-- Adds units to a pool of a directory.
--
-- KEYS       pool, index (of the directory)
-- ARGV       prefix, lease ms, claim ms, idle ms, capacity, name of the call, name of a call that will not be repeated,
--            units, the fence with which they were taken for good (empty: they are new)
-- returns    ok | excess | missing | foreign | wrongtype; see conclude()
-- repeated   answers ok, and adds nothing, as long as the name is remembered
-- wakes      waiters of the queue, as long as the first one fits
-- complexity O(log waiters + log holders)
-- flags: allow-oom
local s, why = open(KEYS[1], read_clock(), ARGV[3], ARGV[5], '-1')
if not s then return why end
local units, fence, status = tonumber(ARGV[8]), tonumber(ARGV[9]), 'ok'
-- A younger pool is another one, with the name of the pool that lacks the units.
if fence and s.born > fence then return 'missing' end
expire_grants(s)
if not is_repeated() then
  if units > s.outside then
    status = 'excess'
  else
    s.outside = s.outside - units
    note_call(s)
  end
end
return conclude(s, status, 0, units)
