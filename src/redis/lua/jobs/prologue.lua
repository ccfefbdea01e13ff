-- The functions for the scripts of job queues. This text follows common.lua.
--
-- A queue declares one key. The names of its other keys are that name and a suffix:
--   (none)      hash: `state`, see below
--   {jobs}      hash: the record of each job, by its id
--   {ready}N    list: the entries of the jobs of level N that can be started; 1 is the highest level
--   {delayed}   sorted set: levels and entries of the jobs that wait for their delay or back-off, by its end
--   {active}    sorted set: the attempts, by the ends of their leases
--   {dead}      sorted set: the entries of the dead letters, by their ids
--   {idle}      sorted set: the waiting workers, by ticket
--   {names}     hash: by deduplication id, its job and the end of its window: `ID END`; then ` done` if the job ended
--   {windows}   sorted set: the deduplication ids of jobs that have ended, by the ends of their windows
--   {notes}     hash: the last error text of a job, by its id; its progress, by `p` and its id
--   {lost}      sorted set: the losses, by their times
--
-- state    1 LAST SKEW TURN HIGH NORMAL LOW PARKED DUE INFORMED LIMITS. LAST is the newest id, token or ticket. The
--          queue's clock never shows less, and is ahead of the server's by SKEW. TURN counts starts, up to 16. HIGH,
--          NORMAL and LOW are the numbers of ready jobs, and PARKED that of waiting workers. Nothing is due before DUE;
--          0: nothing at all. Sessions of some waiting workers know the time INFORMED, and ask then. LIMITS is `-`, or
--          PAUSED,STARTS,PERIOD ms,STARTED,END of the period.
-- entry    ID; or for a job that was started before, ID COUNT FAILURE. COUNT is the number of its attempts; FAILURE is
--          f (failed), a (abandoned), t (timed out)
-- record   LEVEL, or LEVEL,ATTEMPTS,FIRST,MOST,TIMEOUT,SIZE, see options_of() (times in ms); then a space, the
--          deduplication id of SIZE bytes, and the payload
-- attempt  ID TOKEN COUNT FLAGS LIMIT WORKER. COUNT is its number among the attempts of the job. FLAGS are two
--          characters: the last failure, or `-`; and `n` if there is a deduplication id, or `-`. LIMIT is the end of
--          the time limit, or 0.
-- loss     ID TOKEN of an attempt
-- worker   nonce#incarnation.sequence/LEASE ms; the name of a waiting worker, and of the worker of an attempt
--
-- ARGV[1] is the prefix of the wake channels. Times are in microseconds, durations in ARGV in milliseconds. Invariant
-- after each script: no worker waits if a job can be started, unless DUE has passed; then the next script continues.
local key = KEYS[1]
local looks_at = 64  -- how many elements of each kind a call looks at
local small = 4096  -- the largest record that a message contains
local kept = redis.call('HGET', key, 'state')
local stored = kept or '1 0 0 0 0 0 0 0 0 0 -'
if string.sub(stored, 1, 2) ~= '1 ' then return 'foreign' end
-- A job would be lost if the server refused a command that moves it. So a script does nothing if its user lacks a
-- permission.
for _, command in ipairs({'hdel', 'hexists', 'hlen', 'hset', 'llen', 'lpop', 'lpush', 'publish', 'rpush', 'zadd', 'zcard',
  'zpopmin', 'zrange', 'zrangebyscore', 'zrem', 'zremrangebyscore', 'zscore', 'pubsub'}) do
  local subject = command == 'publish' and ARGV[1] or command == 'pubsub' and 'numsub' or key
  if not redis.acl_check_cmd(command, subject) then
    return redis.error_reply("NOPERM this user has no permissions to run the '" .. command .. "' command")
  end
end
local last, skew, turn, high, normal, low, parked, due, informed, limits = string.match(stored,
  '^1 (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
last, skew, turn, parked, due, informed = last + 0, skew + 0, turn + 0, parked + 0, due + 0, informed + 0
local ready = {high + 0, normal + 0, low + 0}
local paused, rate, period, started, ends
if limits ~= '-' then
  paused, rate, period, started, ends = string.match(limits, '^(%d),(%d+),(%d+),(%d+),(%d+)$')
  rate, started, ends = rate + 0, started + 0, ends + 0
end
local now = read_clock() + skew
if now < last then skew, now = skew + last - now, last end
-- Without a state, the queue is new; or its state was damaged and somebody has deleted it, but not the jobs.
if not kept then
  for level = 1, 3 do ready[level] = redis.call('LLEN', key .. '{ready}' .. level) end
  parked, due = redis.call('ZCARD', key .. '{idle}'), now
end

local function save()
  if paused then limits = format('%d,%d,%d,%d,%d', paused, rate, period, started, ends) end
  redis.call('HSET', key, 'state', format('1 %d %d %d %d %d %d %d %d %d %s', last, skew, turn, ready[1], ready[2],
    ready[3], parked, due, informed, limits))
end

-- Returns a number that is higher than all earlier ones.
local function new_number()
  last = now > last and now or last + 1
  return last
end

-- Something is due at this time.
local function mark_due(time)
  if due == 0 or time < due then due = time end
end

-- Adds an entry to a list of ready jobs.
local function make_ready(command, level, entry)
  redis.call(command, key .. '{ready}' .. level, entry)
  ready[level + 0] = ready[level + 0] + 1
end

-- Whether a job may be started now.
local function can_start()
  if ready[1] + ready[2] + ready[3] == 0 then return false end
  if not paused then return true end
  if paused == '1' then return false end
  if started > 0 and ends <= now then started = 0 end
  if started < rate then return true end
  mark_due(ends)
  return false
end

-- Returns the options of a record: level, attempts, first and longest back-off, time limit, deduplication id.
local function options_of(record)
  local level, most, first, cap, timeout, size, at = string.match(record, '^(%d),(%d+),(%d+),(%d+),(%d+),(%d+) ()')
  if not level then return string.sub(record, 1, 1), 5, 1000, 60000, 0, '' end
  return level, most + 0, first + 0, cap + 0, timeout + 0, string.sub(record, at, at + size - 1)
end

-- Removes the next entry from the lists, and returns it and its level. Of 16 starts, one prefers the lowest level and
-- three the middle one.
local function take_entry()
  for _ = 1, 3 do
    local level = turn == 15 and 3 or turn % 4 == 3 and 2 or 1
    if ready[level] == 0 then level = ready[1] > 0 and 1 or ready[2] > 0 and 2 or 3 end
    local entry = ready[level] > 0 and redis.call('LPOP', key .. '{ready}' .. level)
    if entry then
      ready[level] = ready[level] - 1
      turn = turn < 15 and turn + 1 or 0
      return entry, level
    end
    ready[level] = 0
  end
end

-- Starts the next job for a worker. Returns the attempt, the end of its lease, and the record; nothing if the lists
-- contain no job, or if this call has found no record of a job. Both happen only if another program has changed them.
local function start(worker)
  for _ = 1, looks_at do
    local entry, level = take_entry()
    if not entry then return end
    local id, count, failure = entry, 0, '-'
    -- An id has at most 17 digits.
    if #entry > 17 then id, count, failure = string.match(entry, '^(%d+) (%d+) (%a)$') end
    local record = redis.call('HGET', key .. '{jobs}', id)
    if record then
      local lease = string.match(worker, '/(%d+)$')
      local flag, limit, till = '-', 0, now + 1000 * lease
      if string.sub(record, 2, 2) ~= ' ' then
        local _, _, _, _, timeout, deduplication_id = options_of(record)
        if deduplication_id ~= '' then flag = 'n' end
        if timeout > 0 then
          limit = now + 1000 * timeout
          till = math.min(till, limit)
        end
      end
      if paused and rate > 0 then
        if started == 0 then ends = now + 1000 * period end
        started = started + 1
      end
      local attempt = format('%s %d %d %s%s %d %s', id, new_number(), count + 1, failure, flag, limit, worker)
      redis.call('ZADD', key .. '{active}', text(till), attempt)
      mark_due(till)
      return attempt, till, record
    end
  end
end

-- Frees the deduplication id of a job that is finished, dead or removed, as soon as its window has ended.
local function free_deduplication_id(id, deduplication_id)
  local taken_by = deduplication_id ~= '' and redis.call('HGET', key .. '{names}', deduplication_id)
  if not taken_by then return end
  local job, till, done = string.match(taken_by, '^(%d+) (%d+)(.*)$')
  if job ~= id or done ~= '' then return end
  if till + 0 <= now then
    redis.call('HDEL', key .. '{names}', deduplication_id)
    return
  end
  redis.call('HSET', key .. '{names}', deduplication_id, taken_by .. ' done')
  redis.call('ZADD', key .. '{windows}', till, deduplication_id)
end

local function remove_job(id, has_deduplication_id, has_notes)
  if has_deduplication_id then
    local record = redis.call('HGET', key .. '{jobs}', id)
    if record then
      local _, _, _, _, _, deduplication_id = options_of(record)
      free_deduplication_id(id, deduplication_id)
    end
  end
  redis.call('HDEL', key .. '{jobs}', id)
  if has_notes then redis.call('HDEL', key .. '{notes}', id, 'p' .. id) end
end

-- Moves the job of an attempt that has ended without success to its next place. `how` is as for the script `end`, or t
-- (timed out).
local function move_job(attempt, how, error_text)
  local id, token, count, before = string.match(attempt, '^(%d+) (%d+) (%d+) (.)')
  local record = redis.call('HGET', key .. '{jobs}', id)
  if not record then return end
  local level, most, first, cap, _, deduplication_id = options_of(record)
  count = count + 0
  redis.call('HDEL', key .. '{notes}', 'p' .. id)
  if how == 'r' then
    local entry = count == 1 and id or format('%s %d %s', id, count - 1, before)
    make_ready('LPUSH', level, entry)
    -- No worker received the job, so another start is allowed if the period of this one still runs.
    if paused and started > 0 and token + 0 >= ends - 1000 * period then started = started - 1 end
    return
  end
  if how == 'f' or how == 'b' then redis.call('HSET', key .. '{notes}', id, error_text) end
  local entry = format('%s %d %s', id, count, how == 'b' and 'f' or how)
  if how == 'b' or count >= most then
    redis.call('ZADD', key .. '{dead}', id, entry)
    free_deduplication_id(id, deduplication_id)
    return
  end
  -- The job waits for at least half of its back-off, and at most all of it. The clock and the id replace a random
  -- number, because math.random has the same seed in each call.
  local wait = math.min(cap, first * 2 ^ math.min(count - 1, 64)) * (1 - (now + id) % 1000003 * 7919 % 1000 / 2000)
  if how ~= 'a' and wait > 0 then
    local till = now + math.ceil(1000 * wait)
    redis.call('ZADD', key .. '{delayed}', text(till), level .. entry)
    mark_due(till)
    return
  end
  make_ready(how == 'a' and 'LPUSH' or 'RPUSH', level, entry)
end

-- Ends an attempt; see the script `end`. Returns ok; or if the attempt is not active, ok (an earlier copy of the
-- command has ended it), lost or unknown. The loss of an attempt that began long ago may be forgotten.
local function end_attempt(attempt, how, has_notes, repetition, error_text)
  local loss, id, token, flag = string.match(attempt, '^((%d+) (%d+)) %d+ .(.)')
  if redis.call('ZREM', key .. '{active}', attempt) == 0 then
    if repetition == 'first' or redis.call('ZSCORE', key .. '{lost}', loss) then return 'lost' end
    if how == 'finish' and redis.call('HEXISTS', key .. '{jobs}', id) == 1 then return 'lost' end
    return repetition == 'again' and token + 0 > now - memory and 'ok' or 'unknown'
  end
  if how == 'finish' then
    remove_job(id, flag == 'n', has_notes)
  else
    move_job(attempt, how, error_text)
  end
  return 'ok'
end

-- The nonce of a worker's session. If the session reconnects, its attempts keep the names of their workers, but its
-- waiting workers have new ones.
local function session_of(worker)
  return string.match(worker, '^[^#]*')
end

-- A session that let an attempt expire may belong to a stopped process, and each of its workers would use up another
-- one. So its workers among the first ones wait no longer. The session learns of this, and lets them wait again.
-- Returns whether there may be more of them.
local function drop_workers(unresponsive)
  local dropped, first = {}, redis.call('ZRANGE', key .. '{idle}', 0, looks_at - 1)
  for _, worker in ipairs(first) do
    if unresponsive[session_of(worker)] then
      redis.call('ZREM', key .. '{idle}', worker)
      parked, dropped[channel(worker)] = parked - 1, true
    end
  end
  for target in pairs(dropped) do redis.call('PUBLISH', target, 'job ' .. key .. ' dropped ' .. text(now)) end
  return next(dropped) and parked > 0 and #first == looks_at
end

-- Ends the attempts whose leases have expired, and moves the jobs whose delays have ended. Then also forgets old losses
-- and ended windows, which alone make nothing due.
local function do_what_is_due()
  if due == 0 or due > now then return end
  local expired = redis.call('ZRANGEBYSCORE', key .. '{active}', '-inf', text(now), 'LIMIT', 0, looks_at)
  local endings, unresponsive = {}, {}
  for i, each in ipairs(expired) do
    local limit, worker = string.match(each, '^%d+ %d+ %d+ .. (%d+) (.*)$')
    -- A lease never exceeds the time limit. If its end is the limit, the attempt timed out.
    local is_cut = limit ~= '0' and redis.call('ZSCORE', key .. '{active}', each) + 0 == limit + 0
    endings[i] = is_cut and 't' or 'a'
    unresponsive[session_of(worker)] = true
  end
  -- These jobs would be started for the other workers of these sessions, which have to be dropped first. So this script
  -- stops here. Its answer ends with `more`, and the client sends `renew`, which continues with them.
  if parked > 0 and next(unresponsive) and drop_workers(unresponsive) then return end
  -- Begins with the last one, so that the first one is at the head afterwards.
  for i = #expired, 1, -1 do
    local loss, token, worker = string.match(expired[i], '^(%d+ (%d+)) %d+ .. %d+ (.*)$')
    redis.call('ZADD', key .. '{lost}', text(now), loss)
    redis.call('ZREM', key .. '{active}', expired[i])
    move_job(expired[i], endings[i])
    redis.call('PUBLISH', channel(worker), 'job ' .. key .. ' lost ' .. text(now) .. ' ' .. token)
  end
  redis.call('ZREMRANGEBYSCORE', key .. '{lost}', '-inf', text(now - memory))
  local free = redis.call('ZRANGEBYSCORE', key .. '{windows}', '-inf', text(now), 'LIMIT', 0, looks_at)
  for _, each in ipairs(free) do
    redis.call('ZREM', key .. '{windows}', each)
    redis.call('HDEL', key .. '{names}', each)
  end
  local moved = redis.call('ZRANGEBYSCORE', key .. '{delayed}', '-inf', text(now), 'LIMIT', 0, looks_at)
  for _, each in ipairs(moved) do
    redis.call('ZREM', key .. '{delayed}', each)
    make_ready('RPUSH', string.sub(each, 1, 1), string.sub(each, 2))
  end
  if #moved == looks_at or #expired == looks_at or #free == looks_at then return end
  due = 0
  for _, set in ipairs({'{delayed}', '{active}'}) do
    local first = redis.call('ZRANGE', key .. set, 0, 0, 'WITHSCORES')
    if first[2] then mark_due(first[2] + 0) end
  end
  can_start()
end

-- Starts jobs for waiting workers. If some continue to wait, informs sessions of the time at which something is due.
-- Writes the state, and returns the last word of the answer: whether this call has left something that is due now, so
-- the client has to send `renew`. Every script calls this after its own changes, unless it starts a job while no worker
-- waits.
local function serve()
  local left = looks_at
  while parked > 0 and can_start() do
    if left == 0 then
      due = now
      break
    end
    left = left - 1
    local worker, ticket = unpack(redis.call('ZPOPMIN', key .. '{idle}'))
    parked = worker and parked - 1 or 0
    if worker and is_connected(worker) then
      local attempt, till, record = start(worker)
      if not attempt then
        redis.call('ZADD', key .. '{idle}', ticket, worker)
        parked = parked + 1
        if can_start() then due = now end
        break
      end
      -- A large record would fill the buffers of a slow client, so the client asks for it.
      redis.call('PUBLISH', channel(worker), format('job %s grant %d %d %s', key, now, till, attempt) ..
        (#record <= small and ' ' .. record or ''))
    end
  end
  -- With nothing due, no session has to ask. A stale time would prevent the next message if the clock was set back.
  if due == 0 then informed = 0 end
  if parked > 0 and due > 0 and (informed <= now or informed > due) then
    informed = due
    -- Informs four connections, because some of them may be disconnected by then. If all four are, the next script does
    -- what is due. Many of the first workers may belong to a stopped process. The last ones began to wait most
    -- recently, so their process ran then. Hence the first and the last ones take turns.
    local seen, left, first = {}, 4, redis.call('ZRANGE', key .. '{idle}', 0, looks_at - 1)
    local last_ones = redis.call('ZRANGE', key .. '{idle}', -looks_at, -1)
    for i = 1, 2 * #first do
      local worker = i % 2 == 1 and first[(i + 1) / 2] or last_ones[#last_ones + 1 - i / 2]
      local target = channel(worker)
      if not seen[target] and is_connected(worker) then
        redis.call('PUBLISH', target, format('job %s due %d %d', key, now, due))
        left = left - 1
      end
      seen[target] = true
      if left == 0 then break end
    end
    -- Nobody was informed, since all of these are disconnected. Others may wait behind them. So the answer ends with
    -- `more`, and the client sends `renew`, which continues.
    if left == 4 and #first == looks_at then
      redis.call('ZREM', key .. '{idle}', unpack(first))
      parked = math.max(parked - #first, 0)
      informed = 0
      if parked > 0 then due = now end
    end
  end
  save()
  return parked > 0 and due > 0 and due <= now and ' more' or ''
end

-- Returns the first words of an answer.
local function answer(status, number)
  return format('%s %d %d', status, now, number)
end
