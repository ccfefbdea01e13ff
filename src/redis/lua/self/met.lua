-- Notes when a server was met for the first time, so that every client learns when it restarted or took over.
--
-- KEYS       record
-- ARGV       run id
-- returns    when the first client met the server with this run id, in microseconds; 0 if no other one was met before
-- repeated   answers the same
-- wakes      nobody
-- complexity O(1)
-- flags: allow-oom
local known = redis.call('HMGET', KEYS[1], 'run', 'since')
if known[1] == ARGV[1] then return known[2] end
local since = '0'
if known[1] then
  local time = redis.call('TIME')
  since = string.format('%d', time[1] * 1000000 + time[2])
end
redis.call('HSET', KEYS[1], 'run', ARGV[1], 'since', since)
return since
