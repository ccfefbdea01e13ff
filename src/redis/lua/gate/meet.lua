-- Arrives at a barrier, withdraws an arrival, or drops out of the barrier.
--
-- KEYS       gate, waiters, done, arrivals
-- ARGV       prefix, what (arrive, withdraw, drop), name (of the call; for withdraw, that of the arrival), name of a
--            call that will not be repeated (may be empty), channel (of the connection, without the prefix), number (of
--            a new gate), lease ms, idle ms, keep ms (for which a changed state is kept; 0 for ever), generation (the
--            newest that the client knows)
-- returns    open (the round of the call is complete; or drop is done) | closed | withdrawn | empty (there are no
--            participants) | foreign | wrongtype; and the generation
-- repeated   answers with the present state; an arrival counts for a lease from its last repetition
-- wakes      all waiters, if all participants have arrived
-- complexity O(log remembered calls); O(participants), if all have arrived
-- flags: allow-oom
local what, name, lease = ARGV[2], ARGV[3], tonumber(ARGV[7])
local s, why = open(ARGV[6])
if not s then return why end
if ARGV[4] ~= '' then
  redis.call('ZREM', KEYS[3], ARGV[4])
  -- The server may have lost its withdrawal.
  redis.call('ZREM', KEYS[4], ARGV[4])
end
local known, last = tonumber(ARGV[10]) or 0, s.now
if known > s.generation then
  -- The server has lost the end of a round. Arrivals that were renewed since then are of the next round.
  last, s.generation = math.max(s.now, math.min(s.now, known) + 1000 * lease - 1), known
end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', text(last))
local result = 'closed'
if redis.call('ZSCORE', KEYS[3], name) then
  result = 'open'
elseif what == 'withdraw' or redis.call('ZSCORE', KEYS[3], name .. ' withdrawn') then
  -- The withdrawal is remembered, because the arrival may still come, over a connection that broke.
  redis.call('ZREM', KEYS[4], name)
  remember(s, name .. ' withdrawn')
  return 'withdrawn ' .. text(s.generation)
elseif s.number == 0 then
  result = 'empty'
elseif what == 'arrive' then
  redis.call('ZADD', KEYS[4], text(s.now + 1000 * lease), name)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(s.now))
  redis.call('ZADD', KEYS[2], text(s.now + 3000 * lease), ARGV[5])
else
  s.number, result = s.number - 1, 'open'
  remember(s, name)
end
local there = redis.call('ZCARD', KEYS[4])
if there > 0 and there >= s.number then
  for _, each in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do remember(s, each) end
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', '+inf')
  release_waiters(s)
  if what == 'arrive' then result = 'open' end
end
save(s, lease, tonumber(ARGV[8]), ARGV[9])
return result .. ' ' .. text(s.generation)
