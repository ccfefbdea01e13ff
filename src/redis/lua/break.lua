-- Takes a lock from its holder, as an operator wants it, and hands the lock on.
--
-- KEYS       lock (and the state, of a monitor)
-- ARGV       prefix, fence (of the holder; empty: whoever holds the lock), channel (on which it is announced),
--            lease ms, claim ms, idle ms
-- returns    ok | foreign | wrongtype; the extra is 1 if somebody has lost the lock
-- repeated   with a fence, does nothing; else takes the lock from the next holder
-- wakes      the first of the queue, if nobody owns the lock now
-- complexity O(log waiters)
-- flags: allow-oom
local s, why = open(KEYS[1], ARGV[5])
if not s then return why end
s.state = KEYS[2]
local broken = s.holder ~= '' and (ARGV[2] == '' or ARGV[2] == s.fence)
if broken then
  -- If the user may not announce it, this is an error before anything has changed.
  redis.call('PUBLISH', ARGV[3], s.key .. ' ' .. s.fence)
  reap(s, true, ' broken')
  -- A holder that was not connected, and comes back, finds a later fence than its own.
  s.fence = s.fence + 0 < s.now and s.stamp or format('%d', s.fence + 1)
end
if s.holder == '' then grant_next(s) end
save(s, ARGV[4], ARGV[6])
return answer(s, 'ok', nil, broken and '1' or '0')
