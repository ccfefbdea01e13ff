-- Creates a pool of a directory, which is kept until it is removed.
--
-- KEYS       pool, index (of the directory: a sorted set of the names of its pools)
-- ARGV       prefix, lease ms, claim ms, idle ms, capacity, name of the call, name of a call that will not be repeated,
--            name of the pool, available units
-- returns    ok | exists | foreign | wrongtype; see conclude()
-- repeated   answers ok, also if the pool was removed, as long as the name is remembered
-- wakes      if the pool exists, waiters of its queue, as long as the first one fits
-- complexity O(log pools)
-- flags: none
local s, why = open(KEYS[1], read_clock(), ARGV[3], ARGV[5], text(ARGV[5] - ARGV[9]))
if not s then return why end
local status = 'ok'
if s.fresh and not is_repeated() then
  -- Units that were taken from a removed pool have lower tokens than this pool's birth, also if the server's clock was
  -- set back.
  local shift = (redis.call('ZSCORE', s.done, 'removed') or 0) + 1 - s.now
  if shift > 0 then
    s.now, s.skew, s.born, s.grace = s.now + shift, shift, s.now + shift, s.grace and s.grace + shift
  end
  -- A negative origin keeps the pool for ever, as if its capacity had been set, see save().
  s.origin = -s.capacity
  -- If somebody has deleted only the hash, these belong to the former pool.
  for _, key in ipairs({s.holders, s.permits}) do redis.call('PEXPIRE', key, 0) end
  redis.call('ZADD', KEYS[2], 0, ARGV[8])
  note_call(s)
else
  expire_grants(s)
  if not is_repeated() then status = 'exists' end
end
return conclude(s, status)
