-- Gives a lock back, or refuses a grant, and hands the lock on.
--
-- KEYS       lock, queue, done
-- ARGV       prefix, id, fence, slot (empty: nothing is remembered), lease ms, claim ms, idle ms
-- returns    released | lost | unknown | foreign | wrongtype
-- repeated   answers what the first call did, as long as the slot has not given back anything else
-- wakes      the first of the queue
-- complexity O(log waiters)
-- flags: allow-oom
local id, fence, slot = ARGV[2], ARGV[3], ARGV[4]
local s, why = open(1, ARGV[6])
if not s then return why end

-- The fence names the grant. The incarnation of the id may have changed since, the rest has not.
local known = s.owner == id or string.gsub(s.owner, '#%d+', '', 1) == string.gsub(id, '#%d+', '', 1)
local result
if s.owner ~= '' and s.fence == fence and known then
  s.owner, result = '', 'released'
  if slot ~= '' then
    if redis.call('ZADD', s.done, fence, slot) == 1 then s.new = s.done end
    if s.now % 64 == 0 then redis.call('ZREMRANGEBYSCORE', s.done, '-inf', s.now - memory) end
  end
else
  reap(s)
end
if s.owner == '' and s.waiting > 0 then grant(s) end
save(s, ARGV[5], ARGV[7])
return result and answer(s, result) or ended(s, fence + 0, slot)
