-- Ends an attempt.
--
-- KEYS       queue
-- ARGV       prefix, attempt, what (finish, f failed, a abandoned, r returned without being counted, b failed and
--            dead), notes (1 if the job may have notes), how (first; again, if the same server may have executed the
--            call before; unsure, if the server may have lost its memory since), error text
-- returns    ok NOW 0 | lost NOW 0 | unknown NOW 0 | foreign
-- repeated   answers as before; unknown if the server cannot tell, as for an attempt that began more than an hour ago
-- wakes      the first waiting worker, if the job returns to the queue
-- complexity O(log attempts)
-- flags: allow-oom
local attempt, what = ARGV[2], ARGV[3]
local result = 'ok'
if redis.call('ZREM', key .. '{active}', attempt) == 0 then
  result = fate(attempt, ARGV[5], what == 'finish')
elseif what == 'finish' then
  local id, flag = string.match(attempt, '^(%d+) %d+ %d+ .(.)')
  remove_job(id, flag == 'n', ARGV[4] == '1')
else
  give_back(attempt, what, (what == 'f' or what == 'b') and ARGV[6] or nil)
end
do_what_is_due()
serve()
save()
return answer(result, 0) .. more()
