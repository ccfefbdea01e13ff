-- Sets or resets an event, counts arrivals at a latch, or reads how things stand.
--
-- KEYS       gate, waiters, done
-- ARGV       prefix, what (set, reset, arrive, read), arrivals (of arrive), name (of the call; of read, empty),
--            name of a call that nobody repeats any more (may be empty), channel (who waits afterwards; may be
--            empty), number (of a new gate), lease ms, idle ms, keep ms (of a state that was changed; 0: for ever)
-- returns    open | closed (how it is then) | excess | foreign | wrongtype; and the generation
-- repeated   changes nothing for an hour, and answers how things stand
-- wakes      all who wait, if it opens
-- complexity O(log calls that are remembered), O(connections that wait) if it opens
-- flags: allow-oom
local what, arrivals, name, lease = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[8])
local s, why = open(ARGV[7])
if not s then return why end
if what ~= 'read' and not redis.call('ZSCORE', KEYS[3], name) then
  if what == 'arrive' and arrivals > s.number then return answer(s, 'excess') end
  local before = s.number
  if what == 'arrive' then s.number = before - arrivals else s.number = what == 'set' and 0 or 1 end
  if s.number == 0 and before ~= 0 then release_waiters(s) end
  remember(s, name, ARGV[5])
end
if ARGV[6] ~= '' and s.number ~= 0 then register(s, ARGV[6], lease) end
if what ~= 'read' or not s.fresh then save(s, lease, tonumber(ARGV[9]), ARGV[10]) end
return answer(s, s.number == 0 and 'open' or 'closed')
