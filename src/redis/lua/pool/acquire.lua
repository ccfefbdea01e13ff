-- Acquires units of a pool, or queues for them.
--
-- KEYS       pool
-- ARGV       prefix, id, mode (queue, try), ticket (hint; 0 for none), lease ms, claim ms, idle ms, capacity, units
--            outside (of a new pool), seen fence, units, whether the client accepts an existing pool with another
--            capacity (adopt, agreed, or empty)
-- returns    own | queued | busy | impossible | mismatch | foreign | missing | wrongtype. For a mismatch, the extra is
--            the capacity of the pool
-- repeated   answers as the first call did, with the same grant or the same position
-- wakes      waiters of the queue, as long as the first one fits
-- complexity O(log waiters + log holders)
-- flags: none
local time = redis.call('TIME')
local wall = time[1] * 1000000 + time[2]
local key, id, lease, units = KEYS[1], ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[11])
local packed = redis.pcall('HGET', key, 'state')

-- The ordinary path needs no function of the prologue: the units are available, no waiter and no unresponsive
-- connection is known, no grace is in force, no lease has expired, the clock has not gone back, and the keys live
-- long enough. The first writer of a shared mutex takes the other path, which notes it; so does a former waiter of a
-- directory, whose pool may be another one now. During a grace, `claim ms` is not a number.
local held, fence, clock, rest, outside, expiry, claim, skew, capacity, origin = string.match(
  type(packed) == 'string' and packed or '',
  '^2 (%d+) (%d+) %d+ (%d+) ((%d+) (%d+) (%d+) (%d+) 0 %- (%d+) (%-?%d+) .*)$')
local now = wall + (skew or 0)
if held and capacity == ARGV[8] and (ARGV[4] == '0' or ARGV[9] ~= '-1') and claim == ARGV[6] and
  clock + 0 <= now and fence + 0 < now and ARGV[10] + 0 < now and expiry + 0 >= now + (lease + ARGV[7] / 2) * 1000 then
  held, capacity = held + 0, capacity + 0
  local special, holders = 2 ^ 30, key .. '{holders}'
  if held % special + outside + units % special <= capacity % special and held + units <= capacity and
    (capacity < special or units % special < 2 or string.sub(rest, -2) == ' x') and
    (held == 0 or (redis.call('ZRANGE', holders, 0, 0, 'WITHSCORES')[2] or 0) + 0 > now) then
    local stamp, deadline = string.format('%d', now), string.format('%d', now + claim * 1000)
    if redis.call('ZADD', holders, 'NX', deadline, id) == 1 then
      if held == 0 and outside == origin then
        redis.call('PEXPIRE', holders, math.min(math.ceil((expiry - wall) / 1000), 2 ^ 53))
      end
      redis.call('HSET', key, 'h ' .. id, ARGV[11] .. ' ' .. stamp .. ' 0', 'state',
        '2 ' .. string.format('%d', held + units) .. ' ' .. stamp .. ' ' .. stamp .. ' ' .. stamp .. ' ' .. rest)
      return 'own ' .. stamp .. ' ' .. stamp .. ' ' .. deadline
    end
  end
end

-- common.lua and prologue.lua stand here
local s, why = open(key, wall, ARGV[6], ARGV[8], ARGV[9], packed)
if not s then return why end
-- A pool of a directory that is younger than the ticket is another one, with the name of a former one. There, the
-- ticket would be before those of all waiters.
if ARGV[9] == '-1' and ARGV[4] ~= '0' and ARGV[4] + 0 < s.born then return 'missing' end
-- A repetition need not agree with the capacity: the first command did.
if not agrees(s, tonumber(ARGV[8]), ARGV[12]) and not holding(s, id) and not wanted(s, id) then
  return answer(s, 'mismatch', 0, nil, text(s.capacity))
end
if not possible(s, units) then return answer(s, 'impossible') end
expire_grants(s)
mark_responsive(s, id)
local known = holding(s, id) or wanted(s, id) and redis.call('ZSCORE', s.queue, id)
-- All waiters come before a try, so they are granted their units first. If there are waiters, any other attempt enters
-- the queue before a grant, because its former ticket may be the lowest.
if s.head and ARGV[3] == 'try' then grant_next(s, id) end

if known then
  -- The attempt is queued already, or has its units.
elseif not s.head and fits(s, units) then
  grant_to(s, id, units, tonumber(ARGV[10]))
elseif ARGV[3] == 'try' then
  save(s, lease, ARGV[7])
  return answer(s, 'busy')
else
  redis.call('ZADD', s.queue, new_ticket(s, ARGV[4] + 0), id)
  redis.call('HSET', s.key, 'w ' .. id, text(units))
  if not s.head then s.new[#s.new + 1] = s.queue end
  s.head = s.head or id
end
if s.head then grant_next(s, id, tonumber(ARGV[10])) end
save(s, lease, ARGV[7])
return standing(s, id, lease)
