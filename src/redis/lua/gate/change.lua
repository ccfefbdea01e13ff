-- Sets or resets an event, counts arrivals at a latch, or reads the state of either. Unless the gate is open then,
-- registers the connection for the message that opens it.
--
-- KEYS       gate, waiters, done
-- ARGV       prefix, what (set, reset, arrive; read and wait change nothing), arrivals (for arrive), name (of the call;
--            empty for read and wait), name of a call that will not be repeated (may be empty), channel (of a
--            connection that waits, without the prefix; may be empty), number (of a new gate), lease ms, idle ms, keep
--            ms (for which a changed state is kept; 0 for ever)
-- returns    open | closed (the state afterwards) | excess | foreign | wrongtype; and the generation
-- repeated   within an hour, changes nothing and answers with the present state
-- wakes      all waiters, if the gate opens
-- complexity O(log remembered calls + log waiting connections); O(waiting connections), if the gate opens
-- flags: allow-oom
local what, arrivals, name, lease = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[8])
local s, why = open(ARGV[7])
if not s then return why end
forget(ARGV[5])
if name ~= '' and not redis.call('ZSCORE', KEYS[3], name) then
  if what == 'arrive' and arrivals > s.number then return answer(s, 'excess') end
  local before = s.number
  if what == 'arrive' then s.number = before - arrivals else s.number = what == 'set' and 0 or 1 end
  if s.number == 0 and before ~= 0 then release_waiters(s) end
  remember(s, name)
end
local waits = ARGV[6] ~= '' and s.number ~= 0
if waits then register(s, ARGV[6], lease) end
if waits or name ~= '' or not s.fresh then save(s, lease, tonumber(ARGV[9]), ARGV[10]) end
return answer(s, s.number == 0 and 'open' or 'closed')
