-- Removes a worker from the waiting workers.
--
-- KEYS       queue
-- ARGV       prefix, worker
-- returns    ok NOW NUMBER | foreign. NUMBER is 1 if the worker was waiting. If it is 0, a message has granted the
--            worker a job, or no message will
-- repeated   harmless
-- wakes      waiting workers, if jobs are due
-- complexity O(log workers)
-- flags: allow-oom
local number = redis.call('ZREM', key .. '{idle}', ARGV[2])
parked = math.max(parked - number, 0)
do_what_is_due()
return answer('ok', number) .. serve()
