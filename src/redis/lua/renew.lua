-- Renews leases, which also confirms grants.
--
-- KEYS       lock; for each lease
-- ARGV       prefix; for each lease: id, fence, lease ms, claim ms, idle ms
-- returns    {own | lost | unknown | foreign | wrongtype | damaged, …}
-- repeated   renews again
-- wakes      the first waiter of a queue, if its lock is free once expired leases have ended
-- complexity O(leases log waiters)
-- flags: allow-oom
return each(function(key, i)
  local a = 2 + 5 * i
  local id, fence, lease, idle = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 4]
  local s, why = open(key, ARGV[a + 3])
  if not s then return why end
  expire_grant(s)
  mark_responsive(s, id)
  local mine = confirm_holder(s, id, fence)
  if mine then s.deadline = format('%d', math.max(s.deadline, s.now + lease * 1000)) end
  if s.holder == '' then grant_next(s) end
  save(s, lease, idle)
  return mine and answer(s, nil, id) or answer(s, outcome_of_grant(s, fence + 0, ''))
end)
