-- Transfers waiters and holders from a broken connection to the next one.
--
-- KEYS       pool; for each waiter or holder
-- ARGV       prefix; for each waiter or holder: ids (all by which the server may know it, separated by commas), new id,
--            fence (of a holder; 0 for a waiter), units that are held, units that the holder leaves outside, lease ms,
--            claim ms, idle ms, capacity, units outside
-- returns    {for a waiter own | queued | gone; for a holder own | lost | unknown; for both foreign | missing |
--            wrongtype | damaged, …}
-- repeated   answers the same, if the ids of the first call are among those of the second
-- wakes      waiters of a queue, as long as the first one fits
-- complexity O(entries (log waiters + log holders))
-- flags: allow-oom

-- Moves everything that is stored under a former id to the new one, except another grant than the holder's present one.
-- A server that missed a grant still has the holder in the queue, so the holder's request is dropped.
local function rename(s, old, id, fence)
  local units, its, left, deadline = holding(s, old)
  local wants = wanted(s, old)
  if not units and not wants then return end
  local ticket = redis.call('ZSCORE', s.queue, old)
  dequeue(s, old)
  -- A late copy may have made two holders of one grant.
  if units and (fence == 0 or its == fence) and (old == id or not holding(s, id)) then
    drop(s, old, 0)
    hold(s, id, units, its, left, deadline)
  end
  if wants and ticket and fence == 0 then
    redis.call('ZADD', s.queue, ticket, id)
    redis.call('HSET', s.key, 'w ' .. id, text(wants))
  end
end

-- Whether a later grant of a shared mutex, which may have ended, excludes one from before its state was created: a
-- later writer excludes all others, and any later grant excludes a writer. For a semaphore, only the number of units
-- counts.
local function is_superseded(s, units)
  return has_had_writer(s) or is_exclusive(s, units)
end

-- Whether the server remembers that a grant has ended, or for an exclusive one, that it or a later one has. The score
-- of a broken grant is the time of the break, so this looks at the token in its name.
local function has_ended(s, units, fence)
  if redis.call('ZSCORE', s.done, 'broken ' .. text(fence)) then return true end
  local last = is_exclusive(s, units) and '+inf' or text(fence)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', s.done, text(fence), last, 'LIMIT', 0, at_once)) do
    local broken = string.match(name, '^broken (%d+)$')
    if not broken or broken + 0 > fence then return true end
  end
end

-- Whether a later connection has reclaimed the units: then this command is a late copy of an earlier one.
local function is_outdated(s, id, fence)
  local nonce, last, sequence = string.match(id, '^(.*#)(%d+)(.*)$')
  for i = last + 1, last + 5 do
    local _, its = holding(s, nonce .. text(i) .. sequence)
    if its == fence then return true end
  end
end

-- All attempts are renamed before any grant: under its former id, a waiter looks disconnected.
local wall, pool = read_clock(), nil
each(function(key, i)
  local a = 2 + 10 * i
  local id, fence = ARGV[a + 1], tonumber(ARGV[a + 2])
  local s = pool and pool.key == key and pool or open(key, wall, ARGV[a + 6], ARGV[a + 8], ARGV[a + 9])
  pool = s
  for old in string.gmatch(s and ARGV[a] or '', '[^,]+') do
    rename(s, old, id, fence)
  end
end)

return each_entry(10, function(s, a, is_first)
  local id, fence, units, lease = ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), tonumber(ARGV[a + 5])
  -- A key whose only element was renamed may have been recreated without a time to live.
  s.new = {s.queue, s.holders}
  if is_first or fence > 0 then expire_grants(s, fence > 0 and at_once or 0) end
  mark_responsive(s, id)
  local had, its, left, ends = holding(s, id)
  if fence == 0 and its and s.grace then
    -- The server may have forgotten that it granted these units to another client, so the waiter waits again.
    drop(s, id, had)
  elseif fence > 0 and its == fence then
    local still, outside = math.min(had, units), tonumber(ARGV[a + 4])
    s.held = s.held - had + still
    move(s, outside - left)
    hold(s, id, still, fence, outside, math.max(ends, s.now + lease * 1000))
  elseif fence > 0 and not its and (s.born <= fence or ARGV[a + 9] ~= '-1') and
    not has_ended(s, units, fence) and not is_outdated(s, id, fence) and
    (s.grace or (s.given < fence or s.born > fence and not is_superseded(s, units)) and fits(s, units)) then
    -- The server forgot the grant. The holder reclaims its units if they are available, or if only an outdated state
    -- says that others hold them. A pool of a directory that is younger than the grant is another one, with the
    -- name of a former one. A late copy of this command does not reclaim units that were released since.
    s.fence, s.held = math.max(s.fence, fence), s.held + units
    -- Others that an outdated pool does not know may reclaim their units after this holder, but not after a writer.
    if is_exclusive(s, units) then s.given = math.max(s.given, fence) end
    hold(s, id, units, fence, tonumber(ARGV[a + 4]), s.now + lease * 1000)
    note_deadline(s, s.now + lease * 1000)
  end
  grant_next(s, id)
  if fence > 0 then had, its = holding(s, id) end
  if fence > 0 and its ~= fence then return answer(s, outcome_of_grant(s, fence, '')) end
  return standing(s, id, lease)
end)
