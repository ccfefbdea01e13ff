-- Takes a worker out of the list of those that wait.
--
-- KEYS       queue
-- ARGV       prefix, worker
-- returns    ok NOW NUMBER: 1 if the worker was waiting; otherwise a message has granted it a job, or will never | foreign
-- repeated   harmless
-- wakes      waiting workers, if jobs are due
-- complexity O(log workers)
-- flags: allow-oom
local number = redis.call('ZREM', key .. '{idle}', ARGV[2])
parked = math.max(parked - number, 0)
settle()
serve()
save()
return answer('ok', number)
