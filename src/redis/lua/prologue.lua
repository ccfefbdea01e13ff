-- What every script of a lock begins with.
--
-- A lock is three keys: a hash (the state), a sorted set (the queue: waiter by ticket) and a sorted set
-- (what was given back last: fence by slot). ARGV[1] is the prefix of the wake channels. Times are
-- microseconds, spans in ARGV milliseconds. Invariant after each script: the lock has an owner, or
-- nobody waits, or the answer says that there is more to do.
--
-- If somebody sleeps on a condition of the lock, or did, there are more keys, whose names begin with that of
-- the lock: for each condition a sorted set (the sleepers: waiter by ticket), and one of all conditions. Who
-- was signalled has a mark in the hash, the name of the condition, until its section has ended. A monitor has
-- its state in a hash of its own, which only the scripts get that read or write it. It does not expire.
--
-- The id of a transaction ends with a plus. As long as it waits, in the queue or on a condition, the hash says what
-- it wants, its plan; so whoever sets the lock free can carry it out, if the script has the state.
--
-- What a process has contributed to that state for as long as it lives is recorded in one more sorted set: by
-- when its lease ends, 'ID AMOUNT FIELD CONDITION STATE': what undoes it (the amount that is added to the field
-- of the hash), and who is told then. If the amount is the word rest, nothing is undone, and those are still to be told
-- who slept with a ticket up to that in the place of the field. The layout says whether there are such records; as long as there are, the
-- lock does not expire.
--
-- The server runs all of this for each call. What costs most there are fields that are read and written,
-- functions that are made, and numbers that become text or are made of it. So numbers of the state stay the
-- texts that they are stored as, until something is computed; `+ 0` makes a number of one.
local memory = 3600 * 1000000  -- how long it is remembered what was given back
local wall = redis.call('TIME')
wall = wall[1] * 1000000 + wall[2]

-- redis.call and `..` would write numbers out much slower, and the latter with 14 digits only.
local format = string.format

-- The channel that the connection of a waiter listens to: 'nonce#incarnation.sequence' less the sequence.
local function channel(id)
  return ARGV[1] .. string.match(id, '^[^.]*')
end

-- Reads the lock whose keys are the triple that begins at KEYS[first]; nil and why if it is not ours. Every
-- grant is at first for the longest claim lease, in ms, that any client of the lock asked for.
local function open(first, claim)
  local key, queue = KEYS[first], KEYS[first + 1]
  local v = redis.pcall('HMGET', key, 'owner', 'fence', 'clock', 'until', 'layout')
  local waiting = redis.pcall('ZCARD', queue)
  if v.err or waiting ~= 0 and type(waiting) == 'table' then return nil, 'wrongtype' end
  local now, fresh, changed, conditions = wall, not v[5], false, ''
  if fresh then
    v, changed = {'', '0', 0, 0}, true
  elseif v[5] ~= '1 ' .. claim .. ' 0' then
    -- Not as it is nearly always: another layout, another claim lease, a skew, conditions, or contributions.
    local longest, ahead
    longest, ahead, conditions = string.match(v[5], '^1 (%d+) (%d+)( ?c?b?)$')
    if not longest then return nil, 'foreign' end
    if longest + 0 < claim + 0 then changed = true else claim = longest end
    now = wall + ahead
  end
  -- The clock of a lock never goes back: if the server's did, the lock's goes on from where it was.
  if now < v[3] + 0 then
    now, changed = v[3] + 0, true
  end
  local s = {key = key, queue = queue, done = KEYS[first + 2], waiting = waiting, owner = v[1], fence = v[2],
    deadline = '0', now = now, stamp = format('%d', now), keep = v[4] + 0, claim = claim}
  if conditions ~= '' then s.conditions = true end
  if conditions == ' cb' then s.bound = key .. '{bound}' end
  if changed then s.fresh, s.changed = fresh, true end
  return s
end

-- The sorted set of those who sleep on a condition. No name of a lock has braces.
local function sleepers(s, condition) return s.key .. '{sleepers}' .. condition end

-- The keys that there may be.
local function keys_of(s)
  local keys = {s.key, s.queue, s.done}
  if not s.conditions then return keys end
  keys[4] = s.key .. '{conditions}'
  for _, condition in ipairs(redis.call('ZRANGE', keys[4], 0, -1)) do
    keys[#keys + 1] = sleepers(s, condition)
  end
  return keys
end

-- Of a key that may be a new one, nothing says yet how long it is to live.
local function note(s, key)
  s.new = s.new or {}
  if s.new[#s.new] ~= key then s.new[#s.new + 1] = key end
end

-- Writes the state, unless there is nothing to be kept. Lets all keys live for a lease and at least half of
-- the idle time more; by that half it saves most of the commands.
local function save(s, lease, idle)
  if s.fresh and s.owner == '' and s.waiting == 0 and not (s.leased or s.new or s.bound) then return end
  if s.leased or s.fresh then
    redis.call('HSET', s.key, 'owner', s.owner, 'fence', s.fence, 'clock', s.stamp, 'deadline', s.deadline)
  else
    redis.call('HSET', s.key, 'owner', s.owner, 'clock', s.stamp)
  end
  local renewed = s.keep < s.now + (lease + idle / 2) * 1000
  if not (renewed or s.changed or s.new) then return end
  local ttl = lease + idle
  if renewed then s.keep = s.now + ttl * 1000 end
  -- What is new lives as long as the lock: it is believed to remember all that there was since it was born.
  ttl = format('%d', math.max(ttl, math.ceil((s.keep - s.now) / 1000)))
  redis.call('HSET', s.key, 'until', s.keep, 'layout',
    format(s.bound and '1 %d %d cb' or s.conditions and '1 %d %d c' or '1 %d %d', s.claim, s.now - wall))
  if s.fresh then redis.call('HSET', s.key, 'born', wall) end
  for _, key in ipairs(renewed and keys_of(s) or s.new or {}) do
    if redis.call('PEXPIRE', key, ttl, 'GT') == 0 then redis.call('PEXPIRE', key, ttl, 'NX') end
  end
  -- A process may be dead for long before anybody asks. What was given back is remembered as long: who comes late
  -- with a transaction would find a lock that seems to know everything.
  if s.bound then redis.call('PERSIST', s.key) redis.call('PERSIST', s.done) end
end

local function own(s, id, seen)
  local last = s.fence + 0
  if seen + 0 > last then last = seen + 0 end
  s.owner, s.fence = id, last < s.now and s.stamp or format('%d', last + 1)
  s.deadline, s.leased = format('%d', s.now + s.claim * 1000), true
end

-- The place at the end of the queue, or of the sleepers. A hint is the place of one that was there before; it
-- must not be of a queue that is yet to come.
local function ticket(s, hint)
  local newest = (redis.call('HGET', s.key, 'ticket') or 0) + 0
  local last = math.max(newest, s.now)
  local place = hint > 0 and hint <= last and hint or math.max(newest + 1, s.now)
  redis.call('HSET', s.key, 'ticket', format('%d', math.max(newest, place)))
  return format('%d', place)
end

local function enqueue(s, id, place)
  redis.call('ZADD', s.queue, place, id)
  -- With conditions, all who waited may have been found dead, and others come now.
  if s.waiting == 0 or s.conditions then note(s, s.queue) end
  s.waiting = s.waiting + 1
end

-- The mark of one who was signalled, whatever connection it has.
local function mark(id)
  return 'signalled ' .. string.gsub(id, '#%d+', '', 1)
end

-- What a transaction wants, if it is one that waits: takes that out of the lock, or puts it down, a list of texts from
-- the element `at` on. Who was the last to ask for it stands first, and then what transact.lua was given.
local function plan_of(s, id, new, at)
  if string.byte(id, -1) ~= 43 then return end
  local field = 'plan ' .. string.gsub(id, '#%d+', '', 1)
  if new then
    local parts = {#id .. ':' .. id}
    for i = at, #new do parts[#parts + 1] = #new[i] .. ':' .. new[i] end
    redis.call('HSET', s.key, field, table.concat(parts))
    return
  end
  local text, plan, first = redis.call('HGET', s.key, field), {}, 1
  if not text then return end
  redis.call('HDEL', s.key, field)
  while first <= #text do
    local colon = string.find(text, ':', first, true)
    local last = colon + string.sub(text, first, colon - 1)
    plan[#plan + 1], first = string.sub(text, colon + 1, last), last + 1
  end
  return plan
end

-- Lets somebody sleep on a condition; its place there.
local function fall_asleep(s, id, condition)
  local place = ticket(s, 0)
  redis.call('ZADD', sleepers(s, condition), place, id)
  redis.call('ZADD', s.key .. '{conditions}', 0, condition)
  s.changed, s.conditions = s.changed or not s.conditions, true
  note(s, sleepers(s, condition))
  note(s, s.key .. '{conditions}')
  return place
end

-- Moves those who sleep on a condition, and are alive, to the end of the queue: one, or all of them, 512 at
-- once. Whether there may be more. A call that goes on where one has stopped gets the newest ticket that there was then:
-- who has fallen asleep since is not meant, or those who are woken in vain would be woken for ever.
local function signal(s, condition, all, newest)
  local moved = 0
  repeat
    local key = sleepers(s, condition)
    if newest and not redis.call('ZRANGEBYSCORE', key, '-inf', newest, 'LIMIT', 0, 1)[1] then return false end
    local id = redis.call('ZPOPMIN', key)[1]
    if not id then return false end
    if redis.call('PUBSUB', 'NUMSUB', channel(id))[2] > 0 then
      s.changed, s.conditions = s.changed or not s.conditions, true
      enqueue(s, id, ticket(s, 0))
      redis.call('HSET', s.key, mark(id), condition)
      moved = moved + 1
    else
      plan_of(s, id)
    end
  until moved == (all and 512 or 1)
  if all then s.newest = redis.call('HGET', s.key, 'ticket') end
  return all
end

-- Somebody who was signalled ends without a section that ended well: the next one is signalled instead.
local function pass_on(s, id)
  local condition = s.conditions and redis.call('HGET', s.key, mark(id))
  if not condition then return end
  redis.call('HDEL', s.key, mark(id))
  signal(s, condition, false)
end

-- Takes the lock away from its owner, if the lease has ended or at once, and tells it.
local function reap(s, at_once)
  if s.owner == '' then return end
  -- Not read before, since who finds the lock free, or gives it back, need not know it.
  s.deadline = redis.call('HGET', s.key, 'deadline')
  if s.deadline + 0 > s.now and not at_once then return end
  redis.pcall('PUBLISH', channel(s.owner), 'lost ' .. s.owner .. ' ' .. s.fence .. ' ' .. s.stamp)
  pass_on(s, s.owner)
  s.owner, s.deadline = '', '0'
end

-- From now on there are contributions to the state of the lock.
local function bind(s)
  s.bound, s.conditions, s.changed = s.key .. '{bound}', true, true
end

-- Undoes the contributions whose leases have ended, 64 at once. Only while nobody owns the lock: an owner would
-- write over it.
local function lapse(s)
  local over = redis.call('ZRANGEBYSCORE', s.bound, '-inf', s.stamp, 'LIMIT', 0, 64)
  for _, record in ipairs(over) do
    local id, amount, field, condition, state = string.match(record, '^(%S+) (%S+) (%S+) (%S+) (.*)$')
    -- If somebody has spoiled or deleted the state, there is nothing to undo.
    if redis.pcall('HEXISTS', state, field) == 1 then redis.pcall('HINCRBY', state, field, amount) end
    redis.call('ZREM', s.bound, record)
    local newest = amount == 'rest' and field
    if signal(s, condition, true, newest) then
      -- What is still to be signalled is left to the next call: a record that undoes nothing.
      redis.call('ZADD', s.bound, s.stamp, format('%s rest %s %s %s', id, newest or s.newest, condition, state))
      s.more = true
    end
  end
  if #over == 64 then s.more = true end
  -- With the last of them, the lock may expire again.
  if redis.call('ZCARD', s.bound) == 0 then s.bound, s.changed, s.keep = nil, true, 0 end
end

-- The state of a monitor, as answers and messages carry it: of each name and value, the length, a colon, and what
-- it is; nil if the key holds something else.
local function contents(key)
  local parts = redis.pcall('HGETALL', key)
  if parts.err then return end
  for i, part in ipairs(parts) do parts[i] = format('%d:', #part) .. part end
  return table.concat(parts)
end

-- Gives the lock back, if its owner is the one who was granted it with the fence. The slot remembers that; with
-- none, the section did not end well. The last fence is that of a cohort's last section, if it has passed the
-- lock on; what is granted next is above it.
local function part(s, id, fence, slot, last)
  -- The incarnation of the id may have changed since, the rest has not.
  local known = s.owner == id or string.gsub(s.owner, '#%d+', '', 1) == string.gsub(id, '#%d+', '', 1)
  if s.owner == '' or s.fence ~= fence or not known then return false end
  s.owner = ''
  if last then s.fence, s.leased = last, true end
  if slot == '' then pass_on(s, id) return true end
  if redis.call('ZADD', s.done, fence, slot) == 1 then note(s, s.done) end
  if s.now % 64 == 0 then redis.call('ZREMRANGEBYSCORE', s.done, '-inf', s.now - memory) end
  if s.conditions then redis.call('HDEL', s.key, mark(id)) end
  return true
end

-- Carries out a transaction while nobody owns the lock: a list of texts, from the element `at` on, see transact.lua.
-- Returns released, and the fence; unmet, if a requirement does not hold; or nothing, if only its client can tell.
local function carry_out(s, id, plan, at)
  local state = s.state
  local size = s.size or redis.pcall('HLEN', state)
  -- Not all of a state that was never written has the values that its type gives it.
  if type(size) == 'table' or size == 0 then return end
  s.size = nil
  -- A number that a double says exactly, written as clients write it; anything else is for the client to read.
  local function exact(text)
    return text == '=0' and 0 or #text < 17 and tonumber(string.match(text, '^=(%-?[1-9]%d*)$'))
  end
  local values, signals = {}, at + 4
  local steps = signals + 2 * plan[at + 3]
  for i = steps, #plan, 6 do
    local what, field, value, least, most = plan[i], plan[i + 1], plan[i + 2], plan[i + 4], plan[i + 5]
    local was = values[field]
    if not was and what ~= 'set' then
      was = redis.call('HGET', state, field)
      was = was and '=' .. was or plan[i + 3]
    end
    local low, sign = tonumber(least), was == value and '=' or '<'
    if what == 'set' then
      values[field] = value
    elseif low then
      local a, b, high = exact(was), exact(value), most + 0
      local sum = a and b and (what == 'add' and a + b or a)
      if not sum or a < low or a > high or sum < low or sum > high then return end
      if what == 'add' then values[field] = format('=%d', sum) end
      sign = a < b and '<' or a > b and '>' or '='
    elseif sign ~= '=' and least ~= '' and was ~= least and was ~= most then
      return
    end
    -- A comparison is the signs that it allows: = <> < <= > >=
    if what ~= 'set' and what ~= 'add' and not string.find(what, sign, 1, true) then return 'unmet' end
  end
  own(s, id, plan[at + 1])
  local fence = s.fence
  part(s, id, fence, plan[at])
  s.deadline = '0'
  for field, value in pairs(values) do
    if value == '' then redis.call('HDEL', state, field)
    else redis.call('HSET', state, field, string.sub(value, 2)) end
  end
  for i = signals, steps - 1, 2 do
    if signal(s, plan[i], plan[i + 1] == 'all') then
      -- Whoever comes next goes on, as with a contribution that has lapsed.
      if not s.bound then bind(s) end
      redis.call('ZADD', s.bound, s.stamp, format('%s rest %s %s %s', id, s.newest, plan[i], state))
      s.more = true
    end
  end
  return 'released', fence
end

-- Gives a free lock to the first of the queue that is alive, at most 64 others later; the message is the
-- grant. The caller of the script learns of its own grant from the answer. A small state of a monitor goes with the
-- message, if the script has its key: whoever it is for need not ask for it. Transactions are carried out then, or
-- go to sleep, and whoever comes next is looked at.
local function grant(s, caller)
  if s.bound then lapse(s) end
  if s.waiting == 0 then return end
  for _ = 1, 64 do
    local id = redis.call('ZPOPMIN', s.queue)[1]
    if not id then s.waiting = 0 return end
    local plan = plan_of(s, id)
    if id == caller and not (plan and s.state) then return own(s, id, 0) end
    -- Whether anybody listens to the waiter's connection. What PUBLISH returns would not tell.
    if redis.call('PUBSUB', 'NUMSUB', channel(id))[2] == 0 then
      pass_on(s, id)
    else
      local told, fence
      if plan and s.state then told, fence = carry_out(s, id, plan, 2) end
      if told == 'unmet' and plan[4] ~= '' then
        -- The signal that has brought it here is used up, as by a section that waits again.
        if s.conditions then redis.call('HDEL', s.key, mark(id)) end
        fall_asleep(s, id, plan[4])
        plan_of(s, id, plan, 2)
      elseif told then
        redis.pcall('PUBLISH', channel(id), told .. ' ' .. id .. ' ' .. (fence or s.fence) .. ' ' .. s.stamp)
        -- It may have woken very many.
        if s.more then return end
      else
        own(s, id, 0)
        local message, state = 'grant ' .. id .. ' ' .. s.fence .. ' ' .. s.deadline .. ' ' .. s.stamp, nil
        if s.state then state = contents(s.state) end
        if state and #state <= 4096 then message = message .. ' =' .. state end
        redis.pcall('PUBLISH', channel(id), message)
        return
      end
    end
  end
  s.more = true
end

-- What is to be said of a lock: 'status now fence deadline', and perhaps 'ticket more extra'. If the status is
-- not given, it is that of a waiter: own, queued, asleep (on the condition) or gone. Behind the deadline, and a
-- comma, stands when the next contribution lapses, if there are any.
local function answer(s, status, id, extra, condition)
  local place
  if not status and s.owner == id then
    status = 'own'
  elseif not status then
    place = id ~= '' and redis.call('ZSCORE', s.queue, id)
    status = place and 'queued' or 'gone'
    if not place and condition then
      place = redis.call('ZSCORE', sleepers(s, condition), id)
      if place then status = 'asleep' end
    end
  end
  local told = status .. ' ' .. s.stamp .. ' ' .. s.fence .. ' ' .. s.deadline
  if s.bound then told = told .. ',' .. (redis.call('ZRANGE', s.bound, 0, 0, 'WITHSCORES')[2] or 0) end
  if not (place or extra) and not s.more then return told end
  return told .. ' ' .. (place or s.newest or 0) .. (s.more and ' 1 ' or ' 0 ') .. (extra or '')
end

-- What became of a grant that the lock does not know any more. A lock that is younger than the grant, or
-- has not come as far, has lost its memory and can not tell.
local function ended(s, fence, slot)
  if slot ~= '' and tonumber(redis.call('ZSCORE', s.done, slot) or 0) == fence then return answer(s, 'released') end
  if s.fence + 0 < fence or fence < s.now - memory then return answer(s, 'unknown') end
  return answer(s, redis.call('HGET', s.key, 'born') + 0 > fence and 'unknown' or 'lost')
end
