-- The functions for the scripts of locks. This text follows common.lua.
--
-- The scripts of a lock declare the hash of the lock; for a monitor, also that of its state. The names of the other
-- keys begin with that of the lock, so a cluster would store them together: KEY{queue}, a sorted set (waiters by
-- ticket), and KEY{done}, a sorted set (for each slot, the fence of the last release). ARGV[1] is the prefix of the
-- wake channels. Times are in microseconds, durations in ARGV in milliseconds. Invariant after each script: the lock
-- has a holder, or there are no waiters, or the answer reports that there is more to do.
--
-- The field `state` of the hash is `2 HOLDER FENCE CLOCK DEADLINE UNTIL CLAIM SKEW FLAGS TICKET`, see docs/protocol.md.
-- The ordinary path of a script, which runs before this text, reads it with one command and writes it with one.
--
-- A lock with conditions has more keys: for each condition KEY{sleepers}CONDITION, a sorted set (waiters by ticket),
-- and KEY{conditions}. The hash has a mark for each notified waiter, with the name of the condition, until the end of
-- the waiter's critical section. The hash with the state of a monitor does not expire.
--
-- The id of a transaction ends with a plus. As long as a transaction waits, in the queue or on a condition, the hash
-- contains its plan. So a script that frees the lock can execute the transaction, if the state is among its keys.
--
-- The sorted set KEY{bound} contains pending records. The record of a contribution is 'ID AMOUNT FIELD CONDITION
-- STATE', and its score is the end of the lease, or 2 if its process has ended the contribution. A script that undoes
-- it adds the amount to the field of the state, and notifies all waiters of the condition. If AMOUNT is `rest` or
-- `one`, the record is a deferred notification with the score 1: of all waiters with tickets up to FIELD, or of one of
-- them. As long as there are contributions, the lock does not expire.
--
-- The server runs all of this for each call. The most expensive parts are reading and writing fields, creating
-- functions, and converting between numbers and text. So numbers of the state remain text until they are needed; `+ 0`
-- converts them.
local retry = 60 * 1000000  -- the time from a failure to undo a contribution to the next try
local wall  -- the time of the server's clock

-- Records a key that may still lack a time to live.
local function note_key(s, key)
  s.new = s.new or {}
  if s.new[#s.new] ~= key then s.new[#s.new + 1] = key end
end

-- Notes that there are pending records.
local function use_pending(s)
  s.pending, s.conditions = s.key .. '{bound}', true
  note_key(s, s.key)
end

-- Reads a lock; returns nil and the reason if it cannot use the keys. A script passes the time and the field `state` if
-- it has read them already. A grant starts with the longest claim lease that its script or a waiter has requested.
-- If the state may be outdated, its holder is in doubt until the grace ends (a question mark, and the holder if there
-- was one), because another client may hold the lock.
local function open(key, claim, time, packed)
  wall = time or wall or read_clock()
  if packed == nil then packed = redis.pcall('HGET', key, 'state') end
  local waiting = redis.pcall('ZCARD', key .. '{queue}')
  if is_of_another_type(packed) or is_of_another_type(waiting) then return nil, 'wrongtype' end
  local fresh = not packed
  -- A lock of layout 1 has no field `state`, but the field `layout`.
  if fresh and (redis.call('HGET', key, 'layout') or '2') ~= '2' then return nil, 'foreign' end
  if fresh then packed = '2 - 0 0 0 0 0 0 - 0' end
  local holder, fence, clock, deadline, expiry, longest, ahead, flags, newest = string.match(packed,
    '^2 (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+)')
  if not holder and string.sub(packed, 1, 2) ~= '2 ' then return nil, 'foreign' end
  local now, lease, in_doubt, grace = read_time(wall, ahead, clock, claim)
  if longest + 0 > lease + 0 and (waiting > 0 or string.find(flags, 'c', 1, true)) then lease = longest end
  local s = {key = key, queue = key .. '{queue}', done = key .. '{done}', waiting = waiting, fresh = fresh,
    holder = holder == '-' and '' or holder, fence = fence, deadline = deadline, now = now, stamp = format('%d', now),
    expiry = expiry + 0, claim = lease, ticket = newest, reclaimed = string.find(flags, 'r', 1, true),
    conditions = string.find(flags, 'c', 1, true), pending = string.find(flags, 'b', 1, true) and key .. '{bound}',
    unresponsive = string.find(flags, 's', 1, true) and redis.call('HGET', key, 'silent')}
  -- Somebody may have deleted the lock, but not the waiters of its conditions. Their keys have to live as long as it.
  if fresh and redis.call('EXISTS', key .. '{conditions}') == 1 then s.conditions, s.new = true, {key} end
  if grace then
    -- Renewals of contributions may be missing, too. So no contribution expires before the end of the grace.
    s.grace = format('%d', grace)
    if in_doubt then
      s.holder = '?' .. string.gsub(s.holder, '^%?', '')
      -- A lease that was renewed since may be longer than the grace.
      if s.deadline + 0 < grace then s.deadline = s.grace end
    end
  end
  -- An operator may have deleted the state of the lock, but not the key of its contributions.
  if fresh and redis.call('EXISTS', key .. '{bound}') == 1 then use_pending(s) end
  return s
end

-- The key of the waiters of a condition. It is unique, because names of locks contain no braces.
local function waiters_on(s, condition)
  return s.key .. '{sleepers}' .. condition
end

-- Extends the time to live of the waiters of up to 64 conditions that would expire before the time `least`, starting
-- with those that expire first, and forgets conditions without waiters. If there may be more, the next script continues.
-- The score of a condition is the earliest time at which the key of its waiters may expire. Returns the earliest of all.
local function refresh_conditions(s, ttl, least)
  local names = s.key .. '{conditions}'
  local due = redis.call('ZRANGEBYSCORE', names, '-inf', format('%d', least), 'LIMIT', 0, 64)
  for _, condition in ipairs(due) do
    local key = waiters_on(s, condition)
    if redis.call('EXISTS', key) == 1 then
      extend_ttl(key, ttl)
      redis.call('ZADD', names, format('%d', s.now + ttl * 1000), condition)
    else
      redis.call('ZREM', names, condition)
    end
  end
  if #due == 64 then s.more = true end
  return redis.call('ZRANGE', names, 0, 0, 'WITHSCORES')[2]
end

-- Writes the state, unless there is nothing to remember. Afterwards, all keys live for at least a lease and half of the
-- idle time. An extension lasts for a lease and the whole idle time, so few calls have to extend anything. A grant may
-- last longer than the caller's lease: for the longest claim lease. Nor do the keys expire before the server's clock has
-- passed the lock's clock and its token, which may both be ahead: a lock that was forgotten would grant lower tokens.
-- Clients carry a high token to all locks that they use, so for a token alone, the keys remain for an hour at most.
local function save(s, lease, idle)
  lease = math.max(lease, math.min(s.claim, longest_lease))
  if s.fresh and s.holder == '' and s.waiting == 0 and s.fence == '0' and not (s.new or s.pending) then return end
  local slack, lives = idle * 500, s.expiry
  local usual = s.now + lease * 1000 + slack
  local least = math.max(usual, math.min(s.fence, wall + memory))
  local renews = lives < least
  if renews then
    for _, key in ipairs({s.key, s.queue, s.done, s.conditions and s.key .. '{conditions}' or nil}) do note_key(s, key) end
    lives = least + slack
    s.expiry = math.min(lives, s.conditions and refresh_conditions(s, lease + idle, usual) or lives)
  end
  -- A new key lives as long as the lock, which has to remember everything since it was created. A damaged state may
  -- give a time that no integer can hold.
  local ttl = math.min(math.ceil((lives - wall) / 1000), 2 ^ 53)
  local flags = (s.waiting > 0 and 'w' or '') .. (s.conditions and 'c' or '') .. (s.pending and 'b' or '') ..
    (s.unresponsive and 's' or '') .. (s.reclaimed and 'r' or '')
  redis.call('HSET', s.key, 'state', format('2 %s %s %s %s %d %s %d %s %s', s.holder == '' and '-' or s.holder, s.fence,
    s.stamp, s.deadline, s.expiry, s.claim, s.now - wall, flags == '' and '-' or flags, s.ticket))
  if s.fresh then redis.call('HSET', s.key, 'layout', '2', 'born', wall) end
  ttl = format('%d', ttl)
  for _, key in ipairs(s.new or {}) do
    if renews then extend_ttl(key, ttl) else redis.call('PEXPIRE', key, ttl) end
  end
  -- Contributions of a crashed process must remain until somebody uses the lock. Releases are remembered as long:
  -- a lock that has forgotten its releases would execute a late transaction a second time. Notifications that
  -- were deferred expire.
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

-- The field that marks a notified waiter. It does not depend on the waiter's connection.
local function mark_field(id)
  return 'signalled ' .. string.gsub(id, '#%d+', '', 1)
end

-- The field with the plan of a transaction. It does not depend on the connection, either.
local function plan_field(id)
  return 'plan ' .. string.gsub(id, '#%d+', '', 1)
end

-- Stores the plan of a transaction: its id, and the arguments of transact.lua, which are the elements of `from`,
-- beginning with the element `at`.
local function store_plan(s, id, from, at)
  local parts = {#id .. ':' .. id}
  for i = at, #from do parts[#parts + 1] = #from[i] .. ':' .. from[i] end
  redis.call('HSET', s.key, plan_field(id), table.concat(parts))
end

-- Removes the plan of a transaction and returns it. Returns nil for other attempts.
local function take_plan(s, id)
  if string.byte(id, -1) ~= 43 then return end
  local text, plan, first = redis.call('HGET', s.key, plan_field(id)), {}, 1
  if not text then return end
  redis.call('HDEL', s.key, plan_field(id))
  while first <= #text do
    local colon = string.find(text, ':', first, true)
    local last = colon + string.sub(text, first, colon - 1)
    plan[#plan + 1], first = string.sub(text, colon + 1, last), last + 1
  end
  return plan
end

-- Starts a wait on a condition. Returns the ticket.
local function wait_on(s, id, condition)
  local ticket = new_ticket(s, 0)
  redis.call('ZADD', waiters_on(s, condition), ticket, id)
  redis.call('ZADD', s.key .. '{conditions}', s.stamp, condition)
  s.conditions = true
  note_key(s, waiters_on(s, condition))
  note_key(s, s.key .. '{conditions}')
  return ticket
end

-- Moves waiters of a condition to the end of the queue: the first connected one, or all. Returns true if waiters may
-- remain, because the call has reached its limit. A call that continues a notification receives the newest ticket at
-- the time of the notification, and skips later waiters. Otherwise, waiters whose predicate is false would be notified
-- again and again.
local function notify_waiters(s, condition, all, newest)
  local key = waiters_on(s, condition)
  while budget > 0 do
    if newest and not redis.call('ZRANGEBYSCORE', key, '-inf', newest, 'LIMIT', 0, 1)[1] then return false end
    local id = redis.call('ZPOPMIN', key)[1]
    if not id then return false end
    budget = budget - 1
    -- A transaction delays nobody, because the server executes it.
    local skipped = is_unresponsive(s, id) and string.byte(id, -1) ~= 43
    if is_connected(id) and not skipped then
      s.conditions = true
      enqueue(s, id, new_ticket(s, 0))
      redis.call('HSET', s.key, mark_field(id), condition)
      if not all then return false end
    else
      take_plan(s, id)
    end
  end
  -- The new ticket distinguishes this notification from other incomplete ones.
  s.newest = newest or new_ticket(s, 0)
  return true
end

-- Like notify_waiters(), but leaves the rest of an incomplete notification to the next calls, as a pending record. The
-- record stands in front of all contributions, because it does not wait for the end of a lease.
local function notify_or_defer(s, condition, all, newest)
  local resumes = s.newest
  if not notify_waiters(s, condition, all, newest) then return end
  use_pending(s)
  redis.call('ZADD', s.pending, '1', format('- %s %s %s ', all and 'rest' or 'one', s.newest, condition))
  s.newest, s.more = resumes, true
end

-- Passes the notification of a waiter to the next waiter, because the critical section of the former has failed or will
-- not take place.
local function renotify(s, id)
  local condition = s.conditions and redis.call('HGET', s.key, mark_field(id))
  if not condition then return end
  redis.call('HDEL', s.key, mark_field(id))
  notify_or_defer(s, condition, false)
end

-- Ends the grant, if there is one, and informs its holder. The message may contain a reason. The notification of the
-- holder passes to the next waiter.
local function revoke(s, reason)
  local holder = string.gsub(s.holder, '^%?', '')
  if holder ~= '' then
    redis.pcall('PUBLISH', channel(holder), 'lost ' .. holder .. ' ' .. s.fence .. ' ' .. s.stamp .. (reason or ''))
    renotify(s, holder)
  end
  s.holder, s.deadline = '', '0'
end

-- Revokes a grant whose lease has expired, and marks the holder's connection as unresponsive. A holder in doubt is not
-- marked, because it may have released the lock in a step that the server has forgotten.
local function expire_grant(s)
  if s.holder == '' or s.deadline + 0 > s.now then return end
  if string.sub(s.holder, 1, 1) ~= '?' then mark_unresponsive(s, s.holder) end
  revoke(s)
end

-- Continues deferred notifications, and undoes expired contributions, up to 64 records. While the lock is held, it
-- undoes no contribution, because the holder's commit could overwrite that. During a grace, it undoes only
-- contributions that their processes have ended.
local function process_pending(s)
  local last = s.holder ~= '' and '1' or s.grace and '2' or s.stamp
  local over = redis.call('ZRANGEBYSCORE', s.pending, '-inf', last, 'LIMIT', 0, 64)
  for _, record in ipairs(over) do
    if budget <= 0 then s.more = true break end
    budget = budget - 1
    local amount, field, condition, state = string.match(record, '^%S+ (%S+) (%S+) (%S+) (.*)$')
    local notifies = amount == 'rest' or amount == 'one'
    local newest = notifies and string.match(field, '^%d+$')
    local failed = not state or notifies and not newest
    -- If the state or the field was deleted, there is nothing to undo.
    if not failed and not notifies then
      local there = redis.pcall('HEXISTS', state, field)
      failed = there ~= 0 and (there ~= 1 or type(redis.pcall('HINCRBY', state, field, amount)) == 'table')
    end
    if failed then
      -- The record is damaged, or the amount cannot be subtracted. The answer reports that; a later script tries again.
      redis.call('ZADD', s.pending, format('%d', s.now + retry), record)
      s.bad_field = field or '?'
    else
      redis.call('ZREM', s.pending, record)
    end
    if not failed then notify_or_defer(s, condition, amount ~= 'one', newest) end
  end
  if #over == 64 then s.more = true end
  if redis.call('ZCARD', s.pending) == 0 then
    s.pending = nil
    -- The keys have no time to live at present.
    note_key(s, s.key)
    note_key(s, s.done)
  end
end

-- Returns the state of a monitor as in answers and messages: for each name and value, its length, a colon and the text.
local function contents(key)
  local parts = redis.call('HGETALL', key)
  for i, part in ipairs(parts) do parts[i] = format('%d:', #part) .. part end
  return table.concat(parts)
end

-- Returns whether the lock is held with this id and fence. A holder in doubt that sends a command is no longer in
-- doubt: its lease has not expired, so no other client was granted the lock.
local function confirm_holder(s, id, fence)
  if s.fence ~= fence then return false end
  if s.holder == '?' .. id then s.holder, s.deadline = id, '0' end
  return s.holder == id
end

-- Ends the grant with this id and fence, if it is the present one. The slot remembers the release; an empty slot means
-- that the critical section failed, and a late resync then finds a higher fence than its own. `last` is the fence of
-- the last hand-over within a cohort, and the next grant is above it.
local function end_grant(s, id, fence, slot, last)
  -- A holder in doubt may have released the lock in a step that the server has forgotten, and another client may hold
  -- it. So the doubt remains after the release.
  local doubt = s.holder ~= id and string.match(s.holder, '^%?') or ''
  local holder = doubt == '' and s.holder or string.sub(s.holder, 2)
  -- The id of the holder may contain a former incarnation.
  local known = holder == id or string.gsub(holder, '#%d+', '', 1) == string.gsub(id, '#%d+', '', 1)
  if holder == '' or s.fence ~= fence or not known then return false end
  s.holder = doubt
  if doubt == '' then s.deadline = '0' end
  if last then s.fence = last elseif slot == '' then s.fence = format('%d', fence + 1) end
  if slot == '' then renotify(s, id) return true end
  if s.now % 64 == 0 then redis.call('ZREMRANGEBYSCORE', s.done, '-inf', s.now - memory) end
  if redis.call('ZADD', s.done, fence, slot) == 1 then note_key(s, s.done) end
  if s.conditions then redis.call('HDEL', s.key, mark_field(id)) end
  return true
end

-- Ends a grant whose lease has expired, after a release that came too late for its own grant. If nobody was granted the
-- lock since, the token rises: a late resync then finds a higher fence than its own. If the server has forgotten the
-- grant, it remembers that the grant has ended, but under no slot: a repeated release is still answered unknown.
local function end_expired(s, fence)
  expire_grant(s)
  if s.fence - fence < 0 then
    redis.call('ZADD', s.done, fence, 'ended')
    note_key(s, s.done)
  elseif s.holder == '' and s.fence == fence then
    s.fence = format('%d', fence + 1)
  end
end

-- Executes a transaction while the lock is free. The plan is a list of texts, from the element `at` on, see
-- transact.lua. Returns released and the fence; or unmet, if a requirement does not hold; or nothing, if only the
-- client can decide a step.
local function execute(s, id, plan, at)
  local state = s.state
  local size = s.size or redis.pcall('HLEN', state)
  -- A state that was never written has the values of its type, which only the client knows.
  if type(size) == 'table' or size == 0 then return end
  s.size = nil
  -- Parses a number in the form that clients write, if a double represents it exactly. The client handles other texts.
  local function exact(text)
    return text == '=0' and 0 or #text < 17 and tonumber(string.match(text, '^=(%-?[1-9]%d*)$'))
  end
  local values, first = {}, at + 4
  local steps = first + 2 * plan[at + 3]
  budget = budget - (#plan - steps + 1) / 6
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
    -- The name of a comparison consists of the signs that it accepts: = <> < <= > >=
    if what ~= 'set' and what ~= 'add' and not string.find(what, sign, 1, true) then return 'unmet' end
  end
  -- If the server refuses to remove fields, this is an error before anything has changed.
  for field, value in pairs(values) do
    if value == '' then redis.call('HDEL', state, field) end
  end
  grant_to(s, id, plan[at + 1])
  local fence = s.fence
  end_grant(s, id, fence, plan[at])
  for field, value in pairs(values) do
    if value ~= '' then redis.call('HSET', state, field, string.sub(value, 2)) end
  end
  for i = first, steps - 1, 2 do notify_or_defer(s, plan[i], plan[i + 1] == 'all') end
  return 'released', fence
end

-- Grants a free lock to the first waiter that is connected and responsive, if it is among the first 64 of the queue,
-- and removes those before it. The message is the grant; the caller of the script learns of its own grant from the
-- answer. If the script has the key of a monitor's state, the message contains a small state, so the client need not
-- fetch it. A transaction in the queue is executed or starts its wait on a condition, and the next waiter follows.
-- `seen` is the highest token that the caller knows.
local function grant_next(s, caller, seen)
  if s.pending then process_pending(s) end
  if s.waiting == 0 then return end
  for _ = 1, 64 do
    local id = redis.call('ZPOPMIN', s.queue)[1]
    if not id then return end
    s.waiting = s.waiting - 1
    local plan = take_plan(s, id)
    if id == caller and not (plan and s.state) then return grant_to(s, id, seen or 0) end
    if not is_connected(id) then
      renotify(s, id)
    else
      local result, fence
      if plan and s.state then result, fence = execute(s, id, plan, 2) end
      if result == 'unmet' and plan[4] ~= '' then
        -- The notification that led here is used up, as by a critical section that waits again.
        if s.conditions then redis.call('HDEL', s.key, mark_field(id)) end
        wait_on(s, id, plan[4])
        store_plan(s, id, plan, 2)
      elseif result then
        redis.pcall('PUBLISH', channel(id), result .. ' ' .. id .. ' ' .. (fence or s.fence) .. ' ' .. s.stamp)
      elseif is_unresponsive(s, id) then
        renotify(s, id)
      else
        grant_to(s, id, 0)
        local message = 'grant ' .. id .. ' ' .. s.fence .. ' ' .. s.deadline .. ' ' .. s.stamp
        if s.state then
          -- If this client may not read the state, the new holder reads it.
          local read, state = pcall(function() return contents(s.state) end)
          if read and #state <= 4096 then message = message .. ' =' .. state end
        end
        redis.pcall('PUBLISH', channel(id), message)
        return
      end
    end
    budget = budget - 1
    if budget <= 0 then break end
  end
  s.more = true
end

-- Returns the time at which the next contribution can be undone. One that has expired is undone when the lock is free:
-- at the deadline of the holder, at the latest.
local function next_expiry(s)
  local next = redis.call('ZRANGE', s.pending, 0, 0, 'WITHSCORES')[2]
  if not next then return '0' end
  -- As in process_pending, if the lock were free.
  local over = s.grace and 2 or s.now
  local waits = s.holder ~= '' and next + 0 <= over
  if waits then
    local later = redis.call('ZRANGEBYSCORE', s.pending, format('%d', over + 1), '+inf', 'LIMIT', 0, 1)[1]
    next = later and redis.call('ZSCORE', s.pending, later) or s.deadline
  end
  if s.grace and next + 0 > 2 and next + 0 < s.grace + 0 then next = s.grace end
  return waits and s.deadline - next < 0 and s.deadline or next
end

-- Returns the answer for a lock: 'status now fence deadline', and perhaps 'ticket more extra'. Without a status, it is
-- that of the attempt: own, queued, asleep (waits on the condition) or gone. If there are pending records, a comma and
-- the time at which the next contribution can be undone follow the deadline; and if the script failed to undo one,
-- another comma and the field.
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
  if s.pending then result = result .. ',' .. next_expiry(s) end
  if s.bad_field then result = result .. ',' .. s.bad_field end
  if not (ticket or extra) and not s.more then return result end
  return result .. ' ' .. (ticket or s.newest or 0) .. (s.more and ' 1 ' or ' 0 ') .. (extra or '')
end
