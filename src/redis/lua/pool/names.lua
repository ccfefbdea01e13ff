-- Lists the names of the pools of a directory.
--
-- KEYS       index (of the directory)
-- ARGV       name (the names after it are listed; empty: all), limit (how many are listed)
-- returns    {number of all pools, name, …}
-- repeated   reads again
-- wakes      nobody
-- complexity O(log pools + listed)
-- flags: allow-oom
local from = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local list = redis.call('ZRANGE', KEYS[1], from, '+', 'BYLEX', 'LIMIT', 0, ARGV[2])
table.insert(list, 1, text(redis.call('ZCARD', KEYS[1])))
return list
