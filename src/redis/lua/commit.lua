-- Ends a critical section with changes: writes them, notifies, perhaps starts a wait on a condition, and hands the lock
-- over.
--
-- KEYS       lock (and the state, of a monitor)
-- ARGV       prefix, id, fence, slot, lease ms, claim ms, idle ms, waiter (the id of the attempt that waits then; may
--            be empty), condition (on which it waits), count (of the pairs that follow: a condition, and one or all;
--            or the record of a contribution, and contribute or withdraw. After them, for each changed field of the
--            state: its name; '=' and the value, or empty to remove it. If a cohort has handed the lock over, its last
--            fence instead of fields)
-- returns    released | lost | unknown | foreign | wrongtype; the extra is the ticket on the condition
-- repeated   answers as the first call did, until the slot is used for another release
-- wakes      the notified waiters; the first waiter of the queue
-- complexity O((notified + 1) log waiters + fields)
-- flags: none
local argv, call, format = ARGV, redis.call, string.format
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local key, id, fence, slot, waiter, state = KEYS[1], argv[2], argv[3], argv[4], argv[8], KEYS[2]
local packed = redis.pcall('HGET', key, 'state')
if packed and not packed.err and state and slot ~= '' and waiter == '' and argv[10] == '0' then
  local holder, current, clock, rest, expiry, claim = string.match(packed,
    '^2 (%S+) (%d+) (%d+) %d+ ((%d+) (%d+) 0 %- %d+)')
  if holder == id and current == fence and claim == argv[6] and clock + 0 <= now and
    expiry + 0 >= now + (argv[5] + argv[7] / 2) * 1000 then
    -- If the key has another type, this is an error before anything has changed.
    if argv[11] then call('HLEN', state) end
    local done, stamp = key .. '{done}', format('%d', now)
    if now % 64 == 0 then call('ZREMRANGEBYSCORE', done, '-inf', now - 3600000000) end
    if call('ZADD', done, fence, slot) == 1 then call('PEXPIRE', done, math.ceil((expiry - now) / 1000)) end
    -- First, so that no field has changed if the server refuses to remove fields.
    for i = 11, #argv, 2 do
      if argv[i + 1] == '' then call('HDEL', state, argv[i]) end
    end
    for i = 11, #argv, 2 do
      if argv[i + 1] ~= '' then call('HSET', state, argv[i], string.sub(argv[i + 1], 2)) end
    end
    call('HSET', key, 'state', '2 - ' .. fence .. ' ' .. stamp .. ' 0 ' .. rest)
    return 'released ' .. stamp .. ' ' .. fence .. ' 0'
  end
end
-- common.lua and prologue.lua stand here
local condition, fields, stands = ARGV[9], 11 + 2 * ARGV[10], true
local writes = state and ARGV[fields]
local s, why = open(key, ARGV[6], now, packed)
if not s then return why end
s.state = state
-- If the key has another type, this is an error before anything has changed.
if writes then redis.call('HLEN', state) end
-- A holder that reclaimed a forgotten lock has read a state that may differ from the present one.
if writes and s.reclaimed then stands = false end
-- If the server has already undone a contribution that this commit withdraws, the commit would subtract it twice.
for i = 11, fields - 1, 2 do
  if ARGV[i + 1] == 'withdraw' and not redis.call('ZSCORE', s.key .. '{bound}', ARGV[i]) then stands = false end
end
local released, ticket = end_grant(s, id, fence, stands and slot or '', not state and ARGV[fields] or nil), nil
if released and stands then
  for i = fields, writes and #ARGV or 0, 2 do
    if ARGV[i + 1] == '' then redis.call('HDEL', state, ARGV[i]) end
  end
  for i = 11, fields - 1, 2 do
    local what = ARGV[i + 1]
    if what == 'contribute' then
      use_pending(s)
      redis.call('ZADD', s.pending, format('%d', s.now + ARGV[5] * 1000), ARGV[i])
    elseif what == 'withdraw' then redis.call('ZREM', s.key .. '{bound}', ARGV[i])
    else notify_or_defer(s, ARGV[i], what == 'all') end
  end
  for i = fields, writes and #ARGV or 0, 2 do
    if ARGV[i + 1] ~= '' then redis.call('HSET', state, ARGV[i], string.sub(ARGV[i + 1], 2)) end
  end
  if waiter ~= '' then ticket = wait_on(s, waiter, condition) end
elseif not released then
  end_expired(s, fence)
end
mark_responsive(s, id)
-- During a grace, a released lock is in doubt: nothing is granted, only pending contributions are processed.
if s.holder == '' then grant_next(s) elseif s.pending then process_pending(s) end
save(s, ARGV[5], ARGV[7])
return released and stands and answer(s, 'released', nil, ticket) or answer(s, outcome_of_grant(s, fence + 0, slot))
