-- Adds units that no permit holds, creates a pool, sets its capacity, or reads the number of available units.
-- For an automatic event, add sets the number of available units: 1 sets the event, 0 resets it.
--
-- KEYS       pool
-- ARGV       prefix, what (add, create, read, resize), number (for add and resize), name (of the call), name of a call
--            that will not be repeated (both empty for read), lease ms, claim ms, idle ms, capacity, units outside,
--            whether the client accepts another capacity (adopt, agreed, or empty)
-- returns    ok | excess | exists | mismatch | foreign | missing | wrongtype; the extra is the number of available
--            units, or for a mismatch, the capacity of the pool
-- repeated   adds, creates or sets nothing, and answers ok, as long as the name is remembered
-- wakes      waiters of the queue, as long as the first one fits; for resize, also waiters that exceed the capacity
-- complexity O(log waiters + log holders); for resize O(waiters), up to 512
-- flags: allow-oom
local what, number, lease = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[6])
local s, why = open(KEYS[1], read_clock(), ARGV[7], ARGV[9], ARGV[10])
if not s then return why end
if what ~= 'resize' and not agrees(s, tonumber(ARGV[9]), ARGV[11]) then
  return answer(s, 'mismatch', 0, nil, text(s.capacity))
end

local function remember()
  remember_call(s.done, s.now, ARGV[4], ARGV[5])
  -- The score `now` would mark the grant of the token `now` as released, and this call may make that grant.
  redis.call('ZADD', s.done, text(s.now) .. '.5', ARGV[4])
  -- Without a state, save() writes nothing.
  extend_ttl(s.done, memory / 1000)
  s.moved = true
end

-- Sets the capacity. Waiters for more units leave the queue: those among the first 512 at once, and others in their
-- turn.
local function resize()
  if s.origin >= 0 then s.origin = -s.capacity end
  s.capacity = number
  for _, id in ipairs(redis.call('ZRANGE', s.queue, 0, 511)) do
    local units = wanted(s, id)
    if units and not possible(s, units) then
      dequeue(s, id)
      reject(s, id)
    end
  end
  s.head = redis.call('ZRANGE', s.queue, 0, 0)[1]
end

expire_grants(s)
local result = 'ok'
if what == 'create' then
  if s.fresh then
    s.created = true
    remember()
  elseif not redis.call('ZSCORE', s.done, ARGV[4]) then
    result = 'exists'
  end
elseif what == 'resize' and not redis.call('ZSCORE', s.done, ARGV[4]) then
  resize()
  remember()
elseif what == 'add' and not redis.call('ZSCORE', s.done, ARGV[4]) then
  if s.capacity == event_capacity then
    -- If a holder crashed, its unit is available again and is granted first; this call sets the event once more.
    while s.head and budget > 0 and grant_next(s) do end
    -- Units that are still available belong to the waiters that grant_next() has not reached.
    if not s.head then number = number - (s.capacity - s.outside - s.held) end
  end
  if s.outside < number then
    result = 'excess'
  else
    move(s, -number)
    remember()
  end
end
if s.head then grant_next(s) end
save(s, lease, ARGV[8])
return answer(s, result, 0, 0, text(math.max(s.capacity % special - s.outside - s.held % special, 0)))
