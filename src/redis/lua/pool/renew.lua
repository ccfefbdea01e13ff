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
return each_entry(9, function(s, a, is_first)
  local id, fence, lease = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 4])
  if is_first then expire_grants(s) end
  mark_responsive(s, id)
  local units, its, left, ends = holding(s, id)
  local mine = its == fence
  if mine then
    local still, outside = math.min(units, tonumber(ARGV[a + 2])), tonumber(ARGV[a + 3])
    s.deadline = math.max(ends, s.now + lease * 1000)
    if still == units and outside == left then
      redis.call('ZADD', s.holders, text(s.deadline), id)
    else
      s.held = s.held - units + still
      move(s, outside - left)
      hold(s, id, still, fence, outside, s.deadline)
    end
  end
  if s.head then grant_next(s) end
  return mine and answer(s, 'own', fence) or answer(s, outcome_of_grant(s, fence, ''))
end)
