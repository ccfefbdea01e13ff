-- What every script of a lock begins with, behind common.lua.
--
-- A lock has one key in KEYS, the hash of its state; the names of its other keys begin with that name and lie in the
-- same slot: KEY{queue}, a sorted set (waiter by ticket), and KEY{done}, a sorted set (the fence of the last release by
-- slot). ARGV[1] is the prefix of the wake channels. Times are microseconds, spans in ARGV milliseconds. Invariant after
-- each script: the lock has an owner, or nobody waits, or the answer says that there is more to do.
--
-- The field `state` of the hash is `2 HOLDER FENCE CLOCK DEADLINE UNTIL CLAIM SKEW FLAGS TICKET`, see docs/protocol.md. The
-- scripts of the ordinary path read and write it with one command each, without this prologue.
--
-- A lock with conditions has more keys: KEY{sleepers}CONDITION for each, a sorted set (sleeper by ticket), and
-- KEY{conditions}. A waiter that was signalled has a mark in the hash, the name of the condition, until its section has
-- ended. A monitor has its state in a hash of its own, a second key for the scripts that read or write it. It does not
-- expire.
--
-- The id of a transaction ends with a plus. As long as it waits, in the queue or on a condition, the hash says what
-- it wants, its plan; so whoever sets the lock free can carry it out, if the script has the state.
--
-- What a process has contributed to that state for as long as it lives is recorded in KEY{bound}, a sorted set: by
-- when its lease ends, 'ID AMOUNT FIELD CONDITION STATE': what undoes it (the amount that is added to the field
-- of the hash), and who is told then. If the amount is the word rest, nothing is undone, and those are still to be told
-- who slept with a ticket up to that in the place of the field. As long as there are contributions, the lock does
-- not expire.
--
-- The server runs all of this for each call. What costs most there are fields that are read and written, functions that
-- are made, and numbers that become text or are made of it. So numbers of the state stay the texts that they are stored
-- as, until something is computed; `+ 0` makes a number of one.
local retry = 60 * 1000000  -- how long after a failure a script tries again to undo a contribution
local wall  -- what the server's clock shows

-- Reads a lock; nil and why if it is not ours. A script that has read the time and the state already passes them. Every
-- grant is at first for the longest claim lease that any client of the lock asked for. The owner of a state that may be
-- outdated is in doubt (a question mark and the owner, if there was one) until the grace ends: somebody else may hold
-- the lock.
local function open(key, claim, time, state)
  wall = time or wall or read_clock()
  if state == nil then state = redis.pcall('HGET', key, 'state') end
  local waiting = redis.pcall('ZCARD', key .. '{queue}')
  if is_of_another_type(state) or is_of_another_type(waiting) then return nil, 'wrongtype' end
  local fresh = not state
  -- Scripts of layout 1 refuse the lock by the same field.
  if fresh and (redis.call('HGET', key, 'layout') or '2') ~= '2' then return nil, 'foreign' end
  if fresh then state = '2 - 0 0 0 0 0 0 - 0' end
  local holder, fence, clock, deadline, expiry, longest, ahead, flags, newest = string.match(state,
    '^2 (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+)')
  if not holder and string.sub(state, 1, 2) ~= '2 ' then return nil, 'foreign' end
  local now, lease, over, grace = read_time(wall, ahead, clock, claim)
  if longest + 0 > lease + 0 then lease = longest end
  local s = {key = key, queue = key .. '{queue}', done = key .. '{done}', waiting = waiting, fresh = fresh,
    holder = holder == '-' and '' or holder, fence = fence, deadline = deadline, now = now, stamp = format('%d', now),
    expiry = expiry + 0, claim = lease, ticket = newest, reclaimed = string.find(flags, 'r', 1, true),
    conditions = string.find(flags, 'c', 1, true), pending = string.find(flags, 'b', 1, true) and key .. '{bound}',
    unresponsive = string.find(flags, 's', 1, true) and redis.call('HGET', key, 'silent')}
  if grace then
    -- Extensions of the contributions' leases may be missing, too: none lapses before.
    s.grace = format('%d', grace)
    if over then s.holder, s.deadline = '?' .. string.gsub(s.holder, '^%?', ''), s.grace end
  end
  return s
end

-- The sorted set of those who sleep on a condition. No name of a lock has braces.
local function waiters_on(s, condition)
  return s.key .. '{sleepers}' .. condition
end

-- Prolongs the sleepers of at most 64 conditions, beginning with those that expire first, and forgets conditions on
-- which nobody sleeps. Returns whether all that expire with the lock were prolonged. The score of a condition is the
-- time until which its sleepers live at least.
local function refresh_conditions(s, ttl)
  local names = s.key .. '{conditions}'
  local due = redis.call('ZRANGEBYSCORE', names, '-inf', format('%d', s.expiry), 'LIMIT', 0, 64)
  for _, condition in ipairs(due) do
    local key = waiters_on(s, condition)
    if redis.call('EXISTS', key) == 1 then
      extend_ttl(key, ttl)
      redis.call('ZADD', names, format('%d', s.now + ttl * 1000), condition)
    else
      redis.call('ZREM', names, condition)
    end
  end
  return #due < 64
end

-- Of a key that may be a new one, nothing says yet how long it is to live.
local function note_key(s, key)
  s.new = s.new or {}
  if s.new[#s.new] ~= key then s.new[#s.new + 1] = key end
end

-- Writes the state, unless there is nothing to be kept. Lets all keys live for a lease and at least half of
-- the idle time more; by that half it saves most of the commands.
local function save(s, lease, idle)
  if s.fresh and s.holder == '' and s.waiting == 0 and s.fence == '0' and not (s.new or s.pending) then return end
  local ttl, renews = lease + idle, s.expiry < s.now + (lease + idle / 2) * 1000
  if renews then
    for _, key in ipairs({s.key, s.queue, s.done, s.conditions and s.key .. '{conditions}' or nil}) do note_key(s, key) end
    -- If sleepers are left, the next script goes on with them.
    if s.conditions and not refresh_conditions(s, ttl) then s.more = true else s.expiry = s.now + ttl * 1000 end
  else
    -- What is new lives as long as the lock: it is believed to remember all that there was since it was born.
    ttl = math.ceil((s.expiry - s.now) / 1000)
  end
  local flags = (s.waiting > 0 and 'w' or '') .. (s.conditions and 'c' or '') .. (s.pending and 'b' or '') ..
    (s.unresponsive and 's' or '') .. (s.reclaimed and 'r' or '')
  redis.call('HSET', s.key, 'state', format('2 %s %s %s %s %d %s %d %s %s', s.holder == '' and '-' or s.holder, s.fence,
    s.stamp, s.deadline, s.expiry, s.claim, s.now - wall, flags == '' and '-' or flags, s.ticket))
  if s.fresh then redis.call('HSET', s.key, 'layout', '2', 'born', wall) end
  ttl = format('%d', ttl)
  for _, key in ipairs(s.new or {}) do
    if renews then extend_ttl(key, ttl) else redis.call('PEXPIRE', key, ttl) end
  end
  -- A process may be dead for long before anybody asks. What was given back is remembered as long: a transaction that
  -- comes late would find a lock that seems to know everything. Signals that are left keep nothing.
  local left = s.pending and s.new and redis.call('ZRANGE', s.pending, -1, -1, 'WITHSCORES')[2] == '1'
  for _, key in ipairs(s.pending and s.new and {s.key, s.done, s.pending} or {}) do
    if left then extend_ttl(key, ttl) else redis.call('PERSIST', key) end
  end
end

local function grant_to(s, id, seen)
  local last = s.fence + 0
  if seen + 0 > last then last = seen + 0 end
  s.holder, s.fence = id, last < s.now and s.stamp or format('%d', last + 1)
  s.deadline, s.reclaimed = format('%d', s.now + s.claim * 1000), nil
end

local function enqueue(s, id, ticket)
  if s.waiting == 0 then note_key(s, s.queue) end
  s.waiting = s.waiting + redis.call('ZADD', s.queue, ticket, id)
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
local function wait_on(s, id, condition)
  local ticket = new_ticket(s, 0)
  redis.call('ZADD', waiters_on(s, condition), ticket, id)
  redis.call('ZADD', s.key .. '{conditions}', s.stamp, condition)
  s.conditions = true
  note_key(s, waiters_on(s, condition))
  note_key(s, s.key .. '{conditions}')
  return ticket
end

-- From now on there are contributions to the state of the lock.
local function use_pending(s)
  s.pending, s.conditions = s.key .. '{bound}', true
  note_key(s, s.key)
end

-- Moves those who sleep on a condition, and are alive, to the end of the queue: one, or all of them. Whether the call may
-- look at no more before that is done. A call that goes on where one has stopped gets the newest ticket that there was
-- then: who has fallen asleep since is not meant, or those who are woken in vain would be woken for ever.
local function notify_waiters(s, condition, all, newest)
  local key = waiters_on(s, condition)
  while looks > 0 do
    if newest and not redis.call('ZRANGEBYSCORE', key, '-inf', newest, 'LIMIT', 0, 1)[1] then return false end
    local id = redis.call('ZPOPMIN', key)[1]
    if not id then return false end
    looks = looks - 1
    -- A transaction is no claim.
    local skipped = is_unresponsive(s, id) and string.byte(id, -1) ~= 43
    if is_connected(id) and not skipped then
      s.conditions = true
      enqueue(s, id, new_ticket(s, 0))
      redis.call('HSET', s.key, mark(id), condition)
      if not all then return false end
    else
      plan_of(s, id)
    end
  end
  -- A ticket of its own tells a signal from others that stop as well.
  s.newest = newest or new_ticket(s, 0)
  return true
end

-- Does the same. What the call does not come to is left to the next ones, as a record that undoes nothing: before all
-- contributions, since nobody's lease has to end for it.
local function notify_or_defer(s, condition, all, newest)
  local resumes = s.newest
  if not notify_waiters(s, condition, all, newest) then return end
  use_pending(s)
  redis.call('ZADD', s.pending, '1', format('- %s %s %s ', all and 'rest' or 'one', s.newest, condition))
  s.newest, s.more = resumes, true
end

-- Somebody who was signalled ends without a section that ended well: the next one is signalled instead.
local function renotify(s, id)
  local condition = s.conditions and redis.call('HGET', s.key, mark(id))
  if not condition then return end
  redis.call('HDEL', s.key, mark(id))
  notify_or_defer(s, condition, false)
end

-- Takes the lock away from its owner, if the lease has ended or at once, and tells it; perhaps also the reason.
local function reap(s, at_once, reason)
  if s.holder == '' then return end
  if s.deadline + 0 > s.now and not at_once then return end
  local holder = string.gsub(s.holder, '^%?', '')
  if holder == s.holder and not at_once then mark_unresponsive(s, holder) end
  redis.pcall('PUBLISH', channel(holder), 'lost ' .. holder .. ' ' .. s.fence .. ' ' .. s.stamp .. (reason or ''))
  renotify(s, holder)
  s.holder, s.deadline = '', '0'
end

-- Goes on with signals that are left, and undoes the contributions whose leases have ended, 64 at once; but no contribution
-- while somebody owns the lock, who would write over it, and during a grace only those that were given up.
local function process_pending(s)
  local last = s.holder ~= '' and '1' or s.grace and '2' or s.stamp
  local over = redis.call('ZRANGEBYSCORE', s.pending, '-inf', last, 'LIMIT', 0, 64)
  for _, record in ipairs(over) do
    if looks <= 0 then s.more = true break end
    looks = looks - 1
    local amount, field, condition, state = string.match(record, '^%S+ (%S+) (%S+) (%S+) (.*)$')
    local newest, failed = (amount == 'rest' or amount == 'one') and field, not state
    -- If somebody has deleted the state or the field, there is nothing to undo.
    if state and not newest then
      local there = redis.pcall('HEXISTS', state, field)
      failed = there ~= 0 and (there ~= 1 or type(redis.pcall('HINCRBY', state, field, amount)) == 'table')
    end
    if failed then
      -- Somebody has spoiled the field. The answer reports that; a later script tries again.
      redis.call('ZADD', s.pending, format('%d', s.now + retry), record)
      s.spoiled = field or '?'
    else
      redis.call('ZREM', s.pending, record)
    end
    if not failed then notify_or_defer(s, condition, amount ~= 'one', newest) end
  end
  if #over == 64 then s.more = true end
  if redis.call('ZCARD', s.pending) == 0 then
    s.pending = nil
    -- The keys that did not expire do again.
    note_key(s, s.key)
    note_key(s, s.done)
  end
end

-- The state of a monitor, as answers and messages carry it: of each name and value, the length, a colon, and what
-- it is; nil if the key holds something else.
local function contents(key)
  local parts = redis.pcall('HGETALL', key)
  if parts.err then return end
  for i, part in ipairs(parts) do parts[i] = format('%d:', #part) .. part end
  return table.concat(parts)
end

-- Whether the lock is held with this id and fence. An owner in doubt that says so is in doubt no more: nobody was granted
-- the lock after a holder whose lease has not ended.
local function holds(s, id, fence)
  if s.fence ~= fence then return false end
  if s.holder == '?' .. id then s.holder, s.deadline = id, '0' end
  return s.holder == id
end

-- Gives the lock back, if its owner is the one who was granted it with the fence. The slot remembers that; with
-- none, the section did not end well. The last fence is that of a cohort's last section, if it has passed the
-- lock on; what is granted next is above it.
local function end_grant(s, id, fence, slot, last)
  -- An owner in doubt may have released the lock before, in what the server has forgotten, and another one holds it.
  local doubt = s.holder ~= id and string.match(s.holder, '^%?') or ''
  local holder = doubt == '' and s.holder or string.sub(s.holder, 2)
  -- The incarnation of the id may have changed since, the rest has not.
  local known = holder == id or string.gsub(holder, '#%d+', '', 1) == string.gsub(id, '#%d+', '', 1)
  if holder == '' or s.fence ~= fence or not known then return false end
  s.holder = doubt
  if doubt == '' then s.deadline = '0' end
  if last then s.fence = last end
  if slot == '' then renotify(s, id) return true end
  if redis.call('ZADD', s.done, fence, slot) == 1 then note_key(s, s.done) end
  if s.now % 64 == 0 then redis.call('ZREMRANGEBYSCORE', s.done, '-inf', s.now - memory) end
  if s.conditions then redis.call('HDEL', s.key, mark(id)) end
  return true
end

-- Carries out a transaction while nobody owns the lock: a list of texts, from the element `at` on, see transact.lua.
-- Returns released, and the fence; unmet, if a requirement does not hold; or nothing, if only its client can tell.
local function execute(s, id, plan, at)
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
  looks = looks - (#plan - steps + 1) / 6
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
  grant_to(s, id, plan[at + 1])
  local fence = s.fence
  end_grant(s, id, fence, plan[at])
  for field, value in pairs(values) do
    if value == '' then redis.call('HDEL', state, field)
    else redis.call('HSET', state, field, string.sub(value, 2)) end
  end
  for i = signals, steps - 1, 2 do notify_or_defer(s, plan[i], plan[i + 1] == 'all') end
  return 'released', fence
end

-- Gives a free lock to the first of the queue that is alive, at most 64 others later; the message is the
-- grant. The caller of the script learns of its own grant from the answer. A small state of a monitor goes with the
-- message, if the script has its key: whoever it is for need not ask for it. Transactions are carried out then, or
-- go to sleep, and whoever comes next is looked at.
local function grant_next(s, caller)
  if s.pending then process_pending(s) end
  if s.waiting == 0 then return end
  for _ = 1, 64 do
    local id = redis.call('ZPOPMIN', s.queue)[1]
    if not id then return end
    s.waiting = s.waiting - 1
    local plan = plan_of(s, id)
    if id == caller and not (plan and s.state) then return grant_to(s, id, 0) end
    if not is_connected(id) then
      renotify(s, id)
    else
      local result, fence
      if plan and s.state then result, fence = execute(s, id, plan, 2) end
      if result == 'unmet' and plan[4] ~= '' then
        -- The signal that has brought it here is used up, as by a section that waits again.
        if s.conditions then redis.call('HDEL', s.key, mark(id)) end
        wait_on(s, id, plan[4])
        plan_of(s, id, plan, 2)
      elseif result then
        redis.pcall('PUBLISH', channel(id), result .. ' ' .. id .. ' ' .. (fence or s.fence) .. ' ' .. s.stamp)
        -- It may have woken very many.
        if s.more then return end
      elseif is_unresponsive(s, id) then
        renotify(s, id)
      else
        grant_to(s, id, 0)
        local message, state = 'grant ' .. id .. ' ' .. s.fence .. ' ' .. s.deadline .. ' ' .. s.stamp, nil
        if s.state then state = contents(s.state) end
        if state and #state <= 4096 then message = message .. ' =' .. state end
        redis.pcall('PUBLISH', channel(id), message)
        return
      end
    end
    looks = looks - 1
    if looks <= 0 then break end
  end
  s.more = true
end

-- What is to be said of a lock: 'status now fence deadline', and perhaps 'ticket more extra'. If the status is
-- not given, it is that of a waiter: own, queued, asleep (on the condition) or gone. If there are contributions, the
-- deadline is followed by a comma and when the next one lapses; and if the script could not undo one, by another comma
-- and the field of the state.
local function answer(s, status, id, extra, condition)
  local ticket
  if not status and s.holder == id then
    status = 'own'
  elseif not status then
    ticket = id ~= '' and redis.call('ZSCORE', s.queue, id)
    status = ticket and 'queued' or 'gone'
    if not ticket and condition then
      ticket = redis.call('ZSCORE', waiters_on(s, condition), id)
      if ticket then status = 'asleep' end
    end
  end
  local result = status .. ' ' .. s.stamp .. ' ' .. s.fence .. ' ' .. s.deadline
  if s.pending then
    local first = redis.call('ZRANGE', s.pending, 0, 0, 'WITHSCORES')[2] or 0
    result = result .. ',' .. (s.grace and first + 0 > 2 and first + 0 < s.grace + 0 and s.grace or first)
  end
  if s.spoiled then result = result .. ',' .. s.spoiled end
  if not (ticket or extra) and not s.more then return result end
  return result .. ' ' .. (ticket or s.newest or 0) .. (s.more and ' 1 ' or ' 0 ') .. (extra or '')
end
