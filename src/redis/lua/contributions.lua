-- Renews the leases of contributions to the states of monitors, or ends them.
--
-- KEYS       lock; for each contribution
-- ARGV       prefix; for each contribution: record, span ms (the new lease; 0 ends the contribution), lease ms, claim
--            ms, idle ms
-- returns    {own | lost | foreign | wrongtype | damaged, …}; the deadline is that of the contribution
-- repeated   renews again
-- wakes      the waiters of its condition, if it ends and the lock is free; the first waiter of the queue
-- complexity O(contributions log waiters)
-- flags: allow-oom
return each(function(key, i)
  local a = 2 + 5 * i
  local record, span, lease, idle = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 4]
  local s, why = open(key, ARGV[a + 3])
  if not s then return why end
  expire_grant(s)
  local ends = redis.call('ZSCORE', s.key .. '{bound}', record)
  -- An expired or ended contribution is not renewed, even if no script has undone it yet: its process was informed.
  local mine = ends and (ends + 0 > s.now or s.grace and ends ~= '2')
  if mine then
    if not s.pending then use_pending(s) end
    ends = span == '0' and '2' or format('%d', s.now + span * 1000)
    redis.call('ZADD', s.pending, ends, record)
  end
  if s.holder == '' then grant_next(s) end
  save(s, lease, idle)
  s.deadline = mine and ends or '0'
  return answer(s, mine and 'own' or 'lost')
end)
