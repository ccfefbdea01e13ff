-- Acquires units of a pool, or queues for them.
--
-- KEYS       pool, queue, done, holders, units
-- ARGV       prefix, id, mode (queue, try), ticket (hint, 0: none), lease ms, claim ms, idle ms, capacity,
--            units outside (both of a new pool), seen fence, units, whether it is a taker (take, or empty),
--            what is remembered of one that has heard of its units (may be empty)
-- returns    own | queued | busy | impossible | foreign | wrongtype; of a new waiter, the extra is its
--            position
-- repeated   answers what the first call did: the same grant, the same place; to a taker also if the id has
--            another incarnation
-- wakes      the first of the queue, as long as it fits
-- complexity O(log waiters + log holders)
-- flags: none
local id, hint, lease, units = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[11])
local takes = ARGV[12] == 'take'
local s, why = open(1, ARGV[6], ARGV[8], ARGV[9])
if not s then return why end
if not possible(s, units) then return answer(s, 'impossible') end
reap(s)
if ARGV[13] ~= '' then redis.call('ZREM', s.done, ARGV[13]) end
local known = redis.call('HEXISTS', s.units, id) == 1 or takes and served(s, id)
-- Who waits may come in front of all others: it enters the queue before anybody is granted anything.
if s.head and ARGV[3] == 'try' then grant(s, id) end

local position
if known then
  -- It has its place, or its units.
elseif not s.head and fits(s, units) then
  own(s, id, units, tonumber(ARGV[10]), takes)
elseif ARGV[3] == 'try' then
  save(s, lease, ARGV[7])
  return answer(s, 'busy')
else
  local ticket = math.max(s.ticket + 1, s.now)
  if hint > 0 and hint <= math.max(s.ticket, s.now) then ticket = hint end
  s.ticket = math.max(s.ticket, ticket)
  position = redis.call('ZCARD', s.queue)
  redis.call('ZADD', s.queue, text(ticket), id)
  redis.call('HSET', s.units, id, text(units) .. (takes and ' take' or ''))
  s.added = not s.head
  s.head = s.head or id
end
if s.head then grant(s, id) end
save(s, lease, ARGV[7])
return standing(s, id, lease, position)
