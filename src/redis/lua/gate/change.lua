-- Sets or resets an event, counts arrivals at a latch, or reads the state of either. Unless the gate is open then,
-- registers the connection for the message that opens it.
--
-- KEYS       gate, waiters, done
-- ARGV       prefix, what (set, reset, arrive; read and wait change nothing), channel (of a connection that waits,
--            without the prefix; may be empty), number (of a new gate), lease ms, idle ms, keep ms (for which a changed
--            state is kept; 0 for ever). Unless nothing changes, also: name (of the call), name of a call that will not
--            be repeated (may be empty), arrivals (for arrive)
-- returns    open | closed (the state afterwards) | excess | foreign | wrongtype; and the generation
-- repeated   within an hour, changes nothing and answers with the present state
-- wakes      all waiters, if the gate opens
-- complexity O(log remembered calls + log waiting connections); O(waiting connections), if the gate opens
-- flags: allow-oom
local what, lease, name = ARGV[2], ARGV[5], ARGV[8] or ''
local s, why = open(ARGV[4])
if not s then return why end
if name ~= '' and ARGV[9] ~= '' then redis.call('ZREM', KEYS[3], ARGV[9]) end
if name ~= '' and not redis.call('ZSCORE', KEYS[3], name) then
  local before, arrivals = s.number, tonumber(ARGV[10])
  if what == 'arrive' and arrivals > before then return 'excess ' .. text(s.generation) end
  if what == 'arrive' then s.number = before - arrivals else s.number = what == 'set' and 0 or 1 end
  if s.number == 0 and before ~= 0 then release_waiters(s) end
  remember(s, name)
end
local waits = ARGV[3] ~= '' and s.number ~= 0
if waits then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(s.now))
  redis.call('ZADD', KEYS[2], text(s.now + 3000 * lease), ARGV[3])
end
if waits or name ~= '' or not s.fresh then save(s, lease, ARGV[6], ARGV[7]) end
return (s.number == 0 and 'open ' or 'closed ') .. text(s.generation)
