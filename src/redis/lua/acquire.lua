-- Acquires a lock, or queues for it.
--
-- KEYS       lock, queue, done (and the state, of a monitor)
-- ARGV       prefix, id, mode (queue, try), ticket (hint, 0: none), lease ms, claim ms, idle ms, seen fence,
--            grace (a time: until then a lock without memory is kept for who may have held it)
-- returns    own | queued | busy | foreign | wrongtype; of a new waiter, the extra is its position, and of
--            the owner of a monitor the state, see contents()
-- repeated   answers what the first call did: the same grant, the same place
-- wakes      the first of the queue, if nobody owned the lock
-- complexity O(log waiters + fields)
-- flags: none
local id, state = ARGV[2], KEYS[4]
if state and type(redis.pcall('HLEN', state)) == 'table' then return 'wrongtype' end
local s, why = open(1, ARGV[6])
if not s then return why end
s.state = state
reap(s)
if s.fresh and s.now < ARGV[9] + 0 then s.owner, s.deadline, s.leased = '?', ARGV[9], true end
-- An operator may have deleted the lock, and what it knows of its contributions.
if s.fresh and state and redis.call('EXISTS', s.key .. '{bound}') == 1 then bind(s) end
if s.owner == '' and s.bound then lapse(s) end
-- Who waits may come in front of all others: it enters the queue before anybody is granted the lock.
if s.owner == '' and s.waiting > 0 and ARGV[3] == 'try' then grant(s, id) end

local position
if s.owner == '' and s.waiting == 0 then
  own(s, id, ARGV[8])
elseif s.owner ~= id and not redis.call('ZSCORE', s.queue, id) then
  if ARGV[3] == 'try' then
    save(s, ARGV[5], ARGV[7])
    return answer(s, 'busy')
  end
  position = s.waiting
  enqueue(s, id, ticket(s, ARGV[4] + 0))
end
if s.owner == '' then grant(s, id) end
save(s, ARGV[5], ARGV[7])
return answer(s, nil, id, state and s.owner == id and contents(state) or position)
