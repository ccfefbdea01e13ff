-- What the scripts of locks, pools and gates share. It stands before the text of the prologue. A script is sent without
-- comments, and without the functions of this file and of the prologue that it does not call.
--
-- ARGV[1] is the prefix of the wake channels. Times are microseconds, spans in ARGV milliseconds.
local memory = 3600 * 1000000  -- how long it is remembered what was given back, and which calls were carried out
local looks = 512  -- how many elements of sorted sets and steps of plans a call still looks at, of all its objects

-- redis.call and `..` would write numbers out much slower, and the latter with 14 digits only.
local format = string.format

local function text(number)
  return format('%d', number)
end

-- What the server's clock shows.
local function read_clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- What the clock of an object shows, which was last used at `clock` and is ahead of the server's by `skew`; and the claim
-- lease in ms. During a grace, two times of the server's clock follow the claim lease: when the server started or took
-- over, and when the grace ends. Then also when the grace ends by the object's clock: first nothing unless the state may
-- be outdated, since it is older than the server's start.
local function read_time(wall, skew, clock, claim)
  local lease, since, ends = string.match(claim, '^(%d+) ?(%d*) ?(%d*)$')
  local now, outdated = wall + skew, clock - skew < (tonumber(since) or 0)
  -- The clock of an object never goes back: if the server's did, the object's goes on from where it was. Nor can it be
  -- told then how old the state is.
  if now < clock + 0 then
    now, outdated = clock + 0, true
  end
  local grace = ends ~= '' and wall < ends + 0 and ends + now - wall or nil
  return now, lease, outdated and grace, grace
end

-- The channel that the connection of a waiter listens to: 'nonce#incarnation.sequence' less the sequence.
local function channel(id)
  return ARGV[1] .. string.match(id, '^[^.]*')
end

-- Whether anybody listens to the waiter's connection. What PUBLISH returns would not tell.
local function is_connected(id)
  return redis.call('PUBSUB', 'NUMSUB', channel(id))[2] > 0
end

-- A connection is silent once it has let a lease end, and until it speaks again: the claim of each of its waiters would
-- cost the others as much. So its waiters are dropped like those of a broken connection, and come back to their places.
local function is_unresponsive(s, id)
  return s.unresponsive and string.find(s.unresponsive, ' ' .. string.match(id, '^[^.]*') .. ' ', 1, true)
end

-- Notes that a connection is silent: the last 16 of those that stand are remembered.
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

-- A connection has spoken.
local function mark_responsive(s, id)
  local first = is_unresponsive(s, id)
  if not first then return end
  s.unresponsive = string.sub(s.unresponsive, 1, first) .. string.gsub(string.sub(s.unresponsive, first + 1), '^%S+ ', '')
  if s.unresponsive ~= ' ' then redis.call('HSET', s.key, 'silent', s.unresponsive) return end
  s.unresponsive = nil
  redis.call('HDEL', s.key, 'silent')
end

-- Whether a reply says that a key is of another type. Any other error is for the client to report, such as a missing
-- permission.
local function is_of_another_type(reply)
  if type(reply) ~= 'table' or not reply.err then return false end
  return string.find(reply.err, '^WRONGTYPE') and true or error(reply)
end

-- Serves each object of a batch. One with damaged keys gets an answer that says so: what cannot be computed with raises
-- an error. The others are served all the same.
local function each(serve)
  local answers = {}
  for i, key in ipairs(KEYS) do
    local served, result = pcall(serve, key, i - 1)
    if not served then
      -- Redis makes a text of an error that pcall has caught.
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

-- Lets a key that may be new live for at least ttl more milliseconds.
local function extend_ttl(key, ttl)
  if redis.call('PEXPIRE', key, ttl, 'GT') == 0 then redis.call('PEXPIRE', key, ttl, 'NX') end
end

-- The place at the end of the queue, or of the sleepers. A hint is the place of one that was there before; it
-- must not be of a queue that is yet to come.
local function new_ticket(s, hint)
  local newest = s.ticket + 0
  local last = math.max(newest, s.now)
  local ticket = hint > 0 and hint <= last and hint or math.max(newest + 1, s.now)
  s.ticket = format('%d', math.max(newest, ticket))
  return format('%d', ticket)
end

-- Remembers the name of a call, and forgets one that nobody will repeat.
local function remember_call(done, now, name, before)
  if before ~= '' then redis.call('ZREM', done, before) end
  redis.call('ZREMRANGEBYSCORE', done, '-inf', text(now - memory))
  redis.call('ZADD', done, text(now), name)
end

-- What became of a grant that the object does not know any more. One that is younger than the grant, or has not come as
-- far, has lost its memory and can not tell.
local function ended(s, fence, slot)
  if slot ~= '' and tonumber(redis.call('ZSCORE', s.done, slot) or 0) == fence then return 'released' end
  if (s.given or s.fence) + 0 < fence or fence < s.now - memory then return 'unknown' end
  return (s.born or redis.call('HGET', s.key, 'born')) + 0 > fence and 'unknown' or 'lost'
end

-- Lists a holder or a waiter for an inspection. No id leaves the server: who knows one could listen to its channel.
local function describe(list, id, units, since, deadline)
  -- An error if the user may not read it.
  local who = redis.pcall('HGET', ARGV[2], string.match(id, '^[^#]*'))
  list[#list + 1] = units .. ' ' .. since .. ' ' .. deadline .. (is_connected(id) and ' 1' or ' 0')
  list[#list + 1] = type(who) == 'string' and who or ''
end
