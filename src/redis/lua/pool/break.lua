-- Ends the grant of one holder or of all holders, for an operator, and grants the units to waiters.
--
-- KEYS       pool
-- ARGV       prefix, fence (of the holder; empty for all holders), channel (on which the break is published), lease ms,
--            claim ms, idle ms, capacity, units outside
-- returns    ok | foreign | missing | wrongtype; the extra is the number of holders that have lost their units
-- repeated   with a fence, does nothing; without one, ends the grants of the present holders
-- wakes      waiters of the queue, as long as the first one fits
-- complexity O(holders log holders + log waiters)
-- flags: allow-oom
local s, why = open(KEYS[1], read_clock(), ARGV[5], ARGV[7], ARGV[8])
if not s then return why end

-- An upgraded writer holds the pool with two grants, which end together and count as one holder. There are no other
-- holders then.
local wanted, all = tonumber(ARGV[2]), redis.call('ZRANGE', s.holders, 0, -1)
local base, upgraded
for _, id in ipairs(all) do
  local units, fence = holding(s, id)
  if units == special + 1 then base = fence end
  if units == s.capacity % special - 1 then upgraded = fence end
end
local is_pair = base and upgraded
if is_pair and (wanted == base or wanted == upgraded) then wanted = nil end

local broken = 0
for _, id in ipairs(all) do
  local units, fence = holding(s, id)
  if units and (not wanted or fence == wanted) then
    -- Without permission to publish, this is an error before anything has changed.
    redis.call('PUBLISH', ARGV[3], s.key .. ' ' .. text(fence))
    drop(s, id, units)
    s.given = math.max(s.given, fence)
    -- During a grace, the holder would count as one that the outdated state does not know.
    if s.grace then
      redis.call('ZADD', s.done, text(s.now), 'broken ' .. text(fence))
      s.noted = true
    end
    -- The id of a permit is a secret, and no session waits for it.
    if not is_permit(id) then
      redis.pcall('PUBLISH', channel(id), 'lost ' .. id .. ' ' .. text(fence) .. ' ' .. text(s.now) .. ' broken')
    end
    if not is_pair or fence ~= base then broken = broken + 1 end
  end
end
if broken > 0 then s.fence = math.max(s.fence + 1, s.now) end
expire_grants(s)
if s.head then grant_next(s) end
save(s, tonumber(ARGV[4]), ARGV[6])
return answer(s, 'ok', 0, nil, text(broken))
