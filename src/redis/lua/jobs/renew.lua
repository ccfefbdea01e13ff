-- Renews the leases of attempts. Without attempts, it only does what is due.
--
-- KEYS       queue
-- ARGV       prefix, lease ms; for each attempt: attempt, progress (may be empty)
-- returns    ok NOW DUE (0: no worker waits, or nothing is due), with `more` as for push, and for each attempt 1, or 0 if
--            it was lost | foreign
-- repeated   harmless
-- wakes      waiting workers, if jobs are due
-- complexity O(n log attempts)
-- flags: allow-oom
do_what_is_due()
local active, till, results = key .. '{active}', now + 1000 * ARGV[2], {}
for i = 3, #ARGV, 2 do
  local attempt, progress = ARGV[i], ARGV[i + 1]
  local id, limit = string.match(attempt, '^(%d+) %d+ %d+ .. (%d+)')
  local ends_at = limit ~= '0' and math.min(till, limit) or till
  local known = redis.call('ZADD', active, 'XX', 'CH', text(ends_at), attempt) == 1 or redis.call('ZSCORE', active, attempt)
  -- If the clock was set back, this lease may end before the one that it renews.
  if known then mark_due(ends_at) end
  if known and progress ~= '' then redis.call('HSET', key .. '{notes}', 'p' .. id, progress) end
  results[#results + 1] = known and '1' or '0'
end
local more = serve()
table.insert(results, 1, answer('ok', parked > 0 and due or 0) .. more)
return results
