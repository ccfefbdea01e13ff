-- Shared by the scripts of locks, pools, gates and job queues. This text stands before the prologue of a folder. A
-- script is sent without comments, and without the functions of this file and of the prologue that it does not call.
--
-- ARGV[1] is the prefix of the wake channels. Times are in microseconds, durations in ARGV in milliseconds.
local longest_lease = 24 * 3600 * 1000  -- in ms; a damaged state may name a longer one
local memory = 3600 * 1000000  -- the time for which releases and executed calls are remembered
local budget = 512  -- the number of queue elements and steps of plans that this call may still process, over all objects

-- redis.call and `..` convert numbers more slowly, and `..` keeps only 14 digits.
local format = string.format

local function text(number)
  return format('%d', number)
end

-- Returns the time of the server's clock.
local function read_clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Returns four values: the object's time; the claim lease in ms; the end of the grace, if the state may be outdated
-- (otherwise false or nil); and the end of the grace, or nil without one. `clock` is the last time of the object's
-- clock, which is ahead of the server's by `skew`. During a grace, `claim` has two more numbers: the time at which the
-- server started or took over, and the end of the grace.
local function read_time(wall, skew, clock, claim)
  local lease, since, ends = string.match(claim, '^(%d+) ?(%d*) ?(%d*)$')
  local now, outdated = wall + skew, clock - skew < (tonumber(since) or 0)
  -- If the server's clock was set back, the object's clock continues from its last time. The age of the state is
  -- unknown then.
  if now < clock + 0 then
    now, outdated = clock + 0, true
  end
  local grace = ends ~= '' and wall < ends + 0 and ends + now - wall or nil
  return now, lease, outdated and grace, grace
end

-- Returns the wake channel of a waiter's connection. An id is 'nonce#incarnation.sequence'.
local function channel(id)
  return ARGV[1] .. string.match(id, '^[^.]*')
end

-- Whether the connection of a waiter exists. The result of PUBLISH does not show this: it also counts pattern
-- subscribers.
local function is_connected(id)
  return redis.call('PUBSUB', 'NUMSUB', channel(id))[2] > 0
end

-- Whether a connection let a lease expire and has sent no command since that looks at the object's state. Each of its
-- waiters could delay the others by a claim lease. So its waiters are dropped like those of a broken connection, and
-- return to their positions later. `id` is that of an attempt, or the part of it that names the connection.
local function is_unresponsive(s, id)
  return s.unresponsive and string.find(s.unresponsive, ' ' .. string.match(id, '^[^.]*') .. ' ', 1, true)
end

-- Marks a connection as unresponsive. The lock remembers the last 16 of them that still exist.
local function mark_unresponsive(s, id)
  local names = {string.match(id, '^[^.]*')}
  for name in string.gmatch(s.unresponsive or '', '%S+') do
    if name ~= names[1] and #names < 16 and is_connected(name) then
      names[#names + 1] = name
    end
  end
  s.unresponsive = ' ' .. table.concat(names, ' ') .. ' '
  redis.call('HSET', s.key, 'silent', s.unresponsive)
end

-- Notes that a connection has sent a command that looks at the object's state.
local function mark_responsive(s, id)
  if not is_unresponsive(s, id) then return end
  s.unresponsive = string.gsub(s.unresponsive, ' ' .. string.match(id, '^[^.]*') .. ' ', ' ')
  if s.unresponsive ~= ' ' then redis.call('HSET', s.key, 'silent', s.unresponsive) return end
  s.unresponsive = nil
  redis.call('HDEL', s.key, 'silent')
end

-- Whether a reply reports that a key has another type. Any other error, such as a missing permission, is raised, and
-- the client reports it.
local function is_of_another_type(reply)
  if type(reply) ~= 'table' or not reply.err then return false end
  return string.find(reply.err, '^WRONGTYPE') and true or error(reply)
end

-- Serves each object of a batch. If the keys of one are damaged, serving it raises an error; its answer then reports
-- this, and the others are served all the same.
local function each(serve)
  local answers = {}
  for i, key in ipairs(KEYS) do
    local served, result = pcall(serve, key, i - 1)
    if not served then
      -- Depending on its version, Redis turns a caught error into a text.
      local text = type(result) == 'table' and result.err or result
      local damaged
      for _, sign in ipairs({': attempt to ', ': bad argument #', ' arguments must be strings or integers'}) do
        damaged = damaged or string.find(text, sign, 1, true)
      end
      result = damaged and 'damaged' or string.find(text, '^WRONGTYPE') and 'wrongtype' or error({err = text})
    end
    answers[i] = result
  end
  return answers
end

-- Extends the time to live of a key, which may be new, to at least `ttl` milliseconds.
local function extend_ttl(key, ttl)
  if redis.call('PEXPIRE', key, ttl, 'GT') == 0 then redis.call('PEXPIRE', key, ttl, 'NX') end
end

-- Returns the hint, which is the former ticket of a waiter that returns. Without a hint, or if it is above both the
-- newest ticket and the present time, returns a ticket for the end of the queue or of a condition.
local function new_ticket(s, hint)
  local newest = s.ticket + 0
  local last = math.max(newest, s.now)
  local ticket = hint > 0 and hint <= last and hint or math.max(newest + 1, s.now)
  s.ticket = format('%d', math.max(newest, ticket))
  return format('%d', ticket)
end

-- Remembers the name of a call, and forgets the name of an earlier call that will not be repeated. If objects with
-- different clocks share the key, the caller states the skew of its own one.
local function remember_call(done, now, name, before, skew)
  if before ~= '' then redis.call('ZREM', done, before) end
  redis.call('ZREMRANGEBYSCORE', done, '-inf', text(now - (skew or 0) - memory))
  redis.call('ZADD', done, text(now), name)
end

-- Returns the outcome of a grant that the object no longer knows. The outcome is unknown if the object has lost its
-- memory (it is younger than the grant, or its last token is lower), or if the grant is older than that memory lasts.
local function outcome_of_grant(s, fence, slot)
  if slot ~= '' and tonumber(redis.call('ZSCORE', s.done, slot) or 0) == fence then return 'released' end
  if (s.given or s.fence) + 0 < fence or fence < s.now - memory then return 'unknown' end
  return (s.born or redis.call('HGET', s.key, 'born')) + 0 > fence and 'unknown' or 'lost'
end

-- Lists a holder or a waiter for an inspection. Ids do not leave the server, because they contain the name of the
-- channel.
local function describe(list, id, units, since, deadline)
  -- Without permission to read the key, this returns an error, which is ignored.
  local who = redis.pcall('HGET', ARGV[2], string.match(id, '^[^#]*'))
  list[#list + 1] = units .. ' ' .. since .. ' ' .. deadline .. (is_connected(id) and ' 1' or ' 0')
  list[#list + 1] = type(who) == 'string' and who or ''
end
