-- Renews leases, which also confirms grants. Also releases a part of the units of a holder.
--
-- KEYS       pool; for each lease
-- ARGV       prefix; for each lease: id, fence, units that are still held, units that the holder leaves
--            outside, lease ms, claim ms, idle ms, capacity, units outside
-- returns    {own | lost | unknown | foreign | missing | wrongtype | damaged, …}
-- repeated   renews again
-- wakes      waiters of a queue, as long as the first one fits
-- complexity O(leases (log waiters + log holders))
-- flags: allow-oom
local wall = read_clock()
return each(function(key, i)
  local a = 2 + 9 * i
  local id, fence, lease = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 4])
  local s, why = open(key, wall, ARGV[a + 5], ARGV[a + 7], ARGV[a + 8])
  if not s then
    return why
  else
    expire_grants(s)
    mark_responsive(s, id)
    local units, its, left, ends = holding(s, id)
    local mine = its == fence
    if mine then
      local still, outside = math.min(units, tonumber(ARGV[a + 2])), tonumber(ARGV[a + 3])
      s.held = s.held - units + still
      move(s, outside - left)
      hold(s, id, still, fence, outside, math.max(ends, s.now + lease * 1000))
    end
    if s.head then grant_next(s) end
    save(s, lease, ARGV[a + 6])
    return mine and standing(s, id, lease) or answer(s, outcome_of_grant(s, fence, ''))
  end
end)
