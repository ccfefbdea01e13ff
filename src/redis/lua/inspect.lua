-- Says who holds a lock, and who waits for it. Changes nothing.
--
-- KEYS       lock
-- ARGV       prefix, sessions (the key, see self/announce.lua), limit (how many waiters are listed)
-- returns    {summary, entry, …} | foreign | wrongtype. The summary is 'now fence holders waiters listed capacity
--            available'; as many entries as listed are holders, and the others waiters. An entry is two texts:
--            'units since deadline connected', where since is a fence or a ticket; and what the session has
--            announced, or nothing
-- repeated   looks again
-- wakes      nobody
-- complexity O(listed)
-- flags: allow-oom
local s, why = open(KEYS[1], '0')
if not s then return why end
local list, holders = {''}, s.owner == '' and 0 or 1

-- No id leaves the server: who knows one could listen to its channel.
local function describe(id, since, deadline)
  local connected = redis.call('PUBSUB', 'NUMSUB', channel(id))[2]
  -- An error if the user may not read it.
  local who = redis.pcall('HGET', ARGV[2], string.match(id, '^[^#]*'))
  list[#list + 1] = format('1 %s %s %d', since, deadline, connected)
  list[#list + 1] = type(who) == 'string' and who or ''
end

if holders == 1 then
  describe((string.gsub(s.owner, '^%?', '')), s.fence, s.deadline)
end
local waiters = redis.call('ZRANGE', s.queue, 0, format('%d', ARGV[3] - 1), 'WITHSCORES')
for i = 1, #waiters, 2 do describe(waiters[i], waiters[i + 1], '0') end
list[1] = format('%s %s %d %d %d 1 %d', s.stamp, s.fence, holders, s.waiting, holders, 1 - holders)
return list
