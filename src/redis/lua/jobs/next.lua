-- Finishes the job of a worker if it has one. Then starts the next job for it, or lets it wait.
--
-- KEYS       queue
-- ARGV       prefix, worker, ticket (of a worker that waited before; otherwise 0), attempt (to finish; empty: none),
--            notes (1 if that job may have notes), how (first, again, unsure: see end)
-- returns    job NOW END, the attempt and the record, which is empty if it is large: then fetch reads it | parked NOW
--            DUE TICKET | lost, unknown (for the attempt to finish: no job was started then) | foreign
-- repeated   starts another job, or lets the worker wait twice. So a client sends resync first
-- wakes      waiting workers, if jobs are due
-- complexity O(log attempts), O(log workers) if it waits
-- flags: allow-oom
local key, worker, ticket, attempt = KEYS[1], ARGV[2], ARGV[3] + 0, ARGV[4]

-- The ordinary path needs no function of the prologue: the job to finish has no deduplication id, the queue is not
-- limited, nothing is due, and the clock shows a new number. Either there is a job and no other worker waits; or there
-- is no job, and the worker waits.
local last, skew, turn, high, normal, low, parked, due, informed = string.match(redis.call('HGET', key, 'state') or '',
  '^1 (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) %-$')
local done, done_flag = string.match(attempt, '^(%d+) %d+ %d+ .(.)')
if last and (done and done_flag ~= 'n' or attempt == '') then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2] + skew
  local ready = {high + 0, normal + 0, low + 0}
  turn, parked, due, informed = turn + 0, parked + 0, due + 0, informed + 0
  local jobs = ready[1] + ready[2] + ready[3]
  local is_ordinary = now > last + 0 and (due == 0 or due > now) and
    (parked == 0 or jobs == 0)
  if is_ordinary and (not done or redis.call('ZREM', key .. '{active}', attempt) == 1) then
    local reply = done and redis.pcall('HDEL', key .. '{jobs}', done)
    if type(reply) == 'table' then
      -- The server refuses this command. So the attempt has not ended.
      redis.call('ZADD', key .. '{active}', string.format('%d', now + 1000 * string.match(attempt, '/(%d+)$')), attempt)
      return reply
    end
    if done and ARGV[5] == '1' then redis.call('HDEL', key .. '{notes}', done, 'p' .. done) end
    -- The rest of the script has nothing to finish.
    attempt = ''
    if jobs == 0 then
      if ticket == 0 then ticket, last = now, string.format('%d', now) end
      local place = string.format('%d', ticket)
      if parked == 0 then informed = due end
      -- This command comes first, because nobody would serve a worker that is not counted.
      redis.call('HSET', key, 'state',
        string.format('1 %s %s %d 0 0 0 %d %d %d -', last, skew, turn, parked + 1, due, informed))
      redis.call('ZADD', key .. '{idle}', place, worker)
      return string.format('parked %d %d ', now, due) .. place
    end
    -- As in take_entry.
    local level = turn == 15 and 3 or turn % 4 == 3 and 2 or 1
    if ready[level] == 0 then level = ready[1] > 0 and 1 or ready[2] > 0 and 2 or 3 end
    local entry = redis.call('LPOP', key .. '{ready}' .. level)
    local id, count, failure = entry, 0, '-'
    if entry and #entry > 17 then id, count, failure = string.match(entry, '^(%d+) (%d+) (%a)$') end
    local record = entry and redis.call('HGET', key .. '{jobs}', id)
    if record then
      local flag, limit, till = '-', 0, now + 1000 * string.match(worker, '/(%d+)$')
      if string.sub(record, 2, 2) ~= ' ' then
        local timeout, size = string.match(record, '^%d,%d+,%d+,%d+,(%d+),(%d+) ')
        if size ~= '0' then flag = 'n' end
        if timeout ~= '0' then
          limit = now + 1000 * timeout
          till = math.min(till, limit)
        end
      end
      if due == 0 or till < due then due = till end
      ready[level] = ready[level] - 1
      local started = string.format('%s %d %d %s%s %d %s', id, now, count + 1, failure, flag, limit, worker)
      reply = redis.pcall('ZADD', key .. '{active}', string.format('%d', till), started)
      if type(reply) ~= 'table' then
        reply = redis.pcall('HSET', key, 'state', string.format('1 %d %s %d %d %d %d 0 %d %d -', now, skew,
          (turn + 1) % 16, ready[1], ready[2], ready[3], due, informed))
      end
      if type(reply) ~= 'table' then
        return {string.format('job %d %d', now, till), started, #record <= 65536 and record or ''}
      end
      -- The server refuses one of these commands. So the job returns to its list, and is not lost.
      redis.pcall('ZREM', key .. '{active}', started)
      redis.call('LPUSH', key .. '{ready}' .. level, entry)
      return reply
    end
    if entry then redis.call('LPUSH', key .. '{ready}' .. level, entry) end
  end
end

-- common.lua and prologue.lua stand here
-- First, as in the script `end`.
do_what_is_due()
local result = 'ok'
if attempt ~= '' then result = end_attempt(attempt, 'finish', ARGV[5] == '1', ARGV[6]) end
if result ~= 'ok' then return answer(result, 0) .. serve() end
if parked == 0 and can_start() then
  local started, till, record = start(worker)
  if started then
    save()
    return {answer('job', till), started, #record <= 65536 and record or ''}
  end
end
if ticket == 0 then ticket = new_number() end
redis.call('ZADD', key .. '{idle}', text(ticket), worker)
parked = parked + 1
-- The answer informs this worker's session.
if parked == 1 then informed = due end
serve()
return answer('parked', due) .. ' ' .. text(ticket)
