-- SPDX-License-Identifier: Apache-2.0
--
-- Give a tenure the lock if it is free or the tenure's own already.
--
-- KEYS   1 the token counter, 2 the lock
-- ARGV   1 the owner string, 2 the lease in ms, 3 how long a new token counter lives in s
--        (0: ever), 4 what no token may be below: the server's time in us when the client connected
-- Result > 0  granted: the token
--        -1   held by somebody else, nobody knows for how long (the key has no TTL)
--        < -1 held by somebody else for -2 - result ms at most
--
-- Why so: the layout is Redisson's (a hash, the owner's field counts its holds, the key has a TTL),
-- and a waiter of Redisson sleeps for ever when the TTL is missing, so a lock that cannot be given
-- one is taken back. Asked again by the same tenure, nothing is counted twice: the field stays, the
-- token is the one given before. A counter below the floor was new, lost, set back by a restart
-- from an old snapshot, or Redisson's own; it goes on from the server's clock in microseconds,
-- which no counter has reached yet. That number is put together as text, because Lua would lose
-- digits of it when it makes one.
local ttl = redis.call('PTTL', KEYS[2])
local free = ttl == -2
local token
if free then
    token = redis.call('INCR', KEYS[1])
elseif redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then
    token = tonumber(redis.call('GET', KEYS[1]) or '') or 0
else
    return ttl < 0 and -1 or -2 - ttl
end
if token < tonumber(ARGV[4]) then
    local now = redis.call('TIME')
    local text = now[1] .. string.rep('0', 6 - #now[2]) .. now[2]
    if tonumber(text) > token then
        if ARGV[3] == '0' then
            redis.call('SET', KEYS[1], text)
        else
            redis.call('SET', KEYS[1], text, 'EX', ARGV[3])
        end
        token = tonumber(text)
    end
end
if free then
    redis.call('HSET', KEYS[2], ARGV[1], 1)
end
local limited = redis.pcall('PEXPIRE', KEYS[2], ARGV[2])
if limited ~= 1 then
    if free and redis.pcall('HDEL', KEYS[2], ARGV[1]) ~= 1 then
        redis.call('DEL', KEYS[2])
    end
    return limited
end
return token
