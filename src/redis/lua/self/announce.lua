-- Says who a session is, for those who inspect a lock that it holds or waits for. Nobody but the session knows its
-- nonce, so that is no name of a key.
--
-- KEYS       sessions (what each says of itself, by nonce), ends (until when that is remembered)
-- ARGV       nonce, text, span ms (how long it is remembered)
-- returns    OK
-- repeated   is remembered for longer
-- wakes      nobody
-- complexity O(log sessions)
-- flags: none
local now, span = redis.call('TIME'), tonumber(ARGV[3])
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], string.format('%d', now + span), ARGV[1])
for _, nonce in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%d', now), 'LIMIT', 0, 64)) do
  redis.call('HDEL', KEYS[1], nonce)
  redis.call('ZREM', KEYS[2], nonce)
end
for _, key in ipairs(KEYS) do
  if redis.call('PEXPIRE', key, ARGV[3], 'GT') == 0 then redis.call('PEXPIRE', key, ARGV[3], 'NX') end
end
return 'OK'
