-- Takes the units of one holder, or of all, as an operator wants it, and lets those go on who can.
--
-- KEYS       pool
-- ARGV       prefix, fence (of the holder; empty: all holders), channel (on which it is announced), lease ms,
--            claim ms, idle ms, capacity, units outside
-- returns    ok | foreign | wrongtype; the extra is how many holders have lost their units
-- repeated   with a fence, does nothing; else takes the units of those who have some now
-- wakes      the first of the queue, as long as it fits
-- complexity O(holders log holders + log waiters)
-- flags: allow-oom
local s, why = open(KEYS[1], read_clock(), ARGV[5], ARGV[7], ARGV[8])
if not s then return why end

-- Who has upgraded holds the pool in two parts, and nobody else holds anything then.
local wanted, all = tonumber(ARGV[2]), redis.call('ZRANGE', s.holders, 0, -1)
for _, id in ipairs(all) do
  local units, fence = holding(s, id)
  if units and fence == wanted and s.capacity >= special and units == s.capacity % special - 1 then wanted = nil end
end

local broken = 0
for _, id in ipairs(all) do
  local units, fence = holding(s, id)
  if units and (not wanted or fence == wanted) then
    -- If the user may not announce it, this is an error before anything has changed.
    redis.call('PUBLISH', ARGV[3], s.key .. ' ' .. text(fence))
    drop(s, id, units)
    redis.pcall('PUBLISH', channel(id), 'lost ' .. id .. ' ' .. text(fence) .. ' ' .. text(s.now) .. ' broken')
    broken = broken + 1
  end
end
if broken > 0 then s.fence = math.max(s.fence + 1, s.now) end
reap(s)
if s.head then grant_next(s) end
save(s, tonumber(ARGV[4]), ARGV[6])
return answer(s, 'ok', 0, nil, text(broken))
