-- Releases the units of a holder, or refuses a grant, and grants the units to waiters.
--
-- KEYS       pool
-- ARGV       prefix, ids (all by which the server may know the holder, separated by commas), fence, slot (empty: the
--            release is not remembered), lease ms, claim ms, idle ms, capacity, units outside, units that the holder
--            leaves outside (they are not available, although they have no holder. Perhaps `UNITS ID LEASE CLIENT`: a
--            permit, and the number of units that it receives)
-- returns    released | lost | unknown | foreign | missing (also if the pool is younger than the grant) | wrongtype
-- repeated   answers as the first call did, until the slot is used for another release
-- wakes      waiters of the queue, as long as the first one fits
-- complexity O(log waiters + log holders)
-- flags: allow-oom
local time = redis.call('TIME')
local wall = time[1] * 1000000 + time[2]
local key, id, slot, lease = KEYS[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local read = redis.pcall('HMGET', key, 'state', 'h ' .. id)

-- The ordinary path, see acquire.lua. The slot is known, no units are left outside, and the pool is not that of an
-- event, see merge().
local units, its = string.match(read[2] or '', '^(%d+) (%d+) 0$')
local held, fences, clock, rest, expiry, claim, skew, capacity = string.match(read[1] or '',
  '^2 (%d+) (%d+ %d+) (%d+) (%-?%d+ (%d+) (%d+) (%d+) 0 %- (%d+) .*)$')
local now = wall + (skew or 0)
if held and its == ARGV[3] and ARGV[10] == '0' and not ARGV[11] and capacity ~= '268435456' and its % 64 ~= 0 and
  claim == ARGV[6] and clock + 0 <= now and expiry + 0 >= now + (lease + ARGV[7] / 2) * 1000 then
  local holders = key .. '{holders}'
  local first = redis.call('ZRANGE', holders, 0, 0, 'WITHSCORES')
  if (first[2] or 0) + 0 > now and (first[1] == id or redis.call('ZSCORE', holders, id)) and
    redis.call('ZADD', key .. '{done}', 'XX', 'CH', its, slot) == 1 then
    redis.call('ZREM', holders, id)
    redis.call('HDEL', key, 'h ' .. id)
    local stamp = string.format('%d', now)
    redis.call('HSET', key, 'state', '2 ' .. string.format('%d', held - units) .. ' ' .. fences .. ' ' .. stamp .. ' ' .. rest)
    return 'released ' .. stamp .. ' 0 0'
  end
end

-- common.lua and prologue.lua stand here
local fence = tonumber(ARGV[3])
local s, why = open(key, wall, ARGV[6], ARGV[8], ARGV[9], read[1])
if not s then return why end
local kept, heir, span, client = string.match(ARGV[11] or '', '^(%d+) (%S+) (%d+) (.*)$')
local result
for id in string.gmatch(ARGV[2], '[^,]+') do
  local units, its, left, ends = holding(s, id)
  if its == fence then
    -- These commands come first, because they fail if the key has another type.
    if slot ~= '' then
      if fence % 64 == 0 then redis.call('ZREMRANGEBYSCORE', s.done, '-inf', s.now - memory) end
      if redis.call('ZADD', s.done, text(fence), slot) == 1 then s.noted = true end
    end
    drop(s, id, units)
    if slot == '' then s.given = math.max(s.given, fence) end
    s.ended = ends
    if heir then
      kept = math.min(kept, units)
      s.held = s.held + kept
      issue(s, heir, kept, fence, span, client)
    end
    move(s, tonumber(ARGV[10]) - left)
    result = 'released'
  end
end
local outcome = not result and outcome_of_grant(s, fence, slot)
if outcome == 'unknown' then
  -- A late resync must not reclaim the units. Without a state, save() writes nothing.
  redis.call('ZADD', s.done, text(fence), 'ended ' .. text(fence))
  extend_ttl(s.done, memory / 1000)
end
expire_grants(s)
mark_responsive(s, string.match(ARGV[2], '[^,]*$'))
if s.head then grant_next(s) end
save(s, lease, ARGV[7])
if result then return answer(s, result) end
-- A pool of a directory that is younger than the grant is another one, with the name of a former one.
return ARGV[9] == '-1' and s.born > fence and 'missing' or answer(s, outcome)
