-- Stores the identity of a session, for inspections of the locks that it holds or waits for. The nonce is a secret of
-- the session, so it is not part of the name of a key.
--
-- KEYS       sessions (the identity of each session, by nonce), ends (the time until which each is remembered)
-- ARGV       nonce, text, span ms (for which the identity is remembered)
-- returns    OK
-- repeated   starts the time again
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
