-- Gives back what a holder has, or refuses a grant, and lets those go on who can.
--
-- KEYS       pool, queue, done, holders, units
-- ARGV       prefix, ids (all that the holder may be known by, with commas), fence, slot (empty: nothing is
--            remembered), lease ms, claim ms, idle ms, capacity, units outside, units that the holder leaves
--            outside
-- returns    released | lost | unknown | foreign | wrongtype
-- repeated   answers what the first call did, as long as the slot has not given back anything else
-- wakes      the first of the queue, as long as it fits
-- complexity O(log waiters + log holders)
-- flags: allow-oom
local fence, slot, lease = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local s, why = open(1, ARGV[6], ARGV[8], ARGV[9])
if not s then return why end
local result
for id in string.gmatch(ARGV[2], '[^,]+') do
  local units, its, left = holding(s, id)
  if its == fence then
    -- First what can fail, if somebody has put something else there.
    if slot ~= '' and remember(s, slot, fence) then s.added = true end
    drop(s, id, units)
    move(s, tonumber(ARGV[10]) - left)
    result = 'released'
  end
end
reap(s)
if s.head then grant(s) end
save(s, lease, ARGV[7])
return result and answer(s, result) or ended(s, fence, slot)
