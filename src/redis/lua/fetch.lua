-- Confirms a grant of a monitor, and reads the state, if the message did not carry it.
--
-- KEYS       lock, queue, done, state
-- ARGV       prefix, id, fence, lease ms, claim ms, idle ms
-- returns    own | lost | unknown | foreign | wrongtype; the extra is the state, see contents()
-- repeated   extends the lease again
-- wakes      the first of the queue, if nobody owns the lock
-- complexity O(fields + log waiters)
-- flags: allow-oom
local id, fence, lease, state = ARGV[2], ARGV[3], ARGV[4], KEYS[4]
if type(redis.pcall('HLEN', state)) == 'table' then return 'wrongtype' end
local s, why = open(1, ARGV[5])
if not s then return why end
s.state = state
reap(s)
local mine = s.owner == id and s.fence == fence
if mine then s.deadline, s.leased = format('%d', math.max(s.deadline, s.now + lease * 1000)), true end
if s.owner == '' and s.waiting > 0 then grant(s) end
save(s, lease, ARGV[6])
return mine and answer(s, nil, id, contents(state)) or ended(s, fence + 0, '')
