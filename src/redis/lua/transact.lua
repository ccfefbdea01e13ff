-- Changes the state of a monitor without a section. If somebody owns the lock or waits for it, that is done in its turn
-- by whoever sets the lock free; what can not be decided here is left to the client, which is granted the lock.
--
-- KEYS       lock, state
-- ARGV       prefix, id, tries (how often it was sent before), lease ms, claim ms, idle ms,
--            since (a time, when it was sent first, or known to wait; 0: nothing is to be done), ticket (as of
--            acquire), slot, seen fence (when it was sent first), condition (to wait on if a requirement does not hold, or
--            empty), signals (as of leave. Behind them, of each step: a comparison, add or set; the field; '=' and
--            the value, or empty for none; the same of what counts if there is no such field; and of a number the
--            least and the most that it can be, of anything else texts that differ from the value for certain, or
--            empty and empty if all do)
-- returns    released (the extra is its fence) | unmet | asleep (the extra is its place) | unknown (nothing was done
--            now), or like acquire. One that waits is told how it ends by a message
-- repeated   answers released if it was carried out, as long as the slot is remembered
-- wakes      those who are signalled; the first of the queue
-- complexity O(steps + (signalled + 1) log waiters + fields), and the same for each transaction that waits
-- flags: none
local id, tries, lease, slot, seen, condition = ARGV[2], ARGV[3], ARGV[4], ARGV[9], ARGV[10], ARGV[11]
local state, size, since = KEYS[2], redis.pcall('HLEN', KEYS[2]), ARGV[7] + 0
if is_of_another_type(size) then return 'wrongtype' end
local s, why = open(KEYS[1], ARGV[5])
if not s then return why end
s.state, s.size = state, size
local mark = (redis.call('ZSCORE', s.done, slot) or 0) + 0
if mark > seen + 0 then return answer(s, 'released', nil, format('%d', mark)) end
-- One that comes so late that nobody may remember it, or that another one has followed, must not be carried out.
local late = s.now > since + math.min(lease * 1000, memory) and
  (s.fresh or since < s.now - memory or redis.call('HGET', s.key, 'born') + 0 > since)
if late or redis.call('ZSCORE', s.done, slot .. '/' .. tries + 1) then return answer(s, 'unknown') end
for i = 1, tries + 0 do
  redis.call('ZADD', s.done, s.stamp, slot .. '/' .. i)
  note(s, s.done)
end
-- One that was believed to be lost may have come after all.
local former = tries ~= '0' and plan_of(s, id)
if former then
  s.waiting = s.waiting - redis.call('ZREM', s.queue, former[1])
  if condition ~= '' then redis.call('ZREM', sleepers(s, condition), former[1]) end
  pass_on(s, id)
end
reap(s)
speak(s, id)
if s.fresh and redis.call('EXISTS', s.key .. '{bound}') == 1 then bind(s) end
if s.owner == '' and s.bound then lapse(s) end
if s.owner == '' and s.waiting > 0 then grant(s) end

local told, extra
if s.owner ~= '' or s.waiting > 0 then
  extra = s.waiting
  enqueue(s, id, ticket(s, ARGV[8] + 0))
  plan_of(s, id, ARGV, 9)
else
  told, extra = carry_out(s, id, ARGV, 9)
  if told == 'unmet' and condition ~= '' then
    told, extra = 'asleep', fall_asleep(s, id, condition)
    plan_of(s, id, ARGV, 9)
  elseif not told then
    own(s, id, seen)
    extra = contents(state)
  end
  if told and s.waiting > 0 then grant(s) end
end
save(s, lease, ARGV[6])
return answer(s, told, id, extra)
