-- Checks whether the user may run the commands that the scripts call, without executing them. PUBLISH is not checked
-- here, because it may be allowed for the wake channels only; the client tries it.
--
-- KEYS       none, because the server refuses to run a script with keys that the user may not use
-- ARGV       key (of the form that locks have)
-- returns    OK | ~ (the user may not use the key, so nothing can be checked) | the missing rules, such as
--            '+hget +pubsub|numsub'
-- repeated   checks again
-- wakes      nobody
-- complexity O(1)
-- flags: allow-oom
local commands = {
  'exists', 'hdel', 'hexists', 'hget', 'hgetall', 'hincrby', 'hlen', 'hmget', 'hset', 'llen', 'lpop', 'lpush',
  'lrange', 'persist', 'pexpire', 'pubsub|numsub', 'rpush', 'time', 'zadd', 'zcard', 'zpopmin', 'zrange',
  'zrangebyscore', 'zrem', 'zremrangebyscore', 'zscore'}
if not redis.acl_check_cmd('evalsha', 'any', '1', ARGV[1]) then return '~' end
local missing = {}
for _, command in ipairs(commands) do
  local words = {}
  for word in string.gmatch(command, '[^|]+') do words[#words + 1] = word end
  words[#words + 1] = ARGV[1]
  if not redis.acl_check_cmd(unpack(words)) then missing[#missing + 1] = '+' .. command end
end
return #missing == 0 and 'OK' or table.concat(missing, ' ')
