-- Lists the permits of a pool of a directory, and its waiters for units.
--
-- KEYS       pool
-- ARGV       prefix, lease ms, claim ms, idle ms, capacity, sessions (the key, see self/announce.lua), limit (how many
--            permits and how many waiters are listed)
-- returns    {ok (see conclude()), time and number of listed permits, entry, …} | missing | foreign | wrongtype. The
--            entry of a permit is its units, its fence, the end of its lease, its lease ms, and its client. A waiter
--            has two entries: its units and its ticket, and its session
-- repeated   reads again
-- wakes      waiters of the queue, as long as the first one fits
-- complexity O(listed log holders)
-- flags: allow-oom
local s, why = open(KEYS[1], read_clock(), ARGV[3], ARGV[5], '-1')
if not s then return why end
s.reads = true
expire_grants(s)
local list, last = {conclude(s, 'ok'), ''}, text(ARGV[7] - 1)
-- The index -1 is that of the last permit.
if last == '-1' then return {list[1], format('%d 0', s.now)} end
for _, id in ipairs(redis.call('ZRANGE', s.permits, 0, last)) do
  local units, fence, _, deadline, lease, client = holding(s, id)
  if lease then list[#list + 1] = format('%d %d %d %d ', units, fence, deadline, lease) .. client end
end
list[2] = format('%d %d', s.now, #list - 2)
local waiters = redis.call('ZRANGE', s.queue, 0, last, 'WITHSCORES')
for i = 1, #waiters, 2 do
  local units, who = wanted(s, waiters[i]), redis.pcall('HGET', ARGV[6], string.match(waiters[i], '^[^#]*'))
  if units then
    list[#list + 1] = format('%d %d', units, waiters[i + 1])
    list[#list + 1] = type(who) == 'string' and who or ''
  end
end
return list
