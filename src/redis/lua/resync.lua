-- Transfers waiters and holders from a broken connection to the next one.
--
-- KEYS       lock; for each of them
-- ARGV       prefix; for each of them: ids (all by which the server may know it, separated by commas), new id, fence
--            (of a holder; 0 for a waiter), lease ms, claim ms, idle ms, condition (on which it may wait; may be empty)
-- returns    {own | queued | asleep | gone, or for a holder own | lost | unknown, or foreign | wrongtype | damaged, …}
-- repeated   answers the same, if the ids of the first call are among those of the second
-- wakes      the first waiter of a queue, if its lock is free once expired leases have ended
-- complexity O(entries log waiters)
-- flags: allow-oom

-- All attempts are renamed before any lock is granted: under its former id, a waiter looks disconnected.
local function rename(key, i)
  local a = 2 + 7 * i
  local id, held, condition = ARGV[a + 1], ARGV[a + 2] ~= '0', ARGV[a + 6] ~= '' and ARGV[a + 6]
  local s = open(key, ARGV[a + 4])
  for old in string.gmatch(s and ARGV[a] or '', '[^,]+') do
    for _, key in ipairs({s.queue, condition and waiters_on(s, condition) or nil}) do
      local ticket = redis.call('ZSCORE', key, old)
      -- A server that missed the grant still has the holder in the queue. The new member is added before the former one
      -- is removed, because an empty key would lose its time to live.
      if ticket and not held then redis.call('ZADD', key, ticket, id) end
      if ticket and (held or old ~= id) then redis.call('ZREM', key, old) end
    end
  end
  -- The plan of a transaction is stored under its id. A holder needs none.
  local plan = s and take_plan(s, id)
  if plan and not held then store_plan(s, id, plan, 2) end
end
each(rename)

return each(function(key, i)
  local a = 2 + 7 * i
  local id, fence, lease, idle = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 5]
  local condition = ARGV[a + 6] ~= '' and ARGV[a + 6]
  local s, result = open(key, ARGV[a + 4])
  if s then
    expire_grant(s)
    mark_responsive(s, id)
    local held, reclaims = fence ~= '0', nil
    for old in string.gmatch(ARGV[a], '[^,]+') do
      if s.holder == old then s.holder = id end
    end
    -- A replica that has taken over may know the holder by the id of an older connection.
    local renamed = string.gsub(s.holder, '#%d+', string.match(id, '#%d+'))
    if held and s.fence == fence and (renamed == id or renamed == '?' .. id) then s.holder = renamed end
    -- The server forgot the grant, and has not granted the lock since: the holder reclaims it. If a clock that was set
    -- back led to another grant with a lower token, revoke() informs that holder. A late copy of this command does not
    -- reclaim a lock that the holder has released since.
    if held and (s.fence - fence < 0 or s.fence == fence and (s.holder == '' or s.holder == '?') and
      not redis.call('ZRANGEBYSCORE', s.done, fence, fence, 'LIMIT', 0, 1)[1]) then
      revoke(s)
      s.holder, s.fence, s.reclaimed, reclaims = id, fence, true, true
    end
    local mine = held and confirm_holder(s, id, fence)
    if mine then s.deadline = format('%d', math.max(s.deadline, s.now + lease * 1000)) end
    if s.holder == '' then grant_next(s, id) end
    save(s, lease, idle)
    -- The present state of a monitor may differ from the one that the holder has read.
    if reclaims then redis.call('HSET', s.key, 'born', format('%d', math.max(wall, fence + 1))) end
    result = (mine or not held) and answer(s, nil, id, nil, condition) or answer(s, outcome_of_grant(s, fence + 0, ''))
  end
  return result
end)
