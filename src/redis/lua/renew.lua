-- Extends leases; confirms grants.
--
-- KEYS       lock, queue, done; for each lease
-- ARGV       prefix; for each lease: id, fence, lease ms, claim ms, idle ms
-- returns    {own | lost | unknown | foreign | wrongtype, …}
-- repeated   extends again
-- wakes      the first of a queue, if nobody owns its lock
-- complexity O(leases log waiters)
-- flags: allow-oom
local answers = {}
for i = 0, #KEYS / 3 - 1 do
  local a = 2 + 5 * i
  local id, fence, lease, idle = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 4]
  local s, told = open(1 + 3 * i, ARGV[a + 3])
  if s then
    reap(s)
    local mine = s.owner == id and s.fence == fence
    if mine then s.deadline, s.leased = format('%d', math.max(s.deadline, s.now + lease * 1000)), true end
    if s.owner == '' and s.waiting > 0 then grant(s) end
    save(s, lease, idle)
    told = mine and answer(s, nil, id) or ended(s, fence + 0, '')
  end
  answers[i + 1] = told
end
return answers
