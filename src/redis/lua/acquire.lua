-- Acquires a lock, or queues for it.
--
-- KEYS       lock (and the state, of a monitor)
-- ARGV       prefix, id, former ticket (0: none; `try`: does not queue), lease ms, claim ms, idle ms, seen fence (the
--            highest one that the session knows, of any lock)
-- returns    own | queued | busy | foreign | wrongtype. For the holder of a monitor, the extra is the state, see
--            contents()
-- repeated   adds neither a grant nor a position; reports the present one
-- wakes      the first waiter of the queue, if the lock is free once expired leases have ended
-- complexity O(log waiters + fields)
-- flags: none
local argv, call, format = ARGV, redis.call, string.format
local time = call('TIME')
local stamp = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))  -- cheaper than format()
local now = stamp + 0
local key, id, state = KEYS[1], argv[2], KEYS[2]
local packed = redis.pcall('HGET', key, 'state')
if packed and not packed.err then
  local holder, fence, clock, deadline, rest, expiry, claim, flags = string.match(packed,
    '^2 (%S+) (%d+) (%d+) (%d+) ((%d+) (%d+) 0 ([-w]) %d+)')
  if claim ~= argv[5] or clock + 0 > now or expiry + 0 < now + (argv[4] + argv[6] / 2) * 1000 then
    -- Not ordinary: the script continues below.
  elseif holder == '-' and flags == '-' and fence + 0 < now and argv[7] + 0 < now then
    local values = state and redis.pcall('HGETALL', state)
    if not (values and values.err) then
      local times = stamp .. ' ' .. stamp .. ' ' .. format('%d', now + claim * 1000)
      call('HSET', key, 'state', '2 ' .. id .. ' ' .. times .. ' ' .. rest)
      if not values then return 'own ' .. times end
      for i, part in ipairs(values) do values[i] = #part .. ':' .. part end
      return 'own ' .. times .. ' 0 0 ' .. table.concat(values)
    end
  -- The ticket follows 'UNTIL CLAIM 0 FLAG ', which has six characters beside UNTIL and CLAIM. It is cut out here,
  -- because a capture would also slow down acquires without contention.
  elseif holder ~= '-' and holder ~= id and deadline + 0 > now and argv[3] == '0' and
    string.sub(rest, #expiry + #claim + 7) + 0 < now and not (state and type(redis.pcall('HLEN', state)) == 'table') then
    local queue = key .. '{queue}'
    if redis.pcall('ZADD', queue, 'NX', stamp, id) == 1 then
      -- The queue may be new although the flag is set: a cancellation has removed the last waiter, or an operator has
      -- deleted the key.
      if flags == '-' or call('ZCARD', queue) == 1 then call('PEXPIRE', queue, math.ceil((expiry - now) / 1000)) end
      call('HSET', key, 'state', '2 ' .. holder .. ' ' .. fence .. ' ' .. stamp .. ' ' .. deadline .. ' ' .. expiry ..
        ' ' .. claim .. ' 0 w ' .. stamp)
      return 'queued ' .. stamp .. ' ' .. fence .. ' ' .. deadline .. ' ' .. stamp .. ' 0 '
    end
  end
end
-- common.lua and prologue.lua stand here
if state and is_of_another_type(redis.pcall('HLEN', state)) then return 'wrongtype' end
local s, why = open(key, ARGV[5], now, packed)
if not s then return why end
s.state = state
expire_grant(s)
mark_responsive(s, id)
if s.holder == '' and s.pending then process_pending(s) end
-- All waiters come before a try, so they are granted the lock first. Any other attempt enters the queue before the lock
-- is granted, because its former ticket may be the lowest.
if s.holder == '' and s.waiting > 0 and ARGV[3] == 'try' then grant_next(s, id) end

if s.holder == '' and s.waiting == 0 then
  grant_to(s, id, ARGV[7])
elseif s.holder ~= id and not redis.call('ZSCORE', s.queue, id) then
  if ARGV[3] == 'try' then
    save(s, ARGV[4], ARGV[6])
    return answer(s, 'busy')
  end
  enqueue(s, id, new_ticket(s, ARGV[3] + 0))
end
if s.holder == '' then grant_next(s, id, ARGV[7]) end
save(s, ARGV[4], ARGV[6])
return answer(s, nil, id, state and s.holder == id and contents(state))
