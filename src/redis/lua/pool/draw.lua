-- Takes units of a pool of a directory if they are available and nobody waits: for good, or for a permit.
--
-- KEYS       pool, index (of the directory)
-- ARGV       prefix, lease ms, claim ms, idle ms, capacity, name of the call, name of a call that will not be repeated,
--            units, id of the permit (empty: for good), its lease ms, its client
-- returns    ok | busy | missing | foreign | wrongtype; see conclude(), the fence is that of the permit or, for good, the
--            time of the first call
-- repeated   answers ok, or busy if the permit has ended, and takes nothing, as long as the name is remembered
-- wakes      waiters of the queue, as long as the first one fits
-- complexity O(log holders)
-- flags: none
local s, why = open(KEYS[1], read_clock(), ARGV[3], ARGV[5], '-1')
if not s then return why end
expire_grants(s)
if s.head then grant_next(s) end
local units, id, status, fence = tonumber(ARGV[8]), ARGV[9], 'ok', nil
local taken_at = is_repeated()
if taken_at then
  -- Meanwhile, another pool may have the name. The units return only to a pool that existed when they were taken.
  fence = id == '' and tonumber(taken_at) or select(2, holding(s, id))
  if not fence then status = 'busy' end
elseif s.head or not fits(s, units) then
  status = 'busy'
elseif id == '' then
  s.outside, fence = s.outside + units, s.now
  note_call(s)
else
  fence = math.max(s.fence + 1, s.now)
  s.fence, s.given, s.held = fence, fence, s.held + units
  issue(s, id, units, fence, ARGV[10], ARGV[11])
  note_call(s)
end
return conclude(s, status, fence, units)
