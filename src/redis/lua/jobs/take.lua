-- Starts the next job for a worker, or lets the worker wait. Finishes the worker's last job before.
--
-- KEYS       queue
-- ARGV       prefix, worker, ticket (of a worker that waited before; otherwise 0), attempt (to finish; empty: none),
--            notes (1 if that job may have notes), how (first, again, unsure: see finish), reason (why the job of the
--            attempt is a dead letter; empty: it is finished)
-- returns    job NOW END, the attempt and the record | parked NOW DUE TICKET | lost, unknown (for the attempt to
--            finish: no job was started then) | foreign
-- repeated   starts another job or waits twice, so a client asks before by resync
-- wakes      waiting workers, if jobs are due
-- complexity O(log attempts), O(log workers) if it waits
-- flags: allow-oom
local worker, ticket, attempt, reason = ARGV[2], ARGV[3] + 0, ARGV[4], ARGV[7]
local failed
if attempt ~= '' then
  if redis.call('ZREM', key .. '{active}', attempt) == 0 then
    local result = fate(attempt, ARGV[6], reason == '')
    if result ~= 'ok' then failed = result end
  elseif reason == '' then
    local id, flag = string.match(attempt, '^(%d+) %d+ %d+ .(.)')
    remove_job(id, flag == 'n', ARGV[5] == '1')
  else
    give_back(attempt, 'b', reason)
  end
end
settle()
if failed then
  serve()
  save()
  return answer(failed, 0)
end
if parked == 0 and can_start() then
  local member, till, record = start(worker)
  if member then
    save()
    return {answer('job', till), member, record}
  end
end
if ticket == 0 then ticket = new_number() end
redis.call('ZADD', key .. '{idle}', text(ticket), worker)
parked = parked + 1
-- The answer tells this worker when to ask.
if parked == 1 then told = due end
serve()
save()
return answer('parked', due) .. ' ' .. text(ticket)
