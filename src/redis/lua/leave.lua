-- Ends a section that has changed something: commits, signals, perhaps goes to sleep, and hands the lock on.
--
-- KEYS       lock, queue, done (and the state, of a monitor)
-- ARGV       prefix, id, fence, slot, lease ms, claim ms, idle ms, sleeper (the id by which the caller sleeps
--            then, or empty), condition (the sleeper's), words (how many there are. Of each, a condition, and
--            one or all; or a contribution to the state, and bind or free; behind them, of each field of the
--            state that has changed, the name, and '=' and the value, or empty if it is no more. Instead of
--            fields, the last fence, if a cohort has passed the lock on)
-- returns    released | lost | unknown | foreign | wrongtype; the extra is the place among the sleepers. If
--            not all were signalled who should be, the ticket is the newest that there is
-- repeated   answers what the first call did, as long as the slot has not given back anything else
-- wakes      those who are signalled; the first of the queue
-- complexity O((signalled + 1) log waiters + fields)
-- flags: none
local id, fence, slot, sleeper, condition = ARGV[2], ARGV[3], ARGV[4], ARGV[8], ARGV[9]
local state, fields, stands = KEYS[4], 11 + 2 * ARGV[10], true
local writes = state and ARGV[fields]
local s, why = open(1, ARGV[6])
if not s then return why end
s.state = state
-- Should it be something else, this is an error before anything has changed.
if writes then redis.call('HLEN', state) end
-- Who holds on to a lock that the server has forgotten has read another state than there is now.
if writes and not s.fresh and redis.call('HGET', s.key, 'born') + 0 > fence + 0 then stands = false end
-- Who takes back what is undone already would do it twice: then nothing of all this counts.
for i = 11, fields - 1, 2 do
  if ARGV[i + 1] == 'free' and not redis.call('ZSCORE', s.key .. '{bound}', ARGV[i]) then stands = false end
end
local parted, place = part(s, id, fence, stands and slot or '', not state and ARGV[fields] or nil), nil
if parted and stands then
  for i = 11, fields - 1, 2 do
    local what = ARGV[i + 1]
    if what == 'bind' then
      bind(s)
      redis.call('ZADD', s.bound, format('%d', s.now + ARGV[5] * 1000), ARGV[i])
    elseif what == 'free' then redis.call('ZREM', s.key .. '{bound}', ARGV[i])
    else s.more = signal(s, ARGV[i], what == 'all') or s.more end
  end
  for i = fields, writes and #ARGV or 0, 2 do
    if ARGV[i + 1] == '' then redis.call('HDEL', state, ARGV[i])
    else redis.call('HSET', state, ARGV[i], string.sub(ARGV[i + 1], 2)) end
  end
  if sleeper ~= '' then place = fall_asleep(s, sleeper, condition) end
elseif not parted then
  reap(s)
end
if s.owner == '' then grant(s) end
save(s, ARGV[5], ARGV[7])
return parted and stands and answer(s, 'released', nil, place) or ended(s, fence + 0, slot)
