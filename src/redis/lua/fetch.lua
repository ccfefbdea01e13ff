-- Confirms a grant of a monitor, and reads the state if the message did not contain it.
--
-- KEYS       lock, state
-- ARGV       prefix, id, fence, lease ms, claim ms, idle ms
-- returns    own | lost | unknown | foreign | wrongtype; the extra is the state, see contents()
-- repeated   renews the lease again
-- wakes      the first waiter of the queue, if the lock is free once expired leases have ended
-- complexity O(fields + log waiters)
-- flags: allow-oom
local argv, call, format = ARGV, redis.call, string.format
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local key, id, fence, lease, state = KEYS[1], argv[2], argv[3], argv[4], KEYS[2]
local packed = redis.pcall('HGET', key, 'state')
if packed and not packed.err then
  local holder, current, clock, deadline, rest, expiry, claim = string.match(packed,
    '^2 (%S+) (%d+) (%d+) (%d+) ((%d+) (%d+) 0 [-w] %d+)')
  local values = holder == id and current == fence and claim == argv[5] and clock + 0 <= now and deadline + 0 > now and
    expiry + 0 >= now + (lease + argv[6] / 2) * 1000 and redis.pcall('HGETALL', state)
  if values and not values.err then
    local times = format('%d %d', now, math.max(deadline, now + lease * 1000))
    local stamp, ends = string.match(times, '^(%d+) (%d+)$')
    call('HSET', key, 'state', '2 ' .. id .. ' ' .. fence .. ' ' .. times .. ' ' .. rest)
    for i, part in ipairs(values) do values[i] = #part .. ':' .. part end
    return 'own ' .. stamp .. ' ' .. fence .. ' ' .. ends .. ' 0 0 ' .. table.concat(values)
  end
end
-- common.lua and prologue.lua stand here
if is_of_another_type(redis.pcall('HLEN', state)) then return 'wrongtype' end
local s, why = open(key, ARGV[5], now, packed)
if not s then return why end
s.state = state
expire_grant(s)
mark_responsive(s, id)
local mine = confirm_holder(s, id, fence)
if mine then s.deadline = format('%d', math.max(s.deadline, s.now + lease * 1000)) end
if s.holder == '' then grant_next(s) end
save(s, lease, ARGV[6])
return mine and answer(s, nil, id, contents(state)) or answer(s, outcome_of_grant(s, fence + 0, ''))
