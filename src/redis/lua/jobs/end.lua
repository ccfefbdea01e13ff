-- Ends an attempt.
--
-- KEYS       queue
-- ARGV       prefix, attempt, how (finish; f failed; a abandoned; r returned uncounted; b failed, and the job is a dead
--            letter at once), notes (1 if the job may have notes), repetition (first; again, if the same server may
--            have executed the call before; unsure, if the server may have lost its memory since), error text
-- returns    ok NOW 0 | lost NOW 0 | unknown NOW 0 | foreign
-- repeated   answers as before; unknown if the server does not know, as for an attempt that began more than an hour ago
-- wakes      the first waiting worker, if the job returns to the queue
-- complexity O(log attempts)
-- flags: allow-oom
-- First, because an attempt whose time is over is lost, unless more is due than one call does.
do_what_is_due()
local result = end_attempt(ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5], ARGV[6])
return answer(result, 0) .. serve()
