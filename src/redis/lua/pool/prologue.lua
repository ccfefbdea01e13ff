-- What every script of a pool begins with.
--
-- A pool has units, of which holders have leases. It is five keys: a hash (the state), a sorted set (the
-- queue: waiter by ticket), a sorted set (what was given back last: fence by slot), a sorted set (the
-- holders: deadline by id) and a hash (of a waiter, what it wants; of a holder, 'units fence outside'). A
-- number of units is two in one: so many ordinary ones, and so many times `special` ones, which a semaphore
-- does not have. ARGV[1] is the prefix of the wake channels. Times are microseconds, spans in ARGV
-- milliseconds. Invariant after each script: the first of the queue does not fit, or the answer says that
-- there is more to do.
--
-- A taker wants units that are outside as soon as they are granted. That it was is remembered among what was given
-- back, until its client says that it has heard of it.
local layout = '1'
local memory = 3600 * 1000000  -- how long it is remembered what was given back
local special = 2 ^ 30
local signals = 2 ^ 28  -- the capacity of an automatic event, which no semaphore has: see merge()
local at_once = 64  -- how many are granted or reaped by one script
local wall = redis.call('TIME')
wall = wall[1] * 1000000 + wall[2]

-- redis.call would write numbers out much slower.
local function text(number)
  return string.format('%d', number)
end

-- The channel that the connection of a waiter listens to: 'nonce#incarnation.sequence' less the sequence.
local function channel(id)
  return ARGV[1] .. string.match(id, '^[^.]*')
end

-- Whether anybody listens to the waiter's connection. What PUBLISH returns would not tell.
local function alive(id)
  return redis.call('PUBSUB', 'NUMSUB', channel(id))[2] > 0
end

-- Lets a key that may be new live for at least ttl more milliseconds.
local function prolong(key, ttl)
  if redis.call('PEXPIRE', key, ttl, 'GT') == 0 then redis.call('PEXPIRE', key, ttl, 'NX') end
end

-- What is known of a holder: its units, its fence, how many of its units it has left outside, and when its
-- lease ends. Who is in one of the two keys only is no holder: somebody has deleted the other.
local function holding(s, id)
  local deadline = redis.call('ZSCORE', s.holders, id)
  local entry = deadline and redis.call('HGET', s.units, id)
  local units, fence, left = string.match(entry or '', '^(%d+) (%d+) (%d+)$')
  if units then return tonumber(units), tonumber(fence), tonumber(left), tonumber(deadline) end
end

-- Reads the pool whose five keys begin at KEYS[first]; nil and why if it is not ours. A pool that does not
-- exist has the capacity and the units outside of permits that the caller names.
local function open(first, claim, capacity, outside)
  local key, queue, holders = KEYS[first], KEYS[first + 1], KEYS[first + 3]
  local v = redis.pcall('HMGET', key, 'layout', 'held', 'outside', 'fence', 'clock', 'ticket', 'given', 'skew',
    'claim', 'born', 'until', 'capacity', 'origin')
  local head = redis.pcall('ZRANGE', queue, 0, 0)
  if v.err or head.err then return nil, 'wrongtype' end
  local s = {key = key, queue = queue, done = KEYS[first + 2], holders = holders, units = KEYS[first + 4],
    head = head[1], claim = tonumber(claim), more = 0, deadline = 0}
  if not v[1] then
    -- Here or never: what is somebody else's must not be written to, nor get an end.
    for _, size in ipairs({redis.pcall('ZCARD', s.done), redis.pcall('ZCARD', holders),
      redis.pcall('HEXISTS', s.units, '')}) do
      if type(size) == 'table' then return nil, 'wrongtype' end
    end
    s.held, s.outside, s.fence, s.ticket, s.given, s.skew, s.keep = 0, tonumber(outside), 0, 0, 0, 0, 0
    s.capacity, s.origin = tonumber(capacity), s.outside
    s.now, s.born, s.fresh, s.changed = wall, wall, true, true
    -- Somebody has deleted the state alone.
    for _, id in ipairs(redis.call('ZRANGE', holders, 0, -1)) do
      local units, fence = holding(s, id)
      s.held, s.fence = s.held + (units or 0), math.max(s.fence, fence or 0)
    end
    return s
  end
  if v[1] ~= layout then return nil, 'foreign' end
  s.held, s.outside, s.fence, s.ticket = tonumber(v[2]), tonumber(v[3]), tonumber(v[4]), tonumber(v[6])
  s.given, s.skew, s.born, s.keep = tonumber(v[7]), tonumber(v[8]), tonumber(v[10]), tonumber(v[11])
  s.capacity, s.origin = tonumber(v[12]), tonumber(v[13])
  -- Or the holders alone.
  if s.held > 0 and redis.call('EXISTS', holders) == 0 then s.held = 0 end
  if s.claim <= tonumber(v[9]) then s.claim = tonumber(v[9]) else s.changed = true end
  s.now = wall + s.skew
  if s.now < tonumber(v[5]) then
    s.now = tonumber(v[5])
    s.skew, s.changed = s.now - wall, true
  end
  return s
end

-- The units of an automatic event are signals, which do not add up: no more than one is available if nobody
-- waits.
local function merge(s)
  local available = s.capacity - s.outside - s.held
  if s.capacity == signals and not s.head and available > 1 then s.outside = s.outside + available - 1 end
end

-- Writes the state. A pool with other units outside than it began with is kept for ever: they are not a
-- lease that would come back.
local function save(s, lease, idle)
  merge(s)
  if s.fresh and s.held == 0 and s.outside == s.origin and not s.head and not s.created then return end
  local ttl = lease + idle
  redis.call('HSET', s.key, 'held', text(s.held), 'outside', text(s.outside), 'fence', text(s.fence), 'clock',
    text(s.now), 'ticket', text(s.ticket), 'given', text(s.given))
  local forever = s.outside ~= s.origin
  local renewed = s.keep < s.now + (ttl - idle / 2) * 1000
  if renewed then s.keep, s.changed = s.now + ttl * 1000, true end
  if s.changed then
    redis.call('HSET', s.key, 'layout', layout, 'skew', text(s.skew), 'claim', text(s.claim), 'born', text(s.born),
      'until', text(s.keep), 'capacity', text(s.capacity), 'origin', text(s.origin))
  end
  if renewed or s.added then
    for _, key in ipairs({s.queue, s.done, s.holders, s.units}) do prolong(key, ttl) end
  end
  -- What was taken or added must not be taken or added again by who comes back late.
  if s.moved then prolong(s.done, memory / 1000) end
  if forever then redis.call('PERSIST', s.key)
  elseif renewed or s.moved then redis.call('PEXPIRE', s.key, math.max(ttl, math.ceil((s.keep - s.now) / 1000))) end
end

local function hold(s, id, units, fence, left, deadline)
  redis.call('HSET', s.units, id, text(units) .. ' ' .. text(fence) .. ' ' .. text(left))
  redis.call('ZADD', s.holders, text(deadline), id)
end

-- Whether units of both kinds are there.
local function fits(s, units)
  return s.held % special + s.outside + units % special <= s.capacity % special and
    math.floor(s.held / special) + math.floor(units / special) <= math.floor(s.capacity / special)
end

-- Whether so many can ever be there.
local function possible(s, units)
  return units % special <= s.capacity % special and units <= s.capacity
end

-- Counts units that nobody holds any more, or that are back.
local function move(s, number)
  if number ~= 0 then s.outside, s.moved = s.outside + number, true end
end

-- Remembers what was given back, or taken, with which fence. Whether that is something new.
local function remember(s, what, fence)
  if fence % 64 == 0 then redis.call('ZREMRANGEBYSCORE', s.done, '-inf', s.now - memory) end
  return redis.call('ZADD', s.done, text(fence), what) == 1
end

-- What a taker is remembered by, whatever connection it has: a command of a former one may come late, and must
-- not take anything again.
local function taker(id)
  return (string.gsub(id, '#%d+%.', '#0-', 1))
end

-- The fence with which a taker was granted its units.
local function served(s, id)
  return tonumber(redis.call('ZSCORE', s.done, taker(id)) or nil)
end

local function own(s, id, units, seen, takes)
  s.fence = math.max(s.fence + 1, s.now, seen + 1)
  s.given = s.fence
  if takes then
    remember(s, taker(id), s.fence)
    move(s, units)
    return
  end
  -- The keys of holders may be new.
  if s.held == 0 then s.added = true end
  s.held = s.held + units
  hold(s, id, units, s.fence, 0, s.now + s.claim * 1000)
end

-- A taker is not interested any more: what it was granted is back, unless somebody has added it meanwhile. If a
-- former connection of it may still ask for units, it counts as served.
local function put_back(s, id, units, again)
  local name = taker(id)
  local undone = name .. ' back'
  if served(s, id) and not redis.call('ZSCORE', s.done, undone) then move(s, -math.min(units, s.outside)) end
  redis.call('ZREM', s.done, name)
  if not again then return end
  remember(s, name, s.now)
  remember(s, undone, s.now)
  s.moved = true
end

-- Takes a holder's units back.
local function drop(s, id, units)
  redis.call('ZREM', s.holders, id)
  redis.call('HDEL', s.units, id)
  s.held = s.held - units
end

-- Takes back the units of those whose lease has ended, and tells them.
local function reap(s)
  local over = redis.call('ZRANGEBYSCORE', s.holders, '-inf', text(s.now), 'LIMIT', 0, at_once)
  for _, id in ipairs(over) do
    local units, fence = holding(s, id)
    drop(s, id, units or 0)
    if units then redis.pcall('PUBLISH', channel(id), 'lost ' .. id .. ' ' .. text(fence) .. ' ' .. text(s.now)) end
  end
  if #over == at_once then s.more = 1 end
  merge(s)
end

local function leave(s, id)
  redis.call('ZREM', s.queue, id)
  redis.call('HDEL', s.units, id)
end

-- Serves the queue for as long as its first fits; who is dead is left out. The message is the grant. The
-- caller of the script learns of its own grant from the answer.
local function grant(s, caller)
  for _ = 1, at_once do
    local id = redis.call('ZRANGE', s.queue, 0, 0)[1]
    s.head = id
    if not id then return end
    local units, takes = string.match(redis.call('HGET', s.units, id) or '', '^(%d+)( ?%a*)$')
    units, takes = tonumber(units or nil), takes == ' take'
    local lives = units and (id == caller or alive(id))
    -- A taker that was served under the id of another connection is told so again.
    local fence = lives and takes and served(s, id)
    if lives and not fence and not fits(s, units) then return end
    leave(s, id)
    if lives and not fence then
      own(s, id, units, 0, takes)
      fence = s.fence
    end
    if lives and id ~= caller then
      redis.pcall('PUBLISH', channel(id), 'grant ' .. id .. ' ' .. text(fence) .. ' ' ..
        text(s.now + s.claim * 1000) .. ' ' .. text(s.now))
    end
  end
  s.more = 1
end

-- What is to be said: 'status now fence deadline', and perhaps 'ticket more extra'.
local function answer(s, status, fence, ticket, extra)
  local told = status .. ' ' .. text(s.now) .. ' ' .. text(fence or 0) .. ' ' .. text(s.deadline)
  if not (ticket or extra) and s.more == 0 then return told end
  return told .. ' ' .. (ticket or 0) .. ' ' .. s.more .. ' ' .. (extra or '')
end

-- What is to be said of a waiter. Its deadline is when it should ask again: when the first lease ends, or
-- after a lease, since units may be missing that nobody has a lease of.
local function standing(s, id, lease, extra)
  local units, fence, _, deadline = holding(s, id)
  if units then
    s.deadline = deadline
    return answer(s, 'own', fence, nil, extra)
  end
  local first = redis.call('ZRANGE', s.holders, 0, 0, 'WITHSCORES')[2]
  s.deadline = math.min(tonumber(first or s.now + lease * 1000), s.now + lease * 1000)
  fence = id ~= '' and served(s, id)
  if fence then return answer(s, 'own', fence, nil, extra) end
  local ticket = id ~= '' and redis.call('ZSCORE', s.queue, id)
  if ticket then return answer(s, 'queued', 0, ticket, extra) end
  return answer(s, 'gone', 0, nil, extra)
end

-- What became of a grant that the pool does not know any more.
local function ended(s, fence, slot)
  if slot ~= '' and tonumber(redis.call('ZSCORE', s.done, slot) or 0) == fence then return answer(s, 'released') end
  if s.born > fence or s.given < fence or fence < s.now - memory then return answer(s, 'unknown') end
  return answer(s, 'lost')
end
