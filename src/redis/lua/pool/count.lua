-- Adds units that no permit holds, creates a pool, or reads how many units are available. Of an automatic
-- event, add says how many signals are to be available: 1 sets it, 0 resets it.
--
-- KEYS       pool, queue, done, holders, units
-- ARGV       prefix, what (add, create, read), number (of add), name (of the call), name of the call before
--            it in its slot (both empty but of add), lease ms, claim ms, idle ms, capacity, units outside
-- returns    ok | excess | exists | foreign | wrongtype; the extra is how many are available
-- repeated   adds nothing, and answers ok, as long as the slot has not added anything else
-- wakes      the first of the queue, as long as it fits
-- complexity O(log waiters + log holders)
-- flags: allow-oom
local what, number, lease = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[6])
local s, why = open(1, ARGV[7], ARGV[9], ARGV[10])
if not s then return why end
reap(s)
local result = 'ok'
if what == 'create' then
  if s.fresh then s.created = true else result = 'exists' end
elseif what == 'add' and not redis.call('ZSCORE', s.done, ARGV[4]) then
  if s.capacity == signals then
    -- A signal that came back from who died goes to the next one; this is another one.
    if s.head then grant(s) end
    number = number - (s.capacity - s.outside - s.held)
  end
  if s.outside < number then
    result = 'excess'
  else
    move(s, -number)
    if ARGV[5] ~= '' then redis.call('ZREM', s.done, ARGV[5]) end
    redis.call('ZADD', s.done, text(s.now), ARGV[4])
    redis.call('ZREMRANGEBYSCORE', s.done, '-inf', text(s.now - memory))
  end
end
if s.head then grant(s) end
save(s, lease, ARGV[8])
return answer(s, result, 0, 0, text(s.capacity % special - s.outside - s.held % special))
