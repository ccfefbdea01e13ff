-- Ends the grant of a lock for an operator, and grants the lock to the next waiter unless another client may hold it.
--
-- KEYS       lock (and the state, of a monitor)
-- ARGV       prefix, fence (of the holder; empty for any holder), channel (on which the break is published), lease ms,
--            claim ms, idle ms
-- returns    ok | foreign | wrongtype; the extra is 1 if a grant was ended
-- repeated   with a fence, does nothing; without one, ends the grant that followed
-- wakes      the first waiter of the queue, if the lock is free once expired leases have ended
-- complexity O(log waiters)
-- flags: allow-oom
local s, why = open(KEYS[1], ARGV[5])
if not s then return why end
s.state = KEYS[2]
local broken = s.holder ~= '' and (ARGV[2] == '' or ARGV[2] == s.fence)
if broken then
  -- Without permission to publish, this is an error before anything has changed.
  redis.call('PUBLISH', ARGV[3], s.key .. ' ' .. s.fence)
  -- A break with a token does not end the doubt: another client may hold the lock with a later token.
  local doubt = ARGV[2] ~= '' and string.find(s.holder, '^%?') and s.deadline - s.now > 0 and s.deadline
  revoke(s, ' broken')
  -- A disconnected holder that reconnects finds a higher token than its own, and does not reclaim the lock. A cohort
  -- has used up to 10,000 tokens without a command.
  s.fence = format('%d', doubt and s.fence + 1 or math.max(s.now, s.fence + 10000))
  if doubt then s.holder, s.deadline = '?', doubt end
end
if s.holder == '' then grant_next(s) end
save(s, ARGV[4], ARGV[6])
return answer(s, 'ok', nil, broken and '1' or '0')
