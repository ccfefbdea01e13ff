-- Changes the state of a monitor without a section, if nobody owns the lock or waits for it. If somebody does, or
-- what is to be done can not be decided here, it acquires the lock or queues, and the client goes on.
--
-- KEYS       lock, queue, done, state
-- ARGV       prefix, id, slot, tries (how often it was sent before), lease ms, claim ms, idle ms, seen fence (when
--            it was sent first), grace (as of acquire), since (a time, when it was sent first), otherwise (wait or
--            fail: if a requirement does not hold), signals (as of leave. Behind them, of each step: a comparison,
--            add or set; the field; '=' and the value, or empty for none; the same of what counts if there is no
--            such field; and of a number the least and the most that it can be, of anything else texts that
--            differ from the value for certain, or empty and empty if all do)
-- returns    released (the extra is its fence) | unmet | unknown (nothing was done now), or like acquire
-- repeated   answers released if it was carried out, as long as the slot is remembered
-- wakes      those who are signalled; the first of the queue
-- complexity O(steps + (signalled + 1) log waiters + fields)
-- flags: none
local id, slot, state, seen, tries = ARGV[2], ARGV[3], KEYS[4], ARGV[8], ARGV[4]
local steps, size = 13 + 2 * ARGV[12], redis.pcall('HLEN', state)
if type(size) == 'table' then return 'wrongtype' end

-- A number that a double says exactly, written as clients write it; anything else is for the client to read.
local function exact(text)
  return text == '=0' and 0 or #text < 17 and tonumber(string.match(text, '^=(%-?[1-9]%d*)$'))
end

-- What the fields are to be, by name; or nil, and unmet or unsure.
local function evaluate()
  -- Not all of a state that was never written has the values that its type gives it.
  if size == 0 then return nil, 'unsure' end
  local values = {}
  for i = steps, #ARGV, 6 do
    local what, field, value, least, most = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 4], ARGV[i + 5]
    local was = values[field]
    if not was and what ~= 'set' then
      was = redis.call('HGET', state, field)
      was = was and '=' .. was or ARGV[i + 3]
    end
    local low, sign = tonumber(least), was == value and '=' or '<'
    if what == 'set' then
      values[field] = value
    elseif low then
      local a, b, high = exact(was), exact(value), most + 0
      local sum = a and b and (what == 'add' and a + b or a)
      if not sum or a < low or a > high or sum < low or sum > high then return nil, 'unsure' end
      if what == 'add' then values[field] = format('=%d', sum) end
      sign = a < b and '<' or a > b and '>' or '='
    elseif sign ~= '=' and least ~= '' and was ~= least and was ~= most then
      return nil, 'unsure'
    end
    -- A comparison is the signs that it allows: = <> < <= > >=
    if what ~= 'set' and what ~= 'add' and not string.find(what, sign, 1, true) then return nil, 'unmet' end
  end
  return values
end

local s, why = open(1, ARGV[6])
if not s then return why end
s.state = state
local mark, position = (redis.call('ZSCORE', s.done, slot) or 0) + 0, nil
if mark > seen + 0 then return answer(s, 'released', nil, format('%d', mark)) end
-- One that is late, or that another one has followed, must not be carried out any more.
local late = s.now > ARGV[10] + ARGV[5] * 1000
if late or redis.call('ZSCORE', s.done, slot .. '/' .. tries + 1) then return answer(s, 'unknown') end
for i = 1, tries + 0 do
  redis.call('ZADD', s.done, s.stamp, slot .. '/' .. i)
  note(s, s.done)
end
reap(s)
if s.fresh and s.now < ARGV[9] + 0 then s.owner, s.deadline, s.leased = '?', ARGV[9], true end
if s.fresh and redis.call('EXISTS', s.key .. '{bound}') == 1 then bind(s) end
if s.owner == '' and s.bound then lapse(s) end
if s.owner == '' and s.waiting > 0 then grant(s, id) end
if s.owner == '' and s.waiting == 0 then
  local values, verdict = evaluate()
  if verdict == 'unmet' and ARGV[11] == 'fail' then
    save(s, ARGV[5], ARGV[7])
    return answer(s, 'unmet')
  end
  own(s, id, seen)
  if values then
    local fence = s.fence
    part(s, id, fence, slot)
    s.deadline = '0'
    for field, value in pairs(values) do
      if value == '' then redis.call('HDEL', state, field)
      else redis.call('HSET', state, field, string.sub(value, 2)) end
    end
    for i = 13, steps - 1, 2 do s.more = signal(s, ARGV[i], ARGV[i + 1] == 'all') or s.more end
    if s.waiting > 0 then grant(s) end
    save(s, ARGV[5], ARGV[7])
    return answer(s, 'released', nil, fence)
  end
elseif s.owner ~= id and not redis.call('ZSCORE', s.queue, id) then
  position = s.waiting
  enqueue(s, id, ticket(s, 0))
end
save(s, ARGV[5], ARGV[7])
return answer(s, nil, id, s.owner == id and contents(state) or position)
