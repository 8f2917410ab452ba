-- SPDX-License-Identifier: Apache-2.0
--
-- Give a tenure the textbook lock if it is free or the tenure's own already.
--
-- KEYS   1 the lock
-- ARGV   1 the owner string, 2 the lease in ms
-- Result 1    granted
--        -1   held by somebody else, nobody knows for how long (the TTL was taken from the key)
--        < -1 held by somebody else for -2 - result ms at most
--
-- Why so: the layout is that of the Redis manual, a string with a TTL, so any program that takes
-- locks by SET NX PX and frees them by compare-and-delete is excluded. There is no token: the
-- counter would be a second key that such programs know nothing of. A key of another type is
-- refused by GET with an error that says so; a string that has no TTL, and no owner that we know,
-- is a semaphore, a latch or somebody's data (as break_plain.lua has it), and nobody would release
-- it.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
end
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 1
end
local ttl = redis.call('PTTL', KEYS[1])
if ttl >= 0 then
    return -2 - ttl
end
if ttl == -1 and not string.find(owner, '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$') then
    return redis.error_reply('WRONGTYPE the key is a string without a TTL')
end
return -1
