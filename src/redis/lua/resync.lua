-- Transfers waiters and holders from a broken connection to the next one.
--
-- KEYS       lock; for each of them
-- ARGV       prefix; for each of them: ids (all by which the server may know it, separated by commas), new id, fence
--            (of a holder; 0 for a waiter), lease ms, claim ms, idle ms, condition (on which it may wait; may be empty)
-- returns    {own | queued | asleep | gone, or for a holder own | lost | unknown, or foreign | wrongtype | damaged, …};
--            with a condition, the extra is 1 if the waiter has no notification
-- repeated   answers the same, if the ids of the first call are among those of the second
-- wakes      the first waiter of a queue, if its lock is free once expired leases have ended
-- complexity O(entries log waiters)
-- flags: allow-oom

-- First, all waiters get their new ids: under a former id, a waiter looks disconnected. Only then are locks granted.
local function rename(key, i)
  local ids, id, fence, _, claim, _, condition = unpack(ARGV, 2 + 7 * i, 8 + 7 * i)
  local s = open(key, claim)
  if not s then return end
  for old in string.gmatch(ids, '[^,]+') do
    for _, waiters in ipairs({s.queue, condition ~= '' and waiters_on(s, condition) or nil}) do
      local ticket = redis.call('ZSCORE', waiters, old)
      -- The new member is added before the former one is removed, because an empty key would lose its time to live. A
      -- server that missed a grant still has the holder in the queue.
      if ticket and fence == '0' then redis.call('ZADD', waiters, ticket, id) end
      if ticket and (fence ~= '0' or old ~= id) then redis.call('ZREM', waiters, old) end
    end
  end
  -- The plan of a transaction is stored under its id. A holder needs none.
  local plan = take_plan(s, id)
  if plan and fence == '0' then store_plan(s, id, plan, 2) end
end
each(rename)

return each(function(key, i)
  local ids, id, fence, lease, claim, idle, condition = unpack(ARGV, 2 + 7 * i, 8 + 7 * i)
  local s, why = open(key, claim)
  if not s then return why end
  expire_grant(s)
  mark_responsive(s, id)
  local mine, reclaims
  if fence == '0' then
    -- The waiter may have been granted the lock meanwhile.
    for old in string.gmatch(ids, '[^,]+') do
      if s.holder == old then s.holder = id end
    end
  else
    -- A replica that has taken over may know the holder by an older id than the client lists.
    local renamed = string.gsub(s.holder, '#%d+', string.match(id, '#%d+'))
    local known = s.fence == fence and (renamed == id or renamed == '?' .. id)
    -- A late copy of this command names an older connection than the holder's present one.
    if known and string.match(s.holder, '#(%d+)') - string.match(id, '#(%d+)') < 0 then s.holder = renamed end
    -- The server forgot the grant, and has not granted the lock since: the holder reclaims it. If a clock that was set
    -- back led to another grant with a lower token, revoke() informs that holder. A late copy of this command does not
    -- reclaim a lock that the holder has released since.
    if (s.fence - fence < 0 or s.fence == fence and (s.holder == '' or s.holder == '?')) and
      not redis.call('ZRANGEBYSCORE', s.done, fence, fence, 'LIMIT', 0, 1)[1] then
      revoke(s)
      s.holder, s.fence, s.reclaimed, reclaims = id, fence, true, true
    end
    mine = confirm_holder(s, id, fence)
    if mine then s.deadline = format('%d', math.max(s.deadline, s.now + lease * 1000)) end
  end
  if s.holder == '' then grant_next(s, id) end
  save(s, lease, idle)
  -- The present state of a monitor may differ from the one that the holder has read.
  if reclaims then redis.call('HSET', s.key, 'born', format('%d', math.max(wall, fence + 1))) end
  if fence ~= '0' and not mine then return answer(s, outcome_of_grant(s, fence + 0, '')) end
  local unnotified = condition ~= '' and redis.call('HEXISTS', s.key, mark_field(id)) == 0
  return answer(s, nil, id, unnotified and 1 or nil, condition ~= '' and condition)
end)
