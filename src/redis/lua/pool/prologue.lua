-- What every script of a pool needs, behind common.lua.
--
-- A pool has units, of which holders have leases. Its only declared key is a hash; the others are named after it, so they
-- lie in its slot:
--
--   KEY           `layout`: 2; `state`, see below; `h ID`: what a holder has, 'UNITS FENCE OUTSIDE'; `w ID`: how many units
--                 a waiter wants; `silent`: see is_unresponsive()
--   KEY{queue}    sorted set, the waiters by ticket
--   KEY{holders}  sorted set, the holders by the end of the lease
--   KEY{done}     sorted set, the released fences by slot, and when calls were executed by their names
--   KEY{permits}  sorted set, the ids of the permits by their fences, see issue()
--
-- The state is text: 2 HELD FENCE GIVEN CLOCK OUTSIDE UNTIL CLAIM SKEW GRACE FLAGS CAPACITY ORIGIN BORN TICKET. Words behind
-- these are kept as they are. GRACE is 0 if there is none. FLAGS has a w if somebody may wait, an s if a connection is
-- silent, or is a hyphen. ORIGIN is how many units were outside at first; or, once a capacity was set, the first capacity,
-- negative: such a pool is kept for ever.
--
-- A number of units is two in one: so many ordinary ones, and so many times `special` ones, which a semaphore does not have.
-- ARGV[1] is the prefix of the wake channels. Times are microseconds, spans in ARGV milliseconds. Invariant after each
-- script: the first of the queue does not fit, or the answer says that there is more to do.
local layout = '2'
local special = 2 ^ 30
local signals = 2 ^ 28  -- the capacity of an automatic event, which no semaphore has: see merge()
local at_once = 64  -- how many of one pool are granted or reaped by one script

-- What is known of a holder: its units, its fence, how many of its units it has left outside, and when its
-- lease ends; of a permit, also its lease in ms and its client. Who is in one of the two keys only is no holder: somebody
-- has deleted the other.
local function holding(s, id)
  local deadline = redis.call('ZSCORE', s.holders, id)
  local entry = deadline and redis.call('HGET', s.key, 'h ' .. id)
  local units, fence, left, more = string.match(entry or '', '^(%d+) (%d+) (%d+)(.*)$')
  if not units then return end
  local lease, client = string.match(more, '^ (%d+) (.*)$')
  return tonumber(units), tonumber(fence), tonumber(left), tonumber(deadline), lease, client
end

-- How many units a waiter wants.
local function wanted(s, id)
  return tonumber(redis.call('HGET', s.key, 'w ' .. id) or nil)
end

-- Reads a pool; nil and why if it is not ours. Its state may have been read before. A pool that does not exist has the
-- capacity and the units outside of permits that the caller names; with -1 units, it is not made. During a grace, two times of the server's clock follow
-- the claim lease, as for a lock. While a state may be outdated, nobody is granted units, and no lease ends: holders that
-- the server does not know come back meanwhile.
local function open(key, wall, claim, capacity, outside, state)
  local s = {key = key, queue = key .. '{queue}', holders = key .. '{holders}', done = key .. '{done}',
    permits = key .. '{permits}', new = {}, more = 0, deadline = 0}
  if state == nil then state = redis.pcall('HGET', key, 'state') end
  local head = redis.pcall('ZRANGE', s.queue, 0, 0)
  if is_of_another_type(state) or is_of_another_type(head) then return nil, 'wrongtype' end
  local version = state and string.match(state, '^%S*') or redis.call('HGET', key, 'layout')
  if version and version ~= layout then return nil, 'foreign' end
  s.head = head[1]
  if not version then
    -- Here or never: what is somebody else's must not be written to, nor get an end.
    for _, size in ipairs({redis.pcall('ZCARD', s.done), redis.pcall('ZCARD', s.holders)}) do
      if is_of_another_type(size) then return nil, 'wrongtype' end
    end
    if outside == '-1' then return nil, 'missing' end
    s.held, s.given, s.outside, s.expiry, s.skew, s.ticket, s.rest = 0, 0, tonumber(outside), 0, 0, 0, ''
    s.capacity, s.origin = tonumber(capacity), s.outside
    local now, claim, _, grace = read_time(wall, 0, 0, claim)
    s.now, s.born, s.fresh, s.claim, s.grace = now, now, true, claim + 0, s.capacity ~= signals and grace or nil
    -- Somebody has deleted the hash alone: the fences of those who held units were below the ends of their leases.
    s.fence = tonumber(redis.call('ZRANGE', s.holders, -1, -1, 'WITHSCORES')[2] or 0)
    return s
  end
  local clock, longest, grace, flags
  s.held, s.fence, s.given, clock, s.outside, s.expiry, longest, s.skew, grace, flags, s.capacity, s.origin, s.born, s.ticket,
    s.rest = string.match(state, '^2 (%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%-?%d+) (%d+) (%d+)(.*)$')
  for _, word in ipairs({'held', 'fence', 'given', 'outside', 'expiry', 'skew', 'capacity', 'origin', 'born', 'ticket'}) do
    s[word] = s[word] + 0
  end
  if string.find(flags, 's', 1, true) then s.unresponsive = redis.call('HGET', key, 'silent') end
  -- Or the holders alone.
  if s.held > 0 and redis.call('EXISTS', s.holders) == 0 then s.held = 0 end
  local now, lease, over = read_time(wall, s.skew, clock, claim)
  s.now, s.skew, s.claim, s.grace = now, now - wall, math.max(lease, longest), grace ~= '0' and grace + 0 or nil
  -- The signals of an event are nobody's.
  if over and s.capacity ~= signals then s.grace = over end
  if s.grace and s.grace <= s.now then s.grace = nil end
  return s
end

-- The units of an automatic event are signals, which do not add up: no more than one is available if nobody
-- waits.
local function merge(s)
  local available = s.capacity - s.outside - s.held
  if s.capacity == signals and not s.head and available > 1 then s.outside = s.outside + available - 1 end
end

-- Writes the state. A pool with other units outside than it began with is kept for ever: they are not a lease that would
-- come back. So are its waiters and holders, or the hash would say for ever what those wanted and had that have expired.
local function save(s, lease, idle)
  merge(s)
  if s.fresh and s.held == 0 and s.outside == s.origin and not s.head and not s.created then return end
  local ttl, forever = lease + idle, s.outside ~= s.origin
  local renewed = s.expiry < s.now + (ttl - idle / 2) * 1000
  if renewed then s.expiry = s.now + ttl * 1000 end
  local flags = (s.head and 'w' or '') .. (s.unresponsive and 's' or '')
  if s.fresh then redis.call('HSET', s.key, 'layout', layout) end
  redis.call('HSET', s.key, 'state', format('2 %d %d %d %d %d %d %d %d %d %s %d %d %d %d%s', s.held, s.fence, s.given,
    s.now, s.outside, s.expiry, s.claim, s.skew, s.grace or 0, flags ~= '' and flags or '-', s.capacity, s.origin, s.born,
    s.ticket, s.rest))
  local span = math.min(math.ceil((s.expiry - s.now) / 1000), 2 ^ 53)  -- a damaged state may say anything
  for _, key in ipairs((renewed or s.moved) and {s.key, s.queue, s.holders} or s.new) do
    if forever then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, span) end
  end
  -- What was taken or added must not be taken or added again by who comes back late.
  if s.moved then span = math.max(span, memory / 1000) end
  if renewed or s.moved or s.noted then extend_ttl(s.done, span) end
end

local function hold(s, id, units, fence, left, deadline)
  redis.call('HSET', s.key, 'h ' .. id, format('%d %d %d', units, fence, left))
  redis.call('ZADD', s.holders, text(deadline), id)
end

-- Whether units of both kinds are there.
local function fits(s, units)
  return not s.grace and s.held % special + s.outside + units % special <= s.capacity % special and
    s.held + units <= s.capacity
end

-- Whether so many can ever be there.
local function possible(s, units)
  return units % special <= s.capacity % special and units <= s.capacity
end

-- Whether a client that names a capacity may use the pool. It may also name the one with which the pool was made;
-- and once it has used the pool (agreed), whatever is set later.
local function agrees(s, capacity, how)
  return s.capacity == capacity or how == 'adopt' or s.origin < 0 and (how == 'agreed' or s.origin == -capacity)
end

local function grant_to(s, id, units, seen)
  s.fence = math.max(s.fence + 1, s.now, seen + 1)
  if s.held == 0 then s.new[#s.new + 1] = s.holders end
  s.given, s.held = s.fence, s.held + units
  hold(s, id, units, s.fence, 0, s.now + s.claim * 1000)
end

-- Whether an id is that of a permit, see issue(). That of an attempt contains the number of a connection.
local function is_permit(id)
  return not string.find(id, '#', 1, true)
end

-- Takes a holder's units back.
local function drop(s, id, units)
  redis.call('ZREM', s.holders, id)
  if is_permit(id) then redis.call('ZREM', s.permits, id) end
  redis.call('HDEL', s.key, 'h ' .. id)
  s.held = s.held - units
end

-- Takes back the units of those whose lease has ended, and tells them: of so many at least, however many elements the call
-- has looked at, if a holder comes back that would find no units otherwise.
local function reap(s, least)
  if s.grace then return end
  local most = math.max(math.min(at_once, looks), least or 0)
  local over = redis.call('ZRANGEBYSCORE', s.holders, '-inf', text(s.now), 'LIMIT', 0, text(most))
  for _, id in ipairs(over) do
    local units, fence = holding(s, id)
    drop(s, id, units or 0)
    local is_told = units and not is_permit(id)
    if is_told and not s.fresh then mark_unresponsive(s, id) end
    if is_told then redis.pcall('PUBLISH', channel(id), 'lost ' .. id .. ' ' .. text(fence) .. ' ' .. text(s.now)) end
  end
  looks = looks - #over
  if #over == most then s.more = 1 end
  merge(s)
end

local function dequeue(s, id)
  redis.call('ZREM', s.queue, id)
  redis.call('HDEL', s.key, 'w ' .. id)
end

-- Tells a waiter that it waits for more than there can be.
local function reject(s, id)
  redis.pcall('PUBLISH', channel(id), 'impossible ' .. id .. ' 0 ' .. text(s.now))
end

-- Serves the queue for as long as its first fits; who is dead, or waits for what can never be, is left out. The message is
-- the grant. The caller of the script learns of its own grant from the answer.
local function grant_next(s, caller)
  for _ = 1, at_once do
    local id = redis.call('ZRANGE', s.queue, 0, 0)[1]
    s.head = id
    if not id then return end
    local units = wanted(s, id)
    local lives = units and (id == caller or is_connected(id) and not is_unresponsive(s, id))
    local serves = lives and possible(s, units)
    if serves and not fits(s, units) then return end
    dequeue(s, id)
    if serves then grant_to(s, id, units, 0) elseif lives then reject(s, id) end
    if serves and id ~= caller then
      redis.pcall('PUBLISH', channel(id), 'grant ' .. id .. ' ' .. text(s.fence) .. ' ' ..
        text(s.now + s.claim * 1000) .. ' ' .. text(s.now))
    end
    looks = looks - 1
    if looks <= 0 then break end
  end
  s.more = 1
end

-- Counts units that nobody holds any more, or that are back.
local function move(s, number)
  if number ~= 0 then s.outside, s.moved = s.outside + number, true end
end

-- Lets a permit hold units that have been counted as held. No session renews its lease; any caller that knows its id, which is
-- a secret, can renew or release it. Only pools of a directory have permits.
local function issue(s, id, units, fence, lease, client)
  redis.call('HSET', s.key, 'h ' .. id, format('%d %d 0 %d %s', units, fence, lease, client))
  redis.call('ZADD', s.holders, text(s.now + lease * 1000), id)
  redis.call('ZADD', s.permits, text(fence), id)
end

-- The calls of a directory. Their ARGV begin with: prefix, lease ms, claim ms, idle ms, capacity, name of the call, name of
-- the call before it in its slot. KEYS[2] is the index of the directory.
local function is_repeated()
  return redis.call('ZSCORE', KEYS[2] .. '{calls}', ARGV[6])
end

local function note_call(s)
  remember_call(KEYS[2] .. '{calls}', s.now, ARGV[6], ARGV[7])
  extend_ttl(KEYS[2] .. '{calls}', memory / 1000)
end

-- Serves the queue, writes the state, and says how things stand: 'status value waiters permits fence units more'. A waiter
-- whose grant is not complete counts as one.
local function conclude(s, status, fence, units)
  if s.head then grant_next(s) end
  save(s, tonumber(ARGV[2]), ARGV[4])
  local permits = redis.call('ZCARD', s.permits)
  local waiters = redis.call('ZCARD', s.queue) + redis.call('ZCARD', s.holders) - permits
  return format('%s %d %d %d %d %d %d', status, s.capacity - s.outside - s.held, waiters, permits, fence or 0, units or 0, s.more)
end

-- What is to be said: 'status now fence deadline', and perhaps 'ticket more extra'.
local function answer(s, status, fence, ticket, extra)
  local result = status .. ' ' .. text(s.now) .. ' ' .. text(fence or 0) .. ' ' .. text(s.deadline)
  if not (ticket or extra) and s.more == 0 then return result end
  return result .. ' ' .. (ticket or 0) .. ' ' .. s.more .. ' ' .. (extra or '')
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
  s.deadline = math.min(s.grace or tonumber(first or s.now + lease * 1000), s.now + lease * 1000)
  local ticket = id ~= '' and redis.call('ZSCORE', s.queue, id)
  if ticket then return answer(s, 'queued', 0, ticket, extra) end
  return answer(s, 'gone', 0, nil, extra)
end
