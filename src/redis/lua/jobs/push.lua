-- Adds a job, and starts it for a worker that waits.
--
-- KEYS       queue
-- ARGV       prefix, record, level, delay ms, deduplication id (may be empty), window ms (of that id)
-- returns    pushed NOW ID; with a deduplication id, perhaps the id of another job | foreign
-- repeated   adds another job, unless a deduplication id prevents it
-- wakes      the first waiting worker; if the job is delayed, some waiting workers learn when it is due
-- complexity O(log jobs) for a delayed job and a deduplication id, otherwise O(1)
-- flags: none
local record, level, delay, name, window = ARGV[2], ARGV[3], ARGV[4] + 0, ARGV[5], ARGV[6]
settle()
if name ~= '' then
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', key .. '{windows}', '-inf', text(now), 'LIMIT', 0, looks_at)) do
    redis.call('ZREM', key .. '{windows}', each)
    redis.call('HDEL', key .. '{names}', each)
  end
  local other, till, done = string.match(redis.call('HGET', key .. '{names}', name) or '', '^(%d+) (%d+)(.*)$')
  if other and (done == '' or till + 0 > now) then
    serve()
    save()
    return 'pushed ' .. text(now) .. ' ' .. other
  end
end
local id = text(new_number())
if delay > 0 then
  redis.call('ZADD', key .. '{delayed}', text(now + 1000 * delay), level .. id)
  is_due_at(now + 1000 * delay)
else
  redis.call('RPUSH', key .. '{ready}' .. level, id)
  ready[level + 0] = ready[level + 0] + 1
end
redis.call('HSET', key .. '{jobs}', id, record)
if name ~= '' then redis.call('HSET', key .. '{names}', name, id .. ' ' .. text(now + 1000 * window)) end
serve()
save()
return 'pushed ' .. text(now) .. ' ' .. id
