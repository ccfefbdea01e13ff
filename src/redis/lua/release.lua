-- Ends a grant, even one that the client did not accept, and grants the lock to the next waiter.
--
-- KEYS       lock (and the state, of a monitor)
-- ARGV       prefix, id, fence, slot (empty if the critical section failed: then the release is not remembered, and if
--            a notification led to that section, it passes to the next waiter), lease ms, claim ms, idle ms (and the
--            last fence, if a cohort has handed the lock over)
-- returns    released | lost | unknown | foreign | wrongtype
-- repeated   answers as the first call did, until the slot is used for another release
-- wakes      the first waiter of the queue
-- complexity O(log waiters)
-- flags: allow-oom
local argv, call, format = ARGV, redis.call, string.format
local time = call('TIME')
local stamp = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))  -- cheaper than format()
local now = stamp + 0
local key, id, fence, slot, state = KEYS[1], argv[2], argv[3], argv[4], KEYS[2]
local packed = redis.pcall('HGET', key, 'state')
if packed and not packed.err then
  local holder, current, clock, rest, expiry, claim, flags = string.match(packed,
    '^2 (%S+) (%d+) (%d+) %d+ ((%d+) (%d+) 0 ([-w]) %d+)')
  if holder == id and current == fence and claim == argv[6] and clock + 0 <= now and slot ~= '' and not argv[8] and
    expiry + 0 >= now + (argv[5] + argv[7] / 2) * 1000 then
    local queue, next, other, channel
    if flags == 'w' and not state and fence + 0 < now then
      queue = key .. '{queue}'
      local waiting = redis.pcall('ZRANGE', queue, '0', '1')
      next, other = waiting[1], waiting[2]
      -- A waiter that is not connected is dropped below.
      channel = next and argv[1] .. string.match(next, '^[^.]*')
    end
    if flags == '-' or channel and call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
      local done = key .. '{done}'
      -- One call in 64 forgets the releases of grants of more than an hour ago, except its own.
      if now % 64 == 0 then call('ZREMRANGEBYSCORE', done, '-inf', now - 3600000000) end
      if call('ZADD', done, fence, slot) == 1 then call('PEXPIRE', done, math.ceil((expiry - now) / 1000)) end
      if not next then
        call('HSET', key, 'state', '2 - ' .. fence .. ' ' .. stamp .. ' 0 ' .. rest)
        return 'released ' .. stamp .. ' ' .. fence .. ' 0'
      end
      local deadline = format('%d', now + claim * 1000)
      call('ZPOPMIN', queue)
      redis.pcall('PUBLISH', channel, 'grant ' .. next .. ' ' .. stamp .. ' ' .. deadline .. ' ' .. stamp)
      call('HSET', key, 'state', '2 ' .. next .. ' ' .. stamp .. ' ' .. stamp .. ' ' .. deadline .. ' ' .. expiry ..
        ' ' .. claim .. ' 0 ' .. (other and 'w ' or '- ') .. string.sub(rest, #expiry + #claim + 7))
      return 'released ' .. stamp .. ' ' .. stamp .. ' ' .. deadline
    end
  end
end
-- common.lua and prologue.lua stand here
local s, why = open(key, ARGV[6], now, packed)
if not s then return why end
s.state = state
local released = end_grant(s, id, fence, slot, ARGV[8])
if not released then end_expired(s, fence) end
mark_responsive(s, id)
if s.holder == '' then grant_next(s) end
save(s, ARGV[5], ARGV[7])
return released and answer(s, 'released') or answer(s, outcome_of_grant(s, fence + 0, slot))
