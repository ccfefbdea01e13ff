-- Reads the record of an attempt that was granted by a message without the record.
--
-- KEYS       queue
-- ARGV       prefix, attempt
-- returns    job NOW END, the attempt and the record | lost NOW 0 | foreign
-- repeated   harmless
-- wakes      waiting workers, if jobs are due
-- complexity O(log attempts)
-- flags: allow-oom
do_what_is_due()
local more = serve()
local till = redis.call('ZSCORE', key .. '{active}', ARGV[2])
local record = till and redis.call('HGET', key .. '{jobs}', string.match(ARGV[2], '^%d+'))
if not record then return answer('lost', 0) .. more end
return {answer('job', till) .. more, ARGV[2], record}
