-- Arrives at a barrier, takes an arrival back, or takes part no more.
--
-- KEYS       gate, waiters, done, arrivals
-- ARGV       prefix, what (arrive, withdraw, drop), name (of the call; of withdraw, that of the arrival), name of a
--            call that nobody repeats any more (may be empty), channel (of the connection, without the prefix),
--            number (of a new gate), lease ms, idle ms, keep ms (of a state that was changed; 0: for ever)
-- returns    open (the round in which the call was counted is over; drop was done) | closed | withdrawn | empty
--            (nobody takes part) | foreign | wrongtype; and the generation
-- repeated   answers how things stand; an arrival counts for a lease from the last time on
-- wakes      all who wait, if all have arrived
-- complexity O(log calls that are remembered), O(participants) if all have arrived
-- flags: allow-oom
local what, name, lease = ARGV[2], ARGV[3], tonumber(ARGV[7])
local s, why = open(ARGV[6])
if not s then return why end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', text(s.now))
local result = 'closed'
if redis.call('ZSCORE', KEYS[3], name) then
  result = 'open'
elseif what == 'withdraw' or redis.call('ZSCORE', KEYS[3], name .. ' withdrawn') then
  -- Remembered, since the arrival itself may come late, over a connection that broke.
  redis.call('ZREM', KEYS[4], name)
  remember(s, name .. ' withdrawn', ARGV[4])
  return answer(s, 'withdrawn')
elseif s.number == 0 then
  result = 'empty'
elseif what == 'arrive' then
  redis.call('ZADD', KEYS[4], text(s.now + 1000 * lease), name)
  register(s, ARGV[5], lease)
else
  s.number, result = s.number - 1, 'open'
  remember(s, name, ARGV[4])
end
local there = redis.call('ZCARD', KEYS[4])
if there > 0 and there >= s.number then
  for _, each in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do remember(s, each, each == name and ARGV[4] or '') end
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', '+inf')
  release_waiters(s)
  if what == 'arrive' then result = 'open' end
end
save(s, lease, tonumber(ARGV[8]), ARGV[9])
return answer(s, result)
