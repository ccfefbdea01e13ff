-- Looks for commands that scripts call and the user may not run; but PUBLISH, which may be allowed for the wake
-- channels alone, is tried out. Executes none of them.
--
-- KEYS       none, as the server would refuse to run this at all if the user may not use them
-- ARGV       key (such as the locks have)
-- returns    OK | ~, if the user may not use the key, and so nothing can be told | the rules that are missing,
--            such as '+hget +pubsub|numsub'
-- repeated   looks again
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
