-- Lists the holder of a lock and its waiters. Changes nothing.
--
-- KEYS       lock
-- ARGV       prefix, sessions (the key, see self/announce.lua), limit (the maximum number of waiters to list)
-- returns    {summary, entry, …} | foreign | wrongtype. The summary is 'now fence holders waiters listed capacity
--            available'. The first `listed` entries are holders, the others waiters. An entry is two texts: 'units
--            since deadline connected', where since is a fence or a ticket; and the announced identity of the session,
--            or empty
-- repeated   reads again
-- wakes      nobody
-- complexity O(listed)
-- flags: allow-oom
local s, why = open(KEYS[1], '0')
if not s then return why end
local list, holders = {''}, s.holder == '' and 0 or 1
if holders == 1 then
  describe(list, (string.gsub(s.holder, '^%?', '')), '1', s.fence, s.deadline)
end
local waiters = redis.call('ZRANGE', s.queue, 0, format('%d', ARGV[3] - 1), 'WITHSCORES')
for i = 1, #waiters, 2 do describe(list, waiters[i], '1', waiters[i + 1], '0') end
list[1] = format('%s %s %d %d %d 1 %d', s.stamp, s.fence, holders, s.waiting, holders, 1 - holders)
return list
