-- Removes a pool of a directory with its permits, and informs its waiters.
--
-- KEYS       pool, index (of the directory)
-- ARGV       prefix, lease ms, claim ms, idle ms, capacity, name of the call, name of a call that will not be repeated,
--            name of the pool
-- returns    ok | missing | foreign | wrongtype
-- repeated   answers ok, as long as the name is remembered
-- wakes      all waiters
-- complexity O(waiters + permits + log pools)
-- flags: allow-oom
local repeated = is_repeated()
-- If somebody has deleted only the hash, the name and the other keys are removed as well.
local s, why = open(KEYS[1], read_clock(), ARGV[3], ARGV[5], '0')
if repeated then return 'ok' end
if not s then return why end
if not s.fresh then
  -- The clock of the next pool with that name begins above all times, tokens and tickets of this one, which may be ahead
  -- of the server's clock. This comes first, because it fails if the key has another type.
  local last = math.max(s.now, s.fence, s.ticket)
  redis.call('ZADD', s.done, text(last), 'removed')
  extend_ttl(s.done, math.ceil((memory + last - s.now + s.skew) / 1000))
end
for _, id in ipairs(redis.call('ZRANGE', s.queue, 0, -1)) do
  redis.pcall('PUBLISH', channel(id), 'missing ' .. id .. ' 0 ' .. text(s.now))
end
-- KEY{done} stays, because it remembers the releases of sessions, and the removal.
for _, key in ipairs({s.key, s.queue, s.holders, s.permits}) do redis.call('PEXPIRE', key, 0) end
redis.call('ZREM', KEYS[2], ARGV[8])
if s.fresh then return 'missing' end
note_call(s)
return 'ok'
