-- Executes a transaction on the state of a monitor without a critical section. If the lock is held or has waiters, the
-- transaction waits, and the script that frees the lock executes it when it is next. If a script cannot decide a step,
-- it grants the lock to the client, which executes the transaction itself.
--
-- KEYS       lock, state
-- ARGV       prefix, id, tries (the number of earlier copies), lease ms, claim ms, idle ms, since (the time at which
--            the transaction was first sent, or last known to wait; 0: do not execute it), ticket (as for acquire),
--            slot, seen fence (when it was first sent), condition (to wait on if a requirement does not hold; may be
--            empty), count of notifications (which follow, as for commit. Then for each step: a comparison, add or set;
--            the field; '=' and the value, or empty for none; the same for the value of a missing field; and two
--            bounds: the least and the greatest value of a number, or two texts that certainly differ from the value,
--            or both empty if any other text differs)
-- returns    released (the extra is its fence) | unmet | asleep (the extra is its ticket) | unknown (this call
--            did nothing), or like acquire. A message reports the outcome of a waiting transaction
-- repeated   answers released if it was executed, as long as the slot is remembered
-- wakes      the notified waiters; the first waiter of the queue
-- complexity O(steps + (notified + 1) log waiters + fields), and the same for each waiting transaction
-- flags: none
local argv, call, format = ARGV, redis.call, string.format
local time = call('TIME')
local stamp = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))  -- cheaper than format()
local now = stamp + 0
local key, id, tries, lease, slot, seen, condition = KEYS[1], argv[2], argv[3], argv[4], argv[9], argv[10], argv[11]
local state, since, steps, size, executed, overtaken = KEYS[2], argv[7] + 0, 13 + 2 * argv[12], nil, nil, nil
local packed = redis.pcall('HGET', key, 'state')
if packed and not packed.err and tries == '0' then
  local fence, clock, rest, expiry, claim = string.match(packed, '^2 %- (%d+) (%d+) 0 ((%d+) (%d+) 0 [-c] %d+)')
  if claim == argv[5] and clock + 0 <= now and fence + 0 < now and seen + 0 < now and argv[steps] and #argv < 1000 and
    expiry + 0 >= now + (lease + argv[6] / 2) * 1000 and now <= since + math.min(lease * 1000, 3600000000) then
    local done, asleep, result = key .. '{done}', 0, 'released'
    for i = 13, steps - 1, 2 do asleep = asleep + call('EXISTS', key .. '{sleepers}' .. argv[i]) end
    local fields, values, written = {}, {}, {}
    for i = steps, asleep == 0 and #argv or 0, 6 do fields[#fields + 1] = argv[i + 1] end
    local read = asleep == 0 and redis.pcall('HMGET', state, unpack(fields)) or {}
    for i, field in ipairs(fields) do
      if read[i] then values[field], size = '=' .. read[i], 1 end
    end
    if size == 1 then executed, overtaken = call('ZSCORE', done, slot), call('ZSCORE', done, slot .. '/1') end
    if size ~= 1 or overtaken or executed and executed + 0 > seen + 0 then result = nil end
    -- As in execute().
    local function exact(text)
      return text == '=0' and 0 or #text < 17 and tonumber(string.match(text, '^=(%-?[1-9]%d*)$'))
    end
    for i = steps, result and #argv or 0, 6 do
      local what, field, value, least, most = argv[i], argv[i + 1], argv[i + 2], argv[i + 4], argv[i + 5]
      local was, low = values[field] or argv[i + 3], tonumber(least)
      local sign = was == value and '=' or '<'
      if what == 'set' then
        values[field], written[field] = value, value
      elseif low then
        local a, b, high = exact(was), exact(value), most + 0
        local sum = a and b and (what == 'add' and a + b or a)
        if not sum or a < low or a > high or sum < low or sum > high then result = nil break end
        if what == 'add' then values[field] = format('=%d', sum) written[field] = values[field] end
        sign = a < b and '<' or a > b and '>' or '='
      elseif sign ~= '=' and least ~= '' and was ~= least and was ~= most then result = nil break end
      if what ~= 'set' and what ~= 'add' and not string.find(what, sign, 1, true) then result = 'unmet' break end
    end
    if result == 'unmet' and condition == '' then
      call('HSET', key, 'state', '2 - ' .. fence .. ' ' .. stamp .. ' 0 ' .. rest)
      return 'unmet ' .. stamp .. ' ' .. fence .. ' 0'
    elseif result == 'released' then
      -- If the server refuses to remove fields, this is an error before anything has changed.
      for field, value in pairs(written) do
        if value == '' then call('HDEL', state, field) end
      end
      if call('ZADD', done, stamp, slot) == 1 then call('PEXPIRE', done, math.ceil((expiry - now) / 1000)) end
      if now % 64 == 0 then call('ZREMRANGEBYSCORE', done, '-inf', now - 3600000000) end
      for field, value in pairs(written) do
        if value ~= '' then call('HSET', state, field, string.sub(value, 2)) end
      end
      call('HSET', key, 'state', '2 - ' .. stamp .. ' ' .. stamp .. ' 0 ' .. rest)
      return 'released ' .. stamp .. ' ' .. stamp .. ' 0 0 0 ' .. stamp
    end
  end
end
-- common.lua and prologue.lua stand here
size = size or redis.pcall('HLEN', state)
if is_of_another_type(size) then return 'wrongtype' end
local s, why = open(key, ARGV[5], now, packed)
if not s then return why end
s.state, s.size = state, size
if executed == nil then executed = redis.call('ZSCORE', s.done, slot) end
if executed and executed + 0 > seen + 0 then return answer(s, 'released', nil, format('%d', executed)) end
if overtaken == nil then overtaken = redis.call('ZSCORE', s.done, slot .. '/' .. tries + 1) end
-- A copy must not be executed if it is so late that the lock may have forgotten an execution, or if a later copy came
-- first.
local late = s.now > since + math.min(lease * 1000, memory) and
  (s.fresh or since < s.now - memory or redis.call('HGET', s.key, 'born') + 0 > since)
if late or overtaken then return answer(s, 'unknown') end
for i = 1, tries + 0 do
  -- The score `stamp` would mark the grant of the token `stamp` as released, and this call may make that grant.
  redis.call('ZADD', s.done, s.stamp .. '.5', slot .. '/' .. i)
  note_key(s, s.done)
end
-- A delayed duplicate may already be queued.
local former = tries ~= '0' and take_plan(s, id)
if former then
  s.waiting = s.waiting - redis.call('ZREM', s.queue, former[1])
  if condition ~= '' then redis.call('ZREM', waiters_on(s, condition), former[1]) end
  renotify(s, id)
end
expire_grant(s)
mark_responsive(s, id)
if s.holder == '' and s.pending then process_pending(s) end
if s.holder == '' and s.waiting > 0 then grant_next(s) end

local result, extra
if s.holder ~= '' or s.waiting > 0 then
  enqueue(s, id, new_ticket(s, ARGV[8] + 0))
  store_plan(s, id, ARGV, 9)
else
  result, extra = execute(s, id, ARGV, 9)
  if result == 'unmet' and condition ~= '' then
    result, extra = 'asleep', wait_on(s, id, condition)
    store_plan(s, id, ARGV, 9)
  elseif not result then
    grant_to(s, id, seen)
    extra = contents(state)
  end
  if result and s.waiting > 0 then grant_next(s) end
end
save(s, lease, ARGV[6])
return answer(s, result, id, extra)
