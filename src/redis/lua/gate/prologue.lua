-- What every script of a gate begins with, behind common.lua.
--
-- A gate is waited for, and nobody owns it: an event, a latch, a barrier. It is three keys, of a barrier four:
-- a hash (the state), a sorted set (the connections that wait: until when that is believed, by channel), a
-- sorted set (calls that were carried out: when, by name), and a sorted set (who has arrived: until when that
-- counts, by name). ARGV[1] is the prefix of the wake channels. Times are microseconds, spans in ARGV
-- milliseconds. The state's `number` is 0 of an event that is set, and 1 of one that is not; of a latch, how
-- many arrivals are missing; of a barrier, how many take part. Its `generation` rises whenever those who wait
-- are let go. Invariant after each script: nobody waits at an event that is set, or at a latch that is open,
-- and fewer have arrived at a barrier than take part.
local layout = 'gate 1'
local wall = read_clock()

-- Reads the gate; nil and why if it is not ours. One that does not exist has the number that the caller names.
local function open(number)
  local v = redis.pcall('HMGET', KEYS[1], 'layout', 'number', 'origin', 'generation', 'clock', 'skew')
  if is_of_another_type(v) then return nil, 'wrongtype' end
  for i = 2, #KEYS do
    if is_of_another_type(redis.pcall('ZCARD', KEYS[i])) then return nil, 'wrongtype' end
  end
  number = tonumber(number)
  if not v[1] then return {number = number, origin = number, generation = 0, skew = 0, now = wall, fresh = true} end
  if v[1] ~= layout then return nil, 'foreign' end
  local s = {number = tonumber(v[2]), origin = tonumber(v[3]), generation = tonumber(v[4]), skew = tonumber(v[6])}
  -- The clock of a gate never goes back: if the server's did, the gate's goes on from where it was.
  s.now = math.max(wall + s.skew, v[5])
  s.skew = s.now - wall
  return s
end

-- Writes the state. One that is not as it was at first is kept for longer, or for ever if that is 0.
local function save(s, lease, idle, keep)
  local ttl, changed = 3 * lease + idle, s.number ~= s.origin
  redis.call('HSET', KEYS[1], 'layout', layout, 'number', text(s.number), 'origin', text(s.origin), 'generation',
    text(s.generation), 'clock', text(s.now), 'skew', text(s.skew))
  if changed and keep + 0 == 0 then
    redis.call('PERSIST', KEYS[1])
  else
    extend_ttl(KEYS[1], changed and math.max(keep + 0, ttl) or ttl)
  end
  for _, key in ipairs({KEYS[2], KEYS[4]}) do extend_ttl(key, ttl) end
end

-- From now on, the connection is told when those who wait are let go.
local function register(s, channel, lease)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(s.now))
  redis.call('ZADD', KEYS[2], text(s.now + 3000 * lease), channel)
end

-- Tells the connections that wait, once each, however many wait behind it.
local function release_waiters(s)
  s.generation = math.max(s.generation + 1, s.now)
  for _, channel in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    redis.pcall('PUBLISH', ARGV[1] .. channel, 'open ' .. KEYS[1] .. ' ' .. text(s.generation))
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '+inf')
end

local function remember(s, name, answered)
  remember_call(KEYS[3], s.now, name, answered)
  extend_ttl(KEYS[3], memory / 1000)
end

local function answer(s, status)
  return status .. ' ' .. text(s.generation)
end
