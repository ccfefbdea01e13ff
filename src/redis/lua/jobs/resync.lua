-- Reports to a reconnected session which of its waiting workers were granted a job. The others no longer wait; the
-- session sends `next` for them, with their tickets.
--
-- KEYS       queue
-- ARGV       prefix, nonce; for each waiting worker: sequence, worker (the name under which it may wait; may be empty)
-- returns    ok NOW 0; the ticket of each waiting worker, or 0 if it did not wait; for each grant the attempt, the end
--            of its lease, and the record, which is empty if the records are large: then fetch reads it | foreign
-- repeated   harmless
-- wakes      waiting workers, if jobs are due
-- complexity O(attempts + n log workers)
-- flags: allow-oom
local nonce, wanted, tickets = ARGV[2] .. '#', {}, {}
for i = 3, #ARGV, 2 do
  wanted[ARGV[i]] = true
  -- The session does not know its ticket if the answer to its command was lost.
  local ticket = ARGV[i + 1] ~= '' and redis.call('ZSCORE', key .. '{idle}', ARGV[i + 1])
  if ticket then parked = math.max(parked - redis.call('ZREM', key .. '{idle}', ARGV[i + 1]), 0) end
  tickets[#tickets + 1] = ticket or '0'
end
do_what_is_due()
-- The server ends a connection to which it has to send too much at once.
local results, room = {answer('ok', 0) .. serve(), table.concat(tickets, ' ')}, 2 ^ 20
local all = redis.call('ZRANGE', key .. '{active}', 0, -1, 'WITHSCORES')
for i = 1, #all, 2 do
  local id, session, sequence = string.match(all[i], '^(%d+) %d+ %d+ .. %d+ (%x+#)%d+%.(%d+)/')
  local record = session == nonce and wanted[sequence] and (room <= 0 and '' or redis.call('HGET', key .. '{jobs}', id))
  if record then
    room = room - #record
    results[#results + 1] = all[i]
    results[#results + 1] = all[i + 1]
    results[#results + 1] = room >= 0 and record or ''
  end
end
return results
