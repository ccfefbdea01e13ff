-- Reads whether an event is set or a latch is open. If not, registers the connection for the message about it.
--
-- KEYS       gate, waiters, done
-- ARGV       prefix, channel (of the connection, without the prefix), number (of a new gate), lease ms, idle ms,
--            keep ms (for which a changed state is kept; 0 for ever)
-- returns    open | closed | foreign | wrongtype; and the generation
-- repeated   harmless
-- wakes      nobody
-- complexity O(log waiting connections)
-- flags: allow-oom
local lease = tonumber(ARGV[4])
local s, why = open(ARGV[3])
if not s then return why end
if s.number ~= 0 then register(s, ARGV[2], lease) end
if s.number ~= 0 or not s.fresh then save(s, lease, tonumber(ARGV[5]), ARGV[6]) end
return answer(s, s.number == 0 and 'open' or 'closed')
