-- Takes waiters and holders of a connection that broke over to the next one.
--
-- KEYS       pool, queue, done, holders, units; for each of them
-- ARGV       prefix; for each of them: ids (all that it may be known by, with commas), new id, fence (of a
--            holder; 0: a waiter), units that are held, units that the holder leaves outside, lease ms,
--            claim ms, idle ms, capacity, units outside
-- returns    {own | queued | gone, or of a holder own | lost | unknown, or foreign | wrongtype, …}
-- repeated   answers the same, if the ids of the first call are among the ids of the second
-- wakes      the first of a queue, as long as it fits
-- complexity O(entries (log waiters + log holders))
-- flags: allow-oom

-- Lets all that is known of an old id be known of the new one. A holder waits no more: it does in the
-- memory of a server that missed its grant.
local function rename(s, old, id, held)
  local entry, ticket = redis.call('HGET', s.units, old), redis.call('ZSCORE', s.queue, old)
  local deadline = redis.call('ZSCORE', s.holders, old)
  leave(s, old)
  redis.call('ZREM', s.holders, old)
  if deadline then redis.call('ZADD', s.holders, deadline, id) end
  if ticket and not held then redis.call('ZADD', s.queue, ticket, id) end
  if deadline or ticket and not held then redis.call('HSET', s.units, id, entry) end
end

-- All of them before anybody is granted anything: under its old id, who waits looks dead.
local renamed = {}
for i = 0, #KEYS / 5 - 1 do
  local a = 2 + 10 * i
  local id, fence = ARGV[a + 1], tonumber(ARGV[a + 2])
  local s = open(1 + 5 * i, ARGV[a + 6], ARGV[a + 8], ARGV[a + 9])
  for old in string.gmatch(s and ARGV[a] or '', '[^,]+') do
    if redis.call('HEXISTS', s.units, old) == 1 then
      rename(s, old, id, fence > 0)
      renamed[i] = true
    end
  end
end

local answers = {}
for i = 0, #KEYS / 5 - 1 do
  local a = 2 + 10 * i
  local id, fence, units, lease = ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), tonumber(ARGV[a + 5])
  local s, why = open(1 + 5 * i, ARGV[a + 6], ARGV[a + 8], ARGV[a + 9])
  if not s then
    answers[i + 1] = why
  else
    s.added = renamed[i]
    reap(s)
    local had, its, left, ends = holding(s, id)
    if fence > 0 and its == fence then
      local still, outside = math.min(had, units), tonumber(ARGV[a + 4])
      s.held = s.held - had + still
      move(s, outside - left)
      hold(s, id, still, fence, outside, math.max(ends, s.now + lease * 1000))
    elseif fence > 0 and not its and (s.born > fence or s.given < fence) and fits(s, units) then
      -- The server forgot, and the units are there: the holder holds them on.
      s.fence, s.given, s.held = math.max(s.fence, fence), math.max(s.given, fence), s.held + units
      s.added = true
      hold(s, id, units, fence, tonumber(ARGV[a + 4]), s.now + lease * 1000)
    end
    grant(s, id)
    save(s, lease, ARGV[a + 7])
    had, its = holding(s, id)
    if fence > 0 and its ~= fence then
      answers[i + 1] = ended(s, fence, '')
    else
      answers[i + 1] = standing(s, id, lease)
    end
  end
end
return answers
