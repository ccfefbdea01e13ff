-- Removes a waiter from the queue; if it holds the lock already, hands the lock over. If the waiter was notified,
-- notifies the next waiter of the condition instead.
--
-- KEYS       lock
-- ARGV       prefix, ids (all by which the server may know the waiter, separated by commas), lease ms, claim ms, idle
--            ms, condition (on which the waiter may wait; may be empty. For a transaction also slot and seen fence, as
--            for transact)
-- returns    cancelled | released (the transaction was executed; the extra is its fence) | foreign | wrongtype
-- repeated   does nothing
-- wakes      the first waiter of the queue, if the lock is free once expired leases have ended
-- complexity O(log waiters)
-- flags: allow-oom
local argv, call = ARGV, redis.call
local time = call('TIME')
local stamp = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))  -- cheaper than format()
local now = stamp + 0
local key, id = KEYS[1], argv[2]
local packed = redis.pcall('HGET', key, 'state')
if packed and not packed.err then
  local holder, fence, clock, deadline, rest, expiry, claim, ticket = string.match(packed,
    '^2 (%S+) (%d+) (%d+) (%d+) ((%d+) (%d+) 0) [-w] (%d+)')
  -- A waiter with several ids, or a transaction, may have more to remove than one element of the queue.
  if claim == argv[4] and clock + 0 <= now and deadline + 0 > now and holder ~= id and
    expiry + 0 >= now + (argv[3] + argv[5] / 2) * 1000 and not argv[7] and not string.find(id, '[,+]') then
    local queue = key .. '{queue}'
    if type(redis.pcall('ZREM', queue, id)) == 'number' then
      call('HSET', key, 'state', '2 ' .. holder .. ' ' .. fence .. ' ' .. stamp .. ' ' .. deadline .. ' ' .. rest ..
        (call('ZCARD', queue) > 0 and ' w ' or ' - ') .. ticket)
      return 'cancelled ' .. stamp .. ' ' .. fence .. ' ' .. deadline
    end
  end
end
-- common.lua and prologue.lua stand here
local s, why = open(key, ARGV[4], now, packed)
if not s then return why end
reap(s)
mark_responsive(s, string.match(ARGV[2], '[^,]*$'))
for id in string.gmatch(ARGV[2], '[^,]+') do
  s.waiting = s.waiting - redis.call('ZREM', s.queue, id)
  if ARGV[6] ~= '' then redis.call('ZREM', waiters_on(s, ARGV[6]), id) end
  take_plan(s, id)
  if s.holder == id then s.holder, s.deadline = '', '0' end
  renotify(s, id)
end
if s.holder == '' then grant_next(s) end
save(s, ARGV[3], ARGV[5])
local done = ARGV[7] and redis.call('ZSCORE', s.done, ARGV[7])
if done and done - ARGV[8] > 0 then return answer(s, 'released', nil, format('%d', done)) end
return answer(s, 'cancelled')
