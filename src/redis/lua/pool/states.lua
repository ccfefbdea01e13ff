-- Reports the numbers of pools of a directory.
--
-- KEYS       pool; for each pool to report
-- ARGV       prefix, lease ms, claim ms, idle ms, capacity
-- returns    {ok | missing | foreign | wrongtype | damaged, …}; see conclude()
-- repeated   reads again
-- wakes      waiters of a queue, as long as the first one fits
-- complexity O(pools (log waiters + log holders))
-- flags: allow-oom
local wall = read_clock()
return each(function(key)
  local s, why = open(key, wall, ARGV[3], ARGV[5], '-1')
  if not s then return why end
  s.reads = true
  expire_grants(s)
  return conclude(s, 'ok')
end)
