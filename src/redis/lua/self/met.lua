-- Records when a client first connected to a server, so that every client learns when the server restarted or
-- took over.
--
-- KEYS       record
-- ARGV       run id
-- returns    the time in microseconds at which the first client connected to the server with this run id; 0 if the
--            record knows no earlier server
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
