-- Takes waiters and holders of a connection that broke over to the next one.
--
-- KEYS       lock; for each of them
-- ARGV       prefix; for each of them: ids (all that it may be known by, with commas), new id, fence (of a
--            holder; 0: a waiter), lease ms, claim ms, idle ms, condition (that it may sleep on, or empty)
-- returns    {own | queued | asleep | gone, or of a holder own | lost | unknown, or foreign | wrongtype | damaged, …}
-- repeated   answers the same, if the ids of the first call are among the ids of the second
-- wakes      the first of a queue, if nobody owns its lock
-- complexity O(entries log waiters)
-- flags: allow-oom

-- All of them before any lock is granted: under its old id, a waiter looks dead.
local function rename(key, i)
  local a = 2 + 7 * i
  local id, held, condition = ARGV[a + 1], ARGV[a + 2] ~= '0', ARGV[a + 6] ~= '' and ARGV[a + 6]
  local s = open(key, ARGV[a + 4])
  for old in string.gmatch(s and ARGV[a] or '', '[^,]+') do
    for _, key in ipairs({s.queue, condition and waiters_on(s, condition) or nil}) do
      local ticket = redis.call('ZSCORE', key, old)
      -- A holder waits no more: it does in the memory of a server that missed its grant. A key whose only member was
      -- taken out first would lose its end.
      if ticket and not held then redis.call('ZADD', key, ticket, id) end
      if ticket and (held or old ~= id) then redis.call('ZREM', key, old) end
    end
  end
  -- What a transaction wants is known by whom it waits as; and no more of a holder.
  local plan = s and plan_of(s, id)
  if plan and not held then plan_of(s, id, plan, 2) end
end
each(rename)

return each(function(key, i)
  local a = 2 + 7 * i
  local id, fence, lease, idle = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 5]
  local condition = ARGV[a + 6] ~= '' and ARGV[a + 6]
  local s, result = open(key, ARGV[a + 4])
  if s then
    reap(s)
    mark_responsive(s, id)
    local held, reclaims = fence ~= '0', nil
    for old in string.gmatch(ARGV[a], '[^,]+') do
      if s.holder == old then s.holder = id end
    end
    -- In an outdated state, it may have the id of an older connection.
    if held and s.fence == fence and string.find(s.holder, '^%?.') then s.holder = '?' .. id end
    -- The server forgot, and nobody was granted the lock since: the holder holds it on. If somebody was, by
    -- a clock that was set back, it is told.
    if held and (s.fence - fence < 0 or s.fence == fence and (s.holder == '' or s.holder == '?')) then
      reap(s, true)
      s.holder, s.fence, s.reclaimed, reclaims = id, fence, true, true
    end
    local mine = held and holds(s, id, fence)
    if mine then s.deadline = format('%d', math.max(s.deadline, s.now + lease * 1000)) end
    if s.holder == '' then grant_next(s, id) end
    save(s, lease, idle)
    -- What is known of a monitor's state may be older than what the holder has read, or newer.
    if reclaims then redis.call('HSET', s.key, 'born', format('%d', math.max(wall, fence + 1))) end
    result = (mine or not held) and answer(s, nil, id, nil, condition) or answer(s, ended(s, fence + 0, ''))
  end
  return result
end)
