-- Adds a job, and starts it for a waiting worker if there is one.
--
-- KEYS       queue
-- ARGV       prefix, record, level, delay ms, deduplication id (may be empty), window ms (of that id)
-- returns    pushed NOW ID; with a deduplication id, perhaps the id of another job | foreign. The word `more` at the
--            end means that the client has to send `renew`, because something is still due
-- repeated   adds another job, unless a deduplication id prevents it
-- wakes      the first waiting worker; if the job is delayed, some waiting workers learn when it is due
-- complexity O(log jobs) for a delayed job and a deduplication id, otherwise O(1)
-- flags: none
local key, record, level, delay, deduplication_id, window = KEYS[1], ARGV[2], ARGV[3], ARGV[4] + 0, ARGV[5], ARGV[6]

-- The ordinary path needs no function of the prologue: there is neither a delay nor a deduplication id, the queue is
-- not limited, nothing is due, and the clock shows a new number. Either no worker waits; or the first waiting worker
-- starts the job, and no session has to be informed of an earlier time at which something is due.
local last, skew, turn, high, normal, low, parked, due, informed = string.match(redis.call('HGET', key, 'state') or '',
  '^1 (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) %-$')
if last and delay == 0 and deduplication_id == '' then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2] + skew
  local id, ready = string.format('%d', now), {high, normal, low}
  turn, parked, due, informed = turn + 0, parked + 0, due + 0, informed + 0
  if now <= last + 0 or due > 0 and due <= now then
    -- Something is due, or the clock does not show a new number.
  elseif parked == 0 then
    ready[level + 0] = string.format('%d', ready[level + 0] + 1)
    redis.call('HSET', key .. '{jobs}', id, record)
    local reply = redis.pcall('RPUSH', key .. '{ready}' .. level, id)
    if type(reply) == 'table' then
      -- The server refuses this command.
      redis.pcall('HDEL', key .. '{jobs}', id)
      return reply
    end
    redis.call('HSET', key, 'state',
      string.format('1 %s %s %d %s 0 %d %d -', id, skew, turn, table.concat(ready, ' '), due, informed))
    return 'pushed ' .. id .. ' ' .. id
  elseif high + normal + low == 0 and string.sub(record, 2, 2) == ' ' and #record <= 4096 and
    (parked == 1 or due > 0) then
    local worker, place = unpack(redis.call('ZPOPMIN', key .. '{idle}'))
    local channel = worker and ARGV[1] .. string.match(worker, '^[^.]*')
    local till = worker and now + 1000 * string.match(worker, '/(%d+)$')
    local first = till and (due == 0 and till or math.min(due, till))
    local reply = worker and (parked == 1 or informed <= first) and redis.pcall('PUBSUB', 'NUMSUB', channel) or {}
    if (reply[2] or 0) > 0 then
      local attempt = string.format('%s %d 1 -- 0 %s', id, now + 1, worker)
      till = string.format('%d', till)
      reply = redis.pcall('HSET', key .. '{jobs}', id, record)
      if type(reply) ~= 'table' then reply = redis.pcall('ZADD', key .. '{active}', till, attempt) end
      if type(reply) ~= 'table' then
        reply = redis.pcall('PUBLISH', channel, 'job ' .. key .. ' grant ' .. id .. ' ' .. till .. ' ' .. attempt .. ' ' .. record)
      end
      if type(reply) ~= 'table' then
        redis.call('HSET', key, 'state',
          string.format('1 %d %s %d 0 0 0 %d %d %d -', now + 1, skew, (turn + 1) % 16, parked - 1, first, informed))
        return 'pushed ' .. id .. ' ' .. id
      end
      -- The server refuses a command.
      redis.pcall('ZREM', key .. '{active}', attempt)
      redis.pcall('HDEL', key .. '{jobs}', id)
    end
    -- A worker that cannot return to its position begins to wait again when its session learns of that.
    if worker and type(redis.pcall('ZADD', key .. '{idle}', place, worker)) == 'table' then
      redis.pcall('PUBLISH', channel, 'job ' .. key .. ' dropped ' .. id)
    end
    if reply.err then return reply end
  end
end

-- common.lua and prologue.lua stand here
do_what_is_due()
if deduplication_id ~= '' then
  local taken_by = redis.call('HGET', key .. '{names}', deduplication_id) or ''
  local other, till, done = string.match(taken_by, '^(%d+) (%d+)(.*)$')
  if other and (done == '' or till + 0 > now) then return 'pushed ' .. text(now) .. ' ' .. other .. serve() end
end
local id = text(new_number())
if delay > 0 then
  redis.call('ZADD', key .. '{delayed}', text(now + 1000 * delay), level .. id)
  mark_due(now + 1000 * delay)
else
  make_ready('RPUSH', level, id)
end
redis.call('HSET', key .. '{jobs}', id, record)
if deduplication_id ~= '' then
  redis.call('ZREM', key .. '{windows}', deduplication_id)
  redis.call('HSET', key .. '{names}', deduplication_id, id .. ' ' .. text(now + 1000 * window))
end
return 'pushed ' .. text(now) .. ' ' .. id .. serve()
