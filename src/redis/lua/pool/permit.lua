-- Renews or ends a permit of a pool of a directory.
--
-- KEYS       pool, index (of the directory)
-- ARGV       prefix, lease ms, claim ms, idle ms, capacity, name of the call, name of a call that will not be repeated
--            (both empty for a renewal with the former lease), what (renew, release, free), id of the permit (for free:
--            its fence), its new lease ms (empty: the former one)
-- returns    ok | unheld | missing | foreign | wrongtype; see conclude(), the fence and the units are those of
--            the permit
-- repeated   renews again with the former lease; else changes nothing, and answers ok (a renewal: unheld, if the permit
--            has ended), as long as the name is remembered
-- wakes      waiters of the queue, as long as the first one fits
-- complexity O(log waiters + log holders)
-- flags: allow-oom
local s, why = open(KEYS[1], read_clock(), ARGV[3], ARGV[5], '-1')
if not s then return why end
expire_grants(s)
local what, id, status = ARGV[8], ARGV[9], 'ok'
if what == 'free' then id = redis.call('ZRANGEBYSCORE', s.permits, id, id, 'LIMIT', 0, 1)[1] or '' end
local units, fence, _, ends, lease, client = holding(s, id)
s.ended = ends
if not lease then
  if what == 'renew' or not is_repeated() then status = 'unheld' end
elseif what == 'renew' then
  -- A late copy of a renewal must not replace a later lease. The former lease needs no name.
  if not is_repeated() then
    issue(s, id, units, fence, ARGV[10] ~= '' and ARGV[10] or lease, client)
    if ARGV[6] ~= '' then note_call(s) end
  end
else
  drop(s, id, units)
  note_call(s)
end
return conclude(s, status, lease and fence, lease and units)
