-- Pauses or resumes the queue, limits its rate, retries a dead letter, or removes jobs. `leave` replaces a session that
-- ends: others learn when something is due.
--
-- KEYS       queue
-- ARGV       prefix, what (pause, resume, limit, retry, drain, purge, leave), number (starts; job id; otherwise 0), period ms
-- returns    ok NOW NUMBER (of removed jobs) and 1 if the client has to repeat the call, otherwise 0 | missing NOW 0
--            (there is no such dead letter) | foreign
-- repeated   acts again, perhaps after a later call. So a client does not repeat it
-- wakes      waiting workers, if jobs can be started; after `leave`, some learn when something is due
-- complexity O(log jobs); up to 256 jobs are removed
-- flags: allow-oom
local what, number = ARGV[2], ARGV[3]
local most = 256  -- how many jobs a call removes; 512 would take more than a millisecond

-- Removes the jobs of these entries, which may begin with a level.
local function remove_all(entries, first)
  local has_deduplication_ids = redis.call('HLEN', key .. '{names}') > 0
  for _, each in ipairs(entries) do remove_job(string.match(each, '^%d+', first), has_deduplication_ids, true) end
  return #entries
end

do_what_is_due()
local removed = 0
if what == 'pause' or what == 'resume' or what == 'limit' then
  if not paused then paused, rate, period, started, ends = '0', 0, 0, 0, 0 end
  -- Larger numbers cannot be stored.
  if what == 'limit' then rate, period, started = math.min(number + 0, 2 ^ 53), ARGV[4], 0
  else paused = what == 'pause' and '1' or '0' end
  if paused == '0' and rate == 0 then paused, limits = nil, '-' end
elseif what == 'retry' then
  local entry = redis.call('ZRANGEBYSCORE', key .. '{dead}', number, number, 'LIMIT', 0, 1)[1]
  local record = entry and redis.call('HGET', key .. '{jobs}', number)
  if not record then return answer('missing', 0) .. serve() end
  local level = options_of(record)
  redis.call('HDEL', key .. '{notes}', number)
  redis.call('ZREM', key .. '{dead}', entry)
  make_ready('RPUSH', level, number)
elseif what == 'leave' then
  informed = 0
elseif what == 'purge' then
  local dead = redis.call('ZRANGE', key .. '{dead}', 0, most - 1)
  for _, each in ipairs(dead) do redis.call('ZREM', key .. '{dead}', each) end
  removed = remove_all(dead, 1)
else
  for level = 1, 3 do
    local list = ready[level] > 0 and removed < most and
      redis.call('LPOP', key .. '{ready}' .. level, most - removed)
    if list then
      removed = removed + remove_all(list, 1)
      ready[level] = redis.call('LLEN', key .. '{ready}' .. level)
    end
  end
  if removed < most then
    local list = redis.call('ZRANGE', key .. '{delayed}', 0, most - removed - 1)
    for _, each in ipairs(list) do redis.call('ZREM', key .. '{delayed}', each) end
    removed = removed + remove_all(list, 2)
  end
end
return answer('ok', removed) .. (removed == most and ' 1' or ' 0') .. serve()
