-- Lists holders and waiters of a pool. Changes nothing.
--
-- KEYS       pool
-- ARGV       prefix, sessions (the key, see self/announce.lua), limit (the maximum number of holders, and of waiters,
--            to list), capacity, units outside
-- returns    {summary, entry, …} | foreign | missing | wrongtype; see inspect.lua of a lock
-- repeated   reads again
-- wakes      nobody
-- complexity O(listed)
-- flags: allow-oom
local s, why = open(KEYS[1], read_clock(), '0', ARGV[4], ARGV[5])
if not s then return why end
local list, listed, last = {''}, 0, text(ARGV[3] - 1)
for _, id in ipairs(redis.call('ZRANGE', s.holders, 0, last)) do
  local units, fence, _, deadline = holding(s, id)
  if units then
    describe(list, id, text(units), text(fence), text(deadline))
    listed = listed + 1
  end
end
local waiters = redis.call('ZRANGE', s.queue, 0, last, 'WITHSCORES')
for i = 1, #waiters, 2 do
  local units = wanted(s, waiters[i])
  if units then describe(list, waiters[i], text(units), waiters[i + 1], '0') end
end
local available = math.max(s.capacity % special - s.outside - s.held % special, 0)
list[1] = format('%d %d %d %d %d %d %d', s.now, s.fence, redis.call('ZCARD', s.holders),
  redis.call('ZCARD', s.queue), listed, s.capacity % special, available)
return list
