-- Removes a waiter from the queue; if it holds the lock already, hands the lock over. If the waiter was notified,
-- notifies the next waiter of the condition instead.
--
-- KEYS       lock
-- ARGV       prefix, ids (all by which the server may know the waiter, separated by commas), lease ms, claim ms, idle
--            ms, condition (on which the waiter may wait; may be empty. For a transaction also slot and seen fence, as
--            for transact)
-- returns    cancelled (without a time, if only the queue was looked at) | released (the transaction was executed; the
--            extra is its fence) | foreign | wrongtype
-- repeated   does nothing
-- wakes      the first waiter of the queue, if the lock is free once expired leases have ended; nobody, if only the
--            queue was looked at
-- complexity O(log waiters)
-- flags: allow-oom
local ids, condition = ARGV[2], ARGV[6]

-- A waiter in the queue with one id, without a condition or a transaction, is removed from the queue alone: the server
-- stores nothing else about it. With several ids, the argument contains commas and is no element of the queue.
if condition == '' and not string.find(ids, '+', 1, true) and
  redis.pcall('ZREM', KEYS[1] .. '{queue}', ids) == 1 then
  return 'cancelled 0 0 0'
end
-- common.lua and prologue.lua stand here
local s, why = open(KEYS[1], ARGV[4])
if not s then return why end
expire_grant(s)
mark_responsive(s, string.match(ids, '[^,]*$'))
for id in string.gmatch(ids, '[^,]+') do
  s.waiting = s.waiting - redis.call('ZREM', s.queue, id)
  if condition ~= '' then redis.call('ZREM', waiters_on(s, condition), id) end
  take_plan(s, id)
  -- A late resync then finds a higher fence than its own.
  if s.holder == id then s.holder, s.deadline, s.fence = '', '0', format('%d', s.fence + 1) end
  renotify(s, id)
end
if s.holder == '' then grant_next(s) end
save(s, ARGV[3], ARGV[5])
local done = ARGV[7] and redis.call('ZSCORE', s.done, ARGV[7])
if done and done - ARGV[8] > 0 then return answer(s, 'released', nil, format('%d', done)) end
return answer(s, 'cancelled')
