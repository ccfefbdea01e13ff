-- Removes a waiter from the queue; if it holds units already, releases them.
--
-- KEYS       pool
-- ARGV       prefix, ids (all by which the server may know the waiter, separated by commas), lease ms, claim ms, idle
--            ms, capacity, units outside
-- returns    cancelled | foreign | missing | wrongtype
-- repeated   does nothing
-- wakes      waiters of the queue, as long as the first one fits
-- complexity O(log waiters + log holders)
-- flags: allow-oom
local s, why = open(KEYS[1], read_clock(), ARGV[4], ARGV[6], ARGV[7])
if not s then return why end
for id in string.gmatch(ARGV[2], '[^,]+') do
  local units = holding(s, id)
  if units then drop(s, id, units) else dequeue(s, id) end
end
expire_grants(s)
mark_responsive(s, string.match(ARGV[2], '[^,]*$'))
grant_next(s)
save(s, tonumber(ARGV[3]), ARGV[5])
return answer(s, 'cancelled')
