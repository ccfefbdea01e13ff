-- Takes a waiter out of the queue; if it owns the lock already, hands the lock on. If it was signalled, the
-- next sleeper is.
--
-- KEYS       lock
-- ARGV       prefix, ids (all that the waiter may be known by, with commas), lease ms, claim ms, idle ms,
--            condition (that it may sleep on, or empty; and of a transaction, slot and seen fence, as of transact)
-- returns    cancelled | released (it was carried out; the extra is its fence) | foreign | wrongtype
-- repeated   does nothing
-- wakes      the first of the queue, if nobody owns the lock now
-- complexity O(log waiters)
-- flags: allow-oom
local s, why = open(KEYS[1], ARGV[4])
if not s then return why end
reap(s)
speak(s, string.match(ARGV[2], '[^,]*$'))
for id in string.gmatch(ARGV[2], '[^,]+') do
  s.waiting = s.waiting - redis.call('ZREM', s.queue, id)
  if ARGV[6] ~= '' then redis.call('ZREM', sleepers(s, ARGV[6]), id) end
  plan_of(s, id)
  if s.owner == id then s.owner, s.deadline = '', '0' end
  pass_on(s, id)
end
if s.owner == '' then grant(s) end
save(s, ARGV[3], ARGV[5])
local done = ARGV[7] and redis.call('ZSCORE', s.done, ARGV[7])
if done and done - ARGV[8] > 0 then return answer(s, 'released', nil, format('%d', done)) end
return answer(s, 'cancelled')
