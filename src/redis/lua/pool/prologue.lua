-- The functions for the scripts of pools. This text follows common.lua.
--
-- A pool has units, and a holder has its units under a lease. Units outside have no holder, but are not available. The
-- pool declares one key, a hash. The names of the other keys begin with that name, so they lie in the same slot.
-- docs/protocol.md lists the keys and their contents.
--
-- The field `state` of the hash is `2 HELD FENCE GIVEN CLOCK OUTSIDE UNTIL CLAIM SKEW GRACE FLAGS CAPACITY ORIGIN BORN
-- TICKET`. Further words are preserved; the word x says that a writer was granted a shared mutex since BORN.
--
-- A number of units combines two numbers: ordinary units, plus `special` times the special units, which only shared
-- mutexes have. ARGV[1] is the prefix of the wake channels. Times are in microseconds, durations in ARGV in
-- milliseconds. Invariant after each script: the first waiter of the queue does not fit, or the answer reports that
-- there is more to do.
local layout = '2'
local special = 2 ^ 30
local event_capacity = 2 ^ 28  -- the capacity of an automatic event, which no semaphore has: see merge()
local at_once = 64  -- the maximum number of grants that one script starts or ends in one pool

-- Returns the units of a holder, its fence, the number of units that it leaves outside, and the end of its lease; for a
-- permit, also its lease in ms and its client. If an id is in only one of the two keys, somebody has deleted the other
-- key, and the id is not a holder.
local function holding(s, id)
  local deadline = redis.call('ZSCORE', s.holders, id)
  local entry = deadline and redis.call('HGET', s.key, 'h ' .. id)
  local units, fence, left, more = string.match(entry or '', '^(%d+) (%d+) (%d+)(.*)$')
  if not units then return end
  local lease, client = string.match(more, '^ (%d+) (.*)$')
  return tonumber(units), tonumber(fence), tonumber(left), tonumber(deadline), lease, client
end

-- Returns the number of units that a waiter requests.
local function wanted(s, id)
  return tonumber(redis.call('HGET', s.key, 'w ' .. id) or nil)
end

-- Reads a pool; returns nil and the reason if the keys are foreign. The script may have read the state already. A new
-- pool has the capacity and the units outside that the caller states; with -1 units, it is not created. During a grace,
-- `claim` contains two more times, as for a lock. While the state may be outdated, the pool grants no units and no
-- lease expires, so that unknown holders can reconnect.
local function open(key, wall, claim, capacity, outside, packed)
  local s = {key = key, queue = key .. '{queue}', holders = key .. '{holders}', done = key .. '{done}',
    permits = key .. '{permits}', new = {}, more = 0, deadline = 0}
  if packed == nil then packed = redis.pcall('HGET', key, 'state') end
  local head = redis.pcall('ZRANGE', s.queue, 0, 0)
  if is_of_another_type(packed) or is_of_another_type(head) then return nil, 'wrongtype' end
  local version = packed and string.match(packed, '^%S*') or redis.call('HGET', key, 'layout')
  if version and version ~= layout then return nil, 'foreign' end
  s.head = head[1]
  if not version then
    -- A new pool checks these types before it writes anything, because foreign keys must not change or get a time to
    -- live.
    for _, size in ipairs({redis.pcall('ZCARD', s.done), redis.pcall('ZCARD', s.holders)}) do
      if is_of_another_type(size) then return nil, 'wrongtype' end
    end
    if outside == '-1' then return nil, 'missing' end
    s.held, s.given, s.outside, s.expiry, s.skew, s.ticket, s.rest = 0, 0, tonumber(outside), 0, 0, 0, ''
    s.capacity, s.origin = tonumber(capacity), s.outside
    local now, claim, _, grace = read_time(wall, 0, 0, claim)
    s.now, s.born, s.fresh, s.claim, s.grace = now, now, true, claim + 0, s.capacity ~= event_capacity and grace or nil
    -- If only the hash was deleted, the former fences were below the ends of the leases.
    s.fence = tonumber(redis.call('ZRANGE', s.holders, -1, -1, 'WITHSCORES')[2] or 0)
    return s
  end
  local clock, longest, grace, flags
  s.held, s.fence, s.given, clock, s.outside, s.expiry, longest, s.skew, grace, flags, s.capacity, s.origin, s.born, s.ticket,
    s.rest = string.match(packed, '^2 (%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%-?%d+) (%d+) (%d+)(.*)$')
  for _, word in ipairs({'held', 'fence', 'given', 'outside', 'expiry', 'skew', 'capacity', 'origin', 'born', 'ticket'}) do
    s[word] = s[word] + 0
  end
  s.packed = packed
  if string.find(flags, 's', 1, true) then s.unresponsive = redis.call('HGET', key, 'silent') end
  -- If only the key of the holders was deleted, no units are held, and there are no permits.
  if s.held > 0 and redis.call('EXISTS', s.holders) == 0 then
    s.held = 0
    redis.call('PEXPIRE', s.permits, 0)
  end
  local now, lease, over = read_time(wall, s.skew, clock, claim)
  s.now, s.skew, s.grace = now, now - wall, grace ~= '0' and grace + 0 or nil
  s.claim = s.head and math.max(lease, longest) or lease + 0
  -- An automatic event has no grace, because nobody holds its units.
  if over and s.capacity ~= event_capacity then s.grace = over end
  if s.grace and s.grace <= s.now then s.grace = nil end
  return s
end

-- For an automatic event, repeated calls of set() do not add up: without waiters, at most one unit is available.
local function merge(s)
  local available = s.capacity - s.outside - s.held
  if s.capacity == event_capacity and not s.head and available > 1 then
    s.outside, s.moved = s.outside + available - 1, true
  end
end

-- Informs waiters of the first deadline if this script has made it an earlier one: they would send their nudges at the
-- former one. `ended` is the deadline of a lease that this script has ended or replaced. Four waiters at the front of
-- the queue are informed, and four at its end, which wait the longest, because some of them may be disconnected. Waiters
-- of one connection may belong to objects that send nudges of their own.
local function inform(s)
  if not s.head or not s.earliest or s.ended and s.ended <= s.earliest then return end
  if tonumber(redis.call('ZRANGE', s.holders, 0, 0, 'WITHSCORES')[2]) ~= s.earliest then return end
  local informed = {}
  for _, first in ipairs({0, -4}) do
    for _, id in ipairs(redis.call('ZRANGE', s.queue, first, first + 3)) do
      local message = 'due ' .. id .. ' 0 ' .. text(s.earliest) .. ' ' .. text(s.now)
      if not informed[id] then redis.pcall('PUBLISH', channel(id), message) end
      informed[id] = true
    end
  end
end

local function without_clock(state)
  return (string.gsub(state, '^(2 %d+ %d+ %d+) %d+', '%1'))
end

-- Writes the state, unless the script only reads and only the time has passed. A pool is kept for ever if its units
-- outside differ from the initial number, because no lease restores them. Then the keys of its waiters and holders are
-- kept, too: if these keys expired, the hash would keep the fields of the waiters and holders. Nor do keys expire before
-- the server's clock has passed the last token, or for an hour, as those of a lock.
local function save(s, lease, idle)
  inform(s)
  merge(s)
  if s.fresh and s.held == 0 and s.outside == s.origin and not s.head and not s.created then return end
  local slack, forever = idle * 500, s.outside ~= s.origin
  local usual = s.now + math.max(lease, math.min(s.claim, longest_lease)) * 1000 + slack
  local least = math.max(usual, math.min(s.fence, s.now - s.skew + memory))
  local renewed = s.expiry < least
  if renewed then s.expiry = least + slack end
  local flags = (s.head and 'w' or '') .. (s.unresponsive and 's' or '')
  local state = format('2 %d %d %d %d %d %d %d %d %d %s %d %d %d %d%s', s.held, s.fence, s.given,
    s.now, s.outside, s.expiry, s.claim, s.skew, s.grace or 0, flags ~= '' and flags or '-', s.capacity, s.origin, s.born,
    s.ticket, s.rest)
  if s.reads and without_clock(state) == without_clock(s.packed) then return end
  if s.fresh then redis.call('HSET', s.key, 'layout', layout) end
  redis.call('HSET', s.key, 'state', state)
  -- All keys expire at the same time of the server's clock. A damaged state may say anything. With a span below 1, Redis
  -- would delete the keys.
  local span = math.max(1, math.min(math.ceil((s.expiry - s.now + s.skew) / 1000), 2 ^ 53))
  for _, key in ipairs((renewed or s.moved) and {s.key, s.queue, s.holders} or s.new) do
    if forever then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, span) end
  end
  -- A late copy must not take or add the same units again.
  if s.moved then span = math.max(span, memory / 1000) end
  if renewed or s.moved or s.noted then extend_ttl(s.done, span) end
end

local function hold(s, id, units, fence, left, deadline)
  redis.call('HSET', s.key, 'h ' .. id, format('%d %d %d', units, fence, left))
  redis.call('ZADD', s.holders, text(deadline), id)
end

-- Whether enough units of both kinds are available.
local function fits(s, units)
  return not s.grace and s.held % special + s.outside + units % special <= s.capacity % special and
    s.held + units <= s.capacity
end

-- Whether the capacity allows this number of units.
local function possible(s, units)
  return units % special <= s.capacity % special and units <= s.capacity
end

-- Whether a client that states a capacity may use the pool. It may also state the initial capacity; and a client that
-- has used the pool before (agreed) accepts any capacity that was set later.
local function agrees(s, capacity, how)
  return s.capacity == capacity or how == 'adopt' or s.origin < 0 and (how == 'agreed' or s.origin == -capacity)
end

-- Notes the end of a lease that this script has started, see inform().
local function note_deadline(s, deadline)
  s.earliest = math.min(s.earliest or deadline, deadline)
end

-- Whether an exclusive grant of a shared mutex has this number of units: that of a writer, or its second grant after an
-- upgrade.
local function is_exclusive(s, units)
  return s.capacity >= special and units % special > 1
end

local function has_had_writer(s)
  return string.find(s.rest .. ' ', ' x ', 1, true)
end

local function grant_to(s, id, units, seen)
  if is_exclusive(s, units) and not has_had_writer(s) then s.rest = s.rest .. ' x' end
  s.fence = math.max(s.fence + 1, s.now, seen + 1)
  if s.held == 0 then s.new[#s.new + 1] = s.holders end
  s.given, s.held = s.fence, s.held + units
  hold(s, id, units, s.fence, 0, s.now + s.claim * 1000)
  note_deadline(s, s.now + s.claim * 1000)
end

-- Whether an id is that of a permit, see issue(). The id of an attempt contains the number of a connection.
local function is_permit(id)
  return not string.find(id, '#', 1, true)
end

-- Removes a holder and its units.
local function drop(s, id, units)
  redis.call('ZREM', s.holders, id)
  if is_permit(id) then redis.call('ZREM', s.permits, id) end
  redis.call('HDEL', s.key, 'h ' .. id)
  s.held = s.held - units
end

-- Ends expired grants and informs their holders. The limits of this call apply, unless `least` is greater: a holder
-- that reclaims units may need the units of these grants.
local function expire_grants(s, least)
  if s.grace then return end
  local most = math.max(math.min(at_once, budget), least or 0)
  local over = redis.call('ZRANGEBYSCORE', s.holders, '-inf', text(s.now), 'LIMIT', 0, text(most))
  for _, id in ipairs(over) do
    local units, fence = holding(s, id)
    -- A late resync does not reclaim the units.
    s.given = math.max(s.given, fence or 0)
    drop(s, id, units or 0)
    local has_session = units and not is_permit(id)
    if has_session and not s.fresh then mark_unresponsive(s, id) end
    if has_session then redis.pcall('PUBLISH', channel(id), 'lost ' .. id .. ' ' .. text(fence) .. ' ' .. text(s.now)) end
  end
  budget = budget - #over
  if #over == most then s.more = 1 end
  merge(s)
end

local function dequeue(s, id)
  redis.call('ZREM', s.queue, id)
  redis.call('HDEL', s.key, 'w ' .. id)
end

-- Informs a waiter that its request exceeds the capacity.
local function reject(s, id)
  redis.pcall('PUBLISH', channel(id), 'impossible ' .. id .. ' 0 ' .. text(s.now))
end

-- Grants units to the first waiters of the queue, as long as they fit; removes disconnected waiters and impossible
-- requests. The message is the grant; the caller of the script learns of its own grant from the answer. `seen` is the
-- highest token that the caller knows. Returns true if it has reached its limit.
local function grant_next(s, caller, seen)
  for _ = 1, at_once do
    local id = redis.call('ZRANGE', s.queue, 0, 0)[1]
    s.head = id
    if not id then return end
    local units = wanted(s, id)
    local lives = units and (id == caller or is_connected(id) and not is_unresponsive(s, id))
    local serves = lives and possible(s, units)
    if serves and not fits(s, units) then return end
    dequeue(s, id)
    if serves then grant_to(s, id, units, id == caller and seen or 0) elseif lives then reject(s, id) end
    if serves and id ~= caller then
      redis.pcall('PUBLISH', channel(id), 'grant ' .. id .. ' ' .. text(s.fence) .. ' ' ..
        text(s.now + s.claim * 1000) .. ' ' .. text(s.now))
    end
    budget = budget - 1
    if budget <= 0 then break end
  end
  s.head = redis.call('ZRANGE', s.queue, 0, 0)[1]
  s.more = 1
  return true
end

-- Changes the number of units outside, which are not available although they have no holder.
local function move(s, number)
  if number ~= 0 then s.outside, s.moved = s.outside + number, true end
end

-- Lets a permit hold units that have been counted as held. No session renews its lease. Each caller that knows its id,
-- which is a secret, can renew or release it. Only pools of a directory have permits.
local function issue(s, id, units, fence, lease, client)
  -- The conversion %s would end the client at a null character.
  redis.call('HSET', s.key, 'h ' .. id, format('%d %d 0 %d ', units, fence, lease) .. client)
  redis.call('ZADD', s.holders, text(s.now + lease * 1000), id)
  redis.call('ZADD', s.permits, text(fence), id)
  note_deadline(s, s.now + lease * 1000)
end

-- Returns the time at which a call of a directory was executed before, or false. The ARGV of such a call begin with
-- prefix, lease ms, claim ms, idle ms, capacity, name of the call, and name of a call that will not be repeated.
-- KEYS[2] is the index of the directory.
local function is_repeated()
  return redis.call('ZSCORE', KEYS[2] .. '{calls}', ARGV[6])
end

local function note_call(s)
  remember_call(KEYS[2] .. '{calls}', s.now, ARGV[6], ARGV[7], s.skew)
  extend_ttl(KEYS[2] .. '{calls}', memory / 1000)
end

-- Serves the queue, writes the state, and returns the numbers of the pool: 'status value waiters permits fence units
-- more'. An attempt that holds units counts as a waiter until a permit receives them, or they are taken for good.
local function conclude(s, status, fence, units)
  if s.head then grant_next(s) end
  save(s, tonumber(ARGV[2]), ARGV[4])
  local permits = redis.call('ZCARD', s.permits)
  local waiters = redis.call('ZCARD', s.queue) + redis.call('ZCARD', s.holders) - permits
  -- Holders that have reclaimed their units during a grace may stand beside outdated ones.
  local value = math.max(s.capacity - s.outside - s.held, 0)
  return format('%s %d %d %d %d %d %d', status, value, waiters, permits, fence or 0, units or 0,
    s.more)
end

-- Returns the answer: 'status now fence deadline', and perhaps 'ticket more extra'.
local function answer(s, status, fence, ticket, extra)
  local result = status .. ' ' .. text(s.now) .. ' ' .. text(fence or 0) .. ' ' .. text(s.deadline)
  if not (ticket or extra) and s.more == 0 then return result end
  return result .. ' ' .. (ticket or 0) .. ' ' .. s.more .. ' ' .. (extra or '')
end

-- Returns the time for the next nudge of a waiter: the end of the first lease, but at most a lease from now, because
-- units outside have no lease.
local function next_nudge(s, lease)
  local first = redis.call('ZRANGE', s.holders, 0, 0, 'WITHSCORES')[2]
  return math.min(s.grace or tonumber(first or s.now + lease * 1000), s.now + lease * 1000)
end

-- Returns the answer for an attempt. The deadline of a waiter is the time for its next nudge.
local function standing(s, id, lease, extra)
  local units, fence, _, deadline = holding(s, id)
  if units then
    s.deadline = deadline
    return answer(s, 'own', fence, nil, extra)
  end
  s.deadline = next_nudge(s, lease)
  local ticket = id ~= '' and redis.call('ZSCORE', s.queue, id)
  if ticket then return answer(s, 'queued', 0, ticket, extra) end
  return answer(s, 'gone', 0, nil, extra)
end

-- Serves each entry of a batch. An entry is a key, and `size` arguments; the last five are lease ms, claim ms, idle ms,
-- capacity and units outside. Successive entries with the same key and the same five arguments share the pool, which is
-- read and written only once.
local function each_entry(size, serve)
  local function terms(i)
    return KEYS[i + 1] and KEYS[i + 1] .. ' ' .. table.concat(ARGV, ' ', size * i + size - 3, size * i + size + 1)
  end
  local wall, pool, following = read_clock(), nil, terms(0)
  return each(function(key, i)
    local a, s, own, why = 2 + size * i, pool, following, nil
    pool, following = nil, terms(i + 1)  -- also if serving this entry raises an error
    local is_first = not s
    if is_first then s, why = open(key, wall, ARGV[a + size - 4], ARGV[a + size - 2], ARGV[a + size - 1]) end
    if not s then return why end
    local result = serve(s, a, is_first)
    if following == own then pool = s else save(s, tonumber(ARGV[a + size - 5]), ARGV[a + size - 3]) end
    return result
  end)
end
