-- The functions for the scripts of gates. This text follows common.lua.
--
-- A gate is an event, a latch or a barrier: an object that has waiters, but no holder. docs/protocol.md lists its keys
-- and the fields of its state.
-- ARGV[1] is the prefix of the wake channels. Times are in microseconds, durations in ARGV in milliseconds. Invariant
-- after each script: a set event and an open latch have no waiters, and a barrier has fewer arrivals than participants.
local layout = 'gate 1'
local wall = read_clock()

-- Reads the gate; returns nil and the reason if the keys are foreign. A new gate has the number that the caller states.
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
  -- If the server's clock was set back, the clock of the gate continues from its last time.
  s.now = math.max(wall + s.skew, v[5])
  s.skew = s.now - wall
  return s
end

-- Writes the state. A state that differs from the initial one lives for at least `keep` ms, or for ever if that is 0. An
-- event in its initial state lives for an hour after a set: a waiter may be disconnected, and has to learn of the set.
-- Participants of a barrier learn it from the remembered names of their arrivals.
local function save(s, lease, idle, keep)
  local ttl, changed = 3 * lease + idle, s.number ~= s.origin
  local least = changed and keep + 0 or s.generation > 0 and not KEYS[4] and memory / 1000 or 0
  redis.call('HSET', KEYS[1], 'layout', layout, 'number', text(s.number), 'origin', text(s.origin), 'generation',
    text(s.generation), 'clock', text(s.now), 'skew', text(s.skew))
  if changed and least == 0 then
    redis.call('PERSIST', KEYS[1])
  else
    extend_ttl(KEYS[1], math.max(least, ttl))
  end
  for _, key in ipairs({KEYS[2], KEYS[4]}) do extend_ttl(key, ttl) end
end

-- Publishes one message for each waiting connection, however many waiters it has.
local function release_waiters(s)
  s.generation = math.max(s.generation + 1, s.now)
  for _, channel in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    redis.pcall('PUBLISH', ARGV[1] .. channel, 'open ' .. KEYS[1] .. ' ' .. text(s.generation))
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '+inf')
end

local function remember(s, name)
  remember_call(KEYS[3], s.now, name, '')
  extend_ttl(KEYS[3], memory / 1000)
end
