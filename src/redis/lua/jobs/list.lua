-- Counts the jobs, or lists those in a state.
--
-- KEYS       queue
-- ARGV       prefix, what (counts, waiting, delayed, active, dead), offset, number
-- returns    ok NOW PAUSED and the numbers of waiting, delayed, active and dead jobs | ok NOW REST (1 if the page is
--            shorter than the number, because its texts are long; otherwise 0); for each job: the entry or the attempt,
--            the record, the progress and the error text, which may be empty | foreign
-- repeated   reads again
-- wakes      waiting workers, if jobs are due
-- complexity O(log jobs + number), O(attempts) for active jobs
-- flags: allow-oom
-- The server rejects larger offsets.
local what, offset, number = ARGV[2], math.min(ARGV[3] + 0, 2 ^ 53), ARGV[4] + 0
do_what_is_due()
local more = serve()
if what == 'counts' then
  return format('%s %d %d %d %d', answer('ok', paused or 0), ready[1] + ready[2] + ready[3],
    redis.call('ZCARD', key .. '{delayed}'), redis.call('ZCARD', key .. '{active}'), redis.call('ZCARD', key .. '{dead}')) .. more
end
local entries = {}
if what == 'waiting' then
  for level = 1, 3 do
    if #entries < number and offset < ready[level] then
      local part = redis.call('LRANGE', key .. '{ready}' .. level, offset, offset + number - #entries - 1)
      for _, each in ipairs(part) do entries[#entries + 1] = each end
    end
    offset = math.max(offset - ready[level], 0)
  end
elseif what == 'active' then
  local all = redis.call('ZRANGE', key .. '{active}', 0, -1)
  -- Texts that begin with the token are sorted six times as fast as by a function that compares attempts.
  for i, each in ipairs(all) do all[i] = string.match(each, ' (%d+ )') .. each end
  table.sort(all)
  for i = offset + 1, math.min(offset + number, #all) do entries[#entries + 1] = string.match(all[i], ' (.*)$') end
else
  for _, each in ipairs(redis.call('ZRANGE', key .. '{' .. what .. '}', offset, offset + number - 1)) do
    entries[#entries + 1] = what == 'delayed' and string.sub(each, 2) or each
  end
end
-- The server ends a connection to which it has to send too much at once.
local results, room, rest = {''}, 2 ^ 20, 0
for _, each in ipairs(entries) do
  local id = string.match(each, '^%d+')
  local notes = redis.call('HMGET', key .. '{notes}', 'p' .. id, id)
  local record, failure = redis.call('HGET', key .. '{jobs}', id) or '', notes[2] or ''
  room = room - #record - #failure
  if room < 0 and results[2] then rest = 1 break end
  for _, part in ipairs({each, record, notes[1] or '', failure}) do results[#results + 1] = part end
end
results[1] = answer('ok', rest) .. more
return results
