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
-- What a process has contributed to that state for as long as it lives is recorded in one more sorted set: by
-- when its lease ends, 'ID AMOUNT FIELD CONDITION STATE': what undoes it (the amount that is added to the field
-- of the hash), and who is told then. The layout says whether there are such records; as long as there are, the
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

-- The sorted set of those who sleep on a condition, and that of all conditions. No name of a lock has braces.
local function sleepers(s, condition) return s.key .. '{sleepers}' .. condition end
local function conditions(s) return s.key .. '{conditions}' end

-- The keys that there may be.
local function keys_of(s)
  local keys = {s.key, s.queue, s.done}
  if not s.conditions then return keys end
  keys[4] = conditions(s)
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
  redis.call('HSET', s.key, 'until', s.keep, 'layout',
    format(s.bound and '1 %d %d cb' or s.conditions and '1 %d %d c' or '1 %d %d', s.claim, s.now - wall))
  if s.fresh then redis.call('HSET', s.key, 'born', wall) end
  for _, key in ipairs(renewed and keys_of(s) or s.new or {}) do
    if redis.call('PEXPIRE', key, ttl, 'GT') == 0 then redis.call('PEXPIRE', key, ttl, 'NX') end
  end
  -- A process may be dead for long before anybody asks.
  if s.bound then redis.call('PERSIST', s.key) end
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

-- Moves those who sleep on a condition, and are alive, to the end of the queue: one, or all of them, 512 at
-- once. Whether there may be more.
local function signal(s, condition, all)
  local moved = 0
  repeat
    local id = redis.call('ZPOPMIN', sleepers(s, condition))[1]
    if not id then return false end
    if redis.call('PUBSUB', 'NUMSUB', channel(id))[2] > 0 then
      s.changed, s.conditions = s.changed or not s.conditions, true
      enqueue(s, id, ticket(s, 0))
      redis.call('HSET', s.key, mark(id), condition)
      moved = moved + 1
    end
  until moved == (all and 512 or 1)
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
    if signal(s, condition, true) then
      -- What is still to be signalled is left to the next call: a record that undoes nothing.
      redis.call('ZADD', s.bound, s.stamp, format('%s 0 %s %s %s', id, field, condition, state))
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

-- Gives a free lock to the first of the queue that is alive, at most 64 dead ones later; the message is the
-- grant. The caller of the script learns of its own grant from the answer. A small state of a monitor goes with the
-- message, if the script has its key: whoever it is for need not ask for it.
local function grant(s, caller)
  if s.bound then lapse(s) end
  if s.waiting == 0 then return end
  for _ = 1, 64 do
    local id = redis.call('ZPOPMIN', s.queue)[1]
    if not id then s.waiting = 0 return end
    if id == caller then return own(s, id, 0) end
    -- Whether anybody listens to the waiter's connection. What PUBLISH returns would not tell.
    if redis.call('PUBSUB', 'NUMSUB', channel(id))[2] > 0 then
      own(s, id, 0)
      local message, state = 'grant ' .. id .. ' ' .. s.fence .. ' ' .. s.deadline .. ' ' .. s.stamp, nil
      if s.state then state = contents(s.state) end
      if state and #state <= 4096 then message = message .. ' =' .. state end
      redis.pcall('PUBLISH', channel(id), message)
      return
    end
    pass_on(s, id)
  end
  s.more = true
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
  return told .. ' ' .. (place or 0) .. (s.more and ' 1 ' or ' 0 ') .. (extra or '')
end

-- What became of a grant that the lock does not know any more. A lock that is younger than the grant, or
-- has not come as far, has lost its memory and can not tell.
local function ended(s, fence, slot)
  if slot ~= '' and tonumber(redis.call('ZSCORE', s.done, slot) or 0) == fence then return answer(s, 'released') end
  if s.fence + 0 < fence or fence < s.now - memory then return answer(s, 'unknown') end
  return answer(s, redis.call('HGET', s.key, 'born') + 0 > fence and 'unknown' or 'lost')
end
